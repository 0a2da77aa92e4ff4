//! What pauses a turn, as AG-UI shows it: a payload stands in the metadata, where there is no place of its own. May not know who reads.

use serde_json::{Map, Value};

use crate::agui::event::AguiInterrupt;
use crate::ids::ToolCallId;
use crate::protocol::{Interrupt, Json};

/// Interrupts as they stand in an outcome.
pub fn interrupts(interrupts: &[Interrupt]) -> Vec<Value> {
    interrupts.iter().filter_map(|interrupt| serde_json::to_value(shown(interrupt)).ok()).collect()
}

/// One of them.
pub(super) fn shown(interrupt: &Interrupt) -> AguiInterrupt<'_> {
    AguiInterrupt {
        id: interrupt.id.as_str(),
        reason: &interrupt.reason,
        message: interrupt.message.as_deref(),
        tool_call_id: interrupt.tool_call_id.as_ref().map(ToolCallId::as_str),
        response_schema: interrupt.response_schema.as_ref(),
        expires_at: interrupt.expires_at.as_deref(),
        metadata: metadata(interrupt),
    }
}

fn metadata(interrupt: &Interrupt) -> Option<Value> {
    let value = |json: &Json| serde_json::from_str::<Value>(json.get()).ok();
    let mut metadata = match interrupt.metadata.as_ref().and_then(value) {
        Some(Value::Object(metadata)) => metadata,
        Some(_) | None => Map::new(),
    };
    if let Some(payload) = interrupt.payload.as_ref().and_then(value) {
        metadata.insert("payload".to_owned(), payload);
    }
    (!metadata.is_empty()).then_some(Value::Object(metadata))
}
