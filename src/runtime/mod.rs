//! The runtime does what the engine decides: it owns sessions, one task each, on the worker threads that entered it; calls
//! models; appends; tells readers. May not know actix or AG-UI.

mod agent;
mod bus;

pub use agent::{AgentOptions, OnDisconnect};
pub use bus::{Batch, DIALECTS, ReadEnd, Reader, Sink, channel};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{AgentId, NodeId, SessionKey, TurnId};
use crate::protocol::{Accepted, Code, Cursor, Input, Refusal, Running, SessionPage, Snapshot, TreePage};
use crate::provider;
use crate::store::Store;

/// What a runtime is made of.
pub struct Options {
    /// Configured agents.
    pub agents: BTreeMap<AgentId, AgentOptions>,
    /// Configured llms: how each worker thread makes its provider, and how many attempts a call has.
    pub llms: BTreeMap<String, Llm>,
    /// The most readers of one session.
    pub readers_max: usize,
    /// The most batches that wait for one reader; one that falls further behind is dropped.
    pub reader_batches_max: usize,
    /// The most model calls of one turn.
    pub calls_per_turn_max: u32,
    /// A session that nobody used for so long leaves memory.
    pub idle_secs: u64,
}

/// A configured llm.
pub struct Llm {
    /// Makes a worker thread's provider.
    pub factory: provider::Factory,
    /// Attempts of a call, the first included.
    pub attempts: u32,
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
}

/// A turn as its submitter follows it.
pub enum Following {
    /// It runs: what comes from here on. The reader ends with the turn.
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
    /// Where the client is now.
    pub cursor: Cursor,
    /// The turn.
    pub following: Following,
}

/// A session as someone joins it.
pub struct Joined {
    /// The whole conversation, the reply in the making included.
    pub snapshot: Arc<Snapshot>,
    /// Where the reader is then.
    pub cursor: Cursor,
    /// The turn that runs, and what comes from here on.
    pub running: Option<(Running, Reader)>,
}

/// The runtime of a process. Clones are the same runtime; every method works from any thread.
#[derive(Clone)]
pub struct Runtime(Arc<Shared>);

struct Shared {
    options: Options,
    _store: Arc<dyn Store>,
}

impl Runtime {
    /// A runtime over `store`. It has no threads of its own: worker threads [enter](Self::enter) it.
    pub fn new(options: Options, store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Shared { options, _store: store }))
    }

    /// Makes this thread, which must run a `LocalSet`, one that owns sessions. Entering again does nothing.
    pub fn enter(&self) {
        todo!()
    }

    /// A configured agent.
    pub fn agent(&self, id: &AgentId) -> Option<&AgentOptions> {
        self.0.options.agents.get(id)
    }

    /// The configured agents' names.
    pub fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.0.options.agents.keys()
    }

    /// Submits an input to a session, which is made when it doesn't exist.
    pub async fn submit(&self, _key: &SessionKey, _input: Input) -> Result<Submitted, Refusal> {
        todo!()
    }

    /// The whole conversation and, when a turn runs, what follows. `session_not_found` when there is none.
    pub async fn join(&self, _key: &SessionKey) -> Result<Joined, Refusal> {
        todo!()
    }

    /// Stops the running turn, or only if it is the one named. Whether there was one to stop.
    pub async fn cancel(&self, _key: &SessionKey, _turn: Option<TurnId>) -> Result<bool, Refusal> {
        todo!()
    }

    /// A session's page.
    pub async fn session(&self, _key: &SessionKey) -> Result<SessionPage, Refusal> {
        todo!()
    }

    /// A page of a session's tree as readers see it.
    pub async fn tree(&self, _key: &SessionKey, _after: Option<NodeId>, _limit: usize) -> Result<TreePage, Refusal> {
        todo!()
    }

    /// Whether requests can be served: the store answers and the runtime isn't draining.
    pub async fn ready(&self) -> Result<(), Refusal> {
        todo!()
    }

    /// Opens every session with something outstanding, so that its turn goes on. For start-up.
    pub async fn recover(&self) -> Result<usize, Refusal> {
        todo!()
    }

    /// Takes no more submits, waits at most `grace` for running turns, then stops what is left (it is recovered at the next start).
    pub async fn drain(&self, _grace: Duration) {
        todo!()
    }
}
