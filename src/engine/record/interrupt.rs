//! What the records of interrupts hold: a turn pauses, goes on, or is left where it pauses.

use serde::{Deserialize, Serialize};

use crate::ids::TurnId;
use crate::protocol::{Interrupt, Resume};

/// `session.interrupted`: a turn pauses at the head. Of one that was suspended: the head is back where it pauses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionInterrupted {
    /// Which turn.
    pub turn_id: TurnId,
    /// All that is open, also what was before.
    pub interrupts: Vec<Interrupt>,
}

/// `session.interrupt_resumed`: interrupts were answered, or their turn was stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterruptResumed {
    /// Whose.
    pub turn_id: TurnId,
    /// The answers.
    pub interrupts: Vec<Resume>,
}

/// `turn.suspended`: the head leaves a turn that pauses. It stays where it is, and others may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnSuspended {
    /// Which.
    pub turn_id: TurnId,
}
