//! How a session's events reach its readers: batches, made once and shared.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use super::backlog::Backlog;
use crate::meters::names;
use crate::protocol::{Code, Event, EventBody, Frames};

/// How many renderings of a batch may be kept.
pub const DIALECTS: usize = 3;

/// Events that are told together. A batch never goes on after a turn's end.
#[derive(Debug)]
pub struct Batch {
    /// In order.
    pub events: Vec<Event>,
    weight: usize,
    rendered: [OnceLock<Frames>; DIALECTS],
}

impl Batch {
    /// A batch of `events`.
    pub fn new(events: Vec<Event>) -> Self {
        let weight = events.iter().map(Event::weight).sum();
        Self { events, weight, rendered: Default::default() }
    }

    /// The batch in dialect number `dialect`, rendered by whoever asks first.
    pub fn rendered(&self, dialect: usize, render: impl FnOnce(&[Event]) -> Frames) -> &Frames {
        self.rendered[dialect].get_or_init(|| render(&self.events))
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Whether it may go on with `next` without growing beyond `max` bytes. What ends a turn stays the last of its batch.
    pub(super) fn may_take(&self, next: &Self, max: usize) -> bool {
        let is_live = |batch: &Self| batch.events.iter().all(|event| matches!(event.body, EventBody::Live(_)));
        self.weight + next.weight <= max && is_live(next) && is_live(self)
    }

    /// Goes on with `next`; one that is shared is copied first.
    pub(super) fn take_in(this: &mut Arc<Self>, next: &Self) {
        if Arc::get_mut(this).is_none() {
            *this = Arc::new(Self::new(this.events.clone()));
        }
        // It is this reader's alone now.
        let Some(batch) = Arc::get_mut(this) else { return };
        batch.rendered = Default::default();
        for event in &next.events {
            if !batch.events.last_mut().is_some_and(|last| goes_on(last, event)) {
                batch.events.push(event.clone());
            }
        }
        batch.weight = batch.events.iter().map(Event::weight).sum();
    }
}

/// Adds `next` to the event before it, when it only adds text to the same part. Where a reader resumes moves on with the text.
fn goes_on(last: &mut Event, next: &Event) -> bool {
    let (EventBody::Live(live), EventBody::Live(more)) = (&mut last.body, &next.body) else { return false };
    let goes_on = (next.cursor.is_some() || last.cursor.is_none()) && live.go_on(more);
    if goes_on {
        (last.cursor, last.at) = (next.cursor, next.at);
    }
    goes_on
}

/// Why a reader gets no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// It read too slowly; it may join again.
    Slow,
    /// The process stops, or the session's task was lost; it may join again.
    Closed,
    /// The session was given up because of this; it may join again.
    Failed(Code),
}

/// One reader's end of a session.
#[derive(Debug)]
pub struct Reader(Arc<Shared>);

/// The session's end of a reader.
#[derive(Debug)]
pub struct Sink(Arc<Shared>);

/// What both ends know.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    waker: AtomicWaker,
}

#[derive(Debug)]
struct State {
    backlog: Backlog,
    /// Why no more comes, once nothing does.
    end: Option<ReadEnd>,
    /// Whether somebody reads.
    is_read: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that panics happens under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: ReadEnd) {
        self.state().end.get_or_insert(why);
        self.waker.wake();
    }
}

/// A reader that may fall `batches` and about `bytes` bytes behind.
pub fn channel(batches: usize, bytes: usize) -> (Sink, Reader) {
    numbered(batches, bytes, 0)
}

/// The same for one of many.
pub(super) fn numbered(batches: usize, bytes: usize, number: usize) -> (Sink, Reader) {
    let state = Mutex::new(State { backlog: Backlog::new(batches, bytes).numbered(number), end: None, is_read: true });
    let shared = Arc::new(Shared { state, waker: AtomicWaker::new() });
    (Sink(shared.clone()), Reader(shared))
}

impl Sink {
    /// Hands over a batch; `false` when the reader is gone or too slow, which ends it. What waits for one that is too slow is thrown
    /// away at once: it joins again after what it has read.
    pub fn send(&self, batch: &Arc<Batch>) -> bool {
        let mut state = self.0.state();
        if !state.is_read || state.end.is_some() {
            return false;
        }
        let sent = state.backlog.push(batch);
        if !sent {
            state.backlog.clear();
            state.end = Some(ReadEnd::Slow);
            metrics::counter!(names::READERS_CUT, "transport" => "session").increment(1);
        }
        drop(state);
        self.0.waker.wake();
        sent
    }

    /// Ends the reader, which learns why.
    pub fn fail(self, code: Code) {
        self.0.end(ReadEnd::Failed(code));
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        let state = self.0.state();
        !state.is_read || state.end.is_some()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.0.end(ReadEnd::Closed);
    }
}

impl Reader {
    /// The next batch, or why there is none. After the batch that ends the reader's turn comes `Closed`. Nothing is lost when the wait is
    /// given up.
    pub async fn next(&mut self) -> Result<Arc<Batch>, ReadEnd> {
        std::future::poll_fn(|context| {
            self.0.waker.register(context.waker());
            let mut state = self.0.state();
            match (state.backlog.pop(), state.end) {
                (Some(batch), _) => Poll::Ready(Ok(batch)),
                (None, Some(end)) => Poll::Ready(Err(end)),
                (None, None) => Poll::Pending,
            }
        })
        .await
    }

    /// A batch that is already here.
    pub fn try_next(&mut self) -> Option<Arc<Batch>> {
        self.0.state().backlog.pop()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_read = false;
        state.backlog.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Arc<Batch> {
        Arc::new(Batch::new(vec![Event { cursor: None, at: 0, body: EventBody::TurnCompleted { turn_id: "t1".into() } }]))
    }

    #[test]
    fn a_batch_is_rendered_once_a_dialect() {
        let batch = Batch::new(Vec::new());
        let mut rendered = 0;
        for dialect in [0, 1, 0, 1] {
            batch.rendered(dialect, |_| {
                rendered += 1;
                Frames::default()
            });
        }
        assert_eq!(rendered, 2);
    }

    #[tokio::test]
    async fn a_reader_gets_everything_and_learns_that_no_more_comes() {
        let (sink, mut reader) = channel(8, 1 << 20);
        let reading = async {
            let mut read = 0;
            loop {
                match reader.next().await {
                    Ok(_) => read += 1,
                    Err(end) => return (read, end),
                }
            }
        };
        let sending = async {
            for _ in 0..20 {
                assert!(sink.send(&batch()));
                tokio::task::yield_now().await;
            }
            drop(sink);
        };
        assert_eq!(tokio::join!(reading, sending).0, (20, ReadEnd::Closed));
    }

    #[tokio::test]
    async fn one_that_is_too_slow_holds_nothing_any_more() {
        let (sink, mut reader) = channel(2, 1 << 20);
        let batch = batch();
        assert!(sink.send(&batch) && sink.send(&batch));
        assert_eq!(Arc::strong_count(&batch), 3);
        assert!(!sink.send(&batch));
        assert_eq!(Arc::strong_count(&batch), 1);
        assert!(sink.is_closed() && !sink.send(&batch));
        assert_eq!(reader.next().await.unwrap_err(), ReadEnd::Slow);
    }

    #[tokio::test]
    async fn the_first_reason_counts_and_what_waits_is_read_before_it() {
        let (sink, mut reader) = channel(2, 1 << 20);
        assert!(sink.send(&batch()));
        sink.fail(Code::SessionDeleted);
        assert!(reader.next().await.is_ok());
        assert_eq!(reader.next().await.unwrap_err(), ReadEnd::Failed(Code::SessionDeleted));
        assert!(reader.try_next().is_none());
    }

    #[test]
    fn what_waits_for_one_that_left_is_freed() {
        let (sink, reader) = channel(2, 1 << 20);
        let batch = batch();
        assert!(sink.send(&batch) && !sink.is_closed());
        drop(reader);
        assert_eq!(Arc::strong_count(&batch), 1);
        assert!(sink.is_closed() && !sink.send(&batch));
    }
}
