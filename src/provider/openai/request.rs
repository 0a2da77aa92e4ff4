//! The body of a request: what a model reads, as chat completions want it. May not know the network.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Settings;
use crate::protocol::{self, CallError, CallErrorKind, CallRequest, Content, Json, PartKind, Role};

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
    extra: &'a Map<String, Value>,
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
    filename: &'static str,
    file_data: String,
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

/// Where a part's media are.
#[derive(Deserialize)]
struct Source {
    #[serde(rename = "type")]
    kind: String,
    value: String,
    #[serde(default)]
    mime_type: String,
}

/// The body for `request`.
pub(super) fn body(settings: &Settings, request: &CallRequest) -> Result<Vec<u8>, CallError> {
    let given = |field: &str| settings.extra.contains_key(field);
    let system = request.system.as_deref().map(|system| plain("system", Some(Said::Text(system.into()))));
    let body = Body {
        model: request.model.as_deref().unwrap_or(&settings.model),
        messages: system.into_iter().chain(request.messages.iter().filter_map(|read| message(read))).collect(),
        tools: request.tools.iter().map(tool).collect(),
        stream: true,
        stream_options: (!given("stream_options")).then_some(StreamOptions { include_usage: true }),
        temperature: settings.temperature.filter(|_| !given("temperature")),
        max_tokens: settings.max_tokens.filter(|_| !given("max_tokens")),
        extra: &settings.extra,
    };
    serde_json::to_vec(&body)
        .map_err(|error| CallError::new(CallErrorKind::Refused, format!("the request can't be written as JSON: {error}")))
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

fn part(read: &protocol::Part) -> Option<Part<'_>> {
    match read.kind {
        PartKind::Text => Some(Part::Text { text: read.text.as_deref().unwrap_or_default().into() }),
        PartKind::Image => Some(image(read).unwrap_or_else(|| unreadable("an image"))),
        PartKind::Audio => Some(audio(read).unwrap_or_else(|| unreadable("a recording"))),
        PartKind::Document => Some(document(read).unwrap_or_else(|| unreadable("a document"))),
        PartKind::Video => Some(unreadable("a video")),
        PartKind::Reasoning | PartKind::ToolCall => None,
    }
}

/// Tells the model that there was something, rather than leaving it out in silence.
fn unreadable(what: &str) -> Part<'static> {
    Part::Text { text: format!("[{what} that can't be given to this model]").into() }
}

fn image(read: &protocol::Part) -> Option<Part<'static>> {
    let source = source(read)?;
    let url = match source.kind.as_str() {
        "url" => source.value,
        "data" => data_url(&source, "image/png"),
        _ => return None,
    };
    Some(Part::ImageUrl { image_url: ImageUrl { url } })
}

fn audio(read: &protocol::Part) -> Option<Part<'static>> {
    let source = source(read).filter(|source| source.kind == "data")?;
    let format = match source.mime_type.as_str() {
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        _ => return None,
    };
    Some(Part::InputAudio { input_audio: InputAudio { data: source.value, format } })
}

fn document(read: &protocol::Part) -> Option<Part<'static>> {
    let source = source(read).filter(|source| source.kind == "data")?;
    let file_data = data_url(&source, "application/pdf");
    Some(Part::File { file: File { filename: "document", file_data } })
}

fn source(read: &protocol::Part) -> Option<Source> {
    serde_json::from_str(read.source.as_ref()?.get()).ok()
}

fn data_url(source: &Source, kind_default: &str) -> String {
    let kind = if source.mime_type.is_empty() { kind_default } else { &source.mime_type };
    format!("data:{kind};base64,{}", source.value)
}

fn tool(tool: &protocol::Tool) -> Tool<'_> {
    let parameters = tool.parameters.as_ref().filter(|parameters| parameters.is_object());
    Tool { kind: "function", function: Function { name: &tool.name, description: &tool.description, parameters } }
}
