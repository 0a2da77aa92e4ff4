//! Frames that wait for the active run to end: bare AG-UI frames don't say which run they belong to, so that a socket carries
//! one run at a time, and an error told in between would be the active run's. They are answered in the order in which they came. A run
//! that may be queued behind the active one's turn, or stop it, is submitted at once all the same; only what is told of it waits.

use std::collections::VecDeque;

use super::runs::Followee;
use crate::agui::RunInput;
use crate::ids::{SessionId, TurnId};
use crate::protocol::Refusal;

/// A frame that waits.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A run to be started.
    Run(Box<RunInput>),
    /// A run that was submitted.
    Submitted(Followee),
    /// A run that was stopped before it began.
    Stopped(Box<RunInput>),
    /// A frame that is refused.
    Refused(Refusal),
}

/// The frames that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingRuns(VecDeque<Waiting>);

impl WaitingRuns {
    /// How many.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all that wait are runs of `thread` that were submitted: another one of it keeps its place in being submitted too.
    pub(super) fn are_submitted(&self, thread: &SessionId) -> bool {
        self.0.iter().all(|frame| match frame {
            Waiting::Submitted(followee) => followee.thread == *thread,
            Waiting::Run(_) | Waiting::Stopped(_) | Waiting::Refused(_) => false,
        })
    }

    /// Adds a frame.
    pub(super) fn push(&mut self, frame: Waiting) {
        self.0.push_back(frame);
    }

    /// The next frame to be answered.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        self.0.pop_front()
    }

    /// Stops a run that waits, in its place.
    pub(super) fn stop(&mut self, run: &TurnId) {
        let names = |frame: &Waiting| match frame {
            Waiting::Run(input) => input.run_id == *run,
            Waiting::Submitted(followee) => followee.run == *run,
            Waiting::Stopped(_) | Waiting::Refused(_) => false,
        };
        let Some(at) = self.0.iter().position(names) else { return };
        match self.0.remove(at) {
            Some(Waiting::Run(input)) => self.0.insert(at, Waiting::Stopped(input)),
            Some(Waiting::Submitted(followee)) => {
                followee.abort.cancel();
                self.0.insert(at, Waiting::Submitted(followee));
            }
            Some(frame @ (Waiting::Stopped(_) | Waiting::Refused(_))) => self.0.insert(at, frame),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::super::follow::Followed;
    use super::*;
    use crate::agui::Limits;
    use crate::protocol::Code;

    fn run(id: &str) -> Waiting {
        let body = format!(r#"{{"threadId": "s1", "runId": "{id}", "messages": []}}"#);
        let limits = Limits { view_messages_max: 10, content_bytes_max: 1000, ..Limits::DEFAULT };
        Waiting::Run(Box::new(RunInput::decode(body.as_bytes(), &limits).unwrap()))
    }

    fn told(waiting: &mut WaitingRuns) -> Vec<String> {
        std::iter::from_fn(|| waiting.next())
            .map(|frame| match frame {
                Waiting::Run(input) => format!("run {}", input.run_id),
                Waiting::Submitted(followee) => format!("submitted {}", followee.run),
                Waiting::Stopped(input) => format!("stopped {}", input.run_id),
                Waiting::Refused(refusal) => format!("refused {}", refusal.code),
            })
            .collect()
    }

    #[test]
    fn frames_are_answered_in_order() {
        let mut waiting = WaitingRuns::default();
        waiting.push(run("r1"));
        waiting.push(Waiting::Refused(Refusal::new(Code::BadJson, "not JSON")));
        waiting.push(run("r2"));
        assert_eq!(waiting.len(), 3);
        assert_eq!(told(&mut waiting), ["run r1", "refused bad_json", "run r2"]);
    }

    #[test]
    fn a_run_that_waits_can_be_stopped_in_its_place() {
        let mut waiting = WaitingRuns::default();
        for id in ["r1", "r2", "r3"] {
            waiting.push(run(id));
        }
        for id in ["r2", "r2", "r9"] {
            waiting.stop(&id.into());
        }
        assert_eq!(told(&mut waiting), ["run r1", "stopped r2", "run r3"]);
    }

    /// A run that was submitted, as far as those that wait see it.
    fn submitted(id: &str, thread: &str) -> (Waiting, CancellationToken) {
        let abort = CancellationToken::new();
        let task = actix_web::rt::spawn(async { Followed::Refused });
        let [silent, begun] = std::array::from_fn(|_| CancellationToken::new());
        let (run, thread, place) = (id.into(), thread.into(), Arc::default());
        let followee = Followee { run, thread, abort: abort.clone(), place, was_silent: false, silent, begun, task };
        (Waiting::Submitted(followee), abort)
    }

    #[actix_web::test]
    async fn a_run_that_was_submitted_is_stopped_by_itself_and_keeps_its_place() {
        let mut waiting = WaitingRuns::default();
        let (frame, abort) = submitted("r1", "s1");
        waiting.push(frame);
        waiting.push(run("r2"));
        waiting.stop(&"r1".into());
        assert!(abort.is_cancelled());
        assert_eq!(told(&mut waiting), ["submitted r1", "run r2"]);
    }

    #[actix_web::test]
    async fn runs_are_submitted_ahead_only_behind_runs_of_the_same_conversation_that_were() {
        let mut waiting = WaitingRuns::default();
        assert!(waiting.are_submitted(&"s1".into()));
        waiting.push(submitted("r1", "s1").0);
        assert!(waiting.are_submitted(&"s1".into()));
        assert!(!waiting.are_submitted(&"s2".into()));
        waiting.push(run("r2"));
        assert!(!waiting.are_submitted(&"s1".into()));
    }
}
