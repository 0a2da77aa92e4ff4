//! The body of a request: what a model reads, as chat completions want it. May not know the network.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Openai;
use crate::protocol::{self, CallError, CallErrorKind, CallRequest, Content, Json, PartKind, Role};
use crate::provider::http::without;
use crate::provider::media::{Media, Place};

/// What may only be said of tools that there are.
const OF_TOOLS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(flatten)]
    extra: Cow<'a, Map<String, Value>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    /// `null` for a reply that only calls tools.
    content: Option<Said<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Said<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    InputAudio { input_audio: InputAudio },
    File { file: File },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct InputAudio {
    data: String,
    format: &'static str,
}

#[derive(Serialize)]
struct File {
    #[serde(rename = "filename", skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(rename = "file_data", skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(rename = "file_id", skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionCall<'a>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a Json>,
}

/// The body for `request`.
pub(super) fn body(settings: &Openai, request: &CallRequest) -> Result<Vec<u8>, CallError> {
    let given = |field: &str| settings.extra.contains_key(field);
    let body = Body {
        model: request.model.as_deref().unwrap_or(&settings.model),
        messages: messages(request),
        tools: request.tools.iter().map(tool).collect(),
        stream: true,
        stream_options: (!given("stream_options")).then_some(StreamOptions { include_usage: true }),
        temperature: settings.temperature.filter(|_| !given("temperature")),
        max_tokens: settings.max_tokens.filter(|_| !given("max_tokens")),
        extra: without(&settings.extra, if request.tools.is_empty() { &OF_TOOLS } else { &[] }),
    };
    serde_json::to_vec(&body)
        .map_err(|error| CallError::new(CallErrorKind::Refused, format!("the request can't be written as JSON: {error}")))
}

/// The system prompt, then the conversation. A result can have nothing but text: its media follow all results of its reply, as a
/// message of the user's.
fn messages(request: &CallRequest) -> Vec<Message<'_>> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    let mut media = Vec::new();
    messages.extend(request.system.as_deref().map(|system| plain("system", Some(Said::Text(system.into())))));
    for read in &request.messages {
        if read.role != Role::Tool && !media.is_empty() {
            messages.push(plain("user", Some(Said::Parts(std::mem::take(&mut media)))));
        }
        messages.extend(message(read));
        media.extend(media_of_result(read));
    }
    if !media.is_empty() {
        messages.push(plain("user", Some(Said::Parts(media))));
    }
    messages
}

fn plain<'a>(role: &'static str, content: Option<Said<'a>>) -> Message<'a> {
    Message { role, content, tool_calls: Vec::new(), tool_call_id: None }
}

/// Nothing for what no model reads.
fn message(read: &protocol::Message) -> Option<Message<'_>> {
    Some(match read.role {
        Role::User => plain("user", Some(shown(read))),
        Role::Assistant => reply(read),
        Role::Tool => Message {
            tool_call_id: read.tool_call_id.as_ref().map(crate::ids::ToolCallId::as_str),
            ..plain("tool", Some(Said::Text(result(read))))
        },
        Role::System | Role::Developer => plain("system", Some(Said::Text(text(read)))),
        Role::Reasoning | Role::Activity => return None,
    })
}

/// A reply without its reasoning.
fn reply(read: &protocol::Message) -> Message<'_> {
    let tool_calls: Vec<_> = read.tool_calls.iter().map(tool_call).collect();
    let text = text(read);
    let content = (!text.is_empty() || tool_calls.is_empty()).then_some(Said::Text(text));
    Message { tool_calls, ..plain("assistant", content) }
}

fn tool_call(asked: &protocol::ToolCall) -> ToolCall<'_> {
    let function = FunctionCall { name: &asked.function.name, arguments: or_empty_object(&asked.function.arguments) };
    ToolCall { id: asked.id.as_str(), kind: "function", function }
}

/// Services parse arguments, and nothing at all is no JSON.
fn or_empty_object(arguments: &str) -> &str {
    if arguments.trim().is_empty() { "{}" } else { arguments }
}

fn text(read: &protocol::Message) -> Cow<'_, str> {
    match &read.content {
        Some(Content::Text(text)) => text.into(),
        Some(Content::Parts(_) | Content::Object(_)) | None => read.joined_text().into(),
    }
}

/// A tool's result: its text, and what went wrong.
fn result(read: &protocol::Message) -> Cow<'_, str> {
    let text = text(read);
    match &read.error {
        None => text,
        Some(error) if text.is_empty() || text == *error => format!("Error: {error}").into(),
        Some(error) => format!("{text}\nError: {error}").into(),
    }
}

/// A person's message: plain text where it can be, since not every service takes parts.
fn shown(read: &protocol::Message) -> Said<'_> {
    match &read.content {
        Some(Content::Parts(parts)) if parts.len() != 1 || parts[0].kind != PartKind::Text => {
            Said::Parts(parts.iter().filter_map(part).collect())
        }
        Some(Content::Parts(_) | Content::Text(_) | Content::Object(_)) | None => Said::Text(text(read)),
    }
}

/// Of a result: what isn't text, below a line that says whose it is.
fn media_of_result(read: &protocol::Message) -> Vec<Part<'_>> {
    let (Role::Tool, Some(Content::Parts(parts))) = (read.role, &read.content) else { return Vec::new() };
    let media: Vec<_> = parts.iter().filter(|part| part.kind != PartKind::Text).filter_map(part).collect();
    if media.is_empty() {
        return media;
    }
    let call = read.tool_call_id.as_ref().map(crate::ids::ToolCallId::as_str).unwrap_or_default();
    [Part::Text { text: format!("[of the result of {call}:]").into() }].into_iter().chain(media).collect()
}

fn part(read: &protocol::Part) -> Option<Part<'_>> {
    let Some(media) = Media::of(read) else {
        return (read.kind == PartKind::Text).then(|| Part::Text { text: read.text.as_deref().unwrap_or_default().into() });
    };
    let taken = match read.kind {
        PartKind::Image => image(&media),
        PartKind::Audio => audio(&media),
        PartKind::Document => document(&media),
        PartKind::Video | PartKind::Text | PartKind::Reasoning | PartKind::ToolCall => None,
    };
    // Tells the model that there was something, rather than leaving it out in silence.
    Some(taken.unwrap_or_else(|| Part::Text { text: media.note().into() }))
}

fn image(media: &Media) -> Option<Part<'static>> {
    let url = match &media.place {
        Place::Url(url) => url.clone(),
        Place::Data(data) => data_url(media, data),
        Place::File { .. } | Place::Unknown => return None,
    };
    Some(Part::ImageUrl { image_url: ImageUrl { url } })
}

fn audio(media: &Media) -> Option<Part<'static>> {
    let Place::Data(data) = &media.place else { return None };
    let format = match media.mime_type() {
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        _ => return None,
    };
    Some(Part::InputAudio { input_audio: InputAudio { data: data.clone(), format } })
}

/// A text is given as text, which every service takes.
fn document(media: &Media) -> Option<Part<'static>> {
    if let Some(text) = media.text() {
        return Some(Part::Text { text: text.into() });
    }
    let file = match &media.place {
        Place::Data(data) => {
            let name = media.name.clone().unwrap_or_else(|| "document".to_owned());
            File { name: Some(name), data: Some(data_url(media, data)), id: None }
        }
        Place::Url(_) | Place::File { .. } | Place::Unknown => {
            File { name: None, data: None, id: Some(media.file_of(&["openai"])?.to_owned()) }
        }
    };
    Some(Part::File { file })
}

fn data_url(media: &Media, data: &str) -> String {
    format!("data:{};base64,{data}", media.mime_type())
}

fn tool(tool: &protocol::Tool) -> Tool<'_> {
    let parameters = tool.parameters.as_ref().filter(|parameters| parameters.is_object());
    Tool { kind: "function", function: Function { name: &tool.name, description: &tool.description, parameters } }
}
