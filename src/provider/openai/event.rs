//! The events of a stream as they stand on the wire; what isn't used isn't read. May not know chunks.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use crate::provider::http::halves::Units;
use crate::provider::http::usage::{Count, Lenient};

/// One event's data.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(default, deserialize_with = "null_as_default")]
    pub choices: Vec<Choice>,
    #[serde(default)]
    pub usage: Lenient<Usage>,
    /// Where one service has its usage.
    #[serde(default)]
    pub x_groq: Lenient<Inside>,
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
    /// Where some services have it.
    #[serde(default)]
    pub usage: Lenient<Usage>,
}

/// What has a report inside.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Inside {
    #[serde(default)]
    pub usage: Lenient<Usage>,
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
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub prompt_tokens: Count,
    pub completion_tokens: Count,
    pub total_tokens: Count,
    pub prompt_tokens_details: Lenient<PromptDetails>,
    /// The cached ones, as some services have it.
    pub prompt_cache_hit_tokens: Count,
    pub cached_tokens: Count,
    pub completion_tokens_details: Lenient<CompletionDetails>,
}

/// Of the tokens read.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub cached_tokens: Count,
    pub cache_write_tokens: Count,
}

/// Of the tokens written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails {
    pub reasoning_tokens: Count,
}

fn null_as_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
