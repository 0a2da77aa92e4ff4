//! What a session's task answers without a turn: pages, the whole conversation, what follows a place; head moves and titles.

use std::sync::Arc;

use super::Joined;
use super::arriving;
use super::audience::Hold;
use super::command::{Answer, give, reply};
use super::events::{Follow, Followed};
use super::log;
use super::session_task::Task;
use crate::clock;
use crate::engine::{self, Record};
use crate::ids::TurnId;
use crate::protocol::{
    Code, Cursor, Event, EventBody, HeadAnswer, HeadMove, Json, Refusal, Running, SessionPage, SessionUpdate, Snapshot, TreePage, TreeQuery,
};

/// A reader that comes back to a reply in the making gets it in parts of about so many bytes.
const PART_BYTES: usize = 16 << 10;

impl Task {
    /// The conversation as readers see it, the reply in the making included.
    pub(super) async fn snapshot(&mut self) -> Result<Arc<Snapshot>, Refusal> {
        let nodes = engine::reader_nodes(&self.log.session);
        self.log.recall(nodes).await?;
        let mut messages = engine::snapshot_messages(&self.log.session);
        let (message, writing) = self.running.as_ref().and_then(super::running::Running::joined).unzip();
        let (read, others) = arriving::waiting(&self.log.session);
        messages.extend(read);
        messages.extend(message.map(Arc::new));
        messages.extend(others);
        let interrupts = self.log.session.open_interrupts().to_vec();
        let state = self.told_state().await?;
        Ok(Arc::new(Snapshot { messages, state, interrupts, writing }))
    }

    /// The state, as people are told of it who may hold another.
    pub(super) async fn told_state(&mut self) -> Result<Option<Json>, Refusal> {
        self.log.recall_state().await?;
        Ok(self.log.session.told_state().ok().flatten())
    }

    /// The conversation, and what follows while a turn runs.
    pub(super) async fn join(&mut self) -> Result<Joined, Refusal> {
        self.must_exist()?;
        let snapshot = self.snapshot().await?;
        let session = &self.log.session;
        let waiting = session.turn.as_ref().and_then(|turn| session.waits(&turn.id)).unwrap_or_default();
        // One that a later version must go on with says nothing here.
        let turn = session.turn.as_ref().filter(|_| engine::is_running(session));
        let turn = turn.map(|turn| Running { turn_id: turn.id.clone(), started_at: turn.started_at });
        let running = match turn {
            Some(turn) => {
                let reader = self.audience.admit(turn.turn_id.clone(), None)?;
                Some((turn, reader))
            }
            None => None,
        };
        let room = running.iter().filter_map(|(turn, _)| self.held(&turn.turn_id)).collect();
        Ok(Joined { snapshot, room, cursor: self.cursor(), running, waiting })
    }

    /// That a call of this turn waits for room in the context window, as it was told when it began to.
    pub(super) fn held(&self, turn: &TurnId) -> Option<Event> {
        let turn = self.log.session.turn.as_ref().filter(|running| running.id == *turn)?;
        let held = turn.held.as_ref()?;
        let body = EventBody::ContextLimited {
            turn_id: turn.id.clone(),
            call_id: held.id.clone(),
            reason: held.reason,
            strategy: held.strategy.as_ref().map(|strategy| strategy.name.clone()),
            tokens: held.tokens,
            window: self.context().agents.get(&turn.agent_id).and_then(|agent| agent.window),
        };
        Some(Event { cursor: None, at: clock::now(), body })
    }

    /// The session's page.
    pub(super) async fn page(&mut self) -> Result<SessionPage, Refusal> {
        self.must_exist()?;
        let nodes = engine::reader_nodes(&self.log.session);
        self.log.recall(nodes).await?;
        self.log.recall_state().await?;
        engine::page(&self.log.session, &self.log.key.session).ok_or_else(|| self.not_found())
    }

    /// A page of the session's tree.
    pub(super) async fn tree(&mut self, query: &TreeQuery) -> Result<TreePage, Refusal> {
        self.must_exist()?;
        let nodes = engine::tree_nodes(&self.log.session, query)?;
        self.log.recall(nodes).await?;
        engine::tree_page(&self.log.session, &self.log.key.session, query)
    }

    /// What a head move comes to.
    pub(super) fn decide_head(&self, asked: &HeadMove) -> Result<(Vec<Record>, HeadAnswer), Refusal> {
        self.must_exist()?;
        engine::move_head(&self.log.session, &self.log.key.session, asked, &self.context())
    }

    /// Changes what the page says; the page then.
    pub(super) async fn update(&mut self, asked: &SessionUpdate, answer: Answer<SessionPage>) -> Result<(), Refusal> {
        let decided = self.must_exist().and_then(|()| engine::update(&self.log.session, asked, &self.context()));
        let changed = match decided {
            Ok(records) => self.change(records).await,
            Err(refusal) => {
                reply(answer, Err(refusal));
                return Ok(());
            }
        };
        if let Err(refusal) = changed {
            return give(answer, Err(refusal));
        }
        reply(answer, self.page().await);
        Ok(())
    }

    /// Where reading the events after `after` begins.
    pub(super) fn events(&mut self, after: Option<Cursor>) -> Result<(Cursor, Arc<Hold>), Refusal> {
        self.must_exist()?;
        let now = self.cursor();
        let after = after.unwrap_or(now);
        let is_ahead = after.seq > self.log.session.seq || self.running.as_ref().is_some_and(|running| running.is_behind(after));
        if is_ahead {
            let text = format!("the cursor {after} is ahead of the session, which is at {now}; read from there, or from 0");
            return Err(Refusal::new(Code::BadRequest, text).with("at", "after").with("cursor", now.to_string()));
        }
        Ok((after, self.audience.hold()?))
    }

    /// What comes after a place in the events.
    pub(super) async fn follow(&mut self, follow: &Follow) -> Result<Followed, Refusal> {
        let Follow { hold, at, stale } = follow;
        if at.seq < self.log.session.seq {
            return Ok(Followed::Behind);
        }
        let held = self.running.as_ref().filter(|running| running.holds(*at));
        let events = if *stale || (at.within.is_some() && held.is_none()) {
            let snapshot = self.snapshot().await?;
            vec![Event { cursor: Some(self.cursor()), at: clock::now(), body: EventBody::Resync(snapshot) }]
        } else {
            held.map(|running| running.since(*at, PART_BYTES)).unwrap_or_default()
        };
        if events.last().is_some_and(|last| last.cursor != Some(self.cursor())) {
            return Ok(Followed::Part(events));
        }
        let lost = || Refusal::new(Code::Internal, "the session was opened anew; read on from the last cursor");
        Ok(Followed::Here(events, self.audience.admit_whole(hold).ok_or_else(lost)?))
    }

    pub(super) fn must_exist(&self) -> Result<(), Refusal> {
        if self.log.session.agent_id.is_some() { Ok(()) } else { Err(self.not_found()) }
    }

    fn not_found(&self) -> Refusal {
        log::not_found(&self.log.key)
    }
}
