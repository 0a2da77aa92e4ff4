//! What the records of tool calls hold that Headwater has carried out.

use serde::{Deserialize, Serialize};

use super::data::is_false;
use crate::ids::{DecisionId, Millis, ToolCallId, TurnId};
use crate::protocol::Code;

/// `tool.calls.taken`: Headwater has these calls of a reply carried out. What is configured of their tools stands here, so that it holds
/// for a call whatever is configured later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallsTaken {
    /// In which turn.
    pub turn_id: TurnId,
    /// In the order in which they begin.
    pub calls: Vec<ToolCallTaken>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallTaken {
    /// Which call.
    pub tool_call_id: ToolCallId,
    /// Which tool.
    pub name: String,
    /// What its worker knows the question by.
    pub decision_id: DecisionId,
    /// The server that carries it out; none: the agent's worker does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<OnServer>,
    /// Whether it may be carried out twice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub idempotent: bool,
    /// Attempts, the first included.
    pub attempts: u32,
    /// An attempt has failed after so long.
    pub attempt_ms: u64,
}

/// A tool of a server's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnServer {
    /// Which server.
    pub id: String,
    /// What the server calls the tool.
    pub tool: String,
}

/// `tool.call.started`: an attempt to carry it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallStarted {
    /// In which turn.
    pub turn_id: TurnId,
    /// Which call.
    pub tool_call_id: ToolCallId,
    /// From 1.
    pub attempt: u32,
    /// This attempt has failed then.
    pub deadline: Millis,
}

/// `tool.call.completed`: its result is a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallCompleted {
    /// In which turn.
    pub turn_id: TurnId,
    /// Which call.
    pub tool_call_id: ToolCallId,
}

/// `tool.call.failed`: an attempt to carry it out failed; when no other is made, what the model reads of it is a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallFailed {
    /// In which turn.
    pub turn_id: TurnId,
    /// Which call.
    pub tool_call_id: ToolCallId,
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub code: Code,
    /// In words.
    pub message: String,
    /// When the next attempt starts; none: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Millis>,
}
