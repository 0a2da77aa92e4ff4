//! The events of a stream as they stand on the wire; what isn't used isn't read. May not know chunks.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use crate::provider::http::halves::Units;
use crate::provider::http::usage::{Count, Lenient};

/// One event's data. Only what its `type` needs is read further.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// What `message_start` tells.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Start {
    pub model: Option<String>,
    #[serde(default)]
    pub usage: Lenient<Usage>,
}

/// A block that begins.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub text: Units,
    #[serde(default, deserialize_with = "null_as_default")]
    pub thinking: Units,
    #[serde(default, deserialize_with = "null_as_default")]
    pub signature: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub data: String,
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    /// All of it, as it came.
    #[serde(skip, default = "nothing")]
    pub whole: &'a RawValue,
}

fn nothing<'a>() -> &'a RawValue {
    RawValue::NULL
}

/// What is added to a block.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub text: Units,
    #[serde(default, deserialize_with = "null_as_default")]
    pub thinking: Units,
    #[serde(default, deserialize_with = "null_as_default")]
    pub signature: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub partial_json: Units,
}

/// What `message_delta` tells.
#[derive(Debug, Default, Deserialize)]
pub(super) struct End {
    pub stop_reason: Option<String>,
}

/// Tokens so far.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    /// Without those of the two below.
    pub input_tokens: Count,
    pub cache_creation_input_tokens: Count,
    pub cache_read_input_tokens: Count,
    pub output_tokens: Count,
    pub output_tokens_details: Lenient<OutputDetails>,
}

/// Of the tokens written.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub thinking_tokens: Count,
}

fn null_as_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
