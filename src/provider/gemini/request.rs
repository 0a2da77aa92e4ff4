//! The body of a request: what a model reads, as the service wants it. May not know the network.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::contents::{Content, contents, instruction};
use super::{Gemini, merge};
use crate::protocol::{self, CallError, CallErrorKind, CallRequest, Json};
use crate::provider::http::without;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    generation_config: Map<String, Value>,
    #[serde(flatten)]
    extra: Cow<'a, Map<String, Value>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Functions(Functions<'a>),
    /// A tool of the service's own, from the configuration.
    Own(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Functions<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    /// Not `parameters`: that one is a small part of `OpenAPI`'s schemas, and the service refuses the fields that front ends'
    /// schemas have beside it (`$schema`, `additionalProperties`, `$ref`…).
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a Json>,
}

/// The body for `request`.
pub(super) fn body(gemini: &Gemini, request: &CallRequest) -> Result<Vec<u8>, CallError> {
    let model = request.model.as_deref().unwrap_or(&gemini.model);
    let mut generation_config = Map::new();
    if let Some(temperature) = gemini.temperature {
        generation_config.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(max_tokens) = gemini.max_tokens {
        generation_config.insert("maxOutputTokens".to_owned(), max_tokens.into());
    }
    merge(&mut generation_config, &gemini.generation_config);
    // What nobody sees looks nothing up.
    let own = if request.hidden { &[] } else { gemini.tools.as_slice() };
    let tools: Vec<_> = functions(&request.tools).into_iter().chain(own.iter().map(Tool::Own)).collect();
    let body = Body {
        system_instruction: instruction(request),
        contents: contents(&request.messages, model),
        extra: without(&gemini.extra, if tools.is_empty() { &["toolConfig"] } else { &[] }),
        tools,
        generation_config,
    };
    serde_json::to_vec(&body)
        .map_err(|error| CallError::new(CallErrorKind::Refused, format!("the request can't be written as JSON: {error}")))
}

fn functions(tools: &[protocol::Tool]) -> Option<Tool<'_>> {
    let function_declarations: Vec<_> = tools.iter().map(function).collect();
    (!function_declarations.is_empty()).then_some(Tool::Functions(Functions { function_declarations }))
}

fn function(tool: &protocol::Tool) -> Function<'_> {
    let parameters_json_schema = tool.parameters.as_ref().filter(|parameters| parameters.is_object());
    Function { name: &tool.name, description: &tool.description, parameters_json_schema }
}
