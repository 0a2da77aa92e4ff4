//! The events of a stream as they stand on the wire; what isn't used isn't read. May not know chunks.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use serde_json::value::RawValue;

use crate::provider::http::halves::Units;
use crate::provider::http::usage::{Count, Lenient};

/// One event's data.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    #[serde(default, borrow, deserialize_with = "null_as_default")]
    pub candidates: Vec<Candidate<'a>>,
    pub prompt_feedback: Option<Feedback>,
    #[serde(default)]
    pub usage_metadata: Lenient<Usage>,
    pub model_version: Option<String>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// One of the replies; the first counts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    pub index: u32,
    #[serde(default, borrow, deserialize_with = "null_as_default")]
    pub content: Content<'a>,
    pub finish_reason: Option<String>,
    pub finish_message: Option<String>,
}

/// What is added to a reply.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(default, borrow, deserialize_with = "null_as_default")]
    pub parts: Vec<Part<'a>>,
}

/// A piece of text, or a whole call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    pub text: Option<Units>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub thought: bool,
    #[serde(alias = "thought_signature")]
    pub thought_signature: Option<String>,
    #[serde(borrow)]
    pub function_call: Option<FunctionCall<'a>>,
    pub inline_data: Option<IgnoredAny>,
    pub file_data: Option<IgnoredAny>,
    pub executable_code: Option<IgnoredAny>,
    pub code_execution_result: Option<IgnoredAny>,
}

impl Part<'_> {
    /// Whether it is of a kind that replies here don't have.
    pub fn is_foreign(&self) -> bool {
        let Self { inline_data, file_data, executable_code, code_execution_result, .. } = self;
        [inline_data, file_data, executable_code, code_execution_result].into_iter().any(Option::is_some)
    }
}

/// Which function, with what.
#[derive(Debug, Deserialize)]
pub(super) struct FunctionCall<'a> {
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(borrow)]
    pub args: Option<&'a RawValue>,
}

/// What the service thinks of the request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback {
    pub block_reason: Option<String>,
    pub block_reason_message: Option<String>,
}

/// Tokens so far.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    #[serde(rename = "promptTokenCount")]
    pub prompt: Count,
    #[serde(rename = "toolUsePromptTokenCount")]
    pub tool_use_prompt: Count,
    #[serde(rename = "cachedContentTokenCount")]
    pub cached: Count,
    #[serde(rename = "candidatesTokenCount")]
    pub candidates: Count,
    #[serde(rename = "thoughtsTokenCount")]
    pub thoughts: Count,
}

fn null_as_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
