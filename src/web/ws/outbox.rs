//! What waits to be written to one socket, and the task that writes it. Bounded in pieces and bytes; whoever tells a run waits for room,
//! so that what a slow socket doesn't take waits with its reader, where it is put together. A socket that takes nothing is cut.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use actix_web::rt::task::JoinHandle;
use actix_web::web::Bytes;
use actix_ws::{CloseReason, Closed, Session};
use bytestring::ByteString;
use local_channel::mpsc::{self, Receiver, Sender};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::super::Options;
use super::super::flow::Flow;
use super::super::run::Chunk;
use super::super::server::Cutter;
use super::close;
use super::envelope::Envelope;
use crate::protocol::{Cursor, Frames};

/// The texts of frames that are ready together.
#[derive(Debug, Default)]
pub(super) struct Texts {
    envelope: Envelope,
    list: Vec<Text>,
    /// The last one's.
    cursor: Option<Bytes>,
    bytes: usize,
}

/// One text frame.
#[derive(Debug)]
struct Text {
    text: Bytes,
    /// Where a reader that got it may go on.
    cursor: Option<Bytes>,
}

impl Texts {
    /// None yet; each will be in this envelope.
    pub(super) fn within(envelope: Envelope) -> Self {
        Self { envelope, ..Self::default() }
    }

    /// The last place after which a reader of them may go on.
    pub(super) fn cursor(&self) -> Option<Cursor> {
        std::str::from_utf8(self.cursor.as_ref()?).ok()?.parse().ok()
    }

    /// Adds texts as they are.
    pub(super) fn append(&mut self, texts: Self) {
        self.bytes += texts.bytes;
        self.list.extend(texts.list);
    }
}

impl Chunk for Texts {
    fn add(&mut self, frames: &Frames) {
        for (framed, text) in frames.events.iter().zip(self.envelope.texts(frames)) {
            let cursor = framed.cursor.clone().map(|cursor| frames.sse.slice(cursor));
            if cursor.is_some() {
                self.cursor.clone_from(&cursor);
            }
            self.bytes += text.len();
            self.list.push(Text { text, cursor: cursor.filter(|_| self.envelope.is_of_one_session()) });
        }
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(feature = "echo")]
impl Texts {
    /// This text, as it is.
    pub(super) fn one(text: Bytes) -> Self {
        Self { bytes: text.len(), list: vec![Text { text, cursor: None }], ..Self::default() }
    }
}

impl From<Frames> for Texts {
    fn from(frames: Frames) -> Self {
        let mut texts = Self::default();
        texts.add(&frames);
        texts
    }
}

/// Whoever tells a run goes on while less than so many bytes wait.
const READY_BYTES: usize = 16 << 10;

/// One thing to write.
#[derive(Debug)]
enum Piece {
    /// What comes next is another run's.
    Begin,
    Texts(Texts),
    #[cfg(feature = "echo")]
    Binary(Bytes),
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
    sender: Sender<Piece>,
    shared: Rc<Shared>,
}

struct Shared {
    pieces: Cell<usize>,
    pieces_max: usize,
    bytes: Cell<usize>,
    bytes_max: usize,
    /// Notified when something was written.
    written: Notify,
    hurry: CancellationToken,
    last: RefCell<Option<CloseReason>>,
    /// Where the reader of the run that is told may go on.
    cursor: RefCell<Option<Bytes>>,
}

impl Outbox {
    /// What comes next is another run's.
    pub(super) fn begin(&self) -> Result<(), Full> {
        self.push(Piece::Begin)
    }

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

    /// Waits until little is waiting. For ever, when the socket is gone.
    pub(super) async fn room(&self) {
        while !self.has_room() {
            self.shared.written.notified().await;
        }
    }

    /// Adds a binary frame.
    #[cfg(feature = "echo")]
    pub(super) fn binary(&self, content: Bytes) -> Result<(), Full> {
        self.push(Piece::Binary(content))
    }

    /// Adds texts as soon as there is room for them, however large they are. For ever, when the socket is gone.
    pub(super) async fn in_time(&self, texts: Texts) -> Result<(), Full> {
        self.room_for(texts.bytes).await;
        self.texts(texts)
    }

    /// Waits until there is room for texts of so many bytes, however many that are. For ever, when the socket is gone.
    pub(super) async fn room_for(&self, bytes: usize) {
        let fits = || {
            let waiting = self.shared.bytes.get();
            waiting == 0 || waiting + bytes <= self.shared.bytes_max
        };
        while !self.has_room() || !fits() {
            self.shared.written.notified().await;
        }
    }

    fn has_room(&self) -> bool {
        self.shared.bytes.get() < READY_BYTES && self.shared.pieces.get() < self.shared.pieces_max.div_ceil(2)
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
        let pieces = self.shared.pieces.get();
        if pieces >= self.shared.pieces_max {
            return Err(Full);
        }
        self.sender.send(piece).map_err(|_| Full)?;
        self.shared.pieces.set(pieces + 1);
        Ok(())
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
    #[cfg(feature = "echo")]
    async fn binary(&mut self, content: Bytes) -> Result<(), Closed>;
    async fn ping(&mut self) -> Result<(), Closed>;
    async fn pong(&mut self, content: &[u8]) -> Result<(), Closed>;
    async fn close(self, reason: Option<CloseReason>) -> Result<(), Closed>;
}

struct Wire(Session, Rc<Flow>);

impl Sink for Wire {
    async fn text(&mut self, text: ByteString) -> Result<(), Closed> {
        self.1.room().await;
        self.1.put(text.len());
        self.0.text(text).await
    }

    #[cfg(feature = "echo")]
    async fn binary(&mut self, content: Bytes) -> Result<(), Closed> {
        self.1.room().await;
        self.1.put(content.len());
        self.0.binary(content).await
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
pub(super) fn open(session: Session, flow: Rc<Flow>, cutter: Option<Cutter>, options: &Options) -> (Outbox, JoinHandle<Written>) {
    let (outbox, receiver) = channel(options);
    let watched = flow.clone();
    let progress = Box::new(move || watched.pieces());
    let writer = Writer { receiver, shared: outbox.shared.clone(), patience: options.write(), progress };
    let task = actix_web::rt::spawn(async move {
        let written = writer.run(Wire(session, flow)).await;
        if written == Written::Cut
            && let Some(cutter) = cutter
        {
            cutter.cut();
        }
        written
    });
    (outbox, task)
}

fn channel(options: &Options) -> (Outbox, Receiver<Piece>) {
    // Takes no memory as long as nothing waits.
    let (sender, receiver) = mpsc::channel();
    let shared = Rc::new(Shared {
        pieces: Cell::new(0),
        pieces_max: options.outbox_batches_max.max(8),
        bytes: Cell::new(0),
        bytes_max: options.outbox_bytes_max,
        written: Notify::new(),
        hurry: CancellationToken::new(),
        last: RefCell::new(None),
        cursor: RefCell::new(None),
    });
    (Outbox { sender, shared }, receiver)
}

struct Writer {
    receiver: Receiver<Piece>,
    shared: Rc<Shared>,
    patience: Duration,
    /// Grows as long as the peer reads.
    progress: Box<dyn Fn() -> u64>,
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
            self.shared.pieces.update(|pieces| pieces - 1);
            let written = tokio::select! {
                biased;
                () = hurry.cancelled() => break,
                written = self.write(&mut sink, piece) => written,
            };
            self.shared.written.notify_waiters();
            match written {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    *self.shared.last.borrow_mut() = reason;
                    break;
                }
                Err(end) => return end,
            }
        }
        // What waits isn't written any more.
        drop(self.receiver);
        let last = self.shared.last.take().map(|reason| close::after(reason, self.shared.cursor.take().as_deref()));
        match tokio::time::timeout(self.patience, sink.close(last)).await {
            Ok(Ok(())) => Written::Closed,
            Ok(Err(Closed)) => Written::Gone,
            Err(_) => Written::Cut,
        }
    }

    /// Writes one piece; hands a close back.
    async fn write(&self, sink: &mut impl Sink, piece: Piece) -> Result<Option<Option<CloseReason>>, Written> {
        match piece {
            Piece::Texts(Texts { list, bytes, .. }) => {
                for Text { text, cursor } in list {
                    // What was rendered is JSON, hence UTF-8.
                    let Ok(text) = ByteString::try_from(text) else { continue };
                    self.timed(sink.text(text)).await?;
                    if cursor.is_some() {
                        self.shared.cursor.replace(cursor);
                    }
                }
                self.shared.bytes.set(self.shared.bytes.get().saturating_sub(bytes));
            }
            #[cfg(feature = "echo")]
            Piece::Binary(content) => self.timed(sink.binary(content)).await?,
            Piece::Ping => self.timed(sink.ping()).await?,
            Piece::Pong(content) => self.timed(sink.pong(&content)).await?,
            Piece::Begin => drop(self.shared.cursor.take()),
            Piece::Close(reason) => return Ok(Some(reason)),
        }
        Ok(None)
    }

    /// Writes, as long as the peer goes on reading.
    async fn timed(&self, write: impl Future<Output = Result<(), Closed>>) -> Result<(), Written> {
        let mut write = pin!(write);
        loop {
            let before = (self.progress)();
            match tokio::time::timeout(self.patience, &mut write).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(Closed)) => return Err(Written::Gone),
                Err(_) if (self.progress)() != before => {}
                Err(_) => return Err(Written::Cut),
            }
        }
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
