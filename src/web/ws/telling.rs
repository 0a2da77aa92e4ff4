//! A session's events as AG-UI runs, one after another, for who reads the session and not one run: each turn is a run of its own,
//! whoever asked for it. What others wrote comes with the run's start; when the branch changes the whole is to be shown again.
//! Without IO. May not know sockets.

mod step;

use std::ops::Range;
use std::sync::Arc;

use self::step::{Step, goes_on, is_silent};
use super::super::run::{Chunk, whole};
use crate::agui::{self, Dialect, Outcome};
use crate::ids::{Millis, NodeId, SERVER_PREFIX, SessionId, ToolCallId, TurnId};
use crate::protocol::{Cursor, Event, Frames, Interrupt, Message, Usage, Waits};
use crate::runtime::{Batch, Joined, TurnEnd};

/// Where in a session's events its reader is, and what of them is still to be told.
#[derive(Clone, Debug)]
pub(super) struct Telling {
    dialect: Dialect,
    thread: SessionId,
    /// The last node of the path that the reader has.
    head: Option<NodeId>,
    /// The run that was started.
    run: Option<Run>,
    /// The record that began the call that runs.
    call: Option<u64>,
    /// The place after which it is told.
    after: Option<Cursor>,
    /// The turn whose run was told to its end already.
    told: Option<TurnId>,
    /// What was written since the last run.
    news: Vec<Arc<Message>>,
    /// The turn that goes on with results, and the name under which it does.
    joined: Option<(TurnId, TurnId)>,
    /// The calls that a turn waits for.
    open: Vec<ToolCallId>,
    /// What became of the agent's state since the last run.
    states: Vec<Event>,
    /// What pauses a turn.
    interrupts: Vec<Interrupt>,
    /// Of what isn't told yet, where and when it happened.
    pending: Option<(Option<Cursor>, Millis)>,
    /// Whether the reader's path isn't the session's any more.
    moved: bool,
    /// What is known for sure, of a place that was looked up.
    knows: Knows,
}

/// What the events so far say for sure.
#[derive(Clone, Copy, Debug, Default)]
struct Knows {
    head: bool,
    run: bool,
}

#[derive(Clone, Debug)]
struct Run {
    turn: TurnId,
    name: TurnId,
    usage: Vec<Usage>,
}

/// A run that is over, and how it ended.
#[derive(Debug)]
pub(super) struct Over {
    name: TurnId,
    end: TurnEnd,
    usage: Vec<Usage>,
    cursor: Option<Cursor>,
    at: Millis,
}

impl Telling {
    /// At the beginning of session `thread`, for a reader of `dialect`.
    pub(super) fn new(dialect: Dialect, thread: SessionId) -> Self {
        Self {
            dialect,
            thread,
            head: None,
            run: None,
            call: None,
            after: None,
            told: None,
            news: Vec::new(),
            states: Vec::new(),
            joined: None,
            open: Vec::new(),
            interrupts: Vec::new(),
            pending: None,
            moved: false,
            knows: Knows::default(),
        }
    }

    /// Looks for the state at a place: the events that lead to it are [passed](Self::look), from somewhere on or from the session's
    /// start.
    pub(super) fn looking(self, at_start: bool) -> Self {
        Self { knows: Knows { head: at_start, run: at_start }, ..self }
    }

    /// Passes events that lead to a place.
    pub(super) fn look(&mut self, events: &[Event]) {
        for event in events {
            match self.step(event) {
                Step::Starts | Step::StartsWith => self.started(),
                Step::Ends(_) | Step::Passes(_) => self.ended(),
                Step::Silent | Step::Inside | Step::Pending | Step::Moves => {}
            }
        }
        // A reader that names a place has what is before it.
        (self.news, self.states, self.pending, self.moved) = (Vec::new(), Vec::new(), None, false);
    }

    /// The state at the place. Nothing, when the events were too few to say.
    pub(super) fn found(self) -> Option<Self> {
        (self.knows.head && self.knows.run).then_some(self)
    }

    /// The same, told after `place` and not before.
    #[must_use]
    pub(super) fn told_after(self, place: Cursor) -> Self {
        Self { after: Some(place), ..self }
    }

    /// The record that began the call that runs there.
    pub(super) fn call(&self) -> Option<u64> {
        self.call
    }

    /// The run of `turn`, if it is the one that was started, was told to its end already.
    #[must_use]
    pub(super) fn told_to_its_end(self, turn: TurnId) -> Self {
        Self { told: Some(turn), ..self }
    }

    /// Passes over what a snapshot will show. The runs that began or ended meanwhile and are over are added to `over`.
    pub(super) fn pass_over(&mut self, events: &[Event], over: &mut Vec<Over>) {
        for event in events {
            let (cursor, at) = (event.cursor, event.at);
            match self.step(event) {
                Step::Starts | Step::StartsWith => self.started(),
                Step::Ends(end) => {
                    let run = self.run.take();
                    over.extend(run.map(|Run { name, usage, .. }| Over { name, end, usage, cursor, at }));
                    self.ended();
                }
                Step::Passes(end) => over.push(self.over_at_once(end, cursor, at)),
                Step::Silent | Step::Inside | Step::Pending | Step::Moves => {}
            }
        }
    }

    /// The whole conversation as it is at `cursor`: in the run that goes on, else in the last one that is over, else in a run of its
    /// own. Those that are over are told first, each by its start and end.
    pub(super) fn show(&mut self, joined: &Joined, mut over: Vec<Over>, chunk: &mut impl Chunk) {
        let Joined { snapshot, cursor, waiting, .. } = joined;
        let cursor = *cursor;
        if let Some((_, at)) = self.pending.take().filter(|_| self.joined.is_some()) {
            let end = TurnEnd::waits(waiting.clone()).unwrap_or(TurnEnd::Completed);
            over.push(self.over_at_once(end, Some(cursor), at));
        }
        (self.news, self.pending, self.moved, self.after) = (Vec::new(), None, false, Some(cursor));
        self.states.clear();
        let now = crate::clock::now();
        let last = if self.run.is_some() { None } else { Some(over.pop().unwrap_or_else(|| shown(cursor, waiting, now))) };
        for Over { name, end, usage, cursor, at } in &over {
            chunk.add(&agui::run_started(self.dialect, &self.thread, name, *at));
            self.finish(name, end, usage, *cursor, *at, chunk);
        }
        if let Some(Over { name, end, usage, at, .. }) = last {
            chunk.add(&agui::run_started(self.dialect, &self.thread, &name, at));
            chunk.add(&agui::snapshot(self.dialect, snapshot, None));
            self.finish(&name, &end, &usage, Some(cursor), at, chunk);
            self.joined = None;
        } else if let Some(run) = &self.run {
            chunk.add(&agui::run_started(self.dialect, &self.thread, &run.name, now));
            for frames in whole(self.dialect, joined) {
                chunk.add(&frames);
            }
        }
    }

    fn over_at_once(&mut self, end: TurnEnd, cursor: Option<Cursor>, at: Millis) -> Over {
        let name = self.joined.as_ref().map_or_else(|| own(cursor.unwrap_or(Cursor::after(0))), |(_, name)| name.clone());
        self.ended();
        Over { name, end, usage: Vec::new(), cursor, at }
    }

    /// The session is gone in the middle of a run.
    pub(super) fn broken(&mut self, code: crate::protocol::Code, message: &str, chunk: &mut impl Chunk) {
        if self.run.take().is_some() {
            chunk.add(&agui::run_error(self.dialect, code, message, None));
        }
    }

    /// Adds what a batch tells. Where the whole is to be shown instead of the rest, if it is.
    pub(super) fn take(&mut self, batch: &Batch, chunk: &mut impl Chunk) -> Option<Cursor> {
        let mut inside: Option<Range<usize>> = None;
        for (index, event) in batch.events.iter().enumerate() {
            if self.joined.is_some() && !goes_on(&event.body) {
                self.pass_pending(chunk);
                self.joined = None;
            }
            let step = self.step(event);
            match step {
                Step::Inside => inside = Some(inside.map_or(index, |range| range.start)..index + 1),
                Step::Silent | Step::Pending => {}
                Step::Starts | Step::StartsWith | Step::Ends(_) | Step::Passes(_) | Step::Moves => {
                    self.tell(batch, inside.take(), chunk);
                }
            }
            match step {
                Step::Silent | Step::Inside | Step::Pending => {}
                Step::Starts => self.start(event, event.cursor, chunk),
                Step::StartsWith => {
                    self.start(event, None, chunk);
                    inside = Some(index..index + 1);
                }
                Step::Ends(end) => {
                    self.end(&end, event.cursor, event.at, chunk);
                    if self.moved {
                        return event.cursor;
                    }
                }
                Step::Passes(end) => self.pass(end, event.cursor, event.at, chunk),
                Step::Moves => return event.cursor,
            }
        }
        self.tell(batch, inside, chunk);
        self.pass_pending(chunk);
        None
    }

    /// What was written and brought no reply is a run of its own.
    fn pass_pending(&mut self, chunk: &mut impl Chunk) {
        let Some((cursor, at)) = self.pending else { return };
        let waits = Waits { calls: self.open.clone(), interrupts: self.interrupts.clone() };
        let end = TurnEnd::waits(waits).unwrap_or(TurnEnd::Completed);
        self.pass(end, cursor, at, chunk);
    }

    /// The events inside the run that stand at `range`. When the batch tells no more than them, as all its readers share it.
    fn tell(&mut self, batch: &Batch, range: Option<Range<usize>>, chunk: &mut impl Chunk) {
        let Some(range) = range.filter(|_| !self.is_told()) else { return };
        let others = batch.events[..range.start].iter().chain(&batch.events[range.end..]);
        let dialect = self.dialect;
        let rendered: Frames;
        let frames = if others.into_iter().all(|event| is_silent(&event.body)) {
            batch.rendered(dialect.index(), |events| agui::render(dialect, events))
        } else {
            rendered = agui::render(dialect, &batch.events[range]);
            &rendered
        };
        // Marks that are told together may begin before the place.
        let rest = self.after.take().map(|after| frames.after(after));
        let frames = rest.as_ref().unwrap_or(frames);
        if !frames.is_empty() {
            chunk.add(frames);
        }
    }

    fn start(&mut self, event: &Event, cursor: Option<Cursor>, chunk: &mut impl Chunk) {
        let states = self.states();
        let Some(run) = &self.run else { return };
        let last = cursor.filter(|_| states.is_empty());
        chunk.add(&agui::run_started_with(self.dialect, &self.thread, &run.name, &self.news, event.at, last));
        if !states.is_empty() {
            chunk.add(&states.at(cursor));
        }
        self.started();
    }

    /// What became of the agent's state since the last run.
    fn states(&mut self) -> Frames {
        agui::render(self.dialect, &std::mem::take(&mut self.states))
    }

    fn end(&mut self, end: &TurnEnd, cursor: Option<Cursor>, at: Millis, chunk: &mut impl Chunk) {
        let is_told = self.is_told();
        self.told = None;
        if let Some(run) = self.run.take().filter(|_| !is_told) {
            self.finish(&run.name, end, &run.usage, cursor, at, chunk);
        }
        self.ended();
    }

    /// A run that only brings what was written.
    fn pass(&mut self, end: TurnEnd, cursor: Option<Cursor>, at: Millis, chunk: &mut impl Chunk) {
        let news = std::mem::take(&mut self.news);
        let Over { name, end, .. } = self.over_at_once(end, cursor, at);
        chunk.add(&agui::run_started_with(self.dialect, &self.thread, &name, &news, at, None));
        chunk.add(&self.states());
        self.finish(&name, &end, &[], cursor, at, chunk);
    }

    fn finish(&self, name: &TurnId, end: &TurnEnd, usage: &[Usage], cursor: Option<Cursor>, at: Millis, chunk: &mut impl Chunk) {
        let outcome = match end {
            TurnEnd::Completed => Outcome::Success,
            TurnEnd::Cancelled => Outcome::Cancelled,
            TurnEnd::Waiting { calls } => Outcome::Waiting(calls),
            TurnEnd::Interrupted { interrupts } => Outcome::Interrupted(interrupts),
            TurnEnd::Failed { code, message } => return chunk.add(&agui::run_error(self.dialect, *code, message, cursor)),
        };
        chunk.add(&agui::run_finished_at(self.dialect, &self.thread, name, outcome, usage, at, cursor));
    }

    fn is_told(&self) -> bool {
        self.run.as_ref().is_some_and(|run| self.told.as_ref() == Some(&run.turn))
    }

    fn started(&mut self) {
        (self.news, self.pending, self.joined, self.moved) = (Vec::new(), None, None, false);
    }

    fn ended(&mut self) {
        (self.news, self.pending, self.joined, self.run) = (Vec::new(), None, None, None);
    }
}

/// A run that only shows the whole.
fn shown(cursor: Cursor, waiting: &Waits, at: Millis) -> Over {
    let end = TurnEnd::waits(waiting.clone()).unwrap_or(TurnEnd::Completed);
    Over { name: own(cursor), end, usage: Vec::new(), cursor: Some(cursor), at }
}

/// The name of a run that nobody asked for.
fn own(cursor: Cursor) -> TurnId {
    TurnId::from(format!("{SERVER_PREFIX}at_{cursor}"))
}
