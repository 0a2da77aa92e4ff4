//! What `[server]` says of sessions.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use serde::Deserialize;

/// The keys of `[server]` that are about sessions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The most readers of one session.
    pub readers_max: NonZeroUsize,
    /// The most requests that wait for one session.
    pub session_requests_max: NonZeroUsize,
    /// The most batches that wait for one reader; one that falls further behind is let go.
    pub reader_batches_max: NonZeroUsize,
    /// The most model calls of one turn.
    pub calls_per_turn_max: NonZeroU32,
    /// The most turns that wait in one session.
    pub queue_turns_max: NonZeroUsize,
    /// The most messages that wait in one session.
    pub queue_messages_max: NonZeroUsize,
    /// The largest reply, in bytes; a model that says more has failed.
    pub reply_bytes_max: NonZeroUsize,
    /// A session that nobody used for so long leaves memory.
    pub idle_secs: NonZeroU64,
    /// How long running turns may go on at SIGTERM.
    pub drain_secs: u64,
}

impl Limits {
    /// Its keys.
    pub const KEYS: &[&str] = &[
        "readers_max",
        "session_requests_max",
        "reader_batches_max",
        "calls_per_turn_max",
        "queue_turns_max",
        "queue_messages_max",
        "reply_bytes_max",
        "idle_secs",
        "drain_secs",
    ];
}
