//! One run's events from any place in it: what the log holds becomes again what was told while it was made, piece by piece under
//! the same cursors; then what happens. May not know AG-UI.

use std::sync::Arc;

use super::bus::Batch;
use super::events::{EventStream, StreamEnd};
use super::pieces::{Pieces, size};
use super::runs::unknown_cursor;
use crate::ids::{NodeId, SessionKey, ToolCallId, TurnId};
use crate::protocol::{Code, Cursor, Event, EventBody, Live, Message, Refusal};

/// Events of a run.
#[derive(Debug)]
pub struct Told {
    /// These.
    pub batch: Arc<Batch>,
    /// Whether they were told to others before: then the first of them may begin before the reader's place, in marks that are told
    /// together.
    pub past: bool,
}

/// A run's events.
#[derive(Debug)]
pub struct RunEvents {
    stream: EventStream,
    replay: Replay,
    first: Option<Told>,
}

impl RunEvents {
    pub(super) fn new(stream: EventStream, replay: Replay) -> Self {
        Self { stream, replay, first: None }
    }

    /// The next events, at least one. The last of all is the run's end. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Result<Told, StreamEnd> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        loop {
            if let Some(told) = self.step().await? {
                return Ok(told);
            }
        }
    }

    /// Events that are here already.
    pub fn try_next(&mut self) -> Option<Told> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let batch = self.stream.try_step()?;
        self.replay.follow(&batch);
        Some(Told { batch, past: false })
    }

    async fn step(&mut self) -> Result<Option<Told>, StreamEnd> {
        if self.replay.ended {
            return Err(StreamEnd::Closed);
        }
        let live = self.stream.is_live();
        let batch = self.stream.step().await?;
        if batch.events.is_empty() {
            return Ok(None);
        }
        if live {
            self.replay.follow(&batch);
            return Ok(Some(Told { batch, past: false }));
        }
        let events = self.replay.past(&batch.events)?;
        Ok((!events.is_empty()).then(|| Told { batch: Arc::new(Batch::new(events)), past: true }))
    }

    /// Reads as far as the first thing to tell, or up to now. `waiting`: the turn waits for these calls, and nothing will happen.
    pub(super) async fn find(&mut self, waiting: Option<Vec<ToolCallId>>) -> Result<(), StreamEnd> {
        while self.first.is_none() && !self.stream.is_live() {
            self.first = self.step().await?;
        }
        if let (None, Some(calls)) = (&self.first, waiting) {
            self.first = self.replay.wait(calls).map(|end| Told { batch: Arc::new(Batch::new(vec![end])), past: true });
        }
        Ok(())
    }

    /// The record that began it.
    pub(super) fn began(&self) -> Option<u64> {
        self.replay.began
    }

    /// The node below which its first node stands; none: it has no node yet.
    #[expect(clippy::option_option, reason = "below nothing, and nothing yet, are different")]
    pub(super) fn stands_on(&mut self) -> Option<Option<NodeId>> {
        self.replay.stands_on.take()
    }
}

impl StreamEnd {
    pub(super) fn refusal(self, key: &SessionKey) -> Refusal {
        match self {
            Self::Failed(Code::CursorUnknown) => unknown_cursor("it stands in a reply that was given up, or nowhere"),
            Self::Failed(code) => Refusal::new(code, format!("the session {} can't be read", key.session)),
            Self::Closed => super::shared::stopping(),
        }
    }
}

/// Goes through a run's events, and knows what its reader has.
#[derive(Debug)]
pub(super) struct Replay {
    turn: TurnId,
    /// The name under which the turn went on with this run; none: the turn's first run.
    name: Option<TurnId>,
    /// What the reader has.
    after: Option<Cursor>,
    /// The record that began the run.
    began: Option<u64>,
    #[expect(clippy::option_option, reason = "below nothing, and nothing yet, are different")]
    stands_on: Option<Option<NodeId>>,
    /// Whether it asked a model.
    asked: bool,
    call: Option<Attempt>,
    ended: bool,
}

/// An attempt of a model call.
#[derive(Debug)]
struct Attempt {
    began: u64,
    number: u32,
    reply_id: NodeId,
    kept: bool,
}

/// The reader has something that isn't there any more.
const GONE: StreamEnd = StreamEnd::Failed(Code::CursorUnknown);

impl Replay {
    /// A run of `turn`: the first, or that which `name` began. Its reader has everything up to `after`.
    pub(super) fn new(turn: TurnId, name: Option<TurnId>, after: Option<Cursor>) -> Self {
        Self { turn, name, after, began: None, stands_on: None, asked: false, call: None, ended: false }
    }

    /// Of every run of a session, whose reader has everything up to `after`.
    pub(super) fn of_session(after: Cursor) -> Self {
        Self { began: Some(0), ..Self::new(TurnId::from(""), None, Some(after)) }
    }

    /// What of the log, or of the reply in the making so far, the reader of a session doesn't have.
    pub(super) fn past_of_session(&mut self, events: &[Event]) -> Result<Vec<Event>, StreamEnd> {
        let mut rest = Vec::new();
        for event in events {
            let has = event.cursor.is_some_and(|cursor| self.after.is_some_and(|after| cursor <= after));
            match &event.body {
                EventBody::MessageNew { message: Some(message), shown_id: Some(id), .. } => {
                    if let Some(call) = self.call.as_mut().filter(|call| call.reply_id == *id) {
                        call.kept = true;
                        self.reply(event, message, &mut rest)?;
                    }
                    rest.extend((!has).then(|| event.clone()));
                }
                EventBody::Live(live) => self.live(event, live, &mut rest)?,
                EventBody::CallFailed { .. } | EventBody::CallVoided { .. } if self.holds_what_is_gone(event) => return Err(GONE),
                EventBody::Resync(_) => return Err(GONE),
                EventBody::MessageNew { .. }
                | EventBody::CallStarted { .. }
                | EventBody::CallCompleted { .. }
                | EventBody::CallFailed { .. }
                | EventBody::CallVoided { .. }
                | EventBody::TurnQueued { .. }
                | EventBody::TurnStarted { .. }
                | EventBody::TurnJoined { .. }
                | EventBody::TurnWaiting { .. }
                | EventBody::TurnCompleted { .. }
                | EventBody::TurnFailed { .. }
                | EventBody::TurnCancelled { .. }
                | EventBody::TurnRecovered { .. }
                | EventBody::HeadMoved { .. }
                | EventBody::SessionCreated { .. }
                | EventBody::SessionForked { .. }
                | EventBody::SessionUpdated { .. } => rest.extend((!has).then(|| event.clone())),
            }
            self.call_of(event);
        }
        self.after = rest.iter().rev().find_map(|event| event.cursor).or(self.after);
        Ok(rest)
    }

    /// What happens now: told as it is.
    pub(super) fn follow(&mut self, batch: &Batch) {
        for event in &batch.events {
            self.after = event.cursor.or(self.after);
            self.call_of(event);
            self.ended |= self.is_end(&event.body);
        }
    }

    /// The end of a run that waits, when that isn't in the log.
    fn wait(&mut self, calls: Vec<ToolCallId>) -> Option<Event> {
        if self.began.is_none() || self.ended || self.asked {
            return None;
        }
        self.ended = true;
        Some(Event { cursor: None, at: crate::clock::now(), body: EventBody::TurnWaiting { turn_id: self.turn.clone(), calls } })
    }

    /// What of the log, or of the reply in the making so far, the reader doesn't have.
    fn past(&mut self, events: &[Event]) -> Result<Vec<Event>, StreamEnd> {
        let mut rest = Vec::new();
        for event in events {
            if self.ended {
                break;
            }
            if self.began.is_some() {
                self.go_on(event, &mut rest)?;
            } else {
                self.begin(event);
            }
        }
        self.after = rest.iter().rev().find_map(|event| event.cursor).or(self.after);
        Ok(rest)
    }

    fn begin(&mut self, event: &Event) {
        let begins = match &self.name {
            None => matches!(&event.body, EventBody::TurnStarted { turn_id, .. } if *turn_id == self.turn),
            Some(asked) => matches!(&event.body, EventBody::TurnJoined { name, .. } if name == asked),
        };
        if begins {
            self.began = event.cursor.map(|cursor| cursor.seq);
        }
    }

    fn go_on(&mut self, event: &Event, rest: &mut Vec<Event>) -> Result<(), StreamEnd> {
        let has = event.cursor.is_some_and(|cursor| self.after.is_some_and(|after| cursor <= after));
        match &event.body {
            EventBody::MessageNew { parent_id, shown_id, message, .. } => {
                self.stands_on.get_or_insert_with(|| parent_id.clone());
                match (&mut self.call, message, shown_id) {
                    (Some(call), Some(message), Some(id)) if *id == call.reply_id => {
                        call.kept = true;
                        self.reply(event, message, rest)?;
                    }
                    (Some(_) | None, ..) if !has => rest.push(event.clone()),
                    (Some(_) | None, ..) => {}
                }
            }
            EventBody::Live(live) => self.live(event, live, rest)?,
            // What it used belongs to the end, whoever was told.
            EventBody::CallCompleted { .. } => rest.push(Event { cursor: None, ..event.clone() }),
            EventBody::CallFailed { .. } | EventBody::CallVoided { .. } if self.holds_what_is_gone(event) => return Err(GONE),
            EventBody::Resync(_) => return Err(GONE),
            EventBody::TurnJoined { .. } if !self.asked => rest.extend(self.wait(Vec::new())),
            EventBody::TurnCompleted { .. }
            | EventBody::TurnFailed { .. }
            | EventBody::TurnCancelled { .. }
            | EventBody::TurnWaiting { .. } => {
                if self.is_end(&event.body) {
                    self.ended = true;
                    rest.push(Event { cursor: event.cursor.filter(|_| !has), ..event.clone() });
                }
            }
            EventBody::TurnJoined { .. }
            | EventBody::CallFailed { .. }
            | EventBody::CallVoided { .. }
            | EventBody::CallStarted { .. }
            | EventBody::TurnQueued { .. }
            | EventBody::TurnStarted { .. }
            | EventBody::TurnRecovered { .. }
            | EventBody::HeadMoved { .. }
            | EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::SessionUpdated { .. } => {}
        }
        self.call_of(event);
        Ok(())
    }

    /// Which attempt runs from here on.
    fn call_of(&mut self, event: &Event) {
        let ends = |body: &EventBody| {
            matches!(body, EventBody::CallCompleted { .. } | EventBody::CallFailed { .. } | EventBody::CallVoided { .. })
        };
        if let EventBody::CallStarted { attempt, reply_id, .. } = &event.body {
            self.asked = true;
            let began = event.cursor.map_or(0, |cursor| cursor.seq);
            self.call = Some(Attempt { began, number: *attempt, reply_id: reply_id.clone(), kept: false });
        } else if ends(&event.body) {
            self.call = None;
        }
    }

    fn is_end(&self, body: &EventBody) -> bool {
        let (EventBody::TurnCompleted { turn_id }
        | EventBody::TurnFailed { turn_id, .. }
        | EventBody::TurnCancelled { turn_id, .. }
        | EventBody::TurnWaiting { turn_id, .. }) = body
        else {
            return false;
        };
        *turn_id == self.turn
    }

    /// How much of the running attempt, which goes on up to the record `to`, the reader has: where its cursor stands, and how far it
    /// is. Nothing: none of it.
    fn has_of_call(&self, to: Option<u64>) -> Result<Option<(u64, u64)>, StreamEnd> {
        let (Some(call), Some(after)) = (&self.call, self.after) else { return Ok(None) };
        if after.seq < call.began || to.is_some_and(|to| after.seq >= to) {
            return Ok(None);
        }
        match after.within {
            Some((attempt, told)) if attempt == call.number => Ok(Some((after.seq, told))),
            Some(_) => Err(GONE),
            None => Ok(None),
        }
    }

    fn holds_what_is_gone(&self, event: &Event) -> bool {
        let kept = self.call.as_ref().is_some_and(|call| call.kept);
        let to = event.cursor.map(|cursor| cursor.seq);
        !kept && !matches!(self.has_of_call(to), Ok(None | Some((_, 0))))
    }

    /// A reply that was written: its pieces, as they were told.
    fn reply(&self, event: &Event, message: &Message, rest: &mut Vec<Event>) -> Result<(), StreamEnd> {
        let (Some(call), Some(cursor)) = (&self.call, event.cursor) else { return Ok(()) };
        if self.after.is_some_and(|after| after.seq >= cursor.seq) {
            return Ok(());
        }
        let (seq, had) = self.has_of_call(Some(cursor.seq))?.unwrap_or((call.began, 0));
        let pieces = Pieces::of_reply(&call.reply_id, message, event.at);
        if had > pieces.told() {
            return Err(GONE);
        }
        rest.extend(pieces.since(pieces.place(had)).map(|said| {
            let cursor = Cursor { seq, within: Some((call.number, said.told)) };
            Event { cursor: Some(cursor), at: said.at, body: EventBody::Live(said.live) }
        }));
        Ok(())
    }

    /// A piece of the reply in the making.
    fn live(&self, event: &Event, live: &Live, rest: &mut Vec<Event>) -> Result<(), StreamEnd> {
        let Some((seq, had)) = self.has_of_call(None)? else {
            rest.push(event.clone());
            return Ok(());
        };
        let Some(Cursor { within: Some((attempt, told)), .. }) = event.cursor else { return Ok(()) };
        let before = told.saturating_sub(size(live));
        if told <= had {
            return Ok(());
        }
        if before >= had {
            rest.push(event.clone());
            return Ok(());
        }
        let cursor = Some(Cursor { seq, within: Some((attempt, told)) });
        rest.push(Event { cursor, at: event.at, body: EventBody::Live(after_chars(live, had - before)) });
        Ok(())
    }
}

/// The same piece without the first characters of its text; marks aren't cut.
fn after_chars(live: &Live, chars: u64) -> Live {
    let cut = |delta: &String| delta.chars().skip(usize::try_from(chars).unwrap_or(usize::MAX)).collect();
    match live {
        Live::Text { reply_id, delta } => Live::Text { reply_id: reply_id.clone(), delta: cut(delta) },
        Live::Reasoning { reply_id, index, delta } => Live::Reasoning { reply_id: reply_id.clone(), index: *index, delta: cut(delta) },
        Live::ToolCallArguments { id, delta } => Live::ToolCallArguments { id: id.clone(), delta: cut(delta) },
        Live::TextStarted { .. }
        | Live::ReasoningStarted { .. }
        | Live::ReasoningEnded { .. }
        | Live::ToolCallStarted { .. }
        | Live::ReplyEnded { .. } => live.clone(),
    }
}
