//! What `[auth]` says, and the keys of `[server]` that aren't the web's.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use serde::Deserialize;

/// The keys of `[server]` that are about sessions: the runtime's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionLimits {
    /// The most readers of one session.
    pub readers_max: NonZeroUsize,
    /// The most batches that wait for one reader.
    pub reader_batches_max: NonZeroUsize,
    /// The most model calls of one turn.
    pub calls_per_turn_max: NonZeroU32,
    /// A session that nobody used for so long leaves memory.
    pub idle_secs: NonZeroU64,
    /// How long running turns may go on at SIGTERM.
    pub drain_secs: u64,
}

impl SessionLimits {
    /// Its keys.
    pub const KEYS: &[&str] = &["readers_max", "reader_batches_max", "calls_per_turn_max", "idle_secs", "drain_secs"];
}

/// `[auth]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthOptions {
    /// How callers show who they are.
    pub mode: AuthMode,
    /// Whether a server without authentication may be reached from other machines.
    pub allow_open: bool,
}

/// How callers show who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// They don't.
    None,
}
