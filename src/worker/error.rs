//! Why a worker gave no answer, and why one can't be set up.

use crate::ids::Millis;
use crate::protocol::{Code, Refusal};
use crate::service::{SecretError, Wrong};

/// A worker gave no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// It can't be asked, or says that it failed.
    #[error("{0}")]
    Failed(String),
    /// It wasn't reached, or refuses to take the question: it has done nothing.
    #[error("{0}")]
    Unreached(String),
    /// It has done nothing, and asks for a pause before it is asked again.
    #[error("{message}")]
    Busy {
        /// What it says.
        message: String,
        /// So long.
        pause: Millis,
    },
    /// It didn't answer in time.
    #[error("the worker didn't answer in time")]
    TimedOut,
    /// What it said is no answer.
    #[error("{0}")]
    BadAnswer(#[from] Refusal),
}

impl Error {
    /// An answer that can't be understood, with what is wrong and what to answer instead.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::BadAnswer(Refusal::new(Code::WorkerBadAnswer, message))
    }

    /// The code that is recorded.
    pub fn code(&self) -> Code {
        match self {
            Self::Failed(_) | Self::Unreached(_) | Self::Busy { .. } => Code::WorkerFailed,
            Self::TimedOut => Code::WorkerTimedOut,
            Self::BadAnswer(_) => Code::WorkerBadAnswer,
        }
    }

    /// Of an answer, where it is wrong.
    pub fn at(&self) -> Option<&str> {
        match self {
            Self::Failed(_) | Self::Unreached(_) | Self::Busy { .. } | Self::TimedOut => None,
            Self::BadAnswer(refusal) => refusal.details.get("at").and_then(|at| at.as_str()),
        }
    }

    /// Whether it may have done what it was asked about.
    pub fn reached(&self) -> bool {
        match self {
            Self::Failed(_) | Self::TimedOut | Self::BadAnswer(_) => true,
            Self::Unreached(_) | Self::Busy { .. } => false,
        }
    }

    /// The pause that is asked for before the next attempt.
    pub fn pause(&self) -> Millis {
        match self {
            Self::Busy { pause, .. } => *pause,
            Self::Failed(_) | Self::Unreached(_) | Self::TimedOut | Self::BadAnswer(_) => 0,
        }
    }
}

/// Why no worker can be made of its options.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A secret can't be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// An option has a value that isn't allowed.
    #[error(transparent)]
    Option(#[from] Wrong),
    /// No HTTP client can be made, for instance since the machine has no certificates.
    #[error("can't make an HTTP client for {host}")]
    Client {
        /// Where the worker is.
        host: String,
        /// Why.
        source: reqwest::Error,
    },
}
