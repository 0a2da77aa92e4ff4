//! The state that an agent shares, as its events change it. May not know where it is kept.

use serde_json::Value;

use crate::protocol::Json;

/// The state, and whether it has changed since it was last asked for.
#[derive(Debug, Default)]
pub(super) struct State {
    value: Value,
    is_new: bool,
}

impl State {
    /// As the agent was told it.
    pub(super) fn new(given: Option<&Json>) -> Self {
        let value = given.and_then(|state| serde_json::from_str(state.get()).ok());
        Self { value: value.unwrap_or_else(empty), is_new: false }
    }

    /// It is another one.
    pub(super) fn replace(&mut self, value: Value) {
        let value = without_messages(value);
        self.is_new |= value != self.value;
        self.value = value;
    }

    /// Some of it changes. What can't be carried out changes nothing, as with clients.
    pub(super) fn patch(&mut self, patch: &json_patch::Patch) {
        self.is_new |= json_patch::patch(&mut self.value, patch).is_ok() && !patch.0.is_empty();
    }

    /// The state, when it has changed.
    pub(super) fn take(&mut self) -> Option<Json> {
        std::mem::take(&mut self.is_new).then(|| serde_json::to_string(&self.value).ok()).flatten().and_then(|text| checked(&text))
    }
}

/// JSON from outside that later readers can read.
pub(super) fn checked(text: &str) -> Option<Json> {
    serde_json::from_str(text).ok()
}

/// Some agents keep their conversation in their state. That is the path.
fn without_messages(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value
        && fields.get("messages").is_some_and(Value::is_array)
    {
        fields.shift_remove("messages");
    }
    value
}

fn empty() -> Value {
    Value::Object(serde_json::Map::new())
}
