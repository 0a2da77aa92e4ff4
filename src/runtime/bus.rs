//! How a session's events reach its readers: batches, made once and shared.

use std::sync::{Arc, OnceLock};

use tokio::sync::{Semaphore, mpsc};

use crate::protocol::{Code, Event, Frames};

/// How many renderings of a batch may be kept.
pub const DIALECTS: usize = 3;

/// Events that are told together. A batch never goes on after a turn's end.
#[derive(Debug)]
pub struct Batch {
    /// In order.
    pub events: Vec<Event>,
    rendered: [OnceLock<Frames>; DIALECTS],
}

impl Batch {
    /// A batch of `events`.
    pub fn new(events: Vec<Event>) -> Self {
        Self { events, rendered: Default::default() }
    }

    /// The batch in dialect number `dialect`, rendered by whoever asks first.
    pub fn rendered(&self, dialect: usize, render: impl FnOnce(&[Event]) -> Frames) -> &Frames {
        self.rendered[dialect].get_or_init(|| render(&self.events))
    }
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
pub struct Reader {
    receiver: mpsc::Receiver<Arc<Batch>>,
    end: Arc<OnceLock<ReadEnd>>,
}

/// The session's end of a reader.
#[derive(Debug)]
pub struct Sink {
    sender: mpsc::Sender<Arc<Batch>>,
    end: Arc<OnceLock<ReadEnd>>,
}

/// A reader that may fall `batches` behind.
pub fn channel(batches: usize) -> (Sink, Reader) {
    let (sender, receiver) = mpsc::channel(batches.min(Semaphore::MAX_PERMITS));
    let end = Arc::new(OnceLock::new());
    (Sink { sender, end: end.clone() }, Reader { receiver, end })
}

impl Sink {
    /// Hands over a batch; `false` when the reader is gone or too slow, which ends it.
    pub fn send(&self, batch: &Arc<Batch>) -> bool {
        match self.sender.try_send(batch.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(_)) => {
                let _ = self.end.set(ReadEnd::Slow);
                false
            }
        }
    }

    /// Ends the reader, which learns why.
    pub fn fail(self, code: Code) {
        let _ = self.end.set(ReadEnd::Failed(code));
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Reader {
    /// The next batch, or why there is none. After the batch that ends the reader's turn comes `Closed`.
    pub async fn next(&mut self) -> Result<Arc<Batch>, ReadEnd> {
        self.receiver.recv().await.ok_or_else(|| self.end.get().copied().unwrap_or(ReadEnd::Closed))
    }

    /// A batch that is already here.
    pub fn try_next(&mut self) -> Option<Arc<Batch>> {
        self.receiver.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
