//! Which sessions a socket reads, and for which of its subscribes. One that is opened is read, unless an unsubscribe came meanwhile or
//! a newer one is read already; one that is refused changes nothing. May not know what is read.

use std::collections::HashMap;

use tokio::task::AbortHandle;

use crate::ids::SessionId;

/// A socket's subscriptions.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    sessions: HashMap<SessionId, Subscription>,
    /// How many subscribes there were.
    numbered: u64,
}

/// What a client reads of a session.
#[derive(Debug)]
struct Subscription {
    /// Its first subscribe: an unsubscribe came after those before.
    since: u64,
    /// Subscribes that are being opened.
    opening: usize,
    reading: Option<Reading>,
}

/// What reads for a subscribe.
#[derive(Debug)]
struct Reading {
    number: u64,
    /// Ends it.
    task: AbortHandle,
}

impl Subscriptions {
    /// How many sessions are read, or are about to be.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether `session` is one of them.
    pub(super) fn contains(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    /// A subscribe came, and is being opened; its number.
    pub(super) fn asked(&mut self, session: &SessionId) -> u64 {
        self.numbered += 1;
        let fresh = Subscription { since: self.numbered, opening: 0, reading: None };
        self.sessions.entry(session.clone()).or_insert(fresh).opening += 1;
        self.numbered
    }

    /// A subscribe was refused: what was read before goes on.
    pub(super) fn refused(&mut self, session: &SessionId, number: u64) {
        self.settle(session, number);
        self.drop_idle(session);
    }

    /// A subscribe is open. When it is to be read, `read` begins that, and what read before ends.
    pub(super) fn opened(&mut self, session: &SessionId, number: u64, read: impl FnOnce() -> AbortHandle) {
        let Some(subscription) = self.settle(session, number) else { return };
        if subscription.reading.as_ref().is_some_and(|reading| reading.number > number) {
            return;
        }
        let before = subscription.reading.replace(Reading { number, task: read() });
        if let Some(before) = before {
            before.task.abort();
        }
    }

    /// What read for a subscribe has come to its end.
    pub(super) fn ended(&mut self, session: &SessionId, number: u64) {
        if let Some(subscription) = self.sessions.get_mut(session) {
            subscription.reading.take_if(|reading| reading.number == number);
        }
        self.drop_idle(session);
    }

    /// No more of a session; whether it was read, or about to be.
    pub(super) fn end(&mut self, session: &SessionId) -> bool {
        let subscription = self.sessions.remove(session);
        let was_there = subscription.is_some();
        if let Some(reading) = subscription.and_then(|subscription| subscription.reading) {
            reading.task.abort();
        }
        was_there
    }

    /// No more of any.
    pub(super) fn end_all(&mut self) {
        for reading in self.sessions.drain().filter_map(|(_, subscription)| subscription.reading) {
            reading.task.abort();
        }
    }

    /// A subscribe isn't being opened any more; of what, unless an unsubscribe came meanwhile.
    fn settle(&mut self, session: &SessionId, number: u64) -> Option<&mut Subscription> {
        let subscription = self.sessions.get_mut(session).filter(|subscription| subscription.since <= number)?;
        subscription.opening = subscription.opening.saturating_sub(1);
        Some(subscription)
    }

    /// Forgets a session that nothing reads or is about to.
    fn drop_idle(&mut self, session: &SessionId) {
        if self.sessions.get(session).is_some_and(|subscription| subscription.opening == 0 && subscription.reading.is_none()) {
            self.sessions.remove(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    fn session() -> SessionId {
        "s1".into()
    }

    /// What reads, if it was begun.
    fn open(subscriptions: &mut Subscriptions, number: u64) -> Option<JoinHandle<()>> {
        let mut begun = None;
        subscriptions.opened(&session(), number, || {
            let task = tokio::spawn(std::future::pending());
            let handle = task.abort_handle();
            begun = Some(task);
            handle
        });
        begun
    }

    async fn reads(task: &JoinHandle<()>) -> bool {
        yield_now().await;
        !task.is_finished()
    }

    #[tokio::test]
    async fn one_that_is_opened_is_read_although_a_newer_one_is_being_opened_and_refused() {
        let mut subscriptions = Subscriptions::default();
        let [first, second, third] = std::array::from_fn(|_| subscriptions.asked(&session()));
        let one = open(&mut subscriptions, first).unwrap();
        let two = open(&mut subscriptions, second).unwrap();
        assert!(!reads(&one).await && reads(&two).await);
        subscriptions.refused(&session(), third);
        assert!(reads(&two).await && subscriptions.contains(&session()));
        subscriptions.ended(&session(), first);
        assert!(subscriptions.contains(&session()), "another one reads");
        subscriptions.ended(&session(), second);
        assert_eq!(subscriptions.len(), 0);
    }

    #[tokio::test]
    async fn one_that_is_opened_after_a_newer_one_is_not_read() {
        let mut subscriptions = Subscriptions::default();
        let [first, second] = std::array::from_fn(|_| subscriptions.asked(&session()));
        let two = open(&mut subscriptions, second).unwrap();
        assert!(open(&mut subscriptions, first).is_none());
        assert!(reads(&two).await);
    }

    #[tokio::test]
    async fn one_from_before_an_unsubscribe_changes_nothing() {
        let mut subscriptions = Subscriptions::default();
        let [first, second] = std::array::from_fn(|_| subscriptions.asked(&session()));
        assert!(subscriptions.end(&session()) && !subscriptions.end(&session()));
        assert!(open(&mut subscriptions, first).is_none());
        let third = subscriptions.asked(&session());
        subscriptions.refused(&session(), second);
        assert!(subscriptions.contains(&session()), "the newer one is still being opened");
        let three = open(&mut subscriptions, third).unwrap();
        assert!(reads(&three).await);
        subscriptions.end_all();
        assert!(!reads(&three).await);
        assert_eq!(subscriptions.len(), 0);
    }

    #[tokio::test]
    async fn what_ends_or_is_refused_leaves_no_place_taken() {
        let mut subscriptions = Subscriptions::default();
        let first = subscriptions.asked(&session());
        let _one = open(&mut subscriptions, first).unwrap();
        let second = subscriptions.asked(&session());
        subscriptions.ended(&session(), first);
        assert!(subscriptions.contains(&session()), "one is being opened");
        subscriptions.refused(&session(), second);
        assert_eq!(subscriptions.len(), 0);
    }
}
