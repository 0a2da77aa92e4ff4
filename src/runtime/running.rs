//! The running attempt of a model call: pulls whatever has been received, at once, into the reply in the making.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::StreamExt as _;

use super::Limits;
use super::counts::Timing;
use super::linear::Linear;
use super::pieces::Place;
use super::reply::Reply;
use crate::clock;
use crate::engine::{Effect, Finished, Maker, Tree};
use crate::ids::{ID_BYTES_MAX, Millis, SERVER_PREFIX, ToolCallId};
use crate::protocol::{CallError, CallErrorKind, CallRequest, Cursor, Event, Finish, Message, Usage, Writing};
use crate::provider::{Attempt, Chunk, Provider};

/// The most pieces that are pulled before readers are told.
const PULL_MAX: usize = 64;
/// The most pieces that wait while the call's start is made durable.
const WAITING_MAX: usize = 1024;

/// How an attempt ended.
pub type Ended = Result<Finish, CallError>;

/// The running attempt.
pub struct Running {
    effect: Effect,
    attempt: Attempt,
    /// Whether an agent makes it.
    by_agent: bool,
    reply: Reply,
    linear: Linear,
    waiting: Vec<Result<Chunk, CallError>>,
    /// What readers were told of the reply.
    told: Place,
    /// Position of the record that began the attempt.
    began: u64,
    bytes_left: usize,
    calls_left: usize,
    arguments_bytes_max: usize,
    timing: Timing,
}

impl Running {
    /// Starts an attempt. Its request is sent when it is first polled.
    pub fn start(
        effect: Effect,
        provider: Option<&dyn Provider>,
        request: CallRequest,
        reply: Reply,
        limits: &Limits,
        timing: Timing,
    ) -> Self {
        let by_agent = provider.is_some_and(Provider::is_agent);
        let attempt = if let Some(provider) = provider {
            provider.start(request)
        } else {
            let error = CallError::new(CallErrorKind::Refused, "the turn's agent isn't configured any more");
            futures_util::stream::iter([Err(error)]).boxed_local()
        };
        Self { by_agent, ..Self::over(effect, attempt, reply, limits, timing) }
    }

    /// Goes on with what an agent says.
    pub fn over(effect: Effect, attempt: Attempt, reply: Reply, limits: &Limits, timing: Timing) -> Self {
        let began = reply.cursor().seq;
        Self {
            effect,
            attempt,
            by_agent: true,
            reply,
            linear: Linear::default(),
            waiting: Vec::new(),
            told: Place::default(),
            began,
            bytes_left: limits.reply_bytes_max.get(),
            calls_left: limits.reply_calls_max.get(),
            arguments_bytes_max: limits.arguments_bytes_max.get(),
            timing,
        }
    }

    /// What it carries out.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Receives while nothing may be told yet. Never returns but to be polled again.
    pub async fn prefetch(running: Option<&mut Self>) {
        match running {
            Some(running) if running.waiting.len() < WAITING_MAX && !running.has_ended() => {
                if let Some(piece) = running.attempt.next().await {
                    if piece.is_ok() {
                        running.timing.spoke();
                    }
                    running.waiting.push(piece);
                } else {
                    running.waiting.push(Err(cut()));
                }
            }
            Some(_) | None => std::future::pending().await,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.waiting.last(), Some(Err(_) | Ok(Chunk::Finished(_) | Chunk::Next)))
    }

    /// Takes what was received meanwhile; how the attempt ended, if it did.
    pub fn drain(&mut self, tree: &Tree) -> Option<Ended> {
        let now = clock::now();
        let pieces = std::mem::take(&mut self.waiting);
        pieces.into_iter().find_map(|piece| self.take(piece, tree, now))
    }

    /// Waits for a piece, then takes all that are here; how the attempt ended, if it did. Safe to be dropped while it waits.
    pub async fn pull(&mut self, tree: &Tree) -> Option<Ended> {
        let first = self.attempt.next().await.unwrap_or_else(|| Err(cut()));
        let now = clock::now();
        if let Some(ended) = self.take(first, tree, now) {
            return Some(ended);
        }
        let mut yielded = false;
        for _ in 1..PULL_MAX {
            let ready = poll_fn(|context| Poll::Ready(self.attempt.poll_next_unpin(context))).await;
            match ready {
                Poll::Ready(piece) => {
                    yielded = false;
                    if let Some(ended) = self.take(piece.unwrap_or_else(|| Err(cut())), tree, now) {
                        return Some(ended);
                    }
                }
                Poll::Pending if yielded => break,
                Poll::Pending => {
                    yielded = true;
                    tokio::task::yield_now().await;
                }
            }
        }
        None
    }

    /// Waits likewise for a piece of an attempt, when there is one.
    pub async fn pull_some(running: Option<&mut Self>, tree: &Tree) -> Option<Ended> {
        match running {
            Some(running) => running.pull(tree).await,
            None => std::future::pending().await,
        }
    }

    fn take(&mut self, piece: Result<Chunk, CallError>, tree: &Tree, now: Millis) -> Option<Ended> {
        match piece {
            Err(error) => Some(Err(error)),
            Ok(chunk) => {
                self.timing.spoke();
                match self.bytes_left.checked_sub(bytes(&chunk)) {
                    Some(left) => self.bytes_left = left,
                    None => return Some(Err(too_much("the reply is larger than the limit"))),
                }
                let fresh = |given: Option<ToolCallId>, taken: &[ToolCallId]| {
                    // Clients send it back, and may not send a longer one.
                    let fits = |id: &ToolCallId| (1..=ID_BYTES_MAX).contains(&id.as_str().len());
                    let free = |id: &ToolCallId| fits(id) && tree.call(id).is_none() && !taken.contains(id);
                    given.filter(free).unwrap_or_else(fresh_call)
                };
                let index = match &chunk {
                    Chunk::ToolCall { .. } => match self.calls_left.checked_sub(1) {
                        Some(left) => {
                            self.calls_left = left;
                            None
                        }
                        None => return Some(Err(too_much("the reply asks for more tool calls than the limit"))),
                    },
                    Chunk::ToolArguments { index, .. } => Some(*index),
                    Chunk::Text(_)
                    | Chunk::Reasoning(_)
                    | Chunk::Encrypted { .. }
                    | Chunk::Usage(_)
                    | Chunk::ToolResult { .. }
                    | Chunk::State(_)
                    | Chunk::Interrupt { .. }
                    | Chunk::Next
                    | Chunk::Finished(_) => None,
                };
                self.linear.push(chunk);
                while let Some(chunk) = self.linear.pop() {
                    self.reply.take(chunk, now, fresh);
                }
                if index.is_some_and(|index| self.reply.arguments_bytes(index) > self.arguments_bytes_max) {
                    return Some(Err(too_much("the arguments of a tool call are larger than the limit")));
                }
                self.reply.finish().map(Ok)
            }
        }
    }

    /// What readers haven't been told yet.
    pub fn told(&mut self) -> Vec<Event> {
        let told = std::mem::replace(&mut self.told, self.reply.end());
        self.reply.since(told)
    }

    /// A record was told, and the call goes on.
    pub fn pass(&mut self, seq: u64) {
        self.reply.pass(seq);
    }

    /// Whether a reader with this cursor was told so much of this attempt, and no more than there is.
    pub fn holds(&self, cursor: Cursor) -> bool {
        let told = self.cursor().within.map_or(0, |(_, told)| told);
        cursor.seq >= self.began && cursor.within.is_none_or(|(attempt, n)| attempt == self.reply.attempt() && n <= told)
    }

    /// Whether a reader with this cursor was told more than there is.
    pub fn is_behind(&self, cursor: Cursor) -> bool {
        cursor.seq >= self.began
            && cursor.within.is_some_and(|within| within > (self.reply.attempt(), self.cursor().within.map_or(0, |(_, told)| told)))
    }

    /// What a reader with this cursor, which [holds](Self::holds), is still to be told of the reply: about so many bytes of it.
    pub fn since(&self, cursor: Cursor, bytes: usize) -> Vec<Event> {
        self.reply.part_since(self.reply.place(cursor.within.map_or(0, |(_, told)| told)), bytes)
    }

    /// The end of whatever readers have seen open.
    pub fn closing(&self, at: Millis) -> Option<Event> {
        self.reply.ended(at)
    }

    /// The reply so far.
    pub fn message(&self) -> Message {
        self.reply.message()
    }

    /// The reply so far, if any of it was shown.
    pub fn written(&self) -> Option<Message> {
        self.reply.was_shown().then(|| self.reply.message())
    }

    /// The reply so far, for a reader that joins.
    pub fn joined(&self) -> Option<(Message, Writing)> {
        self.reply.joined()
    }

    /// The reply as it is recorded.
    pub fn finished(&self, finish: Finish) -> Finished {
        let maker = if self.by_agent { Maker::Agent { goes_on: self.reply.goes_on() } } else { Maker::Model };
        let of_model = Finished::of_model(self.reply.message(), finish, self.reply.usage());
        let (results, state, interrupts) = (self.reply.results(), self.reply.state(), self.reply.interrupts());
        Finished { results, state, interrupts, maker, ..of_model }
    }

    /// What its agent says next, when it goes on.
    pub fn rest(self) -> Option<Attempt> {
        self.reply.goes_on().then_some(self.attempt)
    }

    /// Tokens, as reported.
    pub fn usage(&self) -> Option<Usage> {
        self.reply.usage()
    }

    /// How long it took.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// It ended, well or with a failure.
    pub fn ended(&mut self, failure: Option<CallErrorKind>) {
        self.timing.ended(failure, self.reply.usage().as_ref());
    }

    /// Where a reader is that has been told everything.
    pub fn cursor(&self) -> Cursor {
        self.reply.cursor()
    }
}

/// A name for a call. Not under our own prefix: front ends make their results' ids of it, as `<call>:tool`.
fn fresh_call() -> ToolCallId {
    clock::stamp().id(0).replacen(SERVER_PREFIX, "call_", 1).into()
}

fn bytes(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Text(text) | Chunk::Reasoning(text) | Chunk::ToolArguments { delta: text, .. } => text.len(),
        Chunk::ToolCall { name, .. } => name.len(),
        Chunk::Encrypted { value, .. } => value.len(),
        Chunk::ToolResult { content, error, .. } => content.len() + error.as_ref().map_or(0, String::len),
        Chunk::State(state) => state.get().len(),
        Chunk::Usage(_) | Chunk::Interrupt { .. } | Chunk::Next | Chunk::Finished(_) => 0,
    }
}

fn too_much(what: &str) -> CallError {
    CallError::new(CallErrorKind::Nonsense, what)
}

fn cut() -> CallError {
    CallError::new(CallErrorKind::Cut, "the model's stream ended in the middle")
}
