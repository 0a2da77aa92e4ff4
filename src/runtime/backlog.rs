//! What waits for one reader, bounded in batches and bytes. While the reader keeps up batches only pass through; of one that lags
//! the deltas of a message become one, so that it can go on for longer. Many lag at once: that must cost the others nothing, so what is
//! put together is small, what is large stays shared, and each does it at another time. May not know readers.

use std::collections::VecDeque;
use std::sync::Arc;

use super::bus::Batch;

/// Batches that may wait before the reader counts as lagging.
const LAG: usize = 32;
/// No merged batch grows beyond so many bytes. It is the reader's alone, while larger ones are shared by all that lag.
const MERGED_MAX: usize = 8 << 10;

/// Batches that wait.
#[derive(Debug)]
pub(super) struct Backlog {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    batches_max: usize,
    bytes_max: usize,
    /// So many at the front are merged already; the last of them may go on.
    merged: usize,
    /// So many more may wait before the first are merged.
    patience: usize,
}

impl Backlog {
    /// Nothing yet. One batch may always wait, however large it is.
    pub(super) fn new(batches_max: usize, bytes_max: usize) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, batches_max, bytes_max, merged: 0, patience: 0 }
    }

    /// The same for one of many: readers with other numbers merge at other times, should they begin to lag together.
    pub(super) fn numbered(self, number: usize) -> Self {
        Self { patience: number % LAG, ..self }
    }

    /// Adds a batch; `false` when there is no room.
    pub(super) fn push(&mut self, batch: &Arc<Batch>) -> bool {
        let patience = if self.merged == 0 { self.patience } else { 0 };
        if self.batches.len() >= (self.merged + LAG + patience).min(self.batches_max) || !self.has_room(batch.weight()) {
            self.merge();
        }
        if self.batches.len() >= self.batches_max || !self.has_room(batch.weight()) {
            return false;
        }
        self.bytes += batch.weight();
        self.batches.push_back(batch.clone());
        true
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.batches.is_empty() || self.bytes + bytes <= self.bytes_max
    }

    /// The next batch.
    pub(super) fn pop(&mut self) -> Option<Arc<Batch>> {
        let batch = self.batches.pop_front()?;
        self.bytes -= batch.weight();
        self.merged = self.merged.saturating_sub(1);
        Some(batch)
    }

    /// Throws away what waits.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.batches_max, self.bytes_max).numbered(self.patience);
    }

    /// Makes as few batches as possible of those that weren't merged yet.
    fn merge(&mut self) {
        let rest = self.batches.split_off(self.merged.saturating_sub(1).min(self.batches.len()));
        for batch in rest {
            match self.batches.back_mut() {
                Some(last) if last.may_take(&batch, MERGED_MAX) => Batch::take_in(last, &batch),
                Some(_) | None => self.batches.push_back(batch),
            }
        }
        self.merged = self.batches.len();
        self.bytes = self.batches.iter().map(|batch| batch.weight()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Cursor, Event, EventBody, Live};

    fn batch(bodies: Vec<EventBody>, told: u64) -> Arc<Batch> {
        let event = |body| Event { cursor: Some(Cursor { seq: 1, within: Some((1, told)) }), at: told, body };
        Arc::new(Batch::new(bodies.into_iter().map(event).collect()))
    }

    fn delta(text: &str, told: u64) -> Arc<Batch> {
        batch(vec![EventBody::Live(Live::Text { reply_id: "r1".into(), delta: text.to_owned() })], told)
    }

    fn ended() -> Arc<Batch> {
        batch(vec![EventBody::TurnCompleted { turn_id: "t1".into() }], 0)
    }

    fn all(backlog: &mut Backlog) -> Vec<Arc<Batch>> {
        std::iter::from_fn(|| backlog.pop()).collect()
    }

    fn text(batches: &[Arc<Batch>]) -> String {
        let events = batches.iter().flat_map(|batch| &batch.events);
        events.filter_map(|event| if let EventBody::Live(live) = &event.body { live.text() } else { None }).collect()
    }

    #[test]
    fn what_is_read_in_time_is_shared() {
        let mut backlog = Backlog::new(1024, 1 << 20);
        let batches: Vec<_> = (0..LAG).map(|n| delta("x", n as u64)).collect();
        assert!(batches.iter().all(|batch| backlog.push(batch)));
        assert!(all(&mut backlog).iter().zip(&batches).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert_eq!(backlog.bytes, 0);
    }

    #[test]
    fn deltas_of_one_that_lags_become_one_and_nothing_is_lost() {
        let mut backlog = Backlog::new(40, 1 << 20);
        let mut wanted = String::new();
        for n in 0..5000 {
            let more = format!("{n} ");
            assert!(backlog.push(&delta(&more, n)), "{n}");
            wanted.push_str(&more);
        }
        assert!(backlog.push(&ended()));
        let (waits, batches) = (backlog.bytes, all(&mut backlog));
        assert!(waits < 2 * wanted.len(), "{waits}");
        assert!(batches.len() <= LAG + 2 + waits / MERGED_MAX, "{}", batches.len());
        assert_eq!(text(&batches), wanted);
        let cursors: Vec<_> = batches.iter().flat_map(|batch| &batch.events).filter_map(|event| event.cursor).collect();
        assert!(cursors[..cursors.len() - 1].is_sorted(), "{cursors:?}");
        assert_eq!(batches.last().unwrap().events.len(), 1, "nothing is merged with a turn's end");
        assert_eq!((backlog.bytes, backlog.merged), (0, 0));
    }

    #[test]
    fn readers_that_lag_together_merge_at_other_times_and_share_what_is_large() {
        let mut backlogs: Vec<Backlog> = (0..2 * LAG).map(|number| Backlog::new(1024, 4 << 20).numbered(number)).collect();
        for n in 0..20 * LAG as u64 {
            let batch = delta("word ", n);
            let merging = backlogs.iter_mut().filter_map(|backlog| {
                let before = backlog.batches.len();
                assert!(backlog.push(&batch));
                (backlog.batches.len() <= before).then_some(())
            });
            assert!(merging.count() <= 2, "token {n}");
        }
        let large = delta(&"x".repeat(MERGED_MAX), 0);
        for _ in 0..3 * LAG {
            assert!(backlogs.iter_mut().all(|backlog| backlog.push(&large)));
        }
        assert_eq!(Arc::strong_count(&large), 1 + backlogs.len() * 3 * LAG);
    }

    #[test]
    fn what_a_merged_one_takes_is_read_while_more_comes() {
        let mut backlog = Backlog::new(64, 1 << 20);
        let (mut got, mut wanted) = (Vec::new(), String::new());
        for n in 0..3000 {
            let more = format!("{n} ");
            assert!(backlog.push(&delta(&more, n)));
            wanted.push_str(&more);
            if n % 50 == 0 {
                got.extend(backlog.pop());
            }
        }
        got.extend(all(&mut backlog));
        assert_eq!(text(&got), wanted);
    }

    #[test]
    fn it_is_bounded_in_bytes_and_in_batches() {
        let large = delta(&"x".repeat(5000), 1);
        let mut backlog = Backlog::new(100, 10_400);
        assert!(backlog.push(&large) && backlog.push(&large));
        assert!(!backlog.push(&large));
        let mut small = Backlog::new(100, 100);
        assert!(small.push(&large), "one may always wait");
        assert!(!small.push(&delta("x", 2)));
        let mut few = Backlog::new(3, 1 << 20);
        assert!((0..3).all(|_| few.push(&ended())) && !few.push(&ended()));
        few.clear();
        assert!(few.push(&ended()));
    }
}
