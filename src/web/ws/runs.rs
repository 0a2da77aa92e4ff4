//! The runs of one socket. One at a time is told; one whose turn waits for another tells nothing and holds up nobody, until it begins.
//! May not know what is told.

use std::sync::Arc;

use actix_web::rt::task::{JoinError, JoinHandle};
use futures_util::future::select_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::follow::Followed;
use super::waiting::{Waiting, WaitingRuns};
use crate::ids::{SessionId, TurnId};

/// A run that is being followed.
#[derive(Debug)]
pub(super) struct Followee {
    /// Which.
    pub(super) run: TurnId,
    /// Of which conversation.
    pub(super) thread: SessionId,
    /// Cancelled when the client wants it stopped.
    pub(super) abort: CancellationToken,
    /// Notified when the socket is its own; nothing of it is told before.
    pub(super) place: Arc<Notify>,
    /// Whether it was found silent.
    pub(super) was_silent: bool,
    /// Cancelled when its place came and its turn waits for another: there is nothing to tell.
    pub(super) silent: CancellationToken,
    /// Cancelled when it was silent and wants its place again; at the latest with its end.
    pub(super) begun: CancellationToken,
    /// Tells how it ended.
    pub(super) task: JoinHandle<Followed>,
}

/// The runs of a socket.
pub(super) struct Runs {
    active: Option<Followee>,
    /// Those whose turns wait for others.
    silent: Vec<Followee>,
    waiting: WaitingRuns,
    max: usize,
}

impl Runs {
    /// None yet; beside the one that is told there may be `max`.
    pub(super) fn new(max: usize) -> Self {
        Self { active: None, silent: Vec::new(), waiting: WaitingRuns::default(), max }
    }

    /// The one that is told.
    pub(super) fn active(&self) -> Option<&Followee> {
        self.active.as_ref()
    }

    /// Whether there is none.
    pub(super) fn are_over(&self) -> bool {
        self.active.is_none() && self.silent.is_empty()
    }

    /// Whether there may be another one.
    pub(super) fn have_room(&self) -> bool {
        self.waiting.len() + self.silent.len() < self.max
    }

    /// Whether a run of `thread` that comes now may be submitted at once without overtaking another.
    pub(super) fn go_ahead(&self, thread: &SessionId) -> bool {
        self.active.as_ref().is_some_and(|active| active.thread == *thread) && self.waiting.are_submitted(thread)
    }

    /// A frame waits for its place.
    pub(super) fn wait(&mut self, frame: Waiting) {
        self.waiting.push(frame);
    }

    /// The next frame to be answered, when nothing is told.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        if self.active.is_none() { self.waiting.next() } else { None }
    }

    /// The socket is this run's own from now on.
    pub(super) fn tell(&mut self, followee: Followee) {
        followee.place.notify_one();
        self.active = Some(followee);
    }

    /// Stops a run, wherever it is; without a name the one that is told, or else the first that is silent.
    pub(super) fn stop(&mut self, run: Option<&TurnId>) {
        let Some(run) = run else {
            if let Some(followee) = self.active.as_ref().or(self.silent.first()) {
                followee.abort.cancel();
            }
            return;
        };
        match self.active.iter().chain(&self.silent).find(|followee| followee.run == *run) {
            Some(followee) => followee.abort.cancel(),
            None => self.waiting.stop(run),
        }
    }

    /// Waits until the socket is nobody's: the run that was told has ended, or waits for another and tells nothing. Never, when there
    /// is none. Nothing is lost when the wait is given up.
    pub(super) async fn free(&mut self) -> Result<Option<Followed>, JoinError> {
        loop {
            match &mut self.active {
                Some(active) => {
                    let followed = tokio::select! {
                        biased;
                        followed = &mut active.task => Some(followed),
                        () = active.silent.cancelled(), if !active.was_silent => None,
                    };
                    let active = self.active.take();
                    if followed.is_none() {
                        self.silent.extend(active.map(|active| Followee { was_silent: true, ..active }));
                    }
                    return followed.transpose();
                }
                None if self.silent.is_empty() => std::future::pending().await,
                None => {
                    let begun = self.silent.iter().map(|followee| Box::pin(followee.begun.cancelled()));
                    let ((), at, _) = select_all(begun).await;
                    let followee = self.silent.remove(at);
                    self.tell(followee);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::{Code, Refusal};

    /// A run whose task ends when it is told to.
    struct Fake {
        silent: CancellationToken,
        begun: CancellationToken,
        place: Arc<Notify>,
        abort: CancellationToken,
        end: CancellationToken,
    }

    fn fake(id: &str) -> (Fake, Followee) {
        let [silent, begun, abort, end] = std::array::from_fn(|_| CancellationToken::new());
        let place = Arc::new(Notify::new());
        let (ended, at_last) = (end.clone(), begun.clone().drop_guard());
        let task = actix_web::rt::spawn(async move {
            ended.cancelled().await;
            drop(at_last);
            Followed::Refused
        });
        let fake = Fake { silent: silent.clone(), begun: begun.clone(), place: place.clone(), abort: abort.clone(), end };
        (fake, Followee { run: id.into(), thread: "s1".into(), abort, place, was_silent: false, silent, begun, task })
    }

    impl Fake {
        /// Whether the socket was given to it, since this was last asked.
        async fn has_place(&self) -> bool {
            tokio::time::timeout(Duration::ZERO, self.place.notified()).await.is_ok()
        }
    }

    /// Whether the socket stays somebody's, or nobody's, for now.
    async fn nothing_changes(runs: &mut Runs) -> bool {
        tokio::time::timeout(Duration::from_millis(1), runs.free()).await.is_err()
    }

    fn told(runs: &Runs) -> Option<&str> {
        runs.active().map(|followee| followee.run.as_str())
    }

    #[actix_web::test]
    async fn a_silent_run_holds_up_nobody_and_is_told_when_it_begins() {
        let mut runs = Runs::new(8);
        let (first, followee) = fake("r1");
        runs.tell(followee);
        assert!(first.has_place().await);
        first.silent.cancel();
        assert_eq!(runs.free().await.unwrap(), None);
        assert!(told(&runs).is_none() && !runs.are_over());

        let (second, followee) = fake("r2");
        runs.tell(followee);
        first.begun.cancel();
        assert!(nothing_changes(&mut runs).await, "one at a time is told");
        assert!(!first.has_place().await);
        second.end.cancel();
        assert_eq!(runs.free().await.unwrap(), Some(Followed::Refused));
        assert!(nothing_changes(&mut runs).await);
        assert_eq!(told(&runs), Some("r1"));
        assert!(first.has_place().await);
        first.end.cancel();
        assert_eq!(runs.free().await.unwrap(), Some(Followed::Refused));
        assert!(runs.are_over());
        assert!(nothing_changes(&mut runs).await);
    }

    #[actix_web::test]
    async fn silent_runs_begin_in_whatever_order() {
        let mut runs = Runs::new(8);
        let mut fakes = Vec::new();
        for id in ["r1", "r2"] {
            let (fake, followee) = fake(id);
            runs.tell(followee);
            fake.silent.cancel();
            assert_eq!(runs.free().await.unwrap(), None);
            fakes.push(fake);
        }
        fakes[1].begun.cancel();
        assert!(nothing_changes(&mut runs).await);
        assert_eq!(told(&runs), Some("r2"));
    }

    #[actix_web::test]
    async fn a_silent_run_whose_task_is_gone_is_noticed() {
        let mut runs = Runs::new(8);
        let (first, followee) = fake("r1");
        runs.tell(followee);
        first.silent.cancel();
        assert_eq!(runs.free().await.unwrap(), None);
        first.end.cancel();
        assert_eq!(runs.free().await.unwrap(), Some(Followed::Refused));
        assert!(runs.are_over());
    }

    #[actix_web::test]
    async fn a_run_that_begins_as_soon_as_it_is_silent_is_told() {
        let mut runs = Runs::new(8);
        let (first, followee) = fake("r1");
        runs.tell(followee);
        assert!(first.has_place().await);
        first.silent.cancel();
        first.begun.cancel();
        assert_eq!(runs.free().await.unwrap(), None);
        assert!(nothing_changes(&mut runs).await);
        assert!(first.has_place().await);
        assert_eq!(told(&runs), Some("r1"));
    }

    #[actix_web::test]
    async fn a_stop_finds_its_run_wherever_it_is() {
        let mut runs = Runs::new(2);
        let (silent, followee) = fake("r1");
        runs.tell(followee);
        silent.silent.cancel();
        assert_eq!(runs.free().await.unwrap(), None);
        runs.stop(None);
        assert!(silent.abort.is_cancelled(), "it is the only one");

        let (active, followee) = fake("r2");
        runs.tell(followee);
        let (ahead, followee) = fake("r3");
        assert!(runs.have_room() && runs.go_ahead(&"s1".into()) && !runs.go_ahead(&"s2".into()));
        runs.wait(Waiting::Submitted(followee));
        assert!(!runs.have_room(), "those that are silent count too");
        runs.stop(Some(&"r9".into()));
        runs.stop(Some(&"r3".into()));
        assert!(ahead.abort.is_cancelled() && !active.abort.is_cancelled());
        runs.stop(None);
        assert!(active.abort.is_cancelled());
    }

    #[actix_web::test]
    async fn a_run_behind_others_goes_ahead_only_when_they_did() {
        let mut runs = Runs::new(8);
        assert!(!runs.go_ahead(&"s1".into()), "nothing is told: it is answered at once");
        runs.tell(fake("r1").1);
        runs.wait(Waiting::Refused(Refusal::new(Code::BadJson, "not JSON")));
        assert!(!runs.go_ahead(&"s1".into()));
        assert!(runs.next().is_none(), "not while another is told");
    }
}
