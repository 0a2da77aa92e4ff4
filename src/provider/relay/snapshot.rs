//! What an agent that only says how the conversation is now has added to it. May not know what it comes to.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A message of a snapshot.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Added {
    pub id: String,
    pub role: String,
    #[serde(default)]
    pub content: Option<Value>,
    #[serde(default)]
    pub tool_calls: Vec<AddedCall>,
    #[serde(default)]
    pub tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AddedCall {
    pub id: String,
    pub function: Function,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function {
    pub name: String,
    pub arguments: String,
}

/// The messages of a snapshot that come after the last one that the agent was sent. What can't be understood adds nothing.
pub(super) fn added(messages: &RawValue, sent: &HashSet<String>) -> Vec<Added> {
    let all: Vec<Value> = serde_json::from_str(messages.get()).unwrap_or_default();
    let is_sent = |message: &Value| message.get("id").and_then(Value::as_str).is_some_and(|id| sent.contains(id));
    let from = all.iter().rposition(is_sent).map_or(0, |last| last + 1);
    all.into_iter().skip(from).filter_map(|message| serde_json::from_value(message).ok()).collect()
}

/// What a content says: text, the text of its parts, or its JSON.
pub(super) fn text(content: &Value) -> String {
    let of_part = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => match parts.iter().map(of_part).collect::<Option<Vec<String>>>() {
            Some(texts) => texts.concat(),
            None => content.to_string(),
        },
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => content.to_string(),
    }
}
