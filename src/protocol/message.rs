//! Messages in native JSON: AG-UI's fields in `snake_case`, with reasoning inside the reply it belongs to.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Json;
use crate::ids::{NodeId, ToolCallId};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person.
    User,
    /// A model's reply.
    Assistant,
    /// A tool's result.
    Tool,
    /// Instructions; never a node.
    System,
    /// Instructions; never a node.
    Developer,
    /// What AG-UI clients hold of a reply's reasoning; never a node of its own.
    Reasoning,
    /// Application data that a UI shows; a custom node.
    Activity,
}

/// What a user's message is, when no person said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Something that happened.
    Event,
    /// An agent's worker wrote it, without a model call.
    Worker,
}

impl Source {
    /// Of what is recorded of a message.
    pub fn of(is_event: bool, by_worker: bool) -> Option<Self> {
        if is_event { Some(Self::Event) } else { by_worker.then_some(Self::Worker) }
    }
}

/// What sort of node a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Of role user, assistant or tool.
    #[default]
    Message,
    /// Where a compacted history starts.
    Epoch,
    /// Application data: stored, shown, never read by a model.
    Custom,
}

/// One message. Which fields are set follows from `role`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its name; absent only in inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<NodeId>,
    /// Who speaks.
    pub role: Role,
    /// What is said; absent in a reply that only calls tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The calls that a reply asks for, in its order. They stand after its content unless a `tool_call` part marks the place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool's result: the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// Of a tool's result: what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The speaker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of an activity: what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity_type: Option<String>,
    /// An opaque part of the provider's, sent back on later calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_value: Option<String>,
    /// Data of the application's, relayed as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl Message {
    /// A message of `role` with nothing in it.
    pub fn empty(role: Role) -> Self {
        Self {
            id: None,
            role,
            content: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            error: None,
            name: None,
            activity_type: None,
            encrypted_value: None,
            metadata: None,
        }
    }

    /// A message of `role` that says `text`.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { content: Some(Content::Text(text.into())), ..Self::empty(role) }
    }

    /// The same message under another id.
    #[must_use]
    pub fn with_id(mut self, id: NodeId) -> Self {
        self.id = Some(id);
        self
    }

    /// All text parts joined (reasoning left out).
    pub fn joined_text(&self) -> String {
        match &self.content {
            None | Some(Content::Object(_)) => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                parts.iter().filter(|part| part.kind == PartKind::Text).filter_map(|part| part.text.as_deref()).collect()
            }
        }
    }

    /// Whether there is anything in it that is the provider's alone.
    pub fn has_encrypted(&self) -> bool {
        let in_parts = match &self.content {
            Some(Content::Parts(parts)) => parts.iter().any(|part| part.encrypted_value.is_some()),
            Some(Content::Text(_) | Content::Object(_)) | None => false,
        };
        in_parts || self.tool_calls.iter().any(|call| call.encrypted_value.is_some())
    }

    /// The message as readers see it: without the provider's opaque forms, and without parts that were nothing else.
    #[must_use]
    pub fn without_encrypted(mut self) -> Self {
        if let Some(Content::Parts(parts)) = &mut self.content {
            parts.retain_mut(|part| part.encrypted_value.take().is_none() || part.text.as_ref().is_some_and(|text| !text.is_empty()));
            if parts.is_empty() {
                self.content = None;
            }
        }
        for call in &mut self.tool_calls {
            call.encrypted_value = None;
        }
        self
    }

    /// A hash of what is said: text parts joined, media sources, a result's error; metadata and reasoning left out. Tells an edit
    /// from a resend.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        match &self.content {
            None => {}
            Some(Content::Text(text)) => {
                hasher.update(text.as_bytes());
            }
            Some(Content::Object(json)) => {
                hasher.update(json.get().as_bytes());
            }
            Some(Content::Parts(parts)) => {
                for part in parts {
                    match (&part.kind, &part.text, &part.source) {
                        (PartKind::Text, Some(text), _) => hasher.update(text.as_bytes()),
                        (_, _, Some(source)) => hasher.update(b"\0").update(source.get().as_bytes()),
                        _ => &mut hasher,
                    };
                }
            }
        }
        if let Some(error) = &self.error {
            hasher.update(b"\0error\0").update(error.as_bytes());
        }
        Digest::of(&hasher)
    }
}

/// The first half of a BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// What the hasher has read so far.
    pub fn of(hasher: &blake3::Hasher) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(half)
    }

    /// The hash of a chain after `link` follows.
    #[must_use]
    pub fn then(self, link: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(link);
        Self::of(&hasher)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let digest = u128::from_str_radix(&text, 16).ok().map(|half| Self(half.to_be_bytes()));
        // One hash has one spelling.
        digest.filter(|digest| digest.to_string() == *text).ok_or_else(|| D::Error::custom("a hash of 32 hexadecimal digits is expected"))
    }
}

/// What a message says: text, parts in order, or (activities) an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// Parts in order.
    Parts(Vec<Part>),
    /// An activity's object.
    Object(Json),
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Parts(parts) => parts.serialize(serializer),
            Self::Object(json) => json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str(text).map(Self::Text),
            Some(b'[') => serde_json::from_str(text).map(Self::Parts),
            Some(b'{') => serde_json::from_str(text).map(Self::Object),
            _ => return Err(D::Error::custom("content must be a string, a list of parts or an object")),
        }
        .map_err(D::Error::custom)
    }
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// `text`.
    Text,
    /// `source`.
    Image,
    /// `source`.
    Audio,
    /// `source`.
    Video,
    /// `source`.
    Document,
    /// In replies: `text` that the model thought, not said.
    Reasoning,
    /// In replies: the place of the call `tool_call_id` among the parts.
    ToolCall,
}

/// One part of a content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: PartKind,
    /// Text or reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of media: `{type: "data"|"url"|"file", value, mime_type?}`, relayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Json>,
    /// Of a `tool_call` mark: which call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// Of reasoning and of a reply's text: the provider's opaque form, `maker:value`, sent back on later calls. No reader sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_value: Option<String>,
    /// The client's name for the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Data of the application's, relayed as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl Part {
    /// A part of `kind` with `text`.
    pub fn text(kind: PartKind, text: impl Into<String>) -> Self {
        Self { kind, text: Some(text.into()), source: None, tool_call_id: None, encrypted_value: None, id: None, metadata: None }
    }
}

/// A tool call that a reply asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique in the session.
    pub id: ToolCallId,
    /// Always `"function"`.
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
    /// The provider's opaque form, `maker:value`, sent back on later calls. No reader sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_value: Option<String>,
}

fn function() -> String {
    "function".to_owned()
}

impl ToolCall {
    /// A call of the function `name`.
    pub fn new(id: ToolCallId, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id, kind: function(), function: FunctionCall { name: name.into(), arguments: arguments.into() }, encrypted_value: None }
    }
}

/// A function's name and its arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Which tool.
    pub name: String,
    /// JSON text as the model wrote it: not always valid.
    pub arguments: String,
}
