//! Making room in the context window, as it is recorded and told: why a call was held, and what came of it.

use serde::{Deserialize, Serialize};

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
