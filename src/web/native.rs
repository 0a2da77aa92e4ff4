//! Native events as server-sent events, and the stream of one submit: what was accepted, then its turn's events up to one terminal.
//! May not know the engine.

use std::sync::Arc;

use actix_web::web::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::run::CHUNK_BYTES;
use crate::clock;
use crate::ids::{SessionKey, TurnId};
use crate::protocol::{Code, Cursor, Event, EventBody, Framed, Frames, Refusal};
use crate::runtime::{Batch, Following, ReadEnd, Reader, Runtime, SessionEvents, StreamEnd, Submitted, TurnEnd};

/// A batch's rendering in native JSON; AG-UI's dialects have the places before it.
const RENDERING: usize = 2;

/// A batch as frames, one an event, which its readers share.
pub(super) fn frames(batch: &Batch) -> &Frames {
    batch.rendered(RENDERING, render)
}

/// A batch as server-sent events.
pub(super) fn rendered(batch: &Batch) -> Bytes {
    frames(batch).sse.clone()
}

/// Native events as frames: `id:` where a reader may resume, `data:` the event.
fn render(events: &[Event]) -> Frames {
    let mut sse = BytesMut::with_capacity(events.len() * 160);
    let events = events.iter().map(|event| frame(&mut sse, None, event.cursor, event)).collect();
    Frames { sse: sse.freeze(), events }
}

/// One frame; where it stands.
fn frame(sse: &mut BytesMut, name: Option<&str>, cursor: Option<Cursor>, data: &impl Serialize) -> Framed {
    if let Some(name) = name {
        sse.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    let cursor = cursor.map(|cursor| {
        sse.extend_from_slice(b"id: ");
        let start = sse.len();
        sse.extend_from_slice(cursor.to_string().as_bytes());
        let end = sse.len();
        sse.extend_from_slice(b"\n");
        start..end
    });
    sse.extend_from_slice(b"data: ");
    let start = sse.len();
    // Plain data on one line: writing it to memory can't fail.
    let written = serde_json::to_writer(sse.writer(), data);
    debug_assert!(written.is_ok(), "an event must be writable: {written:?}");
    let end = sse.len();
    sse.extend_from_slice(b"\n\n");
    Framed { cursor, json: start..end }
}

/// A frame with a name of its own.
pub(super) fn named(name: &str, cursor: Option<Cursor>, data: &impl Serialize) -> Bytes {
    let mut sse = BytesMut::new();
    frame(&mut sse, Some(name), cursor, data);
    sse.freeze()
}

/// The last frame of a stream that ends before its time.
pub(super) fn refusal(refusal: &Refusal) -> Bytes {
    named("refusal", None, refusal)
}

/// What a stream that the server ends says.
pub(super) fn shutting_down() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the server stops; what was accepted is kept, and its events can be read from the last id on")
}

/// What became of a submit, as its frames come.
pub(super) struct TurnStream {
    turn: TurnId,
    ready: BytesMut,
    source: Option<Source>,
    /// What its reader has, once the turn has begun.
    at: Option<Cursor>,
    /// Where a reader that fell behind finds the rest.
    log: Option<(Runtime, SessionKey)>,
    draining: CancellationToken,
    end: Option<&'static str>,
}

/// Where its events come from.
enum Source {
    /// What is told to those who follow the turn.
    Turn(Reader),
    /// The session's log, and what is told from its end on.
    Log(Box<SessionEvents>),
}

impl Source {
    async fn next(&mut self) -> Result<Arc<Batch>, ReadEnd> {
        match self {
            Self::Turn(reader) => reader.next().await,
            Self::Log(events) => events.next().await.map(|told| told.batch).map_err(|end| match end {
                StreamEnd::Closed => ReadEnd::Closed,
                StreamEnd::Failed(code) => ReadEnd::Failed(code),
            }),
        }
    }

    fn try_next(&mut self) -> Option<Arc<Batch>> {
        match self {
            Self::Turn(reader) => reader.try_next(),
            Self::Log(_) => None,
        }
    }
}

impl TurnStream {
    /// The stream of what was submitted.
    pub(super) fn new(submitted: Submitted, draining: CancellationToken) -> Self {
        let Submitted { accepted, snapshot, state, room, cursor, following } = submitted;
        let mut ready = BytesMut::new();
        frame(&mut ready, Some("accepted"), Some(cursor), &accepted);
        let mut tell = |body| ready.extend_from_slice(&render(&[Event { cursor: None, at: clock::now(), body }]).sse);
        if let Some(snapshot) = snapshot {
            tell(EventBody::Resync(snapshot));
        }
        if state.is_some() {
            tell(EventBody::StateUpdated { state, patch: None });
        }
        for event in room {
            tell(event.body);
        }
        let (source, end) = match following {
            Following::Running(reader) => (Some(Source::Turn(reader)), None),
            Following::Ended(end) => {
                let word = described(&end);
                tell(terminal(accepted.turn_id.clone(), end));
                (None, Some(word))
            }
        };
        let at = (!accepted.queued).then_some(cursor);
        Self { turn: accepted.turn_id, ready, source, at, log: None, draining, end }
    }

    /// The same, of a session of `runtime`: a reader that falls behind goes on from its log.
    pub(super) fn of(self, runtime: &Runtime, key: SessionKey) -> Self {
        Self { log: Some((runtime.clone(), key)), ..self }
    }

    /// How it ended, in one word, once that was handed out.
    pub(super) fn end(&self) -> Option<&'static str> {
        self.end.filter(|_| self.ready.is_empty())
    }

    /// Everything that is ready, at least something; nothing after the terminal. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            match self.source.as_mut()?.next().await {
                Ok(batch) => self.take(&batch),
                Err(ReadEnd::Slow) => self.catch_up().await,
                Err(why) => self.lost(why),
            }
        }
        while self.ready.len() < CHUNK_BYTES
            && let Some(batch) = self.source.as_mut().and_then(Source::try_next)
        {
            self.take(&batch);
        }
        Some(self.ready.split().freeze())
    }

    /// The reader fell behind: it goes on from the log.
    async fn catch_up(&mut self) {
        let events = match (&self.log, self.at) {
            (Some((runtime, key)), Some(at)) => runtime.catch_up_whole(key, &self.turn, at).await.map_err(|refusal| refusal.code),
            (Some(_) | None, _) => Err(Code::TooSlow),
        };
        match events {
            Ok(events) => self.source = Some(Source::Log(Box::new(events))),
            Err(Code::ShuttingDown) => self.lost(ReadEnd::Closed),
            Err(code @ Code::SessionDeleted) => self.lost(ReadEnd::Failed(code)),
            Err(_) => self.lost(ReadEnd::Slow),
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.at = batch.events.iter().rev().find_map(|event| event.cursor).or(self.at);
        let end = batch.events.iter().enumerate().find_map(|(at, event)| Some((at, ended(&event.body, &self.turn)?)));
        match end {
            // In the log other turns may follow.
            Some((last, _)) if last + 1 < batch.events.len() => self.ready.extend_from_slice(&render(&batch.events[..=last]).sse),
            Some(_) | None => self.ready.extend_from_slice(&rendered(batch)),
        }
        if let Some((_, word)) = end {
            self.source = None;
            self.end = Some(word);
        }
    }

    fn lost(&mut self, why: ReadEnd) {
        let refusal = match why {
            ReadEnd::Slow => {
                super::error::slow("session");
                Refusal::new(Code::TooSlow, "this reader fell too far behind; the turn goes on")
            }
            ReadEnd::Closed if self.draining.is_cancelled() => shutting_down(),
            ReadEnd::Closed => given_up(Code::Internal),
            ReadEnd::Failed(code) => given_up(code),
        };
        self.source = None;
        self.end = Some(refusal.code.as_str());
        self.ready.extend_from_slice(&self::refusal(&refusal));
    }
}

/// What a stream says whose session was given up.
pub(super) fn given_up(code: Code) -> Refusal {
    let text = if code == Code::SessionDeleted {
        "the session was erased"
    } else {
        "the session was given up after a fault; what was accepted is kept, and its events can be read from the last id on"
    };
    Refusal::new(code, text)
}

fn described(end: &TurnEnd) -> &'static str {
    match end {
        TurnEnd::Completed => "completed",
        TurnEnd::Failed { .. } => "failed",
        TurnEnd::Cancelled => "cancelled",
        TurnEnd::Waiting { .. } => "waiting",
        TurnEnd::Interrupted { .. } => "interrupted",
    }
}

/// The event that tells of an end.
fn terminal(turn_id: TurnId, end: TurnEnd) -> EventBody {
    match end {
        TurnEnd::Completed => EventBody::TurnCompleted { turn_id },
        TurnEnd::Failed { code, message } => EventBody::TurnFailed { turn_id, code, message },
        TurnEnd::Cancelled => EventBody::TurnCancelled { turn_id, reason: None, messages: Vec::new() },
        TurnEnd::Waiting { calls } => EventBody::TurnWaiting { turn_id, calls },
        TurnEnd::Interrupted { interrupts } => EventBody::SessionInterrupted { turn_id, interrupts },
    }
}

/// Whether an event ends the stream of `turn`, and how.
fn ended(event: &EventBody, turn: &TurnId) -> Option<&'static str> {
    match event {
        EventBody::TurnCompleted { turn_id } if turn_id == turn => Some("completed"),
        EventBody::TurnFailed { turn_id, .. } if turn_id == turn => Some("failed"),
        EventBody::TurnCancelled { turn_id, .. } if turn_id == turn => Some("cancelled"),
        EventBody::TurnWaiting { turn_id, .. } if turn_id == turn => Some("waiting"),
        EventBody::SessionInterrupted { turn_id, .. } if turn_id == turn => Some("interrupted"),
        EventBody::TurnCompleted { .. }
        | EventBody::TurnFailed { .. }
        | EventBody::TurnCancelled { .. }
        | EventBody::TurnWaiting { .. }
        | EventBody::TurnQueued { .. }
        | EventBody::TurnJoined { .. }
        | EventBody::TurnStarted { .. }
        | EventBody::TurnRecovered { .. }
        | EventBody::SessionInterrupted { .. }
        | EventBody::InterruptResumed { .. }
        | EventBody::TurnSuspended { .. }
        | EventBody::SessionCreated { .. }
        | EventBody::SessionForked { .. }
        | EventBody::SessionUpdated { .. }
        | EventBody::MessageNew { .. }
        | EventBody::HeadMoved { .. }
        | EventBody::CallStarted { .. }
        | EventBody::CallCompleted { .. }
        | EventBody::CallFailed { .. }
        | EventBody::CallVoided { .. }
        | EventBody::ContextLimited { .. }
        | EventBody::ContextReplaced { .. }
        | EventBody::ContextKept { .. }
        | EventBody::DecisionAsked { .. }
        | EventBody::DecisionAnswered { .. }
        | EventBody::DecisionFailed { .. }
        | EventBody::ToolCallStarted { .. }
        | EventBody::ToolCallCompleted { .. }
        | EventBody::ToolCallFailed { .. }
        | EventBody::StateUpdated { .. }
        | EventBody::AgentUpdated { .. }
        | EventBody::Custom { .. }
        | EventBody::ArrivalQueued { .. }
        | EventBody::ArrivalConsumed { .. }
        | EventBody::Live(_)
        | EventBody::Resync(_) => None,
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
