//! Puts the server together. The only module that knows all others but the engine.

use crate::config::Config;

/// The server can't start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not put together yet.
    #[error("serving isn't put together yet")]
    NotYet,
}

/// Serves until it is told to stop.
pub fn run(_config: Config) -> Result<(), Error> {
    Err(Error::NotYet)
}
