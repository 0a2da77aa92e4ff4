//! Runs as their readers come to them, or back: by any of their names, from their start or from any place in them, while they are
//! made or long after. May not know AG-UI.

use std::sync::Arc;

use super::arriving;
use super::audience::Hold;
use super::bus::Reader;
use super::command::Command;
use super::events::EventStream;
use super::replay::Replay;
use super::run_events::RunEvents;
use super::session_events::SessionEvents;
use super::session_task::Task;
use super::shared::Shared;
use super::{Runtime, TurnEnd, log};
use crate::engine::record::Body;
use crate::engine::{self, Record};
use crate::ids::{NodeId, SessionKey, TurnId};
use crate::meters::names;
use crate::protocol::{Code, Cursor, Interrupt, Refusal, Snapshot, Waits};

/// Records read at once.
const PAGE: usize = 64;

/// Where a run is.
pub enum Place {
    /// Nowhere yet: its turn waits for another.
    Queued {
        /// The turn.
        turn: TurnId,
        /// Its beginning, or that it never begins.
        reader: Reader,
    },
    /// In the log.
    Begun(Begun),
    /// Nowhere: no reply was due, or it was given up before it began.
    Nowhere {
        /// How it ended.
        end: TurnEnd,
    },
}

/// A run that is in the log.
pub struct Begun {
    /// Its turn.
    pub turn: TurnId,
    /// From which record on the log is the turn's.
    pub from: u64,
    /// Where a reader is that has been told everything.
    pub now: Cursor,
    /// What the turn waits for, when it does.
    pub waiting: Option<Waits>,
    /// Keeps the session in memory.
    pub hold: Arc<Hold>,
}

/// A run that somebody comes to.
pub enum Run {
    /// Its turn waits for another: its beginning and the conversation then, or that it never begins.
    Queued(TurnId, Reader),
    /// There is nothing to tell but its end.
    Ended(TurnEnd),
    /// The rest of it.
    Begun(Box<Resumed>),
}

/// The rest of a run.
pub struct Resumed {
    /// The turn that it is of.
    pub turn: TurnId,
    /// Of one that is read from its start: the conversation as it was then, and the place.
    pub opening: Option<(Arc<Snapshot>, Cursor)>,
    /// What follows.
    pub events: RunEvents,
}

/// A conversation, and who works on it.
pub struct Active {
    /// The conversation, without the reply in the making.
    pub snapshot: Arc<Snapshot>,
    /// The turn that runs.
    pub turn: Option<TurnId>,
    /// What pauses the turn that is there.
    pub interrupts: Vec<Interrupt>,
    /// From which record on the log is its own.
    from: u64,
}

impl Runtime {
    /// A run of a session by any of its names: after a place in it, or (none) from its start.
    pub async fn run(&self, key: &SessionKey, name: &TurnId, after: Option<Cursor>) -> Result<Run, Refusal> {
        let asked = name.clone();
        match self.0.ask(key, |answer| Command::Run(asked, answer)).await?? {
            Place::Queued { .. } if after.is_some() => Err(unknown_cursor("the run hasn't begun, and nothing of it was told")),
            Place::Queued { turn, reader } => Ok(Run::Queued(turn, reader)),
            Place::Nowhere { end } => Ok(Run::Ended(end)),
            Place::Begun(begun) => self.begun(key, name, after, begun).await.map(|resumed| Run::Begun(Box::new(resumed))),
        }
    }

    /// The rest of a turn's run for a reader that fell behind: of that run in which it was, after the last place that it read.
    pub async fn catch_up(&self, key: &SessionKey, turn: &TurnId, after: Option<Cursor>) -> Result<Run, Refusal> {
        metrics::counter!(names::READERS_LAGGED).increment(1);
        let asked = turn.clone();
        let place = self.0.ask(key, |answer| Command::Run(asked, answer)).await??;
        let (Place::Begun(begun), Some(after)) = (place, after) else { return self.run(key, turn, after).await };
        let name = self.0.last_name(key, begun.from, after.seq, &begun.turn).await?.unwrap_or_else(|| begun.turn.clone());
        self.begun(key, &name, Some(after), begun).await.map(|resumed| Run::Begun(Box::new(resumed)))
    }

    /// The same as a session's events, not only the run's own, in which replies are told piece by piece.
    pub async fn catch_up_whole(&self, key: &SessionKey, turn: &TurnId, after: Cursor) -> Result<SessionEvents, Refusal> {
        metrics::counter!(names::READERS_LAGGED).increment(1);
        let asked = turn.clone();
        let Place::Begun(begun) = self.0.ask(key, |answer| Command::Run(asked, answer)).await?? else {
            return Err(unknown_cursor("the run isn't there any more"));
        };
        let stream = EventStream::new(self.0.clone(), key.clone(), Cursor::after(begun.from - 1), begun.hold);
        Ok(SessionEvents::new(stream, after))
    }

    async fn begun(&self, key: &SessionKey, name: &TurnId, after: Option<Cursor>, begun: Begun) -> Result<Resumed, Refusal> {
        let Begun { turn, from, now, waiting, hold } = begun;
        if let Some(after) = after.filter(|after| is_ahead(*after, now)) {
            return Err(unknown_cursor(&format!("{after} is ahead of the session, which is at {now}")));
        }
        let joined = if *name == turn { None } else { self.0.joined_at(key, from, now.seq, name).await? };
        let start = joined.unwrap_or(from);
        let replay = Replay::new(turn.clone(), joined.is_some().then(|| name.clone()), after).asked_as(name.clone());
        let stream = EventStream::new(self.0.clone(), key.clone(), Cursor::after(start - 1), hold).replayed();
        let mut events = RunEvents::new(stream, replay);
        events.find(waiting).await.map_err(|end| end.refusal(key))?;
        let opening = match (after, events.began()) {
            (None, Some(start)) => {
                let node = match events.stands_on() {
                    Some(node) => node,
                    None => self.0.head_at(key, start).await?,
                };
                let snapshot = self.0.ask(key, |answer| Command::ReadAt(node, start, answer)).await??;
                Some((snapshot, Cursor::after(start)))
            }
            (Some(after), Some(start)) if after.seq >= start => None,
            (Some(_) | None, _) => return Err(unknown_cursor("it stands before this run, in another one")),
        };
        Ok(Resumed { turn, opening, events })
    }

    /// A session's conversation without the reply in the making, and the run that makes one, by the name that began it.
    pub async fn hydrate(&self, key: &SessionKey) -> Result<Active, Refusal> {
        let active = self.0.ask(key, Command::Hydrate).await??;
        let Some(turn) = active.turn.clone() else { return Ok(active) };
        let last = self.0.last_name(key, active.from, u64::MAX, &turn).await?;
        Ok(Active { turn: Some(last.unwrap_or(turn)), ..active })
    }
}

/// Whether `after` was never told: nothing is there yet.
fn is_ahead(after: Cursor, now: Cursor) -> bool {
    // Inside a reply that is being made the task's own place may be a record further than the reader's.
    after.seq > now.seq || (after.seq == now.seq && after.within > now.within)
}

pub(super) fn unknown_cursor(why: &str) -> Refusal {
    let text = format!("there is nothing to go on with after this cursor: {why}; join the run without one, or with offset -1");
    Refusal::new(Code::CursorUnknown, text)
}

impl Shared {
    /// The record by which an input became part of a turn that had begun before.
    async fn joined_at(&self, key: &SessionKey, from: u64, to: u64, name: &TurnId) -> Result<Option<u64>, Refusal> {
        let mut found = None;
        self.scan(key, from, to, |seq, body| {
            if let Body::TurnJoined(joined) = body
                && joined.name == *name
            {
                found = Some(seq);
            }
            found.is_some()
        })
        .await?;
        Ok(found)
    }

    /// The last name under which a turn went on, up to the record `to`.
    async fn last_name(&self, key: &SessionKey, from: u64, to: u64, turn: &TurnId) -> Result<Option<TurnId>, Refusal> {
        let mut last = None;
        self.scan(key, from, to, |_, body| {
            if let Body::TurnJoined(joined) = body
                && joined.turn_id == *turn
            {
                last = Some(joined.name.clone());
            }
            false
        })
        .await?;
        Ok(last)
    }

    /// Where the session's head was after the record at `seq`.
    pub(super) async fn head_at(&self, key: &SessionKey, seq: u64) -> Result<Option<NodeId>, Refusal> {
        let mut to = seq;
        while to > 0 {
            let from = to.saturating_sub(PAGE as u64 - 1).max(1);
            let mut head = None;
            self.scan(key, from, to, |_, body| {
                if let Body::MessageNew(new) = body {
                    head = if new.aside { head.take() } else { Some(Some(new.id.clone())) };
                } else if let Body::HeadMoved(moved) = body {
                    head = Some(moved.to.clone());
                }
                false
            })
            .await?;
            if let Some(head) = head {
                return Ok(head);
            }
            to = from - 1;
        }
        Ok(None)
    }

    /// Looks at the records from `from` to `to`, until one is what is looked for.
    async fn scan(&self, key: &SessionKey, from: u64, to: u64, mut look: impl FnMut(u64, &Body) -> bool) -> Result<(), Refusal> {
        let mut at = from;
        while at <= to {
            let page = self.store.read(key, at, PAGE).await.map_err(|error| log::refusal(key, &error))?;
            for bytes in page.iter().take(usize::try_from(to - at).map_or(PAGE, |more| more.saturating_add(1))) {
                let record = Record::decode(bytes).map_err(|_| Refusal::new(Code::SessionCorrupt, "a record can't be decoded"))?;
                if look(at, &record.body) {
                    return Ok(());
                }
                at += 1;
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Task {
    /// Where the run of this name is.
    pub(super) fn place(&mut self, name: &TurnId) -> Result<Place, Refusal> {
        self.must_exist()?;
        let session = &self.log.session;
        let Some((turn, _)) = session.turns.turn_of(name) else {
            let text = format!("the session has no run {name}; GET it without runId for the conversation and the run that is active");
            return Err(Refusal::new(Code::RunNotFound, text).with("run_id", name.as_str()));
        };
        if session.queue.position(&turn).is_some() {
            let reader = self.audience.admit_waiting(turn.clone())?;
            return Ok(Place::Queued { turn, reader });
        }
        let Some(from) = session.turns.began(&turn) else { return Ok(Place::Nowhere { end: self.ended_as(&turn) }) };
        let waiting = session.waits(&turn);
        Ok(Place::Begun(Begun { turn, from, now: self.cursor(), waiting, hold: self.audience.hold()? }))
    }

    /// The conversation as readers see it at a node, with the state that was current there when the record at `seq` had been written.
    pub(super) async fn read_at(&mut self, node: Option<&NodeId>, seq: u64) -> Result<Arc<Snapshot>, Refusal> {
        let at = node.and_then(|node| self.log.session.tree.find(node));
        let nodes = engine::reader_nodes_at(&self.log.session, at);
        self.log.recall(nodes.iter().copied()).await?;
        let messages = engine::messages_of(&self.log.session, nodes);
        Ok(Arc::new(Snapshot { messages, state: self.log.state_then(at, seq).await?, ..Snapshot::default() }))
    }

    /// The conversation without the reply in the making, and the turn that runs.
    pub(super) async fn hydrate(&mut self) -> Result<Active, Refusal> {
        self.must_exist()?;
        let head = self.log.session.head.map(|head| self.log.session.tree.id(head));
        let snapshot = self.read_at(head.as_ref(), u64::MAX).await?;
        let session = &self.log.session;
        let (read, others) = arriving::waiting(session);
        let messages = snapshot.messages.iter().cloned().chain(read).chain(others).collect();
        let snapshot = Arc::new(Snapshot { messages, state: snapshot.state.clone(), ..Snapshot::default() });
        let turn = session.turn.as_ref().filter(|_| engine::is_running(session)).map(|turn| turn.id.clone());
        let from = turn.as_ref().and_then(|turn| session.turns.began(turn)).unwrap_or(session.seq);
        let interrupts = session.open_interrupts().to_vec();
        Ok(Active { snapshot, turn, interrupts, from })
    }
}
