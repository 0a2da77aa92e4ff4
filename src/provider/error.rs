//! Why a configured llm can't be used: what is wrong in its options, its secret, its files.

use std::path::PathBuf;

use super::script;

/// Why no provider can be made of these [`Options`](super::Options).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The environment has no such variable, or one that isn't text.
    #[error("api_key = {{ env = \"{name}\" }}: the environment variable {name} is not set")]
    SecretNotSet {
        /// The variable.
        name: String,
    },
    /// The file with a secret can't be read.
    #[error("api_key = {{ file = … }}: can't read {}", file.display())]
    SecretUnreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A secret is empty, or can't stand in a header.
    #[error("the secret of {from} {fault}")]
    SecretUnusable {
        /// The variable or the file.
        from: String,
        /// What is wrong with it; never the secret itself.
        fault: &'static str,
    },
    /// An option has a value that isn't allowed.
    #[error("{key}: {message}")]
    Option {
        /// The key inside its `[llm.<id>]`.
        key: String,
        /// What is wrong, and what is allowed.
        message: String,
    },
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
        Self::Option { key: key.into(), message: message.into() }
    }
}
