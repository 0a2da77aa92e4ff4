//! The body of a request: what a model reads, as the messages API wants it. Its roles alternate, a person begins and ends, results
//! stand first in what follows their calls, and nothing is empty. May not know the network.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Anthropic;
use super::content::{self, Block};
use crate::protocol::{self, CallError, CallErrorKind, CallRequest, Json, Role};
use crate::provider::http::without;

/// What stands before a conversation that a model begins: the API lets only people begin.
const BEGINNING: &str = "[The conversation begins with your message.]";

/// What stands after a conversation that ends with a reply: most models want a person's word last.
const GO_ON: &str = "[Go on.]";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Cow<'a, str>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(flatten)]
    extra: Cow<'a, Map<String, Value>>,
}

#[derive(Serialize)]
struct Choice {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: Speaker,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Speaker {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Ours(OurTool<'a>),
    /// As the configuration has it.
    Theirs(&'a Value),
}

#[derive(Serialize)]
struct OurTool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Schema<'a> {
    Given(&'a Json),
    /// The API needs one.
    Any {
        #[serde(rename = "type")]
        kind: &'static str,
    },
}

/// The body for `request`.
pub(super) fn body(anthropic: &Anthropic, request: &CallRequest) -> Result<Vec<u8>, CallError> {
    let given = |field: &str| anthropic.extra.contains_key(field);
    let ours = request.tools.iter().map(tool);
    // What nobody sees looks nothing up.
    let theirs = if request.hidden { &[] } else { anthropic.tools.as_slice() };
    let mut tools: Vec<_> = ours.chain(theirs.iter().map(Tool::Theirs)).collect();
    let (mut tool_choice, mut extra) = (None, Cow::Borrowed(&anthropic.extra));
    if tools.is_empty() {
        tools = called(request);
        tool_choice = (!tools.is_empty()).then_some(Choice { kind: "none" });
        extra = without(&anthropic.extra, &["tool_choice"]);
    }
    let body = Body {
        model: request.model.as_deref().unwrap_or(&anthropic.model),
        max_tokens: (!given("max_tokens")).then_some(anthropic.max_tokens),
        system: system(request),
        messages: messages(request),
        tools,
        tool_choice,
        stream: true,
        temperature: anthropic.temperature.filter(|_| !given("temperature")),
        extra,
    };
    serde_json::to_vec(&body)
        .map_err(|error| CallError::new(CallErrorKind::Refused, format!("the request can't be written as JSON: {error}")))
}

/// All instructions: they have one place.
fn system(request: &CallRequest) -> Option<Cow<'_, str>> {
    let inside = request.messages.iter().filter(|read| matches!(read.role, Role::System | Role::Developer)).map(|read| content::text(read));
    let all = request.system.as_deref().map(Cow::Borrowed).into_iter().chain(inside).filter(|text| !text.trim().is_empty());
    all.reduce(|one, next| format!("{one}\n\n{next}").into())
}

fn messages(request: &CallRequest) -> Vec<Message<'_>> {
    let mut messages: Vec<Message<'_>> = Vec::with_capacity(request.messages.len() + 1);
    for read in &request.messages {
        let (role, blocks) = match read.role {
            Role::User => (Speaker::User, content::shown(read)),
            Role::Tool => (Speaker::User, content::result(read)),
            Role::Assistant => (Speaker::Assistant, content::reply(read)),
            Role::System | Role::Developer | Role::Reasoning | Role::Activity => continue,
        };
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(blocks),
            None if role == Speaker::Assistant => {
                messages.push(Message { role: Speaker::User, content: vec![Block::text(BEGINNING)] });
                messages.push(Message { role, content: blocks });
            }
            Some(_) | None => messages.push(Message { role, content: blocks }),
        }
    }
    if messages.last().is_some_and(|last| last.role == Speaker::Assistant) {
        messages.push(Message { role: Speaker::User, content: vec![Block::text(GO_ON)] });
    }
    messages
}

/// The tools that were called before and aren't offered any more. The API refuses calls of tools that it isn't told of.
fn called(request: &CallRequest) -> Vec<Tool<'_>> {
    let calls = request.messages.iter().flat_map(|read| &read.tool_calls);
    let names: BTreeSet<Cow<'_, str>> = calls.map(|call| content::tool_name(&call.function.name)).collect();
    let tool = |name| Tool::Ours(OurTool { name, description: "", input_schema: Schema::Any { kind: "object" } });
    names.into_iter().map(tool).collect()
}

fn tool(tool: &protocol::Tool) -> Tool<'_> {
    let given = tool.parameters.as_ref().filter(|parameters| parameters.is_object());
    let input_schema = given.map_or(Schema::Any { kind: "object" }, Schema::Given);
    Tool::Ours(OurTool { name: (&tool.name).into(), description: &tool.description, input_schema })
}
