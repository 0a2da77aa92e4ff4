//! What Headwater answers: to a submit, and about a session.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{Interrupt, Json, Message, NodeKind, Source};
use crate::ids::{Millis, NodeId, SessionId, ToolCallId, TurnId};

/// A submit was taken. As JSON it is the body of `202`.
#[expect(clippy::struct_excessive_bools, reason = "an answer with independent facts, not a state")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Whether it waits for the next model call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arrival: bool,
    /// Of a turn that waits for another: its place, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// The calls whose results the turn waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<ToolCallId>,
    /// What pauses the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// Where the next message attaches.
    pub head_id: Option<NodeId>,
    /// Nodes written, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<NodeId>,
    /// Index of the view's first new message; its length when nothing is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_from: Option<usize>,
    /// Recorded messages between those that the view names (at most 100 ids).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub implied: Vec<NodeId>,
    /// How many there are in all.
    pub implied_count: usize,
    /// Messages that the client may not write, passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<Ignored>,
    /// Known user messages whose content in the view differs from the recorded one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_edits: Vec<NodeId>,
    /// The client's tools whose names the agent's own tools have: the model isn't offered them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_tools: Vec<String>,
    /// Whether the view shared nothing with the session's tree and became a branch at its root.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
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
            arrival: false,
            position: None,
            waiting: Vec::new(),
            interrupts: Vec::new(),
            head_id: None,
            recorded: Vec::new(),
            new_from: None,
            implied: Vec::new(),
            implied_count: 0,
            ignored: Vec::new(),
            ignored_edits: Vec::new(),
            ignored_tools: Vec::new(),
            root_branch: false,
            resync: false,
        }
    }
}

/// A message of a view that was passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ignored {
    /// Its place in the view.
    pub index: usize,
    /// Its id, when it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<NodeId>,
    /// Why.
    pub reason: IgnoredReason,
}

/// Why a message of a view was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The reader view of the head, in order, under shown ids; then what the running call reads besides, and what else people said that
    /// waits for a call.
    pub messages: Vec<Arc<Message>>,
    /// The agent's state, an empty object when there is none any more; absent: there never was one, or nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// What pauses the turn that is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// The reply that is being written, as far as it is: its message stands in `messages` after all that its call reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<Writing>,
}

/// What a reply in the making has open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Writing {
    /// Which reply.
    pub reply_id: NodeId,
    /// Whether its text was begun.
    pub text: bool,
    /// The reasoning part that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u32>,
    /// The calls that were begun.
    pub calls: Vec<OpenCall>,
}

/// A tool call that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Which.
    pub id: ToolCallId,
    /// Its tool.
    pub name: String,
}

/// Where the head goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadTo {
    /// To this node; none: the empty path.
    Node(Option<NodeId>),
    /// To the node with this label.
    Label(String),
    /// Nowhere: only a label is given.
    Stay,
}

/// A move of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadMove {
    /// Where.
    pub to: HeadTo,
    /// From now on the name of the node that it goes to.
    pub label: Option<String>,
}

/// `POST /v1/sessions/{id}/head`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadAnswer {
    /// The session.
    pub session_id: SessionId,
    /// Where the next message attaches.
    pub head_id: Option<NodeId>,
    /// Turns that were stopped or given up: the running one first, then those that waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<TurnId>,
    /// The turn that pauses where the head was: it stays there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<TurnId>,
    /// What pauses the turn where the head is now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
}

/// What changes of a session's page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionUpdate {
    /// A new title, or none any more.
    pub title: Option<Option<String>>,
    /// Whether lists leave it out.
    pub archived: Option<bool>,
}

/// `GET /v1/sessions`: by id.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionsPage {
    /// The sessions of this page.
    pub sessions: Vec<SessionListed>,
    /// The `after` of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<SessionId>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionListed {
    /// Which.
    pub session_id: SessionId,
    /// What it is about.
    pub title: Option<String>,
    /// Whether lists leave it out.
    pub archived: bool,
    /// Time of the last record.
    pub updated_at: Millis,
}

/// Which nodes of a tree, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeQuery {
    /// As whom.
    pub view: TreeView,
    /// After this node.
    pub after: Option<NodeId>,
    /// At most so many.
    pub limit: usize,
}

/// As whom a tree is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeView {
    /// What a person reads.
    #[default]
    Reader,
    /// Every node at its place, hidden ones too.
    Raw,
}

/// `GET /v1/sessions/{id}/records`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordsPage {
    /// The session.
    pub session_id: SessionId,
    /// The records of this page.
    pub records: Vec<RecordLine>,
    /// The `after` of the next page, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// Position of the log's last record.
    pub end: u64,
}

/// A record, as it is stored, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordLine {
    /// Its position, from 1.
    pub seq: u64,
    /// The record.
    #[serde(deserialize_with = "as_stored")]
    pub record: Json,
}

#[expect(clippy::option_option, reason = "absent and null are different")]
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A record nests deeper than what it relays, so it isn't checked like that.
fn as_stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    Json::from_value(&raw).map_err(D::Error::custom)
}

/// What a fork is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkInput {
    /// The new session; none: a fresh id.
    pub session_id: Option<SessionId>,
    /// The path up to this node; none: up to the head.
    pub at: Option<NodeId>,
}

/// `POST /v1/sessions/{id}/fork`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forked {
    /// The new session.
    pub session_id: SessionId,
    /// Its head.
    pub head_id: Option<NodeId>,
    /// Whether this very fork was there already.
    pub duplicate: bool,
}

/// `POST /v1/sessions/{id}/records`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// The new session.
    pub session_id: SessionId,
    /// Its head.
    pub head_id: Option<NodeId>,
    /// Records that were imported.
    pub records: u64,
    /// Whether this very log was there already.
    pub duplicate: bool,
}

/// `GET /v1/sessions/{id}/tree`: parents before children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreePage {
    /// The session.
    pub session_id: SessionId,
    /// Where the next message attaches.
    pub head_id: Option<NodeId>,
    /// The nodes of this page.
    pub nodes: Vec<TreeNode>,
    /// The `after` of the next page, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NodeId>,
}

/// One node of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreeNode {
    /// Its id.
    pub id: NodeId,
    /// The node before it.
    pub parent_id: Option<NodeId>,
    /// What sort of node.
    pub kind: NodeKind,
    /// What it says.
    pub message: Arc<Message>,
    /// What it is, when no person said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// When it was recorded.
    pub created_at: Millis,
    /// Whether it is the kept part of a cancelled reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Of a copy: the first original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<NodeId>,
    /// Whether only models see it (never in the reader's view).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Of an epoch: its number (never in the reader's view).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// Of an epoch: the head that it replaced (never in the reader's view).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_id: Option<NodeId>,
    /// Of a node in a history that replaced another: the node at which readers see the same, of an epoch the last one that it stands
    /// for; null: they see nothing there (never in the reader's view).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub reads_as: Option<Option<NodeId>>,
    /// Its names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}
