//! What everything has in common that is reached over HTTP, models as well as workers: secrets that are named in the configuration,
//! checked addresses, headers, a client, and texts that show no secret. May not know who is reached, or what for.

mod address;
mod client;
mod headers;
mod hidden;
mod pause;
mod secret;
mod text;

pub use address::{address, base, seconds};
pub use client::{client, install_tls};
pub use headers::add_headers;
pub use hidden::Secrets;
pub use pause::{millis, retry_after_ms};
pub use secret::{Given, Secret, SecretError};
pub use text::{clipped, reasons};

/// An option has a value that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct Wrong {
    /// The key, inside its section.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl Wrong {
    /// What is wrong at `key`.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}
