//! What of a run, or of a session, its reader doesn't have: what the log holds becomes again what was told while it was made. Of an
//! attempt that left nothing, or not all, the log can't say what was told: then the whole conversation is to be told at the place
//! where the attempt ended. Without IO.

use std::collections::VecDeque;

use super::bus::Batch;
use super::events::StreamEnd;
use super::pieces::{Pieces, size};
use crate::ids::{Millis, NodeId, TurnId};
use crate::protocol::{Code, Cursor, Event, EventBody, Live, Message, Waits};

/// What a reader doesn't have.
#[derive(Debug, Default)]
pub struct Rest {
    /// In order.
    pub events: Vec<Event>,
    /// What is still to be put among them, in order.
    pub wholes: VecDeque<Whole>,
}

/// The whole conversation is to be told, since what was told of an attempt holds no more, or since a call reads what had waited.
#[derive(Debug)]
pub struct Whole {
    /// After so many events.
    pub index: usize,
    /// Where the attempt ended, or the call began; none: what follows says it.
    pub cursor: Option<Cursor>,
    /// When.
    pub at: Millis,
    /// The node that was kept of it.
    pub kept: Option<NodeId>,
    /// Of a call that begins: the reply before which it is told.
    pub before: Option<NodeId>,
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
    /// The name under which its reader came: it goes on with what that becomes.
    asked_as: Option<TurnId>,
    /// Whether it isn't known yet that the place which its reader has was ever there.
    unsure: bool,
    ended: bool,
}

/// An attempt of a model call.
#[derive(Debug)]
struct Attempt {
    began: u64,
    number: u32,
    reply_id: NodeId,
    /// Whether its reply was written whole.
    kept: bool,
    /// What was written of its reply.
    part: Option<NodeId>,
    /// What it had read besides the path: that stands in the log before the reply, and is told after the reply's pieces.
    read: Vec<Event>,
}

/// The reader says that it has something that was never there.
const GONE: StreamEnd = StreamEnd::Failed(Code::CursorUnknown);

impl Replay {
    /// A run of `turn`: the first, or that which `name` began. Its reader has everything up to `after`.
    pub(super) fn new(turn: TurnId, name: Option<TurnId>, after: Option<Cursor>) -> Self {
        let unsure = after.is_some_and(|after| after.within.is_some());
        Self { turn, name, after, began: None, stands_on: None, asked: false, call: None, asked_as: None, unsure, ended: false }
    }

    /// The same, for a reader that came under this name.
    pub(super) fn asked_as(self, name: TurnId) -> Self {
        Self { asked_as: Some(name), ..self }
    }

    /// Of every run of a session, whose reader has everything up to `after`.
    pub(super) fn of_session(after: Cursor) -> Self {
        Self { began: Some(0), ..Self::new(TurnId::from(""), None, Some(after)) }
    }

    /// What of the log, or of the reply in the making so far, the reader of a session doesn't have.
    pub(super) fn past_of_session(&mut self, events: &[Event]) -> Result<Rest, StreamEnd> {
        let mut rest = Rest::default();
        for event in events {
            self.must_have_been(event)?;
            match &event.body {
                EventBody::MessageNew { message: Some(message), shown_id: Some(id), partial, .. } if self.is_reply(id) => {
                    self.reply(event, message, *partial, &mut rest)?;
                    self.add(event, &mut rest);
                }
                EventBody::MessageNew { call_id: None, .. } => self.add_read(event, &mut rest),
                EventBody::Live(live) => self.live(event, live, &mut rest)?,
                EventBody::CallStarted { .. }
                | EventBody::CallCompleted { .. }
                | EventBody::CallFailed { .. }
                | EventBody::CallVoided { .. } => {
                    if !self.has(event) {
                        let index = rest.events.len();
                        rest.events.push(event.clone());
                        self.attempt_ends(event, &mut rest)?;
                        self.call_reads(event, &mut rest, index, None);
                        self.after = event.cursor.or(self.after);
                    }
                }
                EventBody::MessageNew { .. }
                | EventBody::Resync(_)
                | EventBody::TurnQueued { .. }
                | EventBody::TurnStarted { .. }
                | EventBody::TurnJoined { .. }
                | EventBody::TurnWaiting { .. }
                | EventBody::SessionInterrupted { .. }
                | EventBody::InterruptResumed { .. }
                | EventBody::TurnSuspended { .. }
                | EventBody::TurnCompleted { .. }
                | EventBody::TurnFailed { .. }
                | EventBody::TurnCancelled { .. }
                | EventBody::TurnRecovered { .. }
                | EventBody::HeadMoved { .. }
                | EventBody::SessionCreated { .. }
                | EventBody::SessionForked { .. }
                | EventBody::SessionUpdated { .. }
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
                | EventBody::ArrivalConsumed { .. } => self.add(event, &mut rest),
            }
            self.call_of(event);
        }
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
    pub(super) fn wait(&mut self, waits: Waits) -> Option<Event> {
        if self.began.is_none() || self.ended || self.asked {
            return None;
        }
        self.ended = true;
        let (turn_id, Waits { calls, interrupts }) = (self.turn.clone(), waits);
        let body = if interrupts.is_empty() {
            EventBody::TurnWaiting { turn_id, calls }
        } else {
            EventBody::SessionInterrupted { turn_id, interrupts }
        };
        Some(Event { cursor: None, at: crate::clock::now(), body })
    }

    /// What of the log, or of the reply in the making so far, the reader doesn't have.
    pub(super) fn past(&mut self, events: &[Event]) -> Result<Rest, StreamEnd> {
        let mut rest = Rest::default();
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

    fn go_on(&mut self, event: &Event, rest: &mut Rest) -> Result<(), StreamEnd> {
        self.must_have_been(event)?;
        match &event.body {
            EventBody::MessageNew { parent_id, shown_id, message, partial, .. } => {
                // A history that is replaced in between begins at the root, and reads like the one before.
                if shown_id.is_some() {
                    self.stands_on.get_or_insert_with(|| parent_id.clone());
                }
                match (message, shown_id) {
                    (Some(message), Some(id)) if self.is_reply(id) => self.reply(event, message, *partial, rest)?,
                    (Some(_) | None, _) => self.add_read(event, rest),
                }
            }
            EventBody::Live(live) => self.live(event, live, rest)?,
            EventBody::CallCompleted { .. } => {
                // What it used belongs to the end, whoever was told.
                rest.events.push(Event { cursor: None, ..event.clone() });
                self.attempt_ends(event, rest)?;
            }
            EventBody::CallStarted { .. } | EventBody::CallFailed { .. } | EventBody::CallVoided { .. } => {
                self.attempt_ends(event, rest)?;
                let index = rest.events.len();
                self.call_reads(event, rest, index, event.cursor);
            }
            EventBody::Resync(_) => self.tell(event.clone(), rest),
            EventBody::TurnJoined { .. } if !self.asked => rest.events.extend(self.wait(Waits::default())),
            EventBody::TurnCompleted { .. }
            | EventBody::TurnFailed { .. }
            | EventBody::TurnCancelled { .. }
            | EventBody::SessionInterrupted { .. }
            | EventBody::TurnWaiting { .. } => {
                if self.is_end(&event.body) {
                    self.ended = true;
                    rest.events.push(Event { cursor: event.cursor.filter(|_| !self.has(event)), ..event.clone() });
                }
            }
            EventBody::ContextLimited { .. }
            | EventBody::ContextReplaced { .. }
            | EventBody::ContextKept { .. }
            | EventBody::StateUpdated { .. } => self.add(event, rest),
            EventBody::TurnJoined { .. }
            | EventBody::TurnQueued { .. }
            | EventBody::TurnStarted { .. }
            | EventBody::TurnRecovered { .. }
            | EventBody::InterruptResumed { .. }
            | EventBody::TurnSuspended { .. }
            | EventBody::HeadMoved { .. }
            | EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::SessionUpdated { .. }
            | EventBody::DecisionAsked { .. }
            | EventBody::DecisionAnswered { .. }
            | EventBody::DecisionFailed { .. }
            | EventBody::ToolCallStarted { .. }
            | EventBody::ToolCallCompleted { .. }
            | EventBody::ToolCallFailed { .. }
            | EventBody::AgentUpdated { .. }
            | EventBody::Custom { .. }
            | EventBody::ArrivalQueued { .. }
            | EventBody::ArrivalConsumed { .. } => {}
        }
        self.call_of(event);
        Ok(())
    }

    fn has(&self, event: &Event) -> bool {
        event.cursor.is_some_and(|cursor| self.after.is_some_and(|after| cursor <= after))
    }

    /// Tells it, unless the reader has it.
    fn add(&mut self, event: &Event, rest: &mut Rest) {
        if self.has(event) {
            return;
        }
        // In a reply in the making it keeps its place.
        let call = self.call.as_ref().filter(|call| call.part.is_none());
        let within = call.and_then(|call| self.has_of_call(None).ok()?.map(|(_, told)| (call.number, told)));
        let cursor = event.cursor.map(|cursor| Cursor { within: cursor.within.or(within), ..cursor });
        self.tell(Event { cursor, ..event.clone() }, rest);
    }

    /// A node that isn't a reply: one that a call had read, which is told with its reply, or another.
    fn add_read(&mut self, event: &Event, rest: &mut Rest) {
        match self.call.as_mut().filter(|call| call.part.is_none()) {
            Some(call) => call.read.push(event.clone()),
            None => self.add(event, rest),
        }
    }

    /// The reply's pieces are told: now what its call had read.
    fn tell_read(&mut self, rest: &mut Rest) {
        let Some(call) = &mut self.call else { return };
        let (read, number) = (std::mem::take(&mut call.read), call.number);
        let within = self.after.and_then(|after| after.within).filter(|(attempt, _)| *attempt == number);
        for event in read {
            if !self.has(&event) {
                let cursor = event.cursor.map(|cursor| Cursor { within, ..cursor });
                self.tell(Event { cursor, ..event }, rest);
            }
        }
    }

    /// The reader will have it.
    fn tell(&mut self, event: Event, rest: &mut Rest) {
        self.after = event.cursor.or(self.after);
        rest.events.push(event);
    }

    /// A place in a reply stands between the records of its attempt.
    fn must_have_been(&mut self, event: &Event) -> Result<(), StreamEnd> {
        let (Some(cursor), Some(after)) = (event.cursor, self.after) else { return Ok(()) };
        if self.unsure && cursor.seq > after.seq {
            self.unsure = false;
            if self.call.is_none() {
                return Err(GONE);
            }
        }
        Ok(())
    }

    /// Whether it is known where its first node stands that readers see.
    pub(super) fn has_place(&self) -> bool {
        self.stands_on.is_some()
    }

    /// Whether the run's end was found.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The record that began the run.
    pub(super) fn began(&self) -> Option<u64> {
        self.began
    }

    /// The node below which its first node stands; none: it has no node yet.
    #[expect(clippy::option_option, reason = "below nothing, and nothing yet, are different")]
    pub(super) fn stands_on(&mut self) -> Option<Option<NodeId>> {
        self.stands_on.take()
    }

    /// Which attempt runs from here on, and which turn the run is of.
    fn call_of(&mut self, event: &Event) {
        if let EventBody::ArrivalConsumed { turn_ids, into: Some(into), .. } = &event.body
            && self.asked_as.as_ref().is_some_and(|name| turn_ids.contains(name))
        {
            self.turn = into.clone();
        }
        let ends = |body: &EventBody| {
            matches!(body, EventBody::CallCompleted { .. } | EventBody::CallFailed { .. } | EventBody::CallVoided { .. })
        };
        if let EventBody::CallStarted { attempt, reply_id, .. } = &event.body {
            self.asked = true;
            let began = event.cursor.map_or(0, |cursor| cursor.seq);
            let reply_id = reply_id.clone();
            self.call = Some(Attempt { began, number: *attempt, reply_id, kept: false, part: None, read: Vec::new() });
        } else if ends(&event.body) {
            self.call = None;
        }
    }

    fn is_end(&self, body: &EventBody) -> bool {
        let (EventBody::TurnCompleted { turn_id }
        | EventBody::TurnFailed { turn_id, .. }
        | EventBody::TurnCancelled { turn_id, .. }
        | EventBody::SessionInterrupted { turn_id, .. }
        | EventBody::TurnWaiting { turn_id, .. }) = body
        else {
            return false;
        };
        *turn_id == self.turn || self.asked_as.as_ref() == Some(turn_id)
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

    /// The running attempt ends with `event`. What its reader has of it that wasn't kept holds no more.
    fn attempt_ends(&mut self, event: &Event, rest: &mut Rest) -> Result<(), StreamEnd> {
        let (Some(call), Some(cursor)) = (&self.call, event.cursor) else { return Ok(()) };
        if !call.kept && self.has_of_call(Some(cursor.seq))?.is_some_and(|(_, told)| told > 0) {
            let cursor = Cursor::after(cursor.seq);
            let index = rest.events.len();
            rest.wholes.push_back(Whole { index, cursor: Some(cursor), at: event.at, kept: call.part.clone(), before: None });
            self.after = Some(cursor);
        }
        Ok(())
    }

    /// A call begins: when it reads what had waited, that is told at this place.
    fn call_reads(&mut self, event: &Event, rest: &mut Rest, index: usize, cursor: Option<Cursor>) {
        let EventBody::CallStarted { arrivals: 1.., reply_id, .. } = &event.body else { return };
        let before = Some(reply_id.clone());
        let told = event.cursor.map(|cursor| Cursor::after(cursor.seq));
        if let Some(whole) = rest.wholes.back_mut().filter(|whole| whole.cursor == told) {
            // An attempt that was lost ends here: it is told once.
            whole.before = before;
        } else if !self.has(event) {
            rest.wholes.push_back(Whole { index, cursor, at: event.at, kept: None, before });
            self.after = cursor.or(self.after);
        }
    }

    fn is_reply(&self, id: &NodeId) -> bool {
        self.call.as_ref().is_some_and(|call| call.reply_id == *id)
    }

    /// A reply that was written: its pieces, as they were told. Of one that was cut short what is left out isn't known, so that a
    /// place in it can't be found again.
    fn reply(&mut self, event: &Event, message: &Message, partial: bool, rest: &mut Rest) -> Result<(), StreamEnd> {
        let (Some(call), Some(cursor)) = (&self.call, event.cursor) else { return Ok(()) };
        let had = self.has_of_call(Some(cursor.seq))?;
        let gone = partial && had.is_some_and(|(_, told)| told > 0);
        if !gone && self.after.is_none_or(|after| after.seq < cursor.seq) {
            let began = self.after.map_or(call.began, |after| after.seq.max(call.began));
            let (seq, had) = had.unwrap_or((began, 0));
            let pieces = Pieces::of_reply(&call.reply_id, message, event.at);
            if had > pieces.told() {
                return Err(GONE);
            }
            let number = call.number;
            for said in pieces.since(pieces.place(had)) {
                let cursor = Cursor { seq, within: Some((number, said.told)) };
                self.tell(Event { cursor: Some(cursor), at: said.at, body: EventBody::Live(said.live) }, rest);
            }
        }
        if let Some(call) = &mut self.call {
            (call.kept, call.part) = (!gone, Some(call.reply_id.clone()));
        }
        self.tell_read(rest);
        Ok(())
    }

    /// A piece of the reply in the making.
    fn live(&mut self, event: &Event, live: &Live, rest: &mut Rest) -> Result<(), StreamEnd> {
        let Some((seq, had)) = self.has_of_call(None)? else {
            self.tell(event.clone(), rest);
            return Ok(());
        };
        let Some(Cursor { within: Some((attempt, told)), .. }) = event.cursor else { return Ok(()) };
        let before = told.saturating_sub(size(live));
        if told <= had {
            return Ok(());
        }
        if before >= had {
            self.tell(event.clone(), rest);
            return Ok(());
        }
        let cursor = Some(Cursor { seq, within: Some((attempt, told)) });
        self.tell(Event { cursor, at: event.at, body: EventBody::Live(after_chars(live, had - before)) }, rest);
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
