//! What a model is asked and how it ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Client, Code, Interrupt, Json, Message, Resume};
use crate::ids::{CallId, NodeId, SessionKey, TurnId};

/// Everything that a provider needs for one attempt of a model call.
#[derive(Clone, Debug, Default)]
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
    /// For an agent that stands in a model's place: on what occasion it is asked.
    pub occasion: Option<Box<Occasion>>,
}

/// On what occasion an agent is asked that stands in a model's place.
#[derive(Clone, Debug)]
pub struct Occasion {
    /// In which session.
    pub session: SessionKey,
    /// For which turn.
    pub turn: TurnId,
    /// In which call.
    pub call: CallId,
    /// From 1.
    pub attempt: u32,
    /// A name for the branch that the reply is written on, for who asks for it: turns that follow each other have the same.
    pub branch: Option<NodeId>,
    /// What the client offers.
    pub client: Client,
    /// The state as it is there.
    pub state: Option<Json>,
    /// How what it waited for was answered.
    pub resumed: Vec<(Resume, Interrupt)>,
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

    /// Adds what a call used to the sums of its provider and model.
    pub fn add_to(sums: &mut Vec<Self>, call: &Self) {
        let Some(sum) = sums.iter_mut().find(|sum| (&sum.provider, &sum.model) == (&call.provider, &call.model)) else {
            return sums.push(call.clone());
        };
        sum.input_tokens = add(sum.input_tokens, call.input_tokens);
        sum.output_tokens = add(sum.output_tokens, call.output_tokens);
        sum.reasoning_tokens = add(sum.reasoning_tokens, call.reasoning_tokens);
        sum.cached_input_tokens = add(sum.cached_input_tokens, call.cached_input_tokens);
        sum.cache_write_input_tokens = add(sum.cache_write_input_tokens, call.cache_write_input_tokens);
    }
}

fn add(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, None) => one,
        (None, other) => other,
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
