//! An agent's events as they stand on the wire: only what is looked at. Of those that nobody knows nothing is read. May not know what
//! they come to.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::protocol::{CallError, json_fault};
use crate::provider::http::halves::Units;
use crate::provider::http::nonsense;

/// One event.
#[derive(Debug)]
pub(super) enum Event {
    RunStarted,
    RunFinished(Finished),
    RunError(Failed),
    TextStart(Named),
    TextContent(Said),
    TextEnd(Named),
    TextChunk(Chunk),
    /// One message of reasoning begins or ends.
    Thinking,
    Thought(Thought),
    CallStart(Call),
    CallArgs(Arguments),
    CallEnd(Closed),
    CallChunk(CallChunk),
    CallResult(CallResult),
    StateSnapshot(Snapshot),
    StateDelta(Delta),
    MessagesSnapshot(Messages),
    /// An older agent of `LangGraph`'s waits for an answer.
    Asked(Asked),
    /// One that says nothing here, but that ends what came in chunks.
    Mark,
    /// One that says nothing here.
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Named {
    pub message_id: String,
    #[serde(default)]
    pub role: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    pub message_id: String,
    pub delta: Units,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk {
    #[serde(default)]
    pub message_id: Option<String>,
    #[serde(default)]
    pub role: Option<String>,
    #[serde(default)]
    pub delta: Option<Units>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thought {
    #[serde(default)]
    pub message_id: Option<String>,
    #[serde(default)]
    pub delta: Option<Units>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call {
    pub tool_call_id: String,
    pub tool_call_name: String,
    #[serde(default)]
    pub parent_message_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Arguments {
    pub tool_call_id: String,
    pub delta: Units,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Closed {
    pub tool_call_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallChunk {
    #[serde(default)]
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub tool_call_name: Option<String>,
    #[serde(default)]
    pub parent_message_id: Option<String>,
    #[serde(default)]
    pub delta: Option<Units>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallResult {
    pub tool_call_id: String,
    pub content: serde_json::Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Snapshot {
    pub snapshot: serde_json::Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    pub delta: json_patch::Patch,
}

#[derive(Debug, Deserialize)]
pub(super) struct Messages {
    pub messages: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    pub value: Box<RawValue>,
    #[serde(default)]
    pub raw_event: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failed {
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default)]
    pub code: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Finished {
    #[serde(default)]
    pub outcome: Option<Outcome>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    #[serde(default)]
    pub interrupts: Vec<Interrupt>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    pub id: String,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default)]
    pub tool_call_id: Option<String>,
    #[serde(default)]
    pub response_schema: Option<Box<RawValue>>,
    #[serde(default)]
    pub expires_at: Option<String>,
    #[serde(default)]
    pub metadata: Option<Box<RawValue>>,
}

impl Event {
    /// Reads one, and how it is called.
    pub(super) fn read(data: &str) -> Result<(String, Self), CallError> {
        #[derive(Deserialize)]
        struct Kind {
            r#type: String,
        }
        let Kind { r#type: kind } = parsed("an event", data)?;
        let event = match kind.as_str() {
            "RUN_STARTED" => Self::RunStarted,
            "RUN_FINISHED" => Self::RunFinished(parsed(&kind, data)?),
            "RUN_ERROR" => Self::RunError(parsed(&kind, data)?),
            "TEXT_MESSAGE_START" => Self::TextStart(parsed(&kind, data)?),
            "TEXT_MESSAGE_CONTENT" => Self::TextContent(parsed(&kind, data)?),
            "TEXT_MESSAGE_END" => Self::TextEnd(parsed(&kind, data)?),
            "TEXT_MESSAGE_CHUNK" => Self::TextChunk(parsed(&kind, data)?),
            "REASONING_MESSAGE_START" | "REASONING_MESSAGE_END" | "THINKING_TEXT_MESSAGE_START" | "THINKING_TEXT_MESSAGE_END" => {
                Self::Thinking
            }
            "REASONING_MESSAGE_CONTENT" | "REASONING_MESSAGE_CHUNK" | "THINKING_TEXT_MESSAGE_CONTENT" => {
                Self::Thought(parsed(&kind, data)?)
            }
            "TOOL_CALL_START" => Self::CallStart(parsed(&kind, data)?),
            "TOOL_CALL_ARGS" => Self::CallArgs(parsed(&kind, data)?),
            "TOOL_CALL_END" => Self::CallEnd(parsed(&kind, data)?),
            "TOOL_CALL_CHUNK" => Self::CallChunk(parsed(&kind, data)?),
            "TOOL_CALL_RESULT" => Self::CallResult(parsed(&kind, data)?),
            "STATE_SNAPSHOT" => Self::StateSnapshot(parsed(&kind, data)?),
            "STATE_DELTA" => Self::StateDelta(parsed(&kind, data)?),
            "MESSAGES_SNAPSHOT" => Self::MessagesSnapshot(parsed(&kind, data)?),
            "CUSTOM" if is_called(data, "on_interrupt") => Self::Asked(parsed(&kind, data)?),
            "REASONING_START" | "REASONING_END" | "THINKING_START" | "THINKING_END" | "STEP_STARTED" | "STEP_FINISHED" | "CUSTOM" => {
                Self::Mark
            }
            _ => Self::Other,
        };
        Ok((kind, event))
    }
}

fn is_called(data: &str, name: &str) -> bool {
    #[derive(Deserialize)]
    struct Custom<'a> {
        #[serde(borrow)]
        name: std::borrow::Cow<'a, str>,
    }
    serde_json::from_str::<Custom<'_>>(data).is_ok_and(|custom| custom.name == name)
}

fn parsed<T: DeserializeOwned>(what: &str, data: &str) -> Result<T, CallError> {
    serde_json::from_str(data).map_err(|error| nonsense(format!("{what} of the agent's can't be understood: {}", json_fault(&error))))
}
