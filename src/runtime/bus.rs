//! How a session's events reach its readers: batches, made once and shared. Of a reader that doesn't keep up nothing is held: it goes on
//! from the log.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use super::backlog::Backlog;
use crate::protocol::{Code, Event, Frames};

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
}

/// Why a reader gets no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// It fell behind; it may go on from the last place that it read.
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
    /// What comes before everything else; it is kept also for one that is behind.
    opening: Option<Arc<Batch>>,
    backlog: Backlog,
    /// Why no more comes, once nothing does.
    end: Option<ReadEnd>,
    /// Whether somebody reads.
    is_read: bool,
}

impl State {
    fn pop(&mut self) -> Option<Arc<Batch>> {
        self.opening.take().or_else(|| self.backlog.pop())
    }
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
    let state = Mutex::new(State { opening: None, backlog: Backlog::new(batches, bytes), end: None, is_read: true });
    let shared = Arc::new(Shared { state, waker: AtomicWaker::new() });
    (Sink(shared.clone()), Reader(shared))
}

impl Sink {
    /// Hands over a batch; `false` when the reader is gone or behind, which ends it. What waits for one that is behind is thrown away at
    /// once: it goes on after what it has read.
    pub fn send(&self, batch: &Arc<Batch>) -> bool {
        let mut state = self.0.state();
        if !state.is_read || state.end.is_some() {
            return false;
        }
        let sent = state.backlog.push(batch);
        if !sent {
            state.backlog.clear();
            state.end = Some(ReadEnd::Slow);
        }
        drop(state);
        self.0.waker.wake();
        sent
    }

    /// Hands over what everything that follows builds on; `false` when the reader is gone.
    pub(super) fn open(&self, batch: &Arc<Batch>) -> bool {
        let mut state = self.0.state();
        if !state.is_read || state.end.is_some() {
            return false;
        }
        state.opening = Some(batch.clone());
        drop(state);
        self.0.waker.wake();
        true
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
            match (state.pop(), state.end) {
                (Some(batch), _) => Poll::Ready(Ok(batch)),
                (None, Some(end)) => Poll::Ready(Err(end)),
                (None, None) => Poll::Pending,
            }
        })
        .await
    }

    /// A batch that is already here.
    pub fn try_next(&mut self) -> Option<Arc<Batch>> {
        self.0.state().pop()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_read = false;
        state.opening = None;
        state.backlog.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::EventBody;

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
    async fn one_that_is_behind_holds_nothing_any_more() {
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
    async fn what_everything_builds_on_comes_first_and_is_kept() {
        let (sink, mut reader) = channel(1, 1 << 20);
        let opening = batch();
        assert!(sink.open(&opening) && sink.send(&batch()) && !sink.send(&batch()) && !sink.open(&opening));
        assert!(Arc::ptr_eq(&reader.next().await.unwrap(), &opening));
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
