//! Records: what a session's log holds. The fold of them is the session; nothing else is kept. Encoded as JSON,
//! `{"v":1,"type":…,"at":…,"must_understand":…,"data":{…}}`. A record of an unknown type is kept and passed over, unless it must be
//! understood.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::ids::{AgentId, CallId, Millis, NodeId, TurnId};
use crate::protocol::{CallError, Client, Code, Digest, EventBody, Finish, Message, NodeKind, Usage};

/// The version of the encoding that this code writes.
const VERSION: u32 = 1;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When it was written.
    pub at: Millis,
    /// What happened.
    pub body: Body,
}

/// The kinds of record.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `session.created`: the first record.
    SessionCreated(SessionCreated),
    /// `message.new`: a node.
    MessageNew(Box<MessageNew>),
    /// `head.moved`.
    HeadMoved(HeadMoved),
    /// `turn.started`.
    TurnStarted(Box<TurnStarted>),
    /// `turn.completed`.
    TurnCompleted(TurnCompleted),
    /// `turn.failed`.
    TurnFailed(TurnFailed),
    /// `turn.cancelled`.
    TurnCancelled(TurnCancelled),
    /// `turn.recovered`.
    TurnRecovered(TurnRecovered),
    /// `llm.call.started`.
    CallStarted(CallStarted),
    /// `llm.call.completed`.
    CallCompleted(CallCompleted),
    /// `llm.call.failed`.
    CallFailed(CallFailed),
    /// `call.voided`.
    CallVoided(CallVoided),
    /// Of a later version: kept as it is.
    Unknown(Unknown),
}

/// `session.created`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// The agent that it begins with.
    pub agent_id: AgentId,
}

/// `message.new`: a message gets its place. The head follows it unless it stands `aside`.
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
        }
    }

    /// A copy of the node `original`, which readers see as `shown`.
    pub fn copy(id: NodeId, parent: Option<NodeId>, original: NodeId, shown: Option<NodeId>) -> Self {
        Self { message: None, copied_from: Some(original), shown, ..Self::plain(id, parent, Message::empty(crate::protocol::Role::User)) }
    }
}

/// `head.moved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadMoved {
    /// There, or nowhere: the empty path.
    pub to: Option<NodeId>,
    /// The id of the input that moved it, when that started no turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// What that input held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
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

/// A stored record can't be read.
#[derive(Debug, thiserror::Error)]
#[error("a record can't be decoded: {0}")]
pub struct DecodeError(#[from] serde_json::Error);

#[derive(Serialize)]
struct EnvelopeOut<'a, T> {
    v: u32,
    r#type: &'static str,
    at: Millis,
    must_understand: bool,
    data: &'a T,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    v: u32,
    r#type: std::borrow::Cow<'a, str>,
    at: Millis,
    #[serde(default)]
    must_understand: bool,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Record {
    /// The record as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let at = self.at;
        match &self.body {
            Body::SessionCreated(data) => envelope("session.created", at, data),
            Body::MessageNew(data) => envelope("message.new", at, data),
            Body::HeadMoved(data) => envelope("head.moved", at, data),
            Body::TurnStarted(data) => envelope("turn.started", at, data),
            Body::TurnCompleted(data) => envelope("turn.completed", at, data),
            Body::TurnFailed(data) => envelope("turn.failed", at, data),
            Body::TurnCancelled(data) => envelope("turn.cancelled", at, data),
            Body::TurnRecovered(data) => envelope("turn.recovered", at, data),
            Body::CallStarted(data) => envelope("llm.call.started", at, data),
            Body::CallCompleted(data) => envelope("llm.call.completed", at, data),
            Body::CallFailed(data) => envelope("llm.call.failed", at, data),
            Body::CallVoided(data) => envelope("call.voided", at, data),
            Body::Unknown(data) => data.stored.clone(),
        }
    }

    /// Reads a stored record. One of a later version, or of an unknown type, becomes [`Body::Unknown`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let envelope: Envelope<'_> = serde_json::from_slice(bytes)?;
        let data = envelope.data.get();
        let unknown = || {
            let kind = envelope.r#type.to_string();
            Body::Unknown(Unknown { kind, must_understand: envelope.must_understand, stored: bytes.to_vec() })
        };
        let body = if envelope.v > VERSION {
            unknown()
        } else {
            match &*envelope.r#type {
                "session.created" => Body::SessionCreated(serde_json::from_str(data)?),
                "message.new" => Body::MessageNew(serde_json::from_str(data)?),
                "head.moved" => Body::HeadMoved(serde_json::from_str(data)?),
                "turn.started" => Body::TurnStarted(serde_json::from_str(data)?),
                "turn.completed" => Body::TurnCompleted(serde_json::from_str(data)?),
                "turn.failed" => Body::TurnFailed(serde_json::from_str(data)?),
                "turn.cancelled" => Body::TurnCancelled(serde_json::from_str(data)?),
                "turn.recovered" => Body::TurnRecovered(serde_json::from_str(data)?),
                "llm.call.started" => Body::CallStarted(serde_json::from_str(data)?),
                "llm.call.completed" => Body::CallCompleted(serde_json::from_str(data)?),
                "llm.call.failed" => Body::CallFailed(serde_json::from_str(data)?),
                "call.voided" => Body::CallVoided(serde_json::from_str(data)?),
                _ => unknown(),
            }
        };
        Ok(Self { at: envelope.at, body })
    }
}

fn envelope<T: Serialize>(kind: &'static str, at: Millis, data: &T) -> Vec<u8> {
    let envelope = EnvelopeOut { v: VERSION, r#type: kind, at, must_understand: true, data };
    serde_json::to_vec(&envelope).expect("records are plain data")
}

impl Body {
    /// The record as observers are told, without looking at anything else.
    pub fn event(&self) -> Option<EventBody> {
        Some(match self {
            Self::SessionCreated(data) => EventBody::SessionCreated { agent_id: data.agent_id.clone() },
            Self::MessageNew(data) => EventBody::MessageNew {
                node_id: data.id.clone(),
                parent_id: data.parent.clone(),
                kind: data.kind,
                shown_id: data.shown_id().cloned(),
                message: data.message.clone().map(std::sync::Arc::new),
                copied_from: data.copied_from.clone(),
                partial: data.partial,
                call_id: data.call_id.clone(),
            },
            Self::HeadMoved(data) => EventBody::HeadMoved { head_id: data.to.clone() },
            Self::TurnStarted(data) => EventBody::TurnStarted { turn_id: data.turn_id.clone(), agent_id: data.agent_id.clone() },
            Self::TurnCompleted(data) => EventBody::TurnCompleted { turn_id: data.turn_id.clone() },
            Self::TurnFailed(data) => {
                EventBody::TurnFailed { turn_id: data.turn_id.clone(), code: data.code, message: data.message.clone() }
            }
            Self::TurnCancelled(data) => EventBody::TurnCancelled { turn_id: data.turn_id.clone() },
            Self::TurnRecovered(data) => EventBody::TurnRecovered { turn_id: data.turn_id.clone() },
            Self::CallStarted(data) => EventBody::CallStarted {
                turn_id: data.turn_id.clone(),
                call_id: data.call_id.clone(),
                attempt: data.attempt,
                reply_id: data.reply_id.clone(),
                hidden: data.hidden,
            },
            Self::CallCompleted(data) => {
                EventBody::CallCompleted { call_id: data.call_id.clone(), hidden: data.hidden, usage: data.usage.clone() }
            }
            Self::CallFailed(data) => EventBody::CallFailed {
                call_id: data.call_id.clone(),
                attempt: data.attempt,
                hidden: data.hidden,
                code: data.error.kind.code(),
                not_before: data.not_before,
            },
            Self::CallVoided(data) => EventBody::CallVoided { call_id: data.call_id.clone(), hidden: data.hidden },
            Self::Unknown(_) => return None,
        })
    }
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
fn is_false(value: &bool) -> bool {
    !value
}

fn is_default(client: &Client) -> bool {
    *client == Client::default()
}

#[expect(clippy::option_option, reason = "absent and null are different")]
fn nullable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<NodeId>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
