//! The conversation as the service wants it: contents of a user and of a model by turns, made of parts. May not know options.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::made;
use super::opaque::Marks;
use crate::ids::ToolCallId;
use crate::protocol::{self, CallRequest, Message, PartKind, Role};
use crate::provider::media::{Media, Place};

/// What stands before a conversation that a model began; the service takes none.
const BEGINNING: &str = "[The conversation begins with your message.]";

/// What the service takes for the signature of a call that another model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// One turn, or the instructions.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "is_false")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<FileData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: &'a str,
    args: Arguments<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    Object(&'a RawValue),
    /// What is no object, as one.
    Text {
        arguments: &'a str,
    },
    Empty {},
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData {
    mime_type: String,
    data: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileData {
    #[serde(skip_serializing_if = "String::is_empty")]
    mime_type: String,
    file_uri: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl<'a> Part<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}

/// The system prompt, then whatever else instructs.
pub(super) fn instruction(request: &CallRequest) -> Option<Content<'_>> {
    let system = request.system.as_deref().map(Cow::Borrowed);
    let instructs = |message: &&Arc<Message>| matches!(message.role, Role::System | Role::Developer);
    let more = request.messages.iter().filter(instructs).map(|message| message.joined_text().into());
    let parts: Vec<_> = system.into_iter().chain(more).filter(|text| !text.is_empty()).map(Part::text).collect();
    (!parts.is_empty()).then_some(Content { role: None, parts })
}

/// The conversation; neighbours of one role are one content.
pub(super) fn contents<'a>(messages: &'a [Arc<Message>], model: &str) -> Vec<Content<'a>> {
    let mut contents = Contents { model_checks: checks_signatures(model), ..Contents::default() };
    for message in messages {
        contents.add(message);
    }
    contents.end();
    contents.list
}

/// Models from Gemini 3 on refuse a call without a signature.
fn checks_signatures(model: &str) -> bool {
    let version = model.rsplit('/').next().and_then(|name| name.strip_prefix("gemini-")).unwrap_or_default();
    let major: String = version.chars().take_while(char::is_ascii_digit).collect();
    major.parse::<u32>().is_ok_and(|major| major >= 3)
}

/// Contents in the making.
#[derive(Default)]
struct Contents<'a> {
    list: Vec<Content<'a>>,
    /// The calls so far: what each is called, and its marks.
    calls: HashMap<&'a ToolCallId, (&'a str, Marks)>,
    /// Media of results. They follow all results of a reply, since those stand together.
    media: Vec<Part<'a>>,
    model_checks: bool,
}

impl<'a> Contents<'a> {
    fn add(&mut self, message: &'a Message) {
        if message.role != Role::Tool {
            self.end();
        }
        match message.role {
            Role::User => self.said(message),
            Role::Assistant => self.reply(message),
            Role::Tool => self.result(message),
            Role::System | Role::Developer | Role::Reasoning | Role::Activity => {}
        }
    }

    /// The results of a reply, if there were any, are complete.
    fn end(&mut self) {
        let media = std::mem::take(&mut self.media);
        self.push("user", media);
    }

    fn push(&mut self, role: &'static str, mut parts: Vec<Part<'a>>) {
        match self.list.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == Some(role) => last.parts.append(&mut parts),
            None if role == "model" => {
                self.list.push(Content { role: Some("user"), parts: vec![Part::text(BEGINNING)] });
                self.list.push(Content { role: Some(role), parts });
            }
            Some(_) | None => self.list.push(Content { role: Some(role), parts }),
        }
    }

    fn said(&mut self, message: &'a Message) {
        let mut parts = match &message.content {
            Some(protocol::Content::Parts(parts)) => parts.iter().filter_map(shown).collect(),
            Some(protocol::Content::Text(text)) => vec![Part::text(text)],
            Some(protocol::Content::Object(_)) | None => Vec::new(),
        };
        parts.retain(|part: &Part<'_>| part.text.as_deref() != Some(""));
        if parts.is_empty() {
            // The service refuses a text without a character.
            parts.push(Part::text(" "));
        }
        self.push("user", parts);
    }

    /// A reply: its parts in order, each with the signature that it came with; a call stands where its place is marked, else at
    /// the end. What it thought goes back only if it was signed.
    fn reply(&mut self, message: &'a Message) {
        let mut calls: Vec<Option<&protocol::ToolCall>> = message.tool_calls.iter().map(Some).collect();
        let mut parts = Vec::new();
        match &message.content {
            Some(protocol::Content::Parts(read)) => {
                for part in read {
                    match part.kind {
                        PartKind::Text => parts.extend(text(part)),
                        PartKind::Reasoning => parts.extend(text(part).into_iter().filter(|part| part.thought_signature.is_some())),
                        PartKind::ToolCall => {
                            let mark = |call: &&mut Option<&protocol::ToolCall>| call.map(|call| &call.id) == part.tool_call_id.as_ref();
                            let call = calls.iter_mut().filter(|call| call.is_some()).find(mark).and_then(Option::take);
                            parts.extend(call.map(|call| self.call(call)));
                        }
                        PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::Document => parts.extend(shown(part)),
                    }
                }
            }
            Some(protocol::Content::Text(text)) if !text.is_empty() => parts.push(Part::text(text)),
            Some(protocol::Content::Text(_) | protocol::Content::Object(_)) | None => {}
        }
        for call in calls.into_iter().flatten() {
            parts.push(self.call(call));
        }
        let is_signed = parts.iter().any(|part| part.thought_signature.is_some());
        if let Some(first) = parts.iter_mut().find(|part| part.function_call.is_some()).filter(|_| self.model_checks && !is_signed) {
            first.thought_signature = Some(NO_SIGNATURE.into());
        }
        self.push("model", parts);
    }

    fn call(&mut self, call: &'a protocol::ToolCall) -> Part<'a> {
        let marks = Marks::read(made(call.encrypted_value.as_deref()));
        let id = marks.id.clone();
        let thought_signature = marks.signature.clone().map(Cow::Owned);
        let name = call.function.name.as_str();
        self.calls.insert(&call.id, (name, marks));
        let function_call = Some(FunctionCall { id, name, args: arguments(&call.function.arguments) });
        Part { function_call, thought_signature, ..Part::default() }
    }

    fn result(&mut self, message: &'a Message) {
        // A result without its call doesn't come here.
        let Some((name, marks)) = message.tool_call_id.as_ref().and_then(|id| self.calls.get(id)) else { return };
        let (name, id) = (*name, marks.id.clone());
        let text = message.joined_text();
        let error = message.error.as_deref();
        let output = (error.is_none() || (!text.is_empty() && Some(text.as_str()) != error)).then_some(text);
        let function_response = Some(FunctionResponse { id, name, response: Response { output, error } });
        self.push("user", vec![Part { function_response, ..Part::default() }]);
        if let Some(protocol::Content::Parts(parts)) = &message.content {
            let mut media: Vec<_> = parts.iter().filter(|part| Media::of(part).is_some()).filter_map(shown).collect();
            if !media.is_empty() {
                self.media.push(Part::text(format!("[of the result of {name}:]")));
                self.media.append(&mut media);
            }
        }
    }
}

/// Text or reasoning of a reply, what came with a signature apart from what came without.
fn text(read: &protocol::Part) -> Vec<Part<'_>> {
    let text = read.text.as_deref().unwrap_or_default();
    let thought = read.kind == PartKind::Reasoning;
    let marks = Marks::read(made(read.encrypted_value.as_deref()));
    let (plain, signed) = text.split_at(if marks.signature.is_some() { marks.signed_from(text) } else { text.len() });
    let plain = (!plain.is_empty()).then(|| Part { thought, ..Part::text(plain) });
    let signed = marks.signature.map(|signature| Part { thought, thought_signature: Some(signature.into()), ..Part::text(signed) });
    plain.into_iter().chain(signed).collect()
}

/// A part of a message of a person's or of a tool's.
fn shown(read: &protocol::Part) -> Option<Part<'_>> {
    let Some(media) = Media::of(read) else {
        return (read.kind == PartKind::Text).then(|| Part::text(read.text.as_deref().unwrap_or_default()));
    };
    let mime_type = media.mime_type().to_owned();
    Some(match media.place {
        Place::Data(data) => Part { inline_data: Some(InlineData { mime_type, data }), ..Part::default() },
        // Whatever can't be assumed is found out by the service.
        Place::Url(file_uri) => Part { file_data: Some(FileData { mime_type: media.mime_type, file_uri }), ..Part::default() },
        Place::File { .. } | Place::Unknown => match media.file_of(&["google", "gemini"]) {
            Some(file) => {
                let file_data = FileData { file_uri: file.to_owned(), mime_type: media.mime_type };
                Part { file_data: Some(file_data), ..Part::default() }
            }
            None => Part::text(media.note()),
        },
    })
}

fn arguments(written: &str) -> Arguments<'_> {
    if written.trim().is_empty() {
        return Arguments::Empty {};
    }
    match serde_json::from_str::<&RawValue>(written) {
        Ok(object) if object.get().starts_with('{') => Arguments::Object(object),
        Ok(_) | Err(_) => Arguments::Text { arguments: written },
    }
}
