//! One run: what its reader is told, from `RUN_STARTED` to the one terminal. The same for SSE and WebSocket, which only pack it
//! differently. May not know sockets.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::source::{Source, SourceEnd};
use crate::agui::{self, Dialect, Outcome};
use crate::clock;
use crate::ids::{SessionId, SessionKey, TurnId};
use crate::protocol::{Accepted, Code, Cursor, Event, EventBody, Frames, Snapshot, Usage, Waits};
use crate::runtime::{Following, Joined, Resumed, Run, Runtime, Submitted, Told, TurnEnd};

/// Whose run it is and how it is spelled.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// How the reader wants it spelled.
    pub(super) dialect: Dialect,
    /// The session, as its reader knows it.
    pub(super) thread: SessionId,
    /// The run, as its reader knows it.
    pub(super) run: TurnId,
}

/// How a run's stream ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RunEnd {
    /// With its turn.
    Turn(TurnEnd),
    /// The reader fell behind, and what it had doesn't hold any more.
    Slow,
    /// The server stops.
    ShuttingDown,
    /// The session was given up under the reader, because of this.
    Lost(Code),
}

/// What a transport makes of frames that are ready together.
pub(super) trait Chunk {
    /// Adds frames at the end.
    fn add(&mut self, frames: &Frames);
    /// Whether there is nothing in it.
    fn is_empty(&self) -> bool;
    /// How many bytes there are in it.
    fn bytes(&self) -> usize;
}

/// What is ready goes out together, until it is so much.
pub(super) const CHUNK_BYTES: usize = 16 << 10;

/// A run's frames as they come.
pub(super) struct RunStream {
    names: Names,
    turn: TurnId,
    opening: Vec<Frames>,
    /// Of a run whose turn waits for another: what is told right after its start.
    queued: Option<Vec<Frames>>,
    source: Option<Source>,
    /// What its reader had before.
    after: Option<Cursor>,
    /// What its reader has.
    at: Option<Cursor>,
    /// Where a reader that fell behind finds the rest.
    log: Option<(Runtime, SessionKey)>,
    usage: Vec<Usage>,
    draining: CancellationToken,
    end: Option<RunEnd>,
}

impl RunStream {
    /// The run that a submit began, or that an earlier one did. While its turn waits for another nothing is told; when it begins
    /// comes the conversation as it is by then.
    pub(super) fn submitted(names: Names, submitted: Submitted, draining: CancellationToken) -> Self {
        let Submitted { accepted, snapshot, state, room, cursor, following } = submitted;
        let now = following_now(&following, &accepted).then_some(cursor);
        let last = now.filter(|_| room.is_empty());
        let notices = notices(names.dialect, &accepted, last.filter(|_| snapshot.is_none()));
        match following {
            Following::Running(reader) if accepted.queued => Self {
                queued: Some(notices),
                source: Some(Source::Turn(reader)),
                ..Self::new(names, accepted.turn_id, Vec::new(), draining)
            },
            following => {
                let alone = notices.is_empty() && snapshot.is_none();
                let at = Some(cursor);
                let mut opening = vec![started(&names)];
                opening.extend(state.map(|state| agui::state(names.dialect, &state)));
                if let Some(first) = opening.pop() {
                    opening.push(first.at(last.filter(|_| alone)));
                }
                opening.extend(notices);
                opening.extend(snapshot.map(|snapshot| agui::snapshot(names.dialect, &snapshot, Some(cursor).filter(|_| room.is_empty()))));
                if !room.is_empty() {
                    opening.push(agui::render(names.dialect, &room).at(now));
                }
                let stream = Self { at, ..Self::new(names, accepted.turn_id, opening, draining) };
                stream.following(following, Waits { calls: accepted.waiting, interrupts: accepted.interrupts })
            }
        }
    }

    /// A session's whole conversation, and what the running turn adds to it.
    pub(super) fn joined(names: Names, joined: Joined, draining: CancellationToken) -> Self {
        let mut opening = vec![started(&names)];
        opening.extend(whole(names.dialect, &joined));
        match joined.running {
            Some((running, reader)) => {
                let stream = Self { at: Some(joined.cursor), ..Self::new(names, running.turn_id, opening, draining) };
                stream.following(Following::Running(reader), Waits::default())
            }
            None => Self::ended(names, opening, joined.waiting, draining),
        }
    }

    /// A session that doesn't exist (yet): an empty conversation.
    pub(super) fn empty(names: Names, draining: CancellationToken) -> Self {
        let opening = vec![started(&names), agui::snapshot(names.dialect, &Snapshot::default(), None)];
        Self::ended(names, opening, Waits::default(), draining)
    }

    /// A run that somebody comes to, or back to after `after`.
    pub(super) fn resumed(names: Names, run: Run, after: Option<Cursor>, draining: CancellationToken) -> Self {
        match run {
            Run::Queued(turn, reader) => {
                Self { queued: Some(Vec::new()), source: Some(Source::Turn(reader)), ..Self::new(names, turn, Vec::new(), draining) }
            }
            Run::Ended(end) => {
                let opening = if after.is_none() { vec![started(&names)] } else { Vec::new() };
                let turn = names.run.clone();
                Self::new(names, turn, opening, draining).following(Following::Ended(end), Waits::default())
            }
            Run::Begun(resumed) => {
                let Resumed { turn, opening, events } = *resumed;
                let opening = opening
                    .into_iter()
                    .flat_map(|(snapshot, cursor)| [started(&names), agui::snapshot(names.dialect, &snapshot, Some(cursor))]);
                let opening = opening.collect();
                let source = Some(Source::Run(Box::new(events)));
                Self { source, after, ..Self::new(names, turn, opening, draining) }
            }
        }
    }

    fn new(names: Names, turn: TurnId, opening: Vec<Frames>, draining: CancellationToken) -> Self {
        let (queued, source, after, at, log, usage, end) = (None, None, None, None, None, Vec::new(), None);
        Self { names, turn, opening, queued, source, after, at, log, usage, draining, end }
    }

    /// The same, of a session of `runtime`: a reader that falls behind goes on from its log.
    pub(super) fn of(self, runtime: &Runtime, key: &SessionKey) -> Self {
        Self { log: Some((runtime.clone(), key.clone())), ..self }
    }

    /// A run that only shows what is there; `waiting`: what a turn waits for.
    fn ended(names: Names, opening: Vec<Frames>, waiting: Waits, draining: CancellationToken) -> Self {
        let turn = names.run.clone();
        Self::new(names, turn, opening, draining).following(Following::Ended(TurnEnd::Completed), waiting)
    }

    fn following(mut self, following: Following, waiting: Waits) -> Self {
        let end = match following {
            Following::Running(reader) => {
                self.source = Some(Source::Turn(reader));
                return self;
            }
            Following::Ended(TurnEnd::Completed) => TurnEnd::waits(waiting).unwrap_or(TurnEnd::Completed),
            Following::Ended(end) => end,
        };
        let last = self.finish(RunEnd::Turn(end), None);
        self.opening.extend(last);
        self
    }

    /// Which run.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Whether its turn waits for another.
    pub(super) fn is_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// How it ended, once its terminal was handed out.
    pub(super) fn end(&self) -> Option<&RunEnd> {
        if self.opening.is_empty() { self.end.as_ref() } else { None }
    }

    /// Everything that is ready, at least something; nothing after the terminal. Nothing is lost when the wait is given up.
    pub(super) async fn next<C: Chunk + Default>(&mut self) -> Option<C> {
        self.next_into(C::default()).await
    }

    /// The same, in a chunk that is empty so far.
    pub(super) async fn next_into<C: Chunk>(&mut self, mut chunk: C) -> Option<C> {
        loop {
            self.gather(&mut chunk);
            if !chunk.is_empty() {
                return Some(chunk);
            }
            self.source.as_ref()?;
            self.wait(&mut chunk).await;
        }
    }

    /// The first chunk: its opening, and the first words too when they come within `patience`. Empty when its turn waits for another.
    pub(super) async fn first<C: Chunk + Default>(&mut self, patience: Duration) -> C {
        let mut chunk = C::default();
        if self.gather(&mut chunk) || self.source.is_none() || self.is_queued() {
            return chunk;
        }
        // Running out of patience isn't an error: the opening then travels alone.
        let _ = tokio::time::timeout(patience, async { while self.source.is_some() && !self.wait(&mut chunk).await {} }).await;
        self.gather(&mut chunk);
        chunk
    }

    /// Adds what is here already. Whether a batch said something.
    fn gather(&mut self, chunk: &mut impl Chunk) -> bool {
        for frames in self.opening.drain(..) {
            chunk.add(&frames);
        }
        let mut told = false;
        while chunk.bytes() < CHUNK_BYTES
            && let Some(batch) = self.source.as_mut().and_then(Source::try_next)
        {
            told |= self.take(&batch, chunk);
        }
        told
    }

    /// Waits for one batch, or the end. Whether it said something.
    async fn wait(&mut self, chunk: &mut impl Chunk) -> bool {
        let Some(source) = self.source.as_mut() else { return false };
        match source.next().await {
            Ok(told) => self.take(&told, chunk),
            Err(SourceEnd::Slow) => {
                self.catch_up(chunk).await;
                true
            }
            Err(why) => {
                let end = why.run_end(self.draining.is_cancelled());
                self.finish(end, None).iter().for_each(|frames| chunk.add(frames));
                true
            }
        }
    }

    /// The reader fell behind: it goes on from the log, unless what it had doesn't hold any more.
    async fn catch_up(&mut self, chunk: &mut impl Chunk) {
        let run = match &self.log {
            Some((runtime, key)) => runtime.catch_up(key, &self.turn, self.at).await.map_err(|refusal| refusal.code),
            None => Err(Code::TooSlow),
        };
        let frames = match run {
            Ok(Run::Queued(_, reader)) => {
                self.source = Some(Source::Turn(reader));
                return;
            }
            Ok(Run::Begun(resumed)) => {
                // The log says it again.
                self.usage.clear();
                self.after = self.at;
                self.source = Some(Source::Run(Box::new(resumed.events)));
                let snapshot = resumed.opening.map(|(snapshot, cursor)| agui::snapshot(self.names.dialect, &snapshot, Some(cursor)));
                self.begin().into_iter().chain(snapshot).collect()
            }
            Ok(Run::Ended(end)) => self.finish(RunEnd::Turn(end), None),
            Err(Code::ShuttingDown) => self.finish(RunEnd::ShuttingDown, None),
            Err(code @ Code::SessionDeleted) => self.finish(RunEnd::Lost(code), None),
            Err(_) => self.finish(RunEnd::Slow, None),
        };
        for frames in &frames {
            chunk.add(frames);
        }
    }

    fn take(&mut self, Told { batch, past }: &Told, chunk: &mut impl Chunk) -> bool {
        let dialect = self.names.dialect;
        if self.is_queued() {
            if !batch.events.iter().any(|event| is_of(&event.body, &self.turn)) {
                return false;
            }
            self.begin().iter().for_each(|frames| chunk.add(frames));
        }
        let frames = batch.rendered(dialect.index(), |events| agui::render(dialect, events));
        let rest = self.after.filter(|_| *past).map(|after| frames.after(after));
        let frames = rest.as_ref().unwrap_or(frames);
        let mut told = !frames.is_empty();
        if told {
            chunk.add(frames);
        }
        self.at = batch.events.iter().rev().find_map(|event| event.cursor).or(self.at);
        for event in &batch.events {
            if let Some(end) = self.note(event) {
                self.finish(RunEnd::Turn(end), event.cursor).iter().for_each(|frames| chunk.add(frames));
                told = true;
                break;
            }
        }
        told
    }

    /// Keeps what the terminal needs. How the turn ended, when this is its end.
    fn note(&mut self, event: &Event) -> Option<TurnEnd> {
        match &event.body {
            EventBody::CallCompleted { usage: Some(usage), .. } => {
                self.usage.push(usage.clone());
                None
            }
            EventBody::TurnCompleted { turn_id } if *turn_id == self.turn => Some(TurnEnd::Completed),
            EventBody::TurnFailed { turn_id, code, message } if *turn_id == self.turn => {
                Some(TurnEnd::Failed { code: *code, message: message.clone() })
            }
            EventBody::TurnWaiting { turn_id, calls } if *turn_id == self.turn => Some(TurnEnd::Waiting { calls: calls.clone() }),
            EventBody::SessionInterrupted { turn_id, interrupts } if *turn_id == self.turn => {
                Some(TurnEnd::Interrupted { interrupts: interrupts.clone() })
            }
            EventBody::TurnCancelled { turn_id, .. } if *turn_id == self.turn || *turn_id == self.names.run => Some(TurnEnd::Cancelled),
            // What waited to join the turn goes on as one of its own.
            EventBody::ArrivalConsumed { turn_ids, into: Some(into), .. } if turn_ids.contains(&self.names.run) => {
                self.turn = into.clone();
                None
            }
            EventBody::CallCompleted { .. }
            | EventBody::TurnCompleted { .. }
            | EventBody::TurnFailed { .. }
            | EventBody::TurnCancelled { .. }
            | EventBody::TurnWaiting { .. }
            | EventBody::TurnQueued { .. }
            | EventBody::TurnJoined { .. }
            | EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::SessionUpdated { .. }
            | EventBody::MessageNew { .. }
            | EventBody::HeadMoved { .. }
            | EventBody::TurnStarted { .. }
            | EventBody::TurnRecovered { .. }
            | EventBody::SessionInterrupted { .. }
            | EventBody::InterruptResumed { .. }
            | EventBody::TurnSuspended { .. }
            | EventBody::CallStarted { .. }
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

    /// The turn for which this run was held begins, or never will.
    fn begin(&mut self) -> Vec<Frames> {
        let Some(notices) = self.queued.take() else { return Vec::new() };
        std::iter::once(started(&self.names)).chain(notices).collect()
    }

    /// The one terminal, after the start when that wasn't told yet; an error may stand alone. Nothing is read after it.
    fn finish(&mut self, end: RunEnd, cursor: Option<Cursor>) -> Vec<Frames> {
        self.source = None;
        if end == RunEnd::Slow {
            super::error::slow("session");
        }
        let mut last = match &end {
            RunEnd::Turn(_) => self.begin(),
            RunEnd::Slow | RunEnd::ShuttingDown | RunEnd::Lost(_) => Vec::new(),
        };
        self.queued = None;
        let Names { dialect, thread, run } = &self.names;
        let error = |code: Code, message: &str| agui::run_error(*dialect, code, message, None);
        let terminal = match &end {
            RunEnd::Turn(TurnEnd::Completed) => agui::run_finished(*dialect, thread, run, Outcome::Success, &self.usage, clock::now()),
            RunEnd::Turn(TurnEnd::Waiting { calls }) => {
                agui::run_finished(*dialect, thread, run, Outcome::Waiting(calls), &self.usage, clock::now())
            }
            RunEnd::Turn(TurnEnd::Interrupted { interrupts }) => {
                agui::run_finished(*dialect, thread, run, Outcome::Interrupted(interrupts), &self.usage, clock::now())
            }
            RunEnd::Turn(TurnEnd::Cancelled) => agui::run_finished(*dialect, thread, run, Outcome::Cancelled, &self.usage, clock::now()),
            RunEnd::Turn(TurnEnd::Failed { code, message }) => error(*code, message),
            RunEnd::Slow => error(Code::TooSlow, "this reader fell too far behind; the turn goes on, and connect shows it whole"),
            RunEnd::ShuttingDown => error(Code::ShuttingDown, "the server stops; what was accepted is kept, and connect shows it"),
            RunEnd::Lost(code @ Code::CursorUnknown) => {
                error(*code, "what this reader says that it had was never told; join the run again without a cursor")
            }
            RunEnd::Lost(code) => error(*code, "the session was given up after a fault; what was accepted is kept, and connect shows it"),
        };
        last.push(terminal.at(cursor));
        self.end = Some(end);
        last
    }
}

/// `RUN_STARTED`, now.
fn started(names: &Names) -> Frames {
    agui::run_started(names.dialect, &names.thread, &names.run, clock::now())
}

/// The whole conversation as somebody joins it, and that room is being made for the next call, when it is.
pub(super) fn whole(dialect: Dialect, joined: &Joined) -> Vec<Frames> {
    let cursor = Some(joined.cursor);
    if joined.room.is_empty() {
        return vec![agui::snapshot(dialect, &joined.snapshot, cursor)];
    }
    vec![agui::snapshot(dialect, &joined.snapshot, None), agui::render(dialect, &joined.room).at(cursor)]
}

/// Whether it says that `turn` began, or ended before it did.
fn is_of(body: &EventBody, turn: &TurnId) -> bool {
    matches!(body, EventBody::TurnStarted { turn_id, .. } | EventBody::TurnCancelled { turn_id, .. } if turn_id == turn)
}

/// What a client should know about what became of its view: never silent, never fatal.
fn notices(dialect: Dialect, accepted: &Accepted, cursor: Option<Cursor>) -> Vec<Frames> {
    let mut notices = Vec::new();
    if accepted.implied_count > 0 || !accepted.ignored.is_empty() || accepted.root_branch {
        let mut value = json!({
            "new_from": accepted.new_from,
            "implied": accepted.implied,
            "implied_count": accepted.implied_count,
            "ignored": accepted.ignored,
        });
        if accepted.root_branch {
            value["root_branch"] = Value::Bool(true);
        }
        notices.push(agui::custom(dialect, "headwater.view", &value, None));
    }
    if !accepted.ignored_edits.is_empty() {
        let value = json!({ "message_ids": accepted.ignored_edits });
        notices.push(agui::custom(dialect, "headwater.ignored_edits", &value, None));
    }
    if !accepted.ignored_tools.is_empty() {
        let value = json!({ "names": accepted.ignored_tools });
        notices.push(agui::custom(dialect, "headwater.ignored_tools", &value, None));
    }
    if let Some(last) = notices.pop() {
        notices.push(last.at(cursor));
    }
    notices
}

/// Whether its reader goes on from now: not before its turn begins, and nothing follows an end.
fn following_now(following: &Following, accepted: &Accepted) -> bool {
    match following {
        Following::Running(_) => !accepted.queued,
        Following::Ended(_) => true,
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
