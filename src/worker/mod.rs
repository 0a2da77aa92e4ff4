//! Agents' workers: who is asked what a turn does next. One attempt of one decision at a time; deadlines, repeats and what an answer comes
//! to are the engine's. May not know the engine, stores, the web.

mod in_process;

pub use in_process::InProcess;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;

use crate::ids::AgentId;
use crate::protocol::{Code, DecisionAnswer, DecisionRequest, Refusal};

/// An attempt to ask. It stays on the thread that began it; dropped, it is given up.
pub type Asking = LocalBoxFuture<'static, Result<DecisionAnswer, Error>>;

/// Workers by their agents.
pub type Workers = BTreeMap<AgentId, Arc<dyn Worker>>;

/// Who decides for an agent. Stateless: everything is in the request.
pub trait Worker: Send + Sync {
    /// Asks. Nothing is sent before the future is polled.
    fn decide(&self, request: DecisionRequest) -> Asking;
}

/// A worker gave no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// It can't be asked, or says that it failed.
    #[error("{0}")]
    Failed(String),
    /// What it said is no answer.
    #[error("{0}")]
    BadAnswer(#[from] Refusal),
}

impl Error {
    /// The code that is recorded.
    pub fn code(&self) -> Code {
        match self {
            Self::Failed(_) => Code::WorkerFailed,
            Self::BadAnswer(_) => Code::WorkerBadAnswer,
        }
    }

    /// Of an answer, where it is wrong.
    pub fn at(&self) -> Option<&str> {
        match self {
            Self::Failed(_) => None,
            Self::BadAnswer(refusal) => refusal.details.get("at").and_then(|at| at.as_str()),
        }
    }
}
