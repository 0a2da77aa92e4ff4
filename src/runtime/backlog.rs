//! What waits for one reader, bounded in batches and bytes: the last that was told, shared by all whom it waits for. May not know readers.

use std::collections::VecDeque;
use std::sync::Arc;

use super::bus::Batch;

/// Batches that wait.
#[derive(Debug)]
pub(super) struct Backlog {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    batches_max: usize,
    bytes_max: usize,
}

impl Backlog {
    /// Nothing yet. One batch may always wait, however large it is.
    pub(super) fn new(batches_max: usize, bytes_max: usize) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, batches_max, bytes_max }
    }

    /// Adds a batch; `false` when there is no room.
    pub(super) fn push(&mut self, batch: &Arc<Batch>) -> bool {
        let fits = self.batches.is_empty() || self.bytes + batch.weight() <= self.bytes_max;
        if self.batches.len() >= self.batches_max || !fits {
            return false;
        }
        self.bytes += batch.weight();
        self.batches.push_back(batch.clone());
        true
    }

    /// The next batch.
    pub(super) fn pop(&mut self) -> Option<Arc<Batch>> {
        let batch = self.batches.pop_front()?;
        self.bytes -= batch.weight();
        Some(batch)
    }

    /// Throws away what waits.
    pub(super) fn clear(&mut self) {
        (self.batches, self.bytes) = (VecDeque::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Event, EventBody, Live};

    fn delta(bytes: usize) -> Arc<Batch> {
        let body = EventBody::Live(Live::Text { reply_id: "r1".into(), delta: "x".repeat(bytes) });
        Arc::new(Batch::new(vec![Event { cursor: None, at: 0, body }]))
    }

    #[test]
    fn what_waits_is_shared() {
        let mut backlogs: Vec<_> = (0..100).map(|_| Backlog::new(1024, 1 << 20)).collect();
        let batches: Vec<_> = (0..64).map(|_| delta(100)).collect();
        assert!(backlogs.iter_mut().all(|backlog| batches.iter().all(|batch| backlog.push(batch))));
        assert!(batches.iter().all(|batch| Arc::strong_count(batch) == 101));
        for backlog in &mut backlogs {
            assert!(batches.iter().all(|batch| Arc::ptr_eq(batch, &backlog.pop().unwrap())));
            assert_eq!((backlog.bytes, backlog.pop().is_none()), (0, true));
        }
    }

    #[test]
    fn it_is_bounded_in_bytes_and_in_batches() {
        let large = delta(5000);
        let mut backlog = Backlog::new(100, 10_400);
        assert!(backlog.push(&large) && backlog.push(&large));
        assert!(!backlog.push(&large));
        assert!(backlog.pop().is_some() && backlog.push(&large));
        let mut small = Backlog::new(100, 100);
        assert!(small.push(&large), "one may always wait");
        assert!(!small.push(&delta(1)));
        let mut few = Backlog::new(3, 1 << 20);
        assert!((0..3).all(|_| few.push(&delta(1))) && !few.push(&delta(1)));
        few.clear();
        assert!((0..3).all(|_| few.push(&delta(1))) && !few.push(&delta(1)));
    }
}
