//! Who tells of a session on a socket: one run after another, or its subscription, which tells of every run. May not know what is told.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::ids::TurnId;
use crate::protocol::Cursor;

/// A session's voice on one socket.
#[derive(Debug, Default)]
pub(super) struct Voice {
    /// Held by who tells a run, and while a subscription is being opened. In the order in which they came.
    told: Arc<Mutex<()>>,
    /// Subscriptions that tell.
    subscribed: Cell<usize>,
    /// The last place that a run of the socket's own told, and of which turn.
    last: RefCell<Option<(Cursor, TurnId)>>,
}

/// A run is told as long as this is held.
pub(super) struct Speaking<'v> {
    voice: &'v Voice,
    _told: tokio::sync::MutexGuard<'v, ()>,
}

/// A subscription that is being opened, then tells, as long as this is held.
pub(super) struct Subscribed {
    voice: Rc<Voice>,
    /// Until it begins to tell: whether it ever will isn't known, and a run that comes meanwhile waits.
    opening: Option<OwnedMutexGuard<()>>,
}

impl Voice {
    /// Waits for its turn to tell a run; nothing when the subscription tells it.
    pub(super) async fn speak(&self) -> Option<Speaking<'_>> {
        let told = self.told.lock().await;
        (self.subscribed.get() == 0).then_some(Speaking { voice: self, _told: told })
    }

    /// Waits for the run that is told; no other one is told until the subscription begins, or is given up. What was told last.
    pub(super) async fn subscribe(self: Rc<Self>) -> (Subscribed, Option<(Cursor, TurnId)>) {
        let opening = Some(self.told.clone().lock_owned().await);
        let last = self.last.borrow().clone();
        (Subscribed { voice: self, opening }, last)
    }
}

impl Speaking<'_> {
    /// So far `turn` was told.
    pub(super) fn told(&self, last: Option<Cursor>, turn: &TurnId) {
        if let Some(last) = last {
            self.voice.last.replace(Some((last, turn.clone())));
        }
    }
}

impl Subscribed {
    /// From now on the subscription tells.
    pub(super) fn begin(&mut self) {
        if self.opening.take().is_some() {
            self.voice.subscribed.set(self.voice.subscribed.get() + 1);
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        if self.opening.is_none() {
            self.voice.subscribed.set(self.voice.subscribed.get().saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_run_waits_for_a_subscription_that_is_being_opened() {
        let voice = Rc::new(Voice::default());
        let (given_up, _) = voice.clone().subscribe().await;
        assert!(voice.speak().now_or_never().is_none());
        drop(given_up);
        assert!(voice.speak().now_or_never().flatten().is_some(), "nobody else tells it");
        let (mut subscribed, _) = voice.clone().subscribe().await;
        subscribed.begin();
        assert!(voice.speak().now_or_never().unwrap().is_none(), "the subscription tells it");
        drop(subscribed);
        assert!(voice.speak().now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn a_subscription_waits_for_the_run_that_is_told() {
        let voice = Rc::new(Voice::default());
        let speaking = voice.speak().await.unwrap();
        assert!(voice.clone().subscribe().now_or_never().is_none());
        let place = Cursor::after(3);
        speaking.told(Some(place), &"t1".into());
        drop(speaking);
        assert_eq!(voice.subscribe().await.1, Some((place, "t1".into())));
    }
}
