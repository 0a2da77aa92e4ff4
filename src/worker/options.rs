//! What `[agent.<id>.worker]` says of workers that answer decisions. May not know how they are reached.

use serde::Deserialize;

use crate::protocol::TriggerKind;
use crate::service::{Secret, Wrong};

/// The most attempts of a decision.
const ATTEMPTS_MAX: u32 = 100;
/// The longest that an attempt, or all of them, may take: a day.
const SECS_MAX: u64 = 86_400;

/// How long and how often a worker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// An attempt has failed after so long, in seconds.
    pub attempt_secs: u64,
    /// So many attempts.
    pub attempts: u32,
    /// All of them together take no longer, in seconds.
    pub within_secs: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempt_secs: attempt_secs(), attempts: attempts(), within_secs: within_secs() }
    }
}

impl Patience {
    /// Whether each number makes sense.
    pub fn check(&self) -> Result<(), Wrong> {
        let Self { attempt_secs, attempts, within_secs } = *self;
        let most = [
            ("attempt_secs", attempt_secs, SECS_MAX),
            ("attempts", attempts.into(), ATTEMPTS_MAX.into()),
            ("within_secs", within_secs, SECS_MAX),
        ];
        most.iter().try_for_each(|&(key, value, most)| between(key, value, most))
    }
}

/// Whether a worker is asked anything.
pub(super) fn asked(triggers: &[TriggerKind]) -> Result<(), Wrong> {
    let what = "is empty: the worker would never be asked; name triggers, or leave the worker out";
    if triggers.is_empty() { Err(Wrong::new("triggers", what)) } else { Ok(()) }
}

/// A number from 1 on.
pub(super) fn between(key: &str, value: u64, most: u64) -> Result<(), Wrong> {
    if (1..=most).contains(&value) { Ok(()) } else { Err(Wrong::new(key, format!("is {value}; 1 to {most} are allowed"))) }
}

/// `kind = "http"`: the worker gets each decision by POST.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpOptions {
    /// Where decisions go by POST.
    pub url: String,
    /// What they are signed with.
    pub secret: Option<Secret>,
    /// While secrets change: they are signed with this one, too.
    pub old_secret: Option<Secret>,
    /// What it is asked; what it isn't, is decided without it.
    #[serde(default = "TriggerKind::asked_by_default")]
    pub triggers: Vec<TriggerKind>,
    /// To connect, in seconds.
    #[serde(default = "connect_secs")]
    pub connect_secs: u64,
    /// An attempt has failed after so long, in seconds.
    #[serde(default = "attempt_secs")]
    pub attempt_secs: u64,
    /// Attempts of a decision, the first included.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// All attempts of a decision together take no longer, in seconds.
    #[serde(default = "within_secs")]
    pub within_secs: u64,
    /// The most bytes of an answer.
    #[serde(default = "answer_bytes_max")]
    pub answer_bytes_max: usize,
    /// After so many failures in a row the worker isn't asked for a while.
    #[serde(default = "breaker_failures")]
    pub breaker_failures: u32,
    /// For so long, in seconds.
    #[serde(default = "breaker_secs")]
    pub breaker_secs: u64,
}

impl HttpOptions {
    /// How long and how often it is asked.
    pub fn patience(&self) -> Patience {
        Patience { attempt_secs: self.attempt_secs, attempts: self.attempts, within_secs: self.within_secs }
    }
}

/// `kind = "socket"`: the worker dials in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketOptions {
    /// What a worker shows that dials in.
    pub token: Option<Secret>,
    /// What it is asked; what it isn't, is decided without it.
    #[serde(default = "TriggerKind::asked_by_default")]
    pub triggers: Vec<TriggerKind>,
    /// An attempt has failed after so long, in seconds.
    #[serde(default = "attempt_secs")]
    pub attempt_secs: u64,
    /// Attempts of a decision, the first included.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// All attempts of a decision together take no longer, in seconds.
    #[serde(default = "within_secs")]
    pub within_secs: u64,
    /// The most bytes of an answer.
    #[serde(default = "answer_bytes_max")]
    pub answer_bytes_max: usize,
    /// Workers that are connected at a time.
    #[serde(default = "sockets_max")]
    pub sockets_max: usize,
    /// Decisions that may wait until a worker takes them.
    #[serde(default = "waiting_max")]
    pub waiting_max: usize,
}

impl SocketOptions {
    /// How long and how often it is asked.
    pub fn patience(&self) -> Patience {
        Patience { attempt_secs: self.attempt_secs, attempts: self.attempts, within_secs: self.within_secs }
    }
}

fn connect_secs() -> u64 {
    10
}

fn attempt_secs() -> u64 {
    20
}

fn attempts() -> u32 {
    10
}

fn within_secs() -> u64 {
    300
}

fn answer_bytes_max() -> usize {
    4 << 20
}

fn sockets_max() -> usize {
    64
}

fn waiting_max() -> usize {
    1024
}

fn breaker_failures() -> u32 {
    5
}

fn breaker_secs() -> u64 {
    10
}
