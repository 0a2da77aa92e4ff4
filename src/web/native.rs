//! Native events as server-sent events, and the stream of one submit: what was accepted, then its turn's events up to one terminal.
//! May not know the engine.

use std::sync::Arc;

use actix_web::web::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::ids::TurnId;
use crate::protocol::{Code, Cursor, Event, EventBody, Framed, Frames, Refusal};
use crate::runtime::{Batch, Following, ReadEnd, Reader, Submitted, TurnEnd};

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
    reader: Option<Reader>,
    draining: CancellationToken,
    end: Option<&'static str>,
}

impl TurnStream {
    /// The stream of what was submitted.
    pub(super) fn new(submitted: Submitted, draining: CancellationToken) -> Self {
        let Submitted { accepted, snapshot, cursor, following } = submitted;
        let mut ready = BytesMut::new();
        frame(&mut ready, Some("accepted"), Some(cursor), &accepted);
        let mut tell = |body| ready.extend_from_slice(&render(&[Event { cursor: None, at: clock::now(), body }]).sse);
        if let Some(snapshot) = snapshot {
            tell(EventBody::Resync(snapshot));
        }
        let (reader, end) = match following {
            Following::Running(reader) => (Some(reader), None),
            Following::Ended(end) => {
                let word = described(&end);
                tell(terminal(accepted.turn_id.clone(), end));
                (None, Some(word))
            }
        };
        Self { turn: accepted.turn_id, ready, reader, draining, end }
    }

    /// How it ended, in one word, once that was handed out.
    pub(super) fn end(&self) -> Option<&'static str> {
        self.end.filter(|_| self.ready.is_empty())
    }

    /// Everything that is ready, at least something; nothing after the terminal. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            let reader = self.reader.as_mut()?;
            match reader.next().await {
                Ok(batch) => self.take(&batch),
                Err(why) => self.lost(why),
            }
        }
        while let Some(batch) = self.reader.as_mut().and_then(Reader::try_next) {
            self.take(&batch);
        }
        Some(self.ready.split().freeze())
    }

    fn take(&mut self, batch: &Arc<Batch>) {
        self.ready.extend_from_slice(&rendered(batch));
        if let Some(word) = batch.events.iter().find_map(|event| ended(&event.body, &self.turn)) {
            self.reader = None;
            self.end = Some(word);
        }
    }

    fn lost(&mut self, why: ReadEnd) {
        let refusal = match why {
            ReadEnd::Slow => Refusal::new(Code::TooSlow, "this reader fell too far behind; the turn goes on"),
            ReadEnd::Closed if self.draining.is_cancelled() => shutting_down(),
            ReadEnd::Closed => given_up(Code::Internal),
            ReadEnd::Failed(code) => given_up(code),
        };
        self.reader = None;
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
    }
}

/// The event that tells of an end.
fn terminal(turn_id: TurnId, end: TurnEnd) -> EventBody {
    match end {
        TurnEnd::Completed => EventBody::TurnCompleted { turn_id },
        TurnEnd::Failed { code, message } => EventBody::TurnFailed { turn_id, code, message },
        TurnEnd::Cancelled => EventBody::TurnCancelled { turn_id, reason: None, messages: Vec::new() },
        TurnEnd::Waiting { calls } => EventBody::TurnWaiting { turn_id, calls },
    }
}

/// Whether an event ends the stream of `turn`, and how.
fn ended(event: &EventBody, turn: &TurnId) -> Option<&'static str> {
    match event {
        EventBody::TurnCompleted { turn_id } if turn_id == turn => Some("completed"),
        EventBody::TurnFailed { turn_id, .. } if turn_id == turn => Some("failed"),
        EventBody::TurnCancelled { turn_id, .. } if turn_id == turn => Some("cancelled"),
        EventBody::TurnWaiting { turn_id, .. } if turn_id == turn => Some("waiting"),
        EventBody::TurnCompleted { .. }
        | EventBody::TurnFailed { .. }
        | EventBody::TurnCancelled { .. }
        | EventBody::TurnWaiting { .. }
        | EventBody::TurnQueued { .. }
        | EventBody::TurnJoined { .. }
        | EventBody::TurnStarted { .. }
        | EventBody::TurnRecovered { .. }
        | EventBody::SessionCreated { .. }
        | EventBody::SessionForked { .. }
        | EventBody::SessionUpdated { .. }
        | EventBody::MessageNew { .. }
        | EventBody::HeadMoved { .. }
        | EventBody::CallStarted { .. }
        | EventBody::CallCompleted { .. }
        | EventBody::CallFailed { .. }
        | EventBody::CallVoided { .. }
        | EventBody::Live(_)
        | EventBody::Resync(_) => None,
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
