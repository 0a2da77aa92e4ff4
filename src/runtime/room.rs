//! Those who wait for a session to leave memory: one of them asks for all, and each that leaves lets one of them try. May not know
//! sessions.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Mutex, Notify};

use crate::clock;
use crate::ids::Millis;

/// Those that were asked may stay, because somebody reads them: after so long, others are asked.
const ASK_AGAIN_MS: Millis = 20;

/// Who waits for room.
#[derive(Default)]
pub struct Room {
    waiting: AtomicUsize,
    left: Notify,
    /// How often it was asked, or is being asked.
    asked: AtomicU64,
    last: Mutex<Last>,
}

/// What came of the last time.
#[derive(Default)]
struct Last {
    /// When, if somebody was asked.
    at: Option<Millis>,
}

/// One who waits.
pub struct Waiting<'a>(&'a Room);

impl Room {
    /// One more waits.
    pub fn enter(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// So many places became free.
    pub fn left(&self, places: usize) {
        for _ in 0..places.min(self.waiting.load(Ordering::Relaxed)) {
            self.left.notify_one();
        }
    }

    /// Asks for room by `ask`, which is told how many wait and says whether there is somebody to ask; when another does meanwhile,
    /// for this one too. Not sooner after the last time than it takes to leave.
    pub async fn ask(&self, ask: impl FnOnce(usize) -> bool) -> bool {
        let before = self.asked.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if self.asked.load(Ordering::Relaxed) != before {
            return last.at.is_some();
        }
        if let Some(at) = last.at {
            let since = clock::now().saturating_sub(at);
            tokio::time::sleep(Duration::from_millis(ASK_AGAIN_MS.saturating_sub(since))).await;
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        let found = ask(self.waiting.load(Ordering::Relaxed));
        last.at = found.then(clock::now);
        found
    }

    /// How often it was asked.
    #[cfg(test)]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl<'a> Waiting<'a> {
    /// Waits until a place becomes free, from now on.
    pub fn left(&self) -> Pin<Box<Notified<'a>>> {
        let mut left = Box::pin(self.0.left.notified());
        left.as_mut().enable();
        left
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
