//! What Headwater answers: to a submit, and about a session.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Json, Message, NodeKind};
use crate::ids::{AgentId, Millis, NodeId, SessionId, ToolCallId, TurnId};

/// A submit was taken. As JSON it is the body of `202`.
#[expect(clippy::struct_excessive_bools, reason = "an answer with independent facts, not a state")]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accepted {
    /// The session.
    pub session_id: SessionId,
    /// The turn that it started, or that an earlier submit with the same id did; the submit's own id when no reply was due.
    pub turn_id: TurnId,
    /// Whether a reply is due (a turn was started or is known).
    pub reply: bool,
    /// Whether an earlier submit had this turn id.
    pub duplicate: bool,
    /// Whether the turn waits for another.
    pub queued: bool,
    /// Where the next message attaches.
    pub head_id: Option<NodeId>,
    /// Nodes written, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<NodeId>,
    /// Index of the view's first new message; its length when nothing is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_from: Option<usize>,
    /// Recorded messages between those that the view names (at most 100 ids).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub implied: Vec<NodeId>,
    /// How many there are in all.
    pub implied_count: usize,
    /// Messages that the client may not write, passed over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<Ignored>,
    /// Known user messages whose content in the view differs from the recorded one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored_edits: Vec<NodeId>,
    /// Whether the view shared nothing with the session's tree and became a branch at its root.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub root_branch: bool,
    /// Whether the client's list differs from what was recorded, so that it needs the whole again.
    #[serde(skip)]
    pub resync: bool,
}

impl Accepted {
    /// A submit whose reply is due, which wrote nothing and had nothing to tell.
    pub fn plain(session_id: SessionId, turn_id: TurnId) -> Self {
        Self {
            session_id,
            turn_id,
            reply: true,
            duplicate: false,
            queued: false,
            head_id: None,
            recorded: Vec::new(),
            new_from: None,
            implied: Vec::new(),
            implied_count: 0,
            ignored: Vec::new(),
            ignored_edits: Vec::new(),
            root_branch: false,
            resync: false,
        }
    }
}

/// A message of a view that was passed over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ignored {
    /// Its place in the view.
    pub index: usize,
    /// Its id, when it had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<NodeId>,
    /// Why.
    pub reason: IgnoredReason,
}

/// Why a message of a view was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoredReason {
    /// An assistant or reasoning message that Headwater didn't write.
    NotFromClients,
    /// System and developer messages are the agent's business; they are offered to the worker.
    Instructions,
    /// A result of a call that isn't open.
    CallNotOpen,
}

/// The conversation as a person reads it, with the reply in the making.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// The reader view of the head, in order, under shown ids.
    pub messages: Vec<Arc<Message>>,
    /// The agent's state, when it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// The reply that is being written, as far as it is: its message stands last in `messages`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writing: Option<Writing>,
}

/// What a reply in the making has open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Writing {
    /// Which reply.
    pub reply_id: NodeId,
    /// Whether its text was begun.
    pub text: bool,
    /// The reasoning part that is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u32>,
    /// The calls that were begun.
    pub calls: Vec<OpenCall>,
}

/// A tool call of a reply in the making.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenCall {
    /// Which.
    pub id: ToolCallId,
    /// Its tool.
    pub name: String,
}

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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_turn: Option<Running>,
    /// Turns that wait for it.
    pub queue: Vec<TurnId>,
    /// Open interrupts.
    pub interrupts: Vec<Json>,
    /// The reader view of the head.
    pub messages: Vec<Arc<Message>>,
}

/// `GET /v1/sessions/{id}/tree`: parents before children.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TreePage {
    /// The session.
    pub session_id: SessionId,
    /// Where the next message attaches.
    pub head_id: Option<NodeId>,
    /// The nodes of this page.
    pub nodes: Vec<TreeNode>,
    /// The `after` of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NodeId>,
}

/// One node of a tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TreeNode {
    /// Its id.
    pub id: NodeId,
    /// The node before it.
    pub parent_id: Option<NodeId>,
    /// What sort of node.
    pub kind: NodeKind,
    /// What it says.
    pub message: Arc<Message>,
    /// When it was recorded.
    pub created_at: Millis,
    /// Whether it is the kept part of a cancelled reply.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Of a copy: the first original.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<NodeId>,
}
