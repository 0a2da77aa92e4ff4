//! Making room in the context window, as it is recorded and told: why a call was held, and what came of it; what is held, and what is
//! written in the background.

use serde::{Deserialize, Serialize};

use crate::ids::{CallId, TurnId};

/// Why a model call is held until there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitReason {
    /// No turn ran for long.
    Idle,
    /// The model would read more than it should.
    Full,
    /// The provider refused the call as too long.
    Overflow,
}

/// Why a held call goes on, or is given up, with the history as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptReason {
    /// The call that writes the summary failed.
    SummaryFailed,
    /// What would replace the history is no shorter.
    NoGain,
    /// The worker runs the call as it is.
    Declined,
    /// The turn was stopped.
    Cancelled,
}

/// A model call that waits until there is room in the context window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCall {
    /// Which.
    pub call_id: CallId,
    /// Why.
    pub reason: LimitReason,
    /// The strategy that applies; absent when the provider refused the call and none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// What the model would read, in tokens, by the engine's count.
    pub tokens: u64,
}

/// A summary that is written while turns go on. Nothing of what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundJob {
    /// Which.
    pub job_id: CallId,
    /// The turn in which it began.
    pub turn_id: TurnId,
    /// The strategy that applied.
    pub strategy: String,
    /// From 1.
    pub attempt: u32,
    /// Whether it is written, and waits for the next model call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub written: bool,
}
