//! What `[server]` says of sessions.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use serde::Deserialize;

use super::pace::Pace;

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
    /// The same in bytes, about.
    pub reader_bytes_max: NonZeroUsize,
    /// The most tool calls of one session that are carried out at a time; the others wait.
    #[serde(default = "tools_parallel")]
    pub tools_parallel: NonZeroUsize,
    /// The most model calls of one turn.
    pub calls_per_turn_max: NonZeroU32,
    /// The most turns that wait in one session.
    pub queue_turns_max: NonZeroUsize,
    /// The most messages that wait in one session.
    pub queue_messages_max: NonZeroUsize,
    /// The most bytes that wait for one session's next model call.
    #[serde(default = "arrivals_bytes")]
    pub arrivals_bytes_max: NonZeroUsize,
    /// The largest state of an agent, in bytes; what is overridden of agents has as much room.
    #[serde(default = "state_bytes")]
    pub state_bytes_max: NonZeroUsize,
    /// The largest reply, in bytes; a model that says more has failed.
    pub reply_bytes_max: NonZeroUsize,
    /// The most tool calls of one reply; a model that asks for more has failed.
    #[serde(default = "reply_calls")]
    pub reply_calls_max: NonZeroUsize,
    /// The most bytes of one tool call's arguments; a model that says more has failed.
    #[serde(default = "arguments_bytes")]
    pub arguments_bytes_max: NonZeroUsize,
    /// The most sessions in memory.
    #[serde(default = "sessions")]
    pub sessions_max: NonZeroUsize,
    /// The most turns that run at a time.
    #[serde(default = "turns")]
    pub running_turns_max: NonZeroUsize,
    /// The most of them that are of one tenant.
    #[serde(default = "turns")]
    pub tenant_turns_max: NonZeroUsize,
    /// Inputs a second of one session; none: as many as come.
    #[serde(default, deserialize_with = "Pace::some_number")]
    pub session_inputs_per_sec: Option<NonZeroU32>,
    /// Of those, so many at once; none: as many as a second's.
    #[serde(default, deserialize_with = "Pace::some_number")]
    pub session_inputs_burst: Option<NonZeroU32>,
    /// The store answers an append within so long, or it counts as unknown.
    #[serde(default = "append_within")]
    pub append_secs: NonZeroU64,
    /// The id of an erased session stays taken for so long.
    #[serde(default = "tombstone")]
    pub tombstone_secs: NonZeroU64,
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
        "reader_bytes_max",
        "tools_parallel",
        "calls_per_turn_max",
        "queue_turns_max",
        "queue_messages_max",
        "arrivals_bytes_max",
        "state_bytes_max",
        "reply_bytes_max",
        "reply_calls_max",
        "arguments_bytes_max",
        "sessions_max",
        "running_turns_max",
        "tenant_turns_max",
        "session_inputs_per_sec",
        "session_inputs_burst",
        "append_secs",
        "tombstone_secs",
        "idle_secs",
        "drain_secs",
    ];

    /// How long an append may take.
    pub(super) fn append_within(&self) -> Duration {
        Duration::from_secs(self.append_secs.get())
    }

    /// How long no new log may begin where one was erased.
    pub(super) fn tombstone(&self) -> Duration {
        Duration::from_secs(self.tombstone_secs.get())
    }
}

fn tools_parallel() -> NonZeroUsize {
    at_least_one(8)
}

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

fn arrivals_bytes() -> NonZeroUsize {
    at_least_one(4 << 20)
}

fn state_bytes() -> NonZeroUsize {
    at_least_one(1 << 20)
}

fn reply_calls() -> NonZeroUsize {
    at_least_one(128)
}

fn arguments_bytes() -> NonZeroUsize {
    at_least_one(1 << 20)
}

fn sessions() -> NonZeroUsize {
    at_least_one(10_000)
}

fn turns() -> NonZeroUsize {
    at_least_one(5_000)
}

fn append_within() -> NonZeroU64 {
    NonZeroU64::new(10).unwrap_or(NonZeroU64::MIN)
}

fn tombstone() -> NonZeroU64 {
    NonZeroU64::new(24 * 60 * 60).unwrap_or(NonZeroU64::MIN)
}
