//! A reply as it comes: bytes in, chunks out. Everything that one piece of the network brought is translated before anything is
//! waited for. May not know requests, statuses, or HTTP itself.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::Sleep;

use super::{Progress, Translate, silent, usage};
use crate::clock;
use crate::protocol::{CallError, CallErrorKind, Finish, Usage};
use crate::provider::Chunk;
use crate::sse::Decoder;

/// What may follow the last event, and for how long, so that the connection can be used again.
const REST_BYTES_MAX: usize = 64 << 10;
const REST_TIME_MAX: Duration = Duration::from_secs(1);

/// A model that said that it is done has so long to report its usage.
const SETTLE: Duration = Duration::from_secs(5);

/// A provider that sends only comments is waited for so many times as long as one that is silent.
const KEPT_OPEN_MAX: u32 = 10;

/// Bytes of the body, or why there are no more.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// One reply. Dropping it drops the body, which closes the connection unless the reply was complete.
pub struct Reply<T> {
    body: Option<Body>,
    decoder: Decoder,
    translator: T,
    chunks: VecDeque<Chunk>,
    /// Comes after the chunks.
    error: Option<CallError>,
    idle: Duration,
    silence: Option<Pin<Box<Sleep>>>,
    /// Whether `silence` began with the silence that lasts now.
    is_timing: bool,
    /// When the model last said something.
    heard: Instant,
}

impl<T: Translate> Reply<T> {
    /// A reply whose body may be silent for `idle`.
    pub fn new(body: Body, idle: Duration, translator: T) -> Self {
        Self {
            body: Some(body),
            decoder: Decoder::new(T::EVENT_BYTES_MAX),
            translator,
            chunks: VecDeque::new(),
            error: None,
            idle,
            silence: None,
            is_timing: false,
            heard: clock::instant(),
        }
    }

    /// Translates all events that `bytes` complete.
    fn read(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
        loop {
            let progress = match self.decoder.pull() {
                Ok(None) => return,
                Ok(Some(event)) => self.translator.read(event.name, event.data, &mut self.chunks),
                Err(error) => Err(CallError::new(CallErrorKind::Nonsense, error.to_string())),
            };
            match progress {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => return self.finish(true),
                Err(error) => return self.fail(error),
            }
        }
    }

    /// A model that only keeps the connection open is waited for longer, not for ever.
    fn check_heard(&mut self) {
        let longest = self.idle.saturating_mul(KEPT_OPEN_MAX);
        if !self.chunks.is_empty() {
            self.heard = clock::instant();
        } else if self.body.is_some() && clock::instant().duration_since(self.heard) > longest {
            let message = format!("the provider said nothing for {} s", longest.as_secs_f64());
            self.broke_off(CallError::new(CallErrorKind::TimedOut, message));
        }
    }

    /// The body ended. An event that only lacks its blank line still counts; half an event doesn't.
    fn ended(&mut self) {
        let mut chunks = VecDeque::new();
        let rest = self.decoder.finish().ok().flatten();
        match rest.map(|event| self.translator.read(event.name, event.data, &mut chunks)) {
            Some(Ok(progress)) => {
                self.chunks.append(&mut chunks);
                self.finish(progress == Progress::Done);
            }
            Some(Err(error)) if error.kind != CallErrorKind::Nonsense => self.fail(error),
            Some(Err(_)) | None => self.finish(false),
        }
    }

    /// Nothing more comes. That is fine when the model has said that it is done, else it is `error`.
    fn broke_off(&mut self, error: CallError) {
        let mut chunks = VecDeque::new();
        match self.translator.end(false, &mut chunks) {
            Err(end) if end.kind == CallErrorKind::Cut => self.fail(error),
            end => {
                self.chunks.append(&mut chunks);
                self.close(end);
            }
        }
    }

    fn finish(&mut self, said_done: bool) {
        let end = self.translator.end(said_done, &mut self.chunks);
        if let Some(body) = self.body.take().filter(|_| said_done && end.is_ok()) {
            release(body);
        }
        self.close(end);
    }

    fn fail(&mut self, error: CallError) {
        self.close(Err(error));
    }

    /// Nothing more is read; what was translated still comes, then the end.
    fn close(&mut self, end: Result<Finish, CallError>) {
        self.body = None;
        let usage = self.translator.take_usage().and_then(usage::believed);
        self.chunks.extend(usage.map(|usage| Chunk::Usage(Usage { provider: Some(T::SERVICE.to_owned()), ..usage })));
        match end {
            Ok(finish) => self.chunks.push_back(Chunk::Finished(finish)),
            Err(error) => {
                self.translator.give_up(&mut self.chunks);
                self.error = Some(error);
            }
        }
    }

    /// Waits until the body was silent for too long.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let limit = if self.translator.has_finished() { self.idle.min(SETTLE) } else { self.idle };
        if !std::mem::replace(&mut self.is_timing, true) {
            match &mut self.silence {
                Some(silence) => silence.set(tokio::time::sleep(limit)),
                None => self.silence = Some(Box::pin(tokio::time::sleep(limit))),
            }
        }
        match &mut self.silence {
            Some(silence) => silence.poll_unpin(context),
            None => Poll::Pending,
        }
    }
}

// Nothing in it is pinned to its place.
impl<T> Unpin for Reply<T> {}

impl<T: Translate> Stream for Reply<T> {
    type Item = Result<Chunk, CallError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reply = self.get_mut();
        loop {
            if let Some(chunk) = reply.chunks.pop_front() {
                return Poll::Ready(Some(Ok(chunk)));
            }
            let Some(body) = &mut reply.body else {
                return Poll::Ready(reply.error.take().map(Err));
            };
            match body.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(bytes))) => {
                    reply.is_timing = false;
                    reply.read(&bytes);
                    reply.check_heard();
                }
                Poll::Ready(Some(Err(reason))) => {
                    reply
                        .broke_off(CallError::new(CallErrorKind::Cut, format!("the stream broke off before the model was done: {reason}")));
                }
                Poll::Ready(None) => reply.ended(),
                Poll::Pending => {
                    ready!(reply.poll_silence(context));
                    reply.broke_off(silent(reply.idle));
                }
            }
        }
    }
}

/// Reads what follows the last event, so that the connection can be used again. Mostly it is there already.
fn release(mut body: Body) {
    let mut rest = Box::pin(tokio::time::timeout(REST_TIME_MAX, async move {
        let mut bytes = 0;
        while let Some(Ok(more)) = body.next().await {
            bytes += more.len();
            if bytes > REST_BYTES_MAX {
                break;
            }
        }
    }));
    if (&mut rest).now_or_never().is_none() {
        tokio::spawn(rest);
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("translator", &self.translator).finish_non_exhaustive()
    }
}
