//! Agents' workers: who is asked what a turn does next. One attempt of one decision at a time; deadlines, repeats and what an answer comes
//! to are the engine's. May not know the engine, stores, the web.

mod breaker;
mod error;
mod factory;
mod http;
mod in_process;
mod options;
mod signature;
pub mod socket;
#[cfg(test)]
mod tests;

pub use error::{Error, SetupError};
pub use factory::{dials_in, http};
pub use in_process::InProcess;
pub use options::{HttpOptions, Patience, SocketOptions};

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;

use crate::ids::{AgentId, DecisionId};
use crate::protocol::{DecisionAnswer, DecisionRequest, Refusal, TriggerKind};

/// An attempt to ask. It stays on the thread that began it; dropped, it is given up.
pub type Asking = LocalBoxFuture<'static, Result<DecisionAnswer, Error>>;

/// Who decides for an agent. Stateless: everything is in the request. Each worker thread has its own.
pub trait Worker {
    /// Asks. Nothing is sent before the future is polled.
    fn decide(&self, request: DecisionRequest) -> Asking;

    /// What came of an answer, once that is durable: it was carried out, or why it can't be.
    fn judged(&self, _decision: &DecisionId, _verdict: Result<(), &Refusal>) {}
}

/// Makes a worker thread's own [`Worker`].
pub type Factory = Arc<dyn Fn() -> Box<dyn Worker> + Send + Sync>;

/// An agent's worker, as it is configured.
#[derive(Clone)]
pub struct Configured {
    /// Makes a worker thread's own.
    pub factory: Factory,
    /// How long and how often it is asked.
    pub patience: Patience,
    /// What it is asked; what it isn't, is decided without it.
    pub triggers: Vec<TriggerKind>,
}

/// Workers by their agents.
pub type Workers = BTreeMap<AgentId, Configured>;
