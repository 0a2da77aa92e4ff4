//! The official schema, strictly (a field that it doesn't know fails), and another implementation's reader.

use std::collections::HashMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("../fixtures/agui/schema-1.0.json")).unwrap());

static VALIDATORS: LazyLock<HashMap<String, Validator>> = LazyLock::new(|| {
    let definitions = SCHEMA["$defs"].as_object().unwrap();
    let events = definitions.iter().filter_map(|(name, definition)| {
        let kind = definition["properties"]["type"]["const"].as_str()?;
        name.ends_with("Event").then(|| (kind.to_owned(), validator(name)))
    });
    events.collect()
});

fn validator(definition: &str) -> Validator {
    let mut schema = SCHEMA.clone();
    schema["$ref"] = json!(format!("#/$defs/{definition}"));
    jsonschema::validator_for(&schema).unwrap()
}

/// What is wrong with an event.
pub fn faults(event: &Value) -> Vec<String> {
    let kind = event["type"].as_str().unwrap_or_default();
    let Some(validator) = VALIDATORS.get(kind) else {
        return vec![format!("`{kind}` is no event")];
    };
    let mut faults: Vec<String> = validator.iter_errors(event).map(|error| format!("{kind}: {error}")).collect();
    if let Err(error) = serde_json::from_value::<ag_ui::Event>(event.clone()) {
        faults.push(format!("{kind}: {error}"));
    }
    faults
}

/// All of these must be right.
pub fn assert_valid(events: &[Value]) {
    for event in events {
        let faults = faults(event);
        assert!(faults.is_empty(), "{event}\n{}", faults.join("\n"));
    }
}

#[test]
fn the_check_fails_on_what_the_schema_does_not_know() {
    assert!(faults(&json!({"type": "TEXT_MESSAGE_END", "messageId": "m"})).is_empty());
    for wrong in [
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m", "extra": 1}),
        json!({"type": "TEXT_MESSAGE_END"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": null}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "m", "timestamp": 1.5}),
        json!({"type": "HEADWATER"}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "a", "role": "assistant", "content": null}]}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "a", "role": "user"}]}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "a", "role": "assistant", "tool_calls": []}]}),
        json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "stopped"}}),
    ] {
        assert!(!faults(&wrong).is_empty(), "{wrong}");
    }
}
