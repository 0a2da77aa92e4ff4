//! Why a configured llm can't be used: what is wrong in its options, its secret, its files.

use super::script;
use crate::service::{SecretError, Wrong};

/// Why no provider can be made of these [`Options`](super::Options).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A secret can't be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// An option has a value that isn't allowed.
    #[error(transparent)]
    Option(#[from] Wrong),
    /// The script can't be used.
    #[error(transparent)]
    Script(#[from] script::Error),
    /// No HTTP client can be made, for instance since the machine has no certificates.
    #[error("can't make an HTTP client for {base_url}")]
    Client {
        /// For which provider.
        base_url: String,
        /// Why.
        source: reqwest::Error,
    },
}

impl Error {
    pub(super) fn option(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Option(Wrong::new(key, message))
    }
}
