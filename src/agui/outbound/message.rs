//! Native messages as AG-UI shows them: reasoning as messages of its own before its reply, media and results in what the
//! dialect can read. May not know why they are shown.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::agui::Dialect;
use crate::agui::event::ReasoningId;
use crate::protocol::{Content as Said, Json, Message, Part, PartKind, Role, Snapshot, Writing};

/// A conversation's messages, in AG-UI.
pub(in crate::agui) struct Messages<'a> {
    pub(in crate::agui) dialect: Dialect,
    pub(in crate::agui) snapshot: &'a Snapshot,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for message in &self.snapshot.messages {
            let Some(id) = &message.id else { continue };
            for reasoning in reasoning(id.as_str(), message) {
                list.serialize_element(&reasoning)?;
            }
            if !only_thinks(id.as_str(), self.snapshot.writing.as_ref()) {
                list.serialize_element(&shown(self.dialect, id.as_str(), message))?;
            }
        }
        list.end()
    }
}

/// What a model reads, as messages of an AG-UI client that an agent is sent: without reasoning, which older agents don't know. A result
/// that was made up has a name after its call.
pub struct Path<'a>(pub &'a [Arc<Message>]);

impl Serialize for Path<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for (place, message) in self.0.iter().enumerate() {
            let name = match (&message.id, &message.tool_call_id) {
                (Some(id), _) => Cow::Borrowed(id.as_str()),
                (None, Some(call)) => Cow::Owned(format!("{call}:tool")),
                (None, None) => Cow::Owned(format!("message-{place}")),
            };
            list.serialize_element(&shown(Dialect::Legacy, &name, message))?;
        }
        list.end()
    }
}

/// Whether the message is a reply in the making that has said nothing and called nothing: its readers have no message of it.
fn only_thinks(id: &str, writing: Option<&Writing>) -> bool {
    writing.is_some_and(|writing| writing.reply_id.as_str() == id && !writing.text && writing.calls.is_empty())
}

/// A message as AG-UI spells it. Which fields are set follows from `role`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a, Id> {
    id: Id,
    role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [crate::protocol::ToolCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
}

impl<'a, Id> Shown<'a, Id> {
    fn new(id: Id, role: Role, content: Option<Content<'a>>) -> Self {
        Self {
            id,
            role,
            content,
            name: None,
            tool_calls: &[],
            tool_call_id: None,
            error: None,
            activity_type: None,
            encrypted_value: None,
            metadata: None,
        }
    }
}

/// A reply's reasoning parts, each as the message under whose id it was streamed.
fn reasoning<'a>(id: &'a str, message: &'a Message) -> impl Iterator<Item = Shown<'a, ReasoningId<'a>>> {
    let parts = match (&message.content, message.role) {
        (Some(Said::Parts(parts)), Role::Assistant) => parts.as_slice(),
        (Some(_) | None, _) => &[],
    };
    // One without text was never streamed.
    let parts = parts.iter().filter(|part| part.kind == PartKind::Reasoning && part.text.is_some());
    parts.zip(1..).map(move |(part, index)| {
        let text = Cow::Borrowed(part.text.as_deref().unwrap_or_default());
        Shown::new(ReasoningId { reply_id: id, index }, Role::Reasoning, Some(Content::Text(text)))
    })
}

fn shown<'a>(dialect: Dialect, id: &'a str, message: &'a Message) -> Shown<'a, &'a str> {
    let new = |content| Shown {
        name: message.name.as_deref(),
        encrypted_value: message.encrypted_value.as_deref(),
        metadata: message.metadata.as_ref().filter(|metadata| metadata.is_object()),
        ..Shown::new(id, message.role, content)
    };
    match message.role {
        Role::User => new(Some(said(dialect, message))),
        Role::Assistant => {
            let text = text(message);
            Shown { tool_calls: &message.tool_calls, ..new(Some(text).filter(|text| !text.is_empty()).map(Content::Text)) }
        }
        Role::Tool => Shown {
            name: None,
            tool_call_id: message.tool_call_id.as_ref().map(crate::ids::ToolCallId::as_str),
            error: message.error.as_deref(),
            ..new(Some(result(dialect, message)))
        },
        Role::System | Role::Developer => new(Some(Content::Text(text(message)))),
        Role::Reasoning => Shown { name: None, ..new(Some(Content::Text(text(message)))) },
        Role::Activity => Shown {
            name: None,
            encrypted_value: None,
            activity_type: Some(message.activity_type.as_deref().unwrap_or_default()),
            ..new(Some(match &message.content {
                Some(Said::Object(object)) => Content::Object(object),
                Some(Said::Text(_) | Said::Parts(_)) | None => Content::Empty {},
            }))
        },
    }
}

fn text(message: &Message) -> Cow<'_, str> {
    match &message.content {
        Some(Said::Text(text)) => Cow::Borrowed(text),
        Some(Said::Parts(_) | Said::Object(_)) | None => Cow::Owned(message.joined_text()),
    }
}

/// What a user or a tool says: text, or parts in order.
fn said(dialect: Dialect, message: &Message) -> Content<'_> {
    match &message.content {
        Some(Said::Parts(parts)) => Content::Parts(parts.iter().filter_map(|part| shown_part(dialect, part)).collect()),
        Some(Said::Text(_) | Said::Object(_)) | None => Content::Text(text(message)),
    }
}

/// What a tool says. The legacy dialect reads only text; a result that has none says so in JSON.
pub(super) fn result(dialect: Dialect, message: &Message) -> Content<'_> {
    let content = match (&message.content, &message.error) {
        (None, Some(error)) => return Content::Text(Cow::Borrowed(error)),
        (Some(_) | None, _) => said(dialect, message),
    };
    match (dialect, content) {
        (Dialect::Legacy, Content::Parts(parts)) => {
            let joined = message.joined_text();
            let text = if joined.is_empty() && !parts.is_empty() { serde_json::to_string(&parts).unwrap_or_default() } else { joined };
            Content::Text(Cow::Owned(text))
        }
        (Dialect::Legacy | Dialect::V1, content) => content,
    }
}

/// A content as AG-UI spells it.
#[derive(Serialize)]
#[serde(untagged)]
pub(in crate::agui) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ShownPart<'a>>),
    Object(&'a Json),
    Empty {},
}

#[derive(Serialize)]
pub(in crate::agui) struct ShownPart<'a> {
    #[serde(rename = "type")]
    kind: PartKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<ShownSource<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
}

/// A media source as AG-UI spells it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum ShownSource<'a> {
    Data {
        value: &'a RawValue,
        mime_type: Cow<'a, str>,
    },
    Url {
        value: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<Cow<'a, str>>,
    },
    File {
        value: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<Cow<'a, str>>,
    },
}

/// A media source as it is kept.
#[derive(Deserialize)]
struct Source<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(borrow, default)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    provider: Option<Cow<'a, str>>,
}

/// A part, unless AG-UI has no such part (reasoning and marks are shown elsewhere).
fn shown_part(dialect: Dialect, part: &Part) -> Option<ShownPart<'_>> {
    let new = |kind, text, source| ShownPart { kind, text, source, id: part.id.as_deref(), metadata: part.metadata.as_ref() };
    match part.kind {
        PartKind::Text => Some(new(PartKind::Text, Some(Cow::Borrowed(part.text.as_deref().unwrap_or_default())), None)),
        PartKind::Reasoning | PartKind::ToolCall => None,
        PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::Document => {
            let source: Source<'_> = serde_json::from_str(part.source.as_ref()?.get()).ok()?;
            let Source { value, mime_type, provider, .. } = source;
            match (&*source.kind, dialect) {
                ("data", _) => {
                    let mime_type = mime_type.unwrap_or(Cow::Borrowed("application/octet-stream"));
                    Some(new(part.kind, None, Some(ShownSource::Data { value, mime_type })))
                }
                ("url", _) => Some(new(part.kind, None, Some(ShownSource::Url { value, mime_type }))),
                ("file", Dialect::V1) => Some(new(part.kind, None, Some(ShownSource::File { value, provider, mime_type }))),
                // Older clients fail on it; a line of text keeps its place.
                ("file", Dialect::Legacy) => Some(new(PartKind::Text, Some(Cow::Owned(format!("[file {}]", value.get()))), None)),
                _ => None,
            }
        }
    }
}
