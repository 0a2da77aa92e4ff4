//! What a model is asked and how it ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Code, Json, Message};

/// Everything that a provider needs for one attempt of a model call.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// Instead of the llm's configured model.
    pub model: Option<String>,
    /// The system prompt; never a node.
    pub system: Option<String>,
    /// The model view of the path: calls and results paired.
    pub messages: Vec<Arc<Message>>,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Which call of its turn this is, from 0.
    pub index: u32,
    /// Whether no UI may see it.
    pub hidden: bool,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// What the model calls it.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Json>,
    /// Data of the application's, relayed as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// Tokens, as the provider reported them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read by the model, cached ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Written by the model, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Part of the input that came from the provider's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// Part of the input that the provider put into its cache; none of it came from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_input_tokens: Option<u64>,
    /// Part of the output that was thought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The kind of service that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

impl Usage {
    /// Tokens that the model read, when its provider counted any.
    pub fn read(&self) -> Option<u64> {
        self.input_tokens.filter(|&tokens| tokens > 0)
    }
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It asks for tools.
    ToolCalls,
    /// Its output limit was reached.
    Length,
    /// The provider's filter stopped it.
    Filtered,
}

/// Why an attempt of a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallErrorKind {
    /// The request has more tokens than the model reads. Never an ordinary retry.
    TooLong,
    /// The provider asks for a pause.
    RateLimited,
    /// No connection, or a 5xx.
    Unavailable,
    /// The stream ended before the model was done.
    Cut,
    /// Nothing came for too long.
    TimedOut,
    /// The provider refuses this request (credentials, unknown model, bad parameters).
    Refused,
    /// The answer can't be understood.
    Nonsense,
}

impl CallErrorKind {
    /// Whether another attempt may help.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimited | Self::Unavailable | Self::Cut | Self::TimedOut => true,
            Self::TooLong | Self::Refused | Self::Nonsense => false,
        }
    }

    /// The code that clients see.
    pub fn code(self) -> Code {
        match self {
            Self::TooLong => Code::LlmTooLong,
            Self::RateLimited => Code::LlmRateLimited,
            Self::Unavailable => Code::LlmUnavailable,
            Self::Cut => Code::LlmCut,
            Self::TimedOut => Code::LlmTimedOut,
            Self::Refused => Code::LlmRefused,
            Self::Nonsense => Code::LlmBadResponse,
        }
    }
}

/// A failed attempt of a call. `message` is for people: what the provider said, clipped, without credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// What went wrong.
    pub kind: CallErrorKind,
    /// In words.
    pub message: String,
    /// The pause that the provider asks for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl CallError {
    /// A failure of `kind`.
    pub fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after_ms: None }
    }
}
