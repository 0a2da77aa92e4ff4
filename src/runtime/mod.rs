//! The runtime does what the engine decides: it owns sessions, one task each, on the worker threads that entered it; calls
//! models; appends; tells readers. May not know actix or AG-UI.

mod agent;
mod answers;
mod arriving;
mod asking;
mod audience;
mod backlog;
mod bus;
mod command;
mod counts;
mod deciding;
mod dialling;
mod erase;
mod events;
mod executing;
mod job;
mod keeper;
mod limits;
mod linear;
mod lists;
mod living;
mod log;
mod masked;
mod pace;
mod pages;
mod pieces;
mod readiness;
mod replay;
mod reply;
mod room;
mod run_events;
mod running;
mod runs;
mod session_events;
mod session_task;
mod shared;
mod slots;
mod submits;
#[cfg(test)]
mod tests;
mod told;
mod tools;
mod transfer;
mod worker;

pub use crate::engine::BadTool;
pub use crate::engine::context::{ContextOptions, KEEP_TURNS, Misfit, StrategyOptions};
pub use crate::provider::Abilities;
pub use crate::worker::socket::{CREDIT_MAX, Came as WorkerCame, Ended as WorkerEnded, Told as WorkerTold};
pub use agent::{AgentOptions, OnDisconnect, WorkerOptions};
pub use bus::{Batch, DIALECTS, ReadEnd, Reader, Sink, channel};
pub use dialling::WorkerConnection;
pub use events::{EventStream, StreamEnd};
pub use limits::Limits;
pub use pace::Pace;
pub use run_events::{RunEvents, Told};
pub use runs::{Active, Resumed, Run};
pub use session_events::SessionEvents;
pub use tools::ToolOptions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::command::Command;
use self::shared::Shared;
use crate::clock;
use crate::engine::Submit;
use bytes::Bytes;

use crate::ids::{AgentId, DecisionId, SessionId, SessionKey, Tenant, ToolCallId, TurnId};
use crate::protocol::{
    Accepted, Code, Cursor, DecisionAnswer, Event, ForkInput, Forked, HeadAnswer, HeadMove, Imported, Input, Interrupt, Json, RecordsPage,
    Refusal, Running, SessionPage, SessionUpdate, SessionsPage, Snapshot, TreePage, TreeQuery, Waits,
};
use crate::provider;
use crate::store::Store;
use crate::worker::Workers;
use crate::worker::socket::Hub;

/// How long sessions may take to stop.
const STOP_MAX: Duration = Duration::from_secs(5);

/// What a runtime is made of.
pub struct Options {
    /// Configured agents.
    pub agents: BTreeMap<AgentId, AgentOptions>,
    /// Configured llms: how each worker thread makes its provider, and how many attempts a call has.
    pub llms: BTreeMap<String, Llm>,
    /// Who decides for agents; those that aren't here do what the engine proposes.
    pub workers: Workers,
    /// Where workers dial in.
    pub dialling: Hub,
    /// How much and how long.
    pub limits: Limits,
}

/// A configured llm.
pub struct Llm {
    /// Makes a worker thread's provider.
    pub factory: provider::Factory,
    /// Attempts of a call, the first included.
    pub attempts: u32,
    /// What it can do.
    pub abilities: Abilities,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEnd {
    /// Well; also what a submit gets that asked for no reply.
    Completed,
    /// With an error.
    Failed {
        /// Its code.
        code: Code,
        /// In words.
        message: String,
    },
    /// Stopped.
    Cancelled,
    /// Not yet: it waits for the results of these calls. Only its run has ended.
    Waiting {
        /// The calls that are open.
        calls: Vec<ToolCallId>,
    },
    /// Not yet: it pauses until these are answered. Only its run has ended.
    Interrupted {
        /// All that is open.
        interrupts: Vec<Interrupt>,
    },
}

impl TurnEnd {
    /// Of one that waits; nothing: it waits for nothing.
    pub fn waits(waits: Waits) -> Option<Self> {
        match (waits.calls, waits.interrupts) {
            (calls, interrupts) if interrupts.is_empty() => (!calls.is_empty()).then_some(Self::Waiting { calls }),
            (_, interrupts) => Some(Self::Interrupted { interrupts }),
        }
    }
}

/// A turn as its submitter follows it.
pub enum Following {
    /// It runs: what comes from here on. The reader ends with the turn, and when that starts to wait. Of a turn that waits for
    /// another: nothing before it begins; then its beginning and the conversation as it is then, or that it never begins.
    Running(Reader),
    /// It has ended, or never began because no reply was due.
    Ended(TurnEnd),
}

/// What a submit gave.
pub struct Submitted {
    /// The answer.
    pub accepted: Accepted,
    /// The whole conversation, when the client needs it (a duplicate, a partial view that was appended, a forked edit).
    pub snapshot: Option<Arc<Snapshot>>,
    /// The agent's state, when it isn't the one that the client says it holds, and `snapshot` doesn't say it.
    pub state: Option<Json>,
    /// What its own records said of the room in the context window, before anybody followed the turn.
    pub room: Vec<Event>,
    /// Where the client is now.
    pub cursor: Cursor,
    /// The turn.
    pub following: Following,
}

/// A session as someone joins it.
pub struct Joined {
    /// The whole conversation, the reply in the making included.
    pub snapshot: Arc<Snapshot>,
    /// That room is being made in the context window, when it is.
    pub room: Vec<Event>,
    /// Where the reader is then.
    pub cursor: Cursor,
    /// The turn that runs, and what comes from here on.
    pub running: Option<(Running, Reader)>,
    /// What a turn waits for that doesn't run.
    pub waiting: Waits,
}

/// The runtime of a process. Clones are the same runtime; every method works from any thread.
#[derive(Clone)]
pub struct Runtime(Arc<Shared>);

impl Runtime {
    /// A runtime over `store`. It has no threads of its own: worker threads [enter](Self::enter) it.
    pub fn new(options: Options, store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Shared::new(options, store)))
    }

    /// Makes this thread, which must run a `LocalSet`, one that owns sessions. Entering again does nothing.
    pub fn enter(&self) {
        worker::enter(&self.0);
    }

    /// A configured agent.
    pub fn agent(&self, id: &AgentId) -> Option<&AgentOptions> {
        self.0.options.agents.get(id)
    }

    /// What the llm of an agent can do.
    pub fn abilities(&self, id: &AgentId) -> Abilities {
        let llm = self.agent(id).and_then(|agent| self.0.options.llms.get(&agent.llm));
        llm.map_or_else(Abilities::default, |llm| llm.abilities)
    }

    /// The configured agents' names.
    pub fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.0.options.agents.keys()
    }

    /// Submits an input to a session, which is made when it doesn't exist.
    pub async fn submit(&self, key: &SessionKey, input: Input) -> Result<Submitted, Refusal> {
        let submit = Box::new(Submit::from(input));
        self.0.ask(key, |answer| Command::Submit(submit, answer)).await?
    }

    /// The whole conversation and, when a turn runs, what follows. `session_not_found` when there is none.
    pub async fn join(&self, key: &SessionKey) -> Result<Joined, Refusal> {
        self.0.ask(key, Command::Join).await?
    }

    /// Stops the turn that is there, or the one named, which may wait for another. Whether there was one to stop.
    pub async fn cancel(&self, key: &SessionKey, turn: Option<TurnId>) -> Result<bool, Refusal> {
        self.0.ask(key, |answer| Command::Cancel(turn, answer)).await?
    }

    /// Stops the turn that `turn` names because its submitter went away: not one that several submits were merged into. Whether it
    /// was stopped.
    pub async fn leave(&self, key: &SessionKey, turn: TurnId) -> Result<bool, Refusal> {
        self.0.ask(key, |answer| Command::Leave(turn, answer)).await?
    }

    /// Carries out a worker's answer that came by itself; whether the decision wasn't answered before. A `bad_answer` leaves it open.
    pub async fn answer(&self, key: &SessionKey, decision: DecisionId, given: DecisionAnswer) -> Result<bool, Refusal> {
        self.0.ask(key, |answer| Command::Decide(decision, Box::new(given), answer)).await?
    }

    /// A session's page.
    pub async fn session(&self, key: &SessionKey) -> Result<SessionPage, Refusal> {
        self.0.ask(key, Command::Page).await?
    }

    /// A page of a session's tree.
    pub async fn tree(&self, key: &SessionKey, query: TreeQuery) -> Result<TreePage, Refusal> {
        self.0.ask(key, |answer| Command::Tree(query, answer)).await?
    }

    /// Moves the head, or names a node.
    pub async fn move_head(&self, key: &SessionKey, asked: HeadMove) -> Result<HeadAnswer, Refusal> {
        self.0.ask(key, |answer| Command::MoveHead(asked, answer)).await?
    }

    /// Changes a session's title, or whether lists leave it out.
    pub async fn update(&self, key: &SessionKey, asked: SessionUpdate) -> Result<SessionPage, Refusal> {
        self.0.ask(key, |answer| Command::Update(asked, answer)).await?
    }

    /// Removes a session: its turn is voided, its readers are told, and its id stays taken for a day.
    pub async fn erase(&self, key: &SessionKey) -> Result<(), Refusal> {
        self.0.ask(key, Command::Erase).await?
    }

    /// A tenant's sessions by id, after `after`, at most `limit`; only those that are archived or aren't, when it is said.
    pub async fn sessions(
        &self,
        tenant: &Tenant,
        after: Option<SessionId>,
        limit: usize,
        archived: Option<bool>,
    ) -> Result<SessionsPage, Refusal> {
        lists::sessions(&*self.0.store, tenant, after, limit, archived).await
    }

    /// A page of a session's log: records after `after`, at most `limit`.
    pub async fn records(&self, key: &SessionKey, after: u64, limit: usize) -> Result<RecordsPage, Refusal> {
        lists::records(&*self.0.store, key, after, limit).await
    }

    /// Makes a new session of a path. The same fork again answers with what is there.
    pub async fn fork(&self, key: &SessionKey, asked: ForkInput) -> Result<Forked, Refusal> {
        let ForkInput { session_id, at } = asked;
        let carried = Box::new(self.0.ask(key, |answer| Command::Carry(at, answer)).await??);
        let session = session_id.unwrap_or_else(|| clock::stamp().id(0).into());
        let to = SessionKey { tenant: key.tenant.clone(), session };
        self.0.ask(&to, |answer| Command::Fork(carried, answer)).await?
    }

    /// Makes a new session of a whole log. What was unfinished in it ends. The same log again answers with what is there.
    pub async fn import(&self, key: &SessionKey, records: Vec<Bytes>) -> Result<Imported, Refusal> {
        self.0.ask(key, |answer| Command::Import(records, answer)).await?
    }

    /// A session's events after `after` (none: from now on), in order, once; the past is read from the log. Nothing that no reader may
    /// see is among them.
    pub async fn events(&self, key: &SessionKey, after: Option<Cursor>) -> Result<EventStream, Refusal> {
        let (at, hold) = self.0.ask(key, |answer| Command::Events(after, answer)).await??;
        Ok(EventStream::new(self.0.clone(), key.clone(), at, hold))
    }

    /// A session's events after `after`, in which replies of the past are told piece by piece. A call that runs there began with the
    /// record `call`.
    pub async fn session_events(&self, key: &SessionKey, after: Cursor, call: Option<u64>) -> Result<SessionEvents, Refusal> {
        let (at, hold) = self.0.ask(key, |answer| Command::Events(Some(after), answer)).await??;
        let from = call.map_or(at, |call| Cursor::after(call.saturating_sub(1)).min(at));
        Ok(SessionEvents::new(EventStream::new(self.0.clone(), key.clone(), from, hold), at))
    }

    /// What readers are told of the `limit` records that end with the one at `until`, in order: what led to a place.
    pub async fn told_until(&self, key: &SessionKey, until: u64, limit: u64) -> Result<Vec<Event>, Refusal> {
        lists::told_until(&*self.0.store, key, until, limit).await
    }

    /// Whether requests can be served: the store answers, now or a moment ago, and the runtime isn't draining.
    pub async fn ready(&self) -> Result<(), Refusal> {
        if self.0.is_draining() {
            return Err(shared::stopping());
        }
        self.0.readiness.ask(&*self.0.store).await
    }

    /// Opens every session with something outstanding, so that its turn goes on; how many. For start-up: waits until a worker
    /// thread has entered.
    pub async fn recover(&self) -> Result<usize, Refusal> {
        let _ = self.0.entered.subscribe().wait_for(|&workers| workers > 0).await;
        let keys = self.0.store.outstanding().await.map_err(|error| log::unusable(&error))?;
        for key in &keys {
            if let Err(refusal) = self.0.ask(key, Command::Open).await.and_then(|opened| opened) {
                tracing::error!(session.id = %key, error = %refusal.code, "a session with an unfinished turn can't be opened");
                tokio::spawn(self.0.clone().take_up(key.clone()));
            }
        }
        Ok(keys.len())
    }

    /// Takes no more submits, lets running turns go on for the configured time, then stops what is left (it is recovered at the
    /// next start).
    pub async fn drain(&self) {
        let grace = Duration::from_secs(self.0.options.limits.drain_secs);
        self.0.draining.send_replace(true);
        let mut running = self.0.running.subscribe();
        if tokio::time::timeout(grace, running.wait_for(|&turns| turns == 0)).await.is_err() {
            tracing::warn!(turns = *self.0.running.borrow(), "turns are left unfinished; they go on at the next start");
        }
        self.0.stop_all();
        self.0.options.dialling.close();
        let mut living = self.0.living.subscribe();
        let _ = tokio::time::timeout(STOP_MAX, living.wait_for(|&tasks| tasks == 0)).await;
    }
}
