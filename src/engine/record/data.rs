//! What each kind of record holds. As JSON it is a record's `data`; fields that say nothing are left out.

use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{AgentId, CallId, Millis, NodeId, ToolCallId, TurnId};
use crate::protocol::{
    CallError, CancelReason, Client, Code, Digest, Finish, ForkedFrom, KeptReason, LimitReason, Message, NodeKind, Usage,
};

/// `session.created`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The agent that it begins with.
    pub agent_id: AgentId,
}

/// `session.forked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionForked {
    /// The agent that it begins with.
    pub agent_id: AgentId,
    /// What it was made from.
    pub from: ForkedFrom,
}

/// `session.updated`: what isn't said stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionUpdated {
    /// A new title; null: none any more.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub title: Option<Option<String>>,
    /// Whether lists leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// `message.new`: a message gets its place. The head follows it unless it stands `aside`.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, as they are stored")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageNew {
    /// Its name, for ever.
    pub id: NodeId,
    /// The node before it; none for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<NodeId>,
    /// What sort of node.
    #[serde(default, skip_serializing_if = "is_message")]
    pub kind: NodeKind,
    /// What it says, without an id; absent in copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Of a copy: the first original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<NodeId>,
    /// The id that readers see, when it isn't its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<NodeId>,
    /// Whether only models see it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// When set: it reads like that node, or (null) like nothing. Else like its parent with itself added.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub reads_as: Option<Option<NodeId>>,
    /// Whether it is the kept part of a cancelled reply.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partial: bool,
    /// Whether the head stays where it is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub aside: bool,
    /// Of a reply: the call that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Of an edit that came under a recorded id: that id. Sent again, it names this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit_of: Option<NodeId>,
    /// Whether its tool calls wait for nothing any more: it came from elsewhere.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sealed: bool,
    /// Of a fork's node: every id that named its source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_as: Vec<NodeId>,
    /// Of an epoch: the head that it replaced. `reads_as` is the last node that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<NodeId>,
    /// Whether it is something that happened, in the words of an input, and not what a person said.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_event: bool,
    /// Whether the agent's worker wrote it, without a model call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_worker: bool,
}

impl MessageNew {
    /// A message that a client wrote.
    pub fn plain(id: NodeId, parent: Option<NodeId>, message: Message) -> Self {
        Self {
            id,
            parent,
            kind: NodeKind::Message,
            message: Some(Message { id: None, ..message }),
            copied_from: None,
            shown: None,
            hidden: false,
            reads_as: None,
            partial: false,
            aside: false,
            call_id: None,
            edit_of: None,
            sealed: false,
            known_as: Vec::new(),
            base: None,
            is_event: false,
            by_worker: false,
        }
    }

    /// A copy of the node `original`, which readers see as `shown`.
    pub fn copy(id: NodeId, parent: Option<NodeId>, original: NodeId, shown: Option<NodeId>) -> Self {
        Self { message: None, copied_from: Some(original), shown, ..Self::plain(id, parent, Message::empty(crate::protocol::Role::User)) }
    }
}

/// `head.moved`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeadMoved {
    /// There, or nowhere: the empty path.
    pub to: Option<NodeId>,
    /// The id of the input that moved it, when that started no turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// What that input held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// From now on the name of that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When readers never see that node: the one that they see last there; null: they see nothing there.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "nullable")]
    pub reads_as: Option<Option<NodeId>>,
}

/// `turn.queued`: a submit waits for the running turn. Its messages are safe from here on, and become nodes when it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnQueued {
    /// The input's id; its turn's too, unless it joins another.
    pub turn_id: TurnId,
    /// The waiting turn that it joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<TurnId>,
    /// Whose.
    pub agent_id: AgentId,
    /// What its input held.
    pub digest: Digest,
    /// Whether others may join it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
    /// What it brings, each with an id; one that is recorded elsewhere without content.
    pub messages: Vec<Message>,
    /// Overrides whether a reply is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<bool>,
    /// What the client offers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Client,
}

/// `turn.started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Which.
    pub turn_id: TurnId,
    /// Whose.
    pub agent_id: AgentId,
    /// What its input held: the same id with other content is refused.
    pub digest: Digest,
    /// What the client offers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Client,
}

/// `turn.joined`: another input became part of the turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnJoined {
    /// Which.
    pub turn_id: TurnId,
    /// The input's id: another name of the turn.
    pub name: TurnId,
    /// What its input held.
    pub digest: Digest,
    /// What the client offers from now on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Client,
}

/// `turn.waiting`: it can't go on before a client sends results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnWaiting {
    /// Which.
    pub turn_id: TurnId,
    /// The calls that are open.
    pub calls: Vec<ToolCallId>,
}

/// `turn.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnCompleted {
    /// Which.
    pub turn_id: TurnId,
}

/// `turn.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnFailed {
    /// Which.
    pub turn_id: TurnId,
    /// Why.
    pub code: Code,
    /// In words.
    pub message: String,
}

/// `turn.cancelled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnCancelled {
    /// Which.
    pub turn_id: TurnId,
    /// Why; absent: somebody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<CancelReason>,
    /// Of one that waited: its messages, which never become nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<NodeId>,
}

/// `turn.recovered`: its process was lost; another goes on with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRecovered {
    /// Which.
    pub turn_id: TurnId,
    /// How often that happened to it.
    pub attempt: u32,
}

/// `llm.call.started`: an attempt of a model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallStarted {
    /// Of which turn.
    pub turn_id: TurnId,
    /// Which call.
    pub call_id: CallId,
    /// From 1.
    pub attempt: u32,
    /// The id that the reply will have.
    pub reply_id: NodeId,
    /// Whether no UI may see it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Instead of the agent's llm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<String>,
    /// Instead of the llm's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model reads.
    #[serde(default, skip_serializing_if = "Reads::is_path")]
    pub reads: Reads,
    /// So many arrivals it reads besides, the oldest ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub arrivals: u32,
    /// Whether an agent goes on in it with what it began in the call before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub goes_on: bool,
}

impl CallStarted {
    /// An attempt of a call whose model reads the path.
    pub fn of_path(turn_id: TurnId, call_id: CallId, attempt: u32, reply_id: NodeId) -> Self {
        Self { turn_id, call_id, attempt, reply_id, hidden: false, llm: None, model: None, reads: Reads::Path, arrivals: 0, goes_on: false }
    }
}

/// What the model of a call reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// The path, and the agent's system prompt.
    #[default]
    Path,
    /// What it is to summarize.
    Summary(Summary),
    /// These, and no system prompt.
    Messages(Vec<Message>),
}

impl Reads {
    fn is_path(&self) -> bool {
        *self == Self::Path
    }
}

/// What is to be summarized, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The last node of the path that it stands for.
    pub to: NodeId,
    /// The instructions, instead of Headwater's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How often what it reads was halved.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub halved: u32,
}

/// `context.limited`: a call is held until there is room.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextLimited {
    /// Of which turn.
    pub turn_id: TurnId,
    /// The call that is held.
    pub call_id: CallId,
    /// Why.
    pub reason: LimitReason,
    /// Which of the agent's strategies applies; none: the provider refused the call, and none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyNamed>,
    /// What the model would read, in tokens.
    pub tokens: u64,
    /// The model's context window, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Of the call: instead of the agent's llm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<String>,
    /// Of the call: instead of the llm's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A strategy of an agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyNamed {
    /// Its place among them, from 0.
    pub index: u32,
    /// What it does.
    pub name: String,
}

/// `context.replaced`: the model goes on below the epoch that was written just before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextReplaced {
    /// Of which turn.
    pub turn_id: TurnId,
    /// The call that was held, when one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The epoch's node.
    pub node_id: NodeId,
    /// Its number.
    pub epoch: u32,
    /// What the model would read now, in tokens.
    pub tokens: u64,
    /// Whether that is no less than before: it isn't tried again in this turn.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_gain: bool,
    /// Whether it was made while turns went on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub background: bool,
}

/// `context.kept`: the history stays as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextKept {
    /// Of which turn.
    pub turn_id: TurnId,
    /// The call that was held.
    pub call_id: CallId,
    /// Why.
    pub reason: KeptReason,
}

/// `llm.call.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallCompleted {
    /// Which call.
    pub call_id: CallId,
    /// Whether no UI may see it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Why the model stopped.
    pub finish: Finish,
    /// As reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// `llm.call.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallFailed {
    /// Which call.
    pub call_id: CallId,
    /// Which attempt.
    pub attempt: u32,
    /// Whether no UI may see it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Why.
    pub error: CallError,
    /// When the next attempt starts; none: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Millis>,
}

/// `call.voided`: given up; an answer that comes later changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallVoided {
    /// Which call.
    pub call_id: CallId,
    /// Whether no UI may see it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
}

/// A record of a later version.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// Its type.
    pub kind: String,
    /// Whether a session that holds it can't be served without understanding it.
    pub must_understand: bool,
    /// The record as it was stored.
    pub stored: Vec<u8>,
}

impl MessageNew {
    /// The id under which readers see it, when they do as a message of its own.
    pub fn shown_id(&self) -> Option<&NodeId> {
        if self.hidden || self.reads_as.is_some() || self.kind == NodeKind::Epoch {
            return None;
        }
        Some(self.shown.as_ref().unwrap_or(&self.id))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
fn is_message(kind: &NodeKind) -> bool {
    *kind == NodeKind::Message
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
pub(super) fn is_zero(value: &u32) -> bool {
    *value == 0
}

pub(super) fn is_default(client: &Client) -> bool {
    *client == Client::default()
}

#[expect(clippy::option_option, reason = "absent and null are different")]
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
