//! What a message says, as the API's blocks. A reply goes back as it came: its thinking with the signature, in its place. May not
//! know requests.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::MAKER;
use super::block::is_of_the_service;
use crate::ids::ToolCallId;
use crate::protocol::{Content, Json, Message, Part, PartKind, ToolCall};
use crate::provider::media::{Media, Place};
use crate::provider::opaque;

/// What the service made that we keep for it: its kinds, before the first colon.
pub(super) const THINKING: &str = "thinking";
pub(super) const REDACTED: &str = "redacted";
pub(super) const BLOCK: &str = "block";

/// What a person says who says nothing; the API takes no empty message.
const NOTHING: &str = "[an empty message]";

/// Images that the API reads.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// How long an id of a call may be.
const CALL_ID_BYTES_MAX: usize = 64;

/// How long a tool's name may be.
const TOOL_NAME_BYTES_MAX: usize = 64;

/// A block of a message.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Block<'a> {
    Known(Known<'a>),
    /// One that only the service understands, as it came.
    Opaque(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Known<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source,
    },
    Document {
        source: Source,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Input<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// Where media are.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source {
    Base64 { media_type: String, data: String },
    Url { url: String },
    File { file_id: String },
}

/// What a tool was called with.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Object(Json),
    Nothing {},
    /// Arguments that are no object; the API takes nothing else.
    Broken {
        arguments: &'a str,
    },
}

impl<'a> Block<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Known(Known::Text { text: text.into() })
    }
}

/// The text of a message, joined.
pub(super) fn text(read: &Message) -> Cow<'_, str> {
    match &read.content {
        Some(Content::Text(text)) => text.into(),
        Some(Content::Parts(_) | Content::Object(_)) | None => read.joined_text().into(),
    }
}

/// What a person says.
pub(super) fn shown(read: &Message) -> Vec<Block<'_>> {
    let blocks = said(read);
    if blocks.is_empty() { vec![Block::text(NOTHING)] } else { blocks }
}

/// A tool's result.
pub(super) fn result(read: &Message) -> Vec<Block<'_>> {
    let Some(id) = &read.tool_call_id else { return Vec::new() };
    let mut content = said(read);
    if let Some(error) = read.error.as_deref().filter(|error| !is_blank(error) && *error != text(read)) {
        content.push(Block::text(error));
    }
    vec![Block::Known(Known::ToolResult { tool_use_id: call_id(id), content, is_error: read.error.is_some() })]
}

/// A reply: what was said and thought and called, in its order.
pub(super) fn reply(read: &Message) -> Vec<Block<'_>> {
    let mut calls: Vec<&ToolCall> = read.tool_calls.iter().collect();
    let mut blocks = Vec::new();
    match &read.content {
        Some(Content::Text(text)) => blocks.extend(not_blank(text)),
        Some(Content::Parts(parts)) => {
            for part in parts {
                match part.kind {
                    PartKind::Text => blocks.extend(part.text.as_deref().and_then(not_blank)),
                    PartKind::Reasoning => blocks.extend(thought(part)),
                    PartKind::ToolCall => {
                        let at = calls.iter().position(|call| part.tool_call_id.as_ref() == Some(&call.id));
                        blocks.extend(at.map(|at| asked(calls.remove(at))));
                    }
                    PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::Document => {}
                }
            }
        }
        Some(Content::Object(_)) | None => {}
    }
    blocks.extend(calls.into_iter().map(asked));
    blocks
}

/// What the service needs again of what it thought; nothing when another one did.
fn thought(part: &Part) -> Option<Block<'_>> {
    let (kind, value) = opaque::made_by(MAKER, part.encrypted_value.as_deref())?.split_once(':')?;
    match kind {
        THINKING => Some(Block::Known(Known::Thinking { thinking: part.text.as_deref().unwrap_or_default(), signature: value })),
        REDACTED => Some(Block::Known(Known::RedactedThinking { data: value })),
        BLOCK => own(value),
        // A later version's.
        _ => None,
    }
}

/// A block of the service's own. A client may have made it up: it passes for no other kind of block.
fn own(value: &str) -> Option<Block<'_>> {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: String,
    }
    let Typed { kind } = serde_json::from_str(value).ok()?;
    if is_of_the_service(&kind) { serde_json::from_str(value).ok().map(Block::Opaque) } else { None }
}

fn asked(call: &ToolCall) -> Block<'_> {
    let arguments = call.function.arguments.as_str();
    let input = match serde_json::from_str::<Json>(arguments) {
        Ok(json) if json.is_object() => Input::Object(json),
        Ok(_) | Err(_) if is_blank(arguments) => Input::Nothing {},
        Ok(_) | Err(_) => Input::Broken { arguments },
    };
    Block::Known(Known::ToolUse { id: call_id(&call.id), name: tool_name(&call.function.name), input })
}

/// The name of a tool that was called, as the API takes it. A model may have made it up.
pub(super) fn tool_name(name: &str) -> Cow<'_, str> {
    if is_plain(name, TOOL_NAME_BYTES_MAX) {
        return name.into();
    }
    let plain = |character: char| if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' };
    // One character at least.
    let name = if name.is_empty() { "_" } else { name };
    name.chars().take(TOOL_NAME_BYTES_MAX).map(plain).collect::<String>().into()
}

fn is_plain(text: &str, bytes_max: usize) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=bytes_max).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The id of a call as the API takes it. Those of other services may have other characters: then it is a hash of theirs.
fn call_id(id: &ToolCallId) -> Cow<'_, str> {
    let id = id.as_str();
    if is_plain(id, CALL_ID_BYTES_MAX) {
        return id.into();
    }
    format!("call_{}", &blake3::hash(id.as_bytes()).to_hex()[..32]).into()
}

fn said(read: &Message) -> Vec<Block<'_>> {
    match &read.content {
        Some(Content::Text(text)) => not_blank(text).into_iter().collect(),
        Some(Content::Parts(parts)) => parts.iter().filter_map(part).collect(),
        Some(Content::Object(_)) | None => Vec::new(),
    }
}

fn part(read: &Part) -> Option<Block<'_>> {
    let Some(media) = Media::of(read) else {
        return read.text.as_deref().filter(|_| read.kind == PartKind::Text).and_then(not_blank);
    };
    let shown = match read.kind {
        PartKind::Image => image(&media).map(|source| Known::Image { source }),
        PartKind::Document => document(&media).map(|source| Known::Document { source }),
        PartKind::Text | PartKind::Audio | PartKind::Video | PartKind::Reasoning | PartKind::ToolCall => None,
    };
    Some(shown.map_or_else(|| Block::text(media.text().unwrap_or_else(|| media.note())), Block::Known))
}

/// The API takes no text without a character that can be seen.
fn not_blank(text: &str) -> Option<Block<'_>> {
    (!is_blank(text)).then(|| Block::text(text))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn image(media: &Media) -> Option<Source> {
    let is_taken = |kind: &str| IMAGE_TYPES.contains(&kind);
    match &media.place {
        Place::Data(data) => {
            let media_type = media.known_type().filter(|kind| is_taken(kind))?.to_owned();
            Some(Source::Base64 { media_type, data: data.clone() })
        }
        Place::Url(url) if media.known_type().is_none_or(is_taken) => Some(Source::Url { url: url.clone() }),
        Place::Url(_) | Place::File { .. } | Place::Unknown => file(media),
    }
}

fn document(media: &Media) -> Option<Source> {
    let is_pdf = media.mime_type() == "application/pdf";
    match &media.place {
        Place::Data(data) if is_pdf => Some(Source::Base64 { media_type: media.mime_type().to_owned(), data: data.clone() }),
        Place::Url(url) if is_pdf => Some(Source::Url { url: url.clone() }),
        Place::Data(_) | Place::Url(_) | Place::File { .. } | Place::Unknown => file(media),
    }
}

/// What the service keeps itself.
fn file(media: &Media) -> Option<Source> {
    media.file_of(&[MAKER]).map(|id| Source::File { file_id: id.to_owned() })
}
