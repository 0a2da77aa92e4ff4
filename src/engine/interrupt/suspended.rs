//! A turn that pauses where the head isn't. May not know how it goes on.

use serde::{Deserialize, Serialize};

use crate::engine::reading::Ix;
use crate::engine::turn::Turn;
use crate::ids::ToolCallId;

/// A turn that pauses where the head isn't.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspended {
    /// The turn.
    pub turn: Turn,
    /// Its last node.
    pub at: Option<Ix>,
    /// Its calls that were open.
    pub calls: Vec<ToolCallId>,
}
