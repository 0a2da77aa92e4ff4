//! What waits to be written to one socket, and the task that writes it. Bounded in pieces and bytes; each write has a time limit;
//! a socket that doesn't take what it is sent is cut.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use actix_web::rt::task::JoinHandle;
use actix_web::web::Bytes;
use actix_ws::{CloseReason, Closed, Session};
use bytestring::ByteString;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::super::Options;
use super::super::run::Chunk;
use super::super::server::Cutter;
use crate::protocol::Frames;

/// The JSON texts of frames that are ready together.
#[derive(Debug, Default)]
pub(super) struct Texts {
    texts: Vec<Bytes>,
    bytes: usize,
}

impl Chunk for Texts {
    fn add(&mut self, frames: &Frames) {
        self.texts.extend(frames.texts());
        self.bytes += frames.sse.len();
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

impl From<Frames> for Texts {
    fn from(frames: Frames) -> Self {
        let mut texts = Self::default();
        texts.add(&frames);
        texts
    }
}

/// One thing to write.
#[derive(Debug)]
enum Piece {
    Texts(Texts),
    Pong(Bytes),
    Ping,
    Close(Option<CloseReason>),
}

/// The outbox is full, or the socket is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// The sending end. Never waits.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Piece>,
    shared: Rc<Shared>,
}

struct Shared {
    bytes: Cell<usize>,
    bytes_max: usize,
    hurry: CancellationToken,
    last: RefCell<Option<CloseReason>>,
}

impl Outbox {
    /// Adds texts, in order.
    pub(super) fn texts(&self, texts: Texts) -> Result<(), Full> {
        let bytes = self.shared.bytes.get() + texts.bytes;
        // One that is large by itself (a snapshot) may pass when nothing waits.
        if bytes > self.shared.bytes_max && self.shared.bytes.get() > 0 {
            return Err(Full);
        }
        self.push(Piece::Texts(texts))?;
        self.shared.bytes.set(bytes);
        Ok(())
    }

    /// Asks whether the peer is there.
    pub(super) fn ping(&self) -> Result<(), Full> {
        self.push(Piece::Ping)
    }

    /// Answers a ping.
    pub(super) fn pong(&self, content: Bytes) -> Result<(), Full> {
        self.push(Piece::Pong(content))
    }

    /// Closes after what waits was written.
    pub(super) fn close(&self, reason: Option<CloseReason>) {
        if self.push(Piece::Close(reason.clone())).is_err() {
            self.close_now(reason);
        }
    }

    /// Closes without writing what waits.
    pub(super) fn close_now(&self, reason: Option<CloseReason>) {
        *self.shared.last.borrow_mut() = reason;
        self.shared.hurry.cancel();
    }

    fn push(&self, piece: Piece) -> Result<(), Full> {
        self.sender.try_send(piece).map_err(|_| Full)
    }
}

/// How writing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// With a close frame.
    Closed,
    /// The peer was gone.
    Gone,
    /// The peer didn't read; the connection was cut.
    Cut,
}

/// Where frames are written to; a trait so that a socket that doesn't read can be played in tests.
trait Sink {
    async fn text(&mut self, text: ByteString) -> Result<(), Closed>;
    async fn ping(&mut self) -> Result<(), Closed>;
    async fn pong(&mut self, content: &[u8]) -> Result<(), Closed>;
    async fn close(self, reason: Option<CloseReason>) -> Result<(), Closed>;
}

struct Wire(Session);

impl Sink for Wire {
    async fn text(&mut self, text: ByteString) -> Result<(), Closed> {
        self.0.text(text).await
    }

    async fn ping(&mut self) -> Result<(), Closed> {
        self.0.ping(b"").await
    }

    async fn pong(&mut self, content: &[u8]) -> Result<(), Closed> {
        self.0.pong(content).await
    }

    async fn close(self, reason: Option<CloseReason>) -> Result<(), Closed> {
        self.0.close(reason).await
    }
}

/// An outbox for `session`, and the task that empties it.
pub(super) fn open(session: Session, cutter: Option<Cutter>, options: &Options) -> (Outbox, JoinHandle<Written>) {
    let (outbox, receiver) = channel(options);
    let writer = Writer { receiver, shared: outbox.shared.clone(), patience: options.write() };
    let task = actix_web::rt::spawn(async move {
        let written = writer.run(Wire(session)).await;
        if written == Written::Cut
            && let Some(cutter) = cutter
        {
            cutter.cut();
        }
        written
    });
    (outbox, task)
}

fn channel(options: &Options) -> (Outbox, mpsc::Receiver<Piece>) {
    let (sender, receiver) = mpsc::channel(options.outbox_batches_max.clamp(8, Semaphore::MAX_PERMITS));
    let shared = Rc::new(Shared {
        bytes: Cell::new(0),
        bytes_max: options.outbox_bytes_max,
        hurry: CancellationToken::new(),
        last: RefCell::new(None),
    });
    (Outbox { sender, shared }, receiver)
}

struct Writer {
    receiver: mpsc::Receiver<Piece>,
    shared: Rc<Shared>,
    patience: Duration,
}

impl Writer {
    /// Writes until closed, gone or cut.
    async fn run(mut self, mut sink: impl Sink) -> Written {
        let hurry = self.shared.hurry.clone();
        loop {
            let piece = tokio::select! {
                biased;
                () = hurry.cancelled() => break,
                piece = self.receiver.recv() => piece,
            };
            let Some(piece) = piece else { break };
            let written = tokio::select! {
                biased;
                () = hurry.cancelled() => break,
                written = self.write(&mut sink, piece) => written,
            };
            match written {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    *self.shared.last.borrow_mut() = reason;
                    break;
                }
                Err(end) => return end,
            }
        }
        let last = self.shared.last.borrow_mut().take();
        match tokio::time::timeout(self.patience, sink.close(last)).await {
            Ok(Ok(())) => Written::Closed,
            Ok(Err(Closed)) => Written::Gone,
            Err(_) => Written::Cut,
        }
    }

    /// Writes one piece; hands a close back.
    async fn write(&self, sink: &mut impl Sink, piece: Piece) -> Result<Option<Option<CloseReason>>, Written> {
        match piece {
            Piece::Texts(Texts { texts, bytes }) => {
                for text in texts {
                    // What was rendered is JSON, hence UTF-8.
                    let Ok(text) = ByteString::try_from(text) else { continue };
                    self.timed(sink.text(text)).await?;
                }
                self.shared.bytes.set(self.shared.bytes.get().saturating_sub(bytes));
            }
            Piece::Ping => self.timed(sink.ping()).await?,
            Piece::Pong(content) => self.timed(sink.pong(&content)).await?,
            Piece::Close(reason) => return Ok(Some(reason)),
        }
        Ok(None)
    }

    async fn timed(&self, write: impl Future<Output = Result<(), Closed>>) -> Result<(), Written> {
        match tokio::time::timeout(self.patience, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Closed)) => Err(Written::Gone),
            Err(_) => Err(Written::Cut),
        }
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
