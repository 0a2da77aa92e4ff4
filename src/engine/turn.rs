//! Turns: the one that runs, and what is kept of those that ended.

use serde::{Deserialize, Serialize};

use super::reading::Vertex;
use crate::ids::{AgentId, CallId, Millis, NodeId, TurnId};
use crate::protocol::{Client, Code, Digest};

/// The turn that runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// Which.
    pub id: TurnId,
    /// Whose.
    pub agent_id: AgentId,
    /// Since when.
    pub started_at: Millis,
    /// The reader view that it answers: what stands between that and the head's is its own.
    pub began: Vertex,
    /// What the client offers.
    pub client: Client,
    /// Whether several submits were merged into it: it isn't one submitter's.
    pub merged: bool,
    /// Its model call.
    pub call: Option<Call>,
    /// Model calls that it has begun.
    pub calls: u32,
    /// How often its process was lost.
    pub recoveries: u32,
}

/// A turn's model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Which.
    pub id: CallId,
    /// From 1.
    pub attempt: u32,
    /// The id that the reply of this attempt will have.
    pub reply_id: NodeId,
    /// Whether no UI may see it.
    pub hidden: bool,
    /// When the next attempt starts, when this one has failed.
    pub retry_at: Option<Millis>,
}

/// What is kept of a turn id.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// What its input held.
    pub digest: Digest,
    /// The turn that this is another name of.
    pub of: Option<TurnId>,
    /// Whether it asked a model.
    pub replied: bool,
    /// How it ended; none: it runs, or waits for another.
    pub end: Option<End>,
}

impl Known {
    /// A turn that has done nothing yet, or another name of one.
    pub(super) fn new(digest: Digest, of: Option<TurnId>) -> Self {
        Self { digest, of, replied: false, end: None }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Well.
    Completed,
    /// With an error.
    Failed {
        /// Its code.
        code: Code,
        /// In words.
        message: String,
    },
    /// Stopped.
    Cancelled,
}
