//! A session as it is asked for: what stands at its head, what runs, what waits. May not know how it is made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{BackgroundJob, HeldCall, Interrupt, Json, Message, OpenCall};
use crate::ids::{AgentId, Millis, NodeId, SessionId, TurnId};

/// What a session does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Nothing.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for a client, a person or an outside system.
    Waiting,
}

/// The turn that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// Which.
    pub turn_id: TurnId,
    /// Since when.
    pub started_at: Millis,
}

/// `GET /v1/sessions/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The session.
    pub session_id: SessionId,
    /// The agent it began with.
    pub agent_id: AgentId,
    /// What it is about.
    pub title: Option<String>,
    /// What it does now.
    pub status: SessionStatus,
    /// Where the next message attaches.
    pub head_id: Option<NodeId>,
    /// The turn that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_turn: Option<Running>,
    /// The call of that turn that waits until there is room in the context window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_call: Option<HeldCall>,
    /// The summary that is written while turns go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<BackgroundJob>,
    /// Number of the history that the model reads at the head; the unshortened one is 0.
    #[serde(default)]
    pub epoch: u32,
    /// Turns that wait for it, the next one first.
    pub queue: Vec<QueuedTurn>,
    /// What waits for the next model call, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<Arriving>,
    /// Calls whose results the turn waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_calls: Vec<OpenCall>,
    /// Named nodes, in the order in which they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
    /// Whether lists leave it out.
    pub archived: bool,
    /// Of a fork: what it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The agent's state at the head; absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// What pauses the turn that is there.
    pub interrupts: Vec<Interrupt>,
    /// Turns that pause where the head isn't.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suspended: Vec<SuspendedTurn>,
    /// The reader view of the head.
    pub messages: Vec<Arc<Message>>,
}

/// A turn that waits for another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuedTurn {
    /// Which.
    pub turn_id: TurnId,
    /// Its place, from 1.
    pub position: usize,
    /// Whose.
    pub agent_id: AgentId,
    /// Since when.
    pub queued_at: Millis,
    /// What it brings.
    pub messages: Vec<Arc<Message>>,
}

/// A turn that pauses where the head isn't.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspendedTurn {
    /// Which.
    pub turn_id: TurnId,
    /// Where: the head goes there to show it again.
    pub node_id: Option<NodeId>,
    /// What pauses it.
    pub interrupts: Vec<Interrupt>,
}

/// Something that waits for a model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arriving {
    /// Its input's id.
    pub turn_id: TurnId,
    /// The turn that it joins; absent: it is something that happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<TurnId>,
    /// Whose.
    pub agent_id: AgentId,
    /// Since when.
    pub queued_at: Millis,
    /// What it brings, as far as readers see it.
    pub messages: Vec<Arc<Message>>,
}

/// A named node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its name.
    pub label: String,
    /// Which node.
    pub node_id: NodeId,
}

/// What a fork was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// Which session.
    pub session_id: SessionId,
    /// Its path up to there; none: the empty path.
    pub node_id: Option<NodeId>,
}
