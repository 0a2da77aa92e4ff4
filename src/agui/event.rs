//! AG-UI's events as they stand on the wire: what is absent is left out, never `null`. Only those that Headwater sends. May not
//! know what they are made from.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::outbound::{Content, Messages};
use crate::ids::{CallId, NodeId, ToolCallId, TurnId};
use crate::protocol::{Json, KeptReason, LimitReason};

/// One event; `timestamp` is written by the writer.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub(super) enum AguiEvent<'a> {
    RunStarted {
        thread_id: &'a str,
        run_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        protocol_version: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Brought<'a>>,
    },
    RunFinished {
        thread_id: &'a str,
        run_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<AguiOutcome<'a>>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        usage: &'a [TokenUsage],
    },
    RunError {
        message: &'a str,
        code: &'a str,
    },
    TextMessageStart {
        message_id: &'a str,
        role: &'a str,
    },
    TextMessageContent {
        message_id: &'a str,
        delta: Cow<'a, str>,
    },
    TextMessageEnd {
        message_id: &'a str,
    },
    ReasoningStart {
        message_id: ReasoningId<'a>,
    },
    ReasoningMessageStart {
        message_id: ReasoningId<'a>,
        role: &'a str,
    },
    ReasoningMessageContent {
        message_id: ReasoningId<'a>,
        delta: Cow<'a, str>,
    },
    ReasoningMessageEnd {
        message_id: ReasoningId<'a>,
    },
    ReasoningEnd {
        message_id: ReasoningId<'a>,
    },
    ToolCallStart {
        tool_call_id: &'a str,
        tool_call_name: &'a str,
        parent_message_id: &'a str,
    },
    ToolCallArgs {
        tool_call_id: &'a str,
        delta: Cow<'a, str>,
    },
    ToolCallEnd {
        tool_call_id: &'a str,
    },
    ToolCallResult {
        message_id: &'a str,
        tool_call_id: &'a str,
        content: Content<'a>,
        role: &'a str,
    },
    StateSnapshot {
        snapshot: &'a Json,
    },
    StateDelta {
        delta: &'a Json,
    },
    MessagesSnapshot {
        messages: Messages<'a>,
    },
    ActivitySnapshot {
        message_id: &'a str,
        activity_type: &'a str,
        content: &'a Json,
    },
    Custom {
        name: &'a str,
        value: CustomValue<'a>,
    },
}

/// What a `CUSTOM` event says.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum CustomValue<'a> {
    Context(ContextNews<'a>),
    OfWorker(&'a Json),
}

/// What a `CUSTOM` event says of the room in the context window.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(super) enum ContextNews<'a> {
    Limited {
        turn_id: &'a TurnId,
        call_id: &'a CallId,
        reason: LimitReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        strategy: Option<&'a str>,
        tokens: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    Replaced {
        turn_id: &'a TurnId,
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<&'a CallId>,
        epoch: u32,
        tokens: u64,
        background: bool,
    },
    Kept {
        turn_id: &'a TurnId,
        call_id: &'a CallId,
        reason: KeptReason,
    },
}

/// What a run brought, as a `RunAgentInput`: readers add the messages that they don't have. The older clients want both lists.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Brought<'a> {
    pub(super) thread_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) messages: Messages<'a>,
    pub(super) tools: [(); 0],
    pub(super) context: [(); 0],
}

/// The name of a reply's `n`th reasoning part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ReasoningId<'a> {
    pub(super) reply_id: &'a str,
    pub(super) index: u32,
}

impl ReasoningId<'_> {
    /// Whether it names the `index`th reasoning part of `reply_id`.
    pub(super) fn is(&self, reply_id: &NodeId, index: u32) -> bool {
        self.index == index && self.reply_id == reply_id.as_str()
    }
}

impl fmt::Display for ReasoningId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:reasoning-{}", self.reply_id, self.index)
    }
}

impl Serialize for ReasoningId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How a run ended, where the reader knows such ends.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum AguiOutcome<'a> {
    Success {
        #[serde(rename = "pendingToolCallIds")]
        pending_tool_call_ids: &'a [ToolCallId],
    },
    Cancelled,
    Interrupt {
        interrupts: Vec<AguiInterrupt<'a>>,
    },
}

/// What pauses a turn.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AguiInterrupt<'a> {
    pub(super) id: &'a str,
    pub(super) reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_schema: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Value>,
}

/// Tokens of one provider's model.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_write_input_tokens: Option<u64>,
}

/// `CUSTOM`.
#[derive(Serialize)]
pub(super) struct Custom<'a, T> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) value: &'a T,
}
