//! The events of a stream as they stand on the wire; what isn't used isn't read. May not know chunks.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use crate::provider::http::halves::Units;

/// One event's data.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    pub choices: Vec<Choice>,
    pub usage: Option<Usage>,
    #[serde(borrow)]
    pub model: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub object: Option<&'a RawValue>,
}

/// One of the replies; there is one.
#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub index: u32,
    #[serde(default, deserialize_with = "null_as_default")]
    pub delta: Delta,
    pub finish_reason: Option<String>,
}

/// What is added to a reply.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    pub content: Option<Units>,
    pub refusal: Option<Units>,
    pub reasoning_content: Option<Units>,
    pub reasoning: Option<Units>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub tool_calls: Vec<ToolCall>,
}

/// A tool call, or more of one.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCall {
    pub index: Option<u64>,
    pub id: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub function: Function,
}

/// Which function, with what.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Function {
    pub name: Option<String>,
    pub arguments: Option<Units>,
}

/// Tokens.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Usage {
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    pub prompt_tokens_details: Option<PromptDetails>,
    /// The same, as some services have it.
    pub prompt_cache_hit_tokens: Option<u64>,
    pub completion_tokens_details: Option<CompletionDetails>,
}

/// Of the tokens read.
#[derive(Debug, Deserialize)]
pub(super) struct PromptDetails {
    pub cached_tokens: Option<u64>,
}

/// Of the tokens written.
#[derive(Debug, Deserialize)]
pub(super) struct CompletionDetails {
    pub reasoning_tokens: Option<u64>,
}

fn null_as_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
