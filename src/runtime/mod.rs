//! The runtime does what the engine decides: it owns sessions, one task each, on the worker threads that entered it; calls
//! models; appends; tells readers. May not know actix or AG-UI.

mod agent;
mod answers;
mod audience;
mod bus;
mod limits;
mod log;
mod reply;
mod running;
mod session_task;
mod shared;
#[cfg(test)]
mod tests;
mod worker;

pub use agent::{AgentOptions, OnDisconnect};
pub use bus::{Batch, DIALECTS, ReadEnd, Reader, Sink, channel};
pub use limits::Limits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::session_task::Command;
use self::shared::Shared;
use crate::engine::Submit;
use crate::ids::{AgentId, NodeId, SessionKey, TurnId};
use crate::protocol::{Accepted, Code, Cursor, Input, Refusal, Running, SessionPage, Snapshot, TreePage};
use crate::provider;
use crate::store::Store;

/// How long sessions may take to stop.
const STOP_MAX: Duration = Duration::from_secs(5);

/// What a runtime is made of.
pub struct Options {
    /// Configured agents.
    pub agents: BTreeMap<AgentId, AgentOptions>,
    /// Configured llms: how each worker thread makes its provider, and how many attempts a call has.
    pub llms: BTreeMap<String, Llm>,
    /// How much and how long.
    pub limits: Limits,
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

    /// Stops the running turn, or only if it is the one named. Whether there was one to stop.
    pub async fn cancel(&self, key: &SessionKey, turn: Option<TurnId>) -> Result<bool, Refusal> {
        self.0.ask(key, |answer| Command::Cancel(turn, answer)).await?
    }

    /// A session's page.
    pub async fn session(&self, key: &SessionKey) -> Result<SessionPage, Refusal> {
        self.0.ask(key, Command::Page).await?
    }

    /// A page of a session's tree as readers see it: nodes after `after`, at most `limit`.
    pub async fn tree(&self, key: &SessionKey, after: Option<NodeId>, limit: usize) -> Result<TreePage, Refusal> {
        self.0.ask(key, |answer| Command::Tree(after, limit, answer)).await?
    }

    /// Whether requests can be served: the store answers and the runtime isn't draining.
    pub async fn ready(&self) -> Result<(), Refusal> {
        if self.0.is_draining() {
            return Err(shared::stopping());
        }
        self.0.store.ready().await.map_err(|error| {
            // The log has the whole; it may name places that are nobody's business.
            tracing::warn!(error = %error, source = std::error::Error::source(&error).map(tracing::field::display), "the store isn't ready");
            Refusal::new(Code::StoreUnavailable, "the store doesn't answer")
        })
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
        let mut living = self.0.living.subscribe();
        let _ = tokio::time::timeout(STOP_MAX, living.wait_for(|&tasks| tasks == 0)).await;
    }
}
