//! What an agent waits for, and how it is told the answers: under its own names, on its own thread, which are kept with the interrupt.
//! May not know who answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::event;
use super::state::checked;
use crate::ids::InterruptId;
use crate::protocol::{Interrupt, Json, Resume};

/// Where the agent's names are in an interrupt's metadata.
const OWN: &str = "headwater";

/// The agent's names.
#[derive(Debug, Deserialize, Serialize)]
struct Names {
    thread: String,
    interrupt: String,
}

/// An answer as an agent reads it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    interrupt_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Json>,
}

/// The answers, under the agent's names.
pub(super) fn answers(resumed: &[(Resume, Interrupt)]) -> Vec<Answer<'_>> {
    let answer =
        |(resume, interrupt): &'_ (Resume, Interrupt)| names(interrupt).map_or(resume.interrupt_id.to_string(), |names| names.interrupt);
    resumed
        .iter()
        .map(|answered| Answer { interrupt_id: answer(answered), status: answered.0.status.as_str(), payload: answered.0.payload.as_ref() })
        .collect()
}

/// The thread on which the agent waits.
pub(super) fn thread(resumed: &[(Resume, Interrupt)]) -> Option<String> {
    resumed.iter().find_map(|(_, interrupt)| names(interrupt)).map(|names| names.thread)
}

fn names(interrupt: &Interrupt) -> Option<Names> {
    let metadata: Value = serde_json::from_str(interrupt.metadata.as_ref()?.get()).ok()?;
    serde_json::from_value(metadata.get(OWN)?.clone()).ok()
}

/// What an agent waits for, on `thread`.
pub(super) fn raised(raised: event::Interrupt, thread: &str) -> Interrupt {
    let event::Interrupt { id, reason, message, tool_call_id, response_schema, expires_at, metadata } = raised;
    Interrupt {
        reason: reason.unwrap_or_else(|| "interrupt".to_owned()),
        message,
        tool_call_id: tool_call_id.map(|id| id.as_str().into()),
        payload: None,
        response_schema: response_schema.and_then(|schema| checked(schema.get())),
        expires_at,
        metadata: with_names(metadata.as_deref(), thread, &id),
        id: InterruptId::from(id.as_str()),
    }
}

/// The same as older agents of `LangGraph`'s say it: a value, which is what a person reads when it is a text.
pub(super) fn of_value(value: &RawValue, id: Option<String>, place: usize, thread: &str) -> Interrupt {
    let id = id.unwrap_or_else(|| format!("interrupt-{}", place + 1));
    let said: Option<Value> = serde_json::from_str(value.get()).ok();
    // Some of them write JSON into a text.
    let inner = said.as_ref().and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok()).filter(Value::is_object);
    let message = said.as_ref().and_then(Value::as_str).filter(|_| inner.is_none()).map(str::to_owned);
    let payload = inner.map_or_else(|| checked(value.get()), |inner| checked(&inner.to_string()));
    Interrupt {
        reason: "interrupt".to_owned(),
        payload: payload.filter(|_| message.is_none()),
        message,
        tool_call_id: None,
        response_schema: None,
        expires_at: None,
        metadata: with_names(None, thread, &id),
        id: InterruptId::from(id.as_str()),
    }
}

fn with_names(metadata: Option<&RawValue>, thread: &str, id: &str) -> Option<Json> {
    let mut all: Value = metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok()).unwrap_or_default();
    if !all.is_object() {
        all = Value::Object(serde_json::Map::new());
    }
    all[OWN] = serde_json::to_value(Names { thread: thread.to_owned(), interrupt: id.to_owned() }).ok()?;
    checked(&all.to_string())
}
