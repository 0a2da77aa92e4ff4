//! Arguments of calls: JSON objects, as their tool's schema says. A schema is made ready once, with its agent.

use serde_json::Value;

use crate::protocol::{Json, Schema, ToolInput};

/// Reads the arguments of a call.
pub(super) fn read(schema: Option<&Schema>, arguments: &str) -> ToolInput {
    // A model that has nothing to say may say nothing.
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let read = serde_json::from_str::<Json>(text).and_then(|json| Ok((json, serde_json::from_str::<Value>(text)?)));
    let (json, value) = match read {
        Ok(read) => read,
        Err(error) => return ToolInput::Malformed(error.to_string()),
    };
    let errors = match schema {
        _ if !value.is_object() => vec!["they are not an object".to_owned()],
        Some(schema) => schema.errors(&value),
        None => Vec::new(),
    };
    if errors.is_empty() { ToolInput::Valid(json) } else { ToolInput::Invalid { value: json, errors } }
}

/// In words for a model; nothing of arguments that are fine.
pub(super) fn fault(name: &str, input: &ToolInput) -> Option<String> {
    match input {
        ToolInput::Valid(_) => None,
        ToolInput::Invalid { value, errors } if value.is_object() => {
            Some(format!("The arguments of {name:?} are not as its parameters say: {}.", errors.join("; ")))
        }
        ToolInput::Invalid { .. } => Some(format!("The arguments of {name:?} are not a JSON object.")),
        ToolInput::Malformed(error) => Some(format!("The arguments of {name:?} are not a JSON object: {error}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(json: &str) -> Schema {
        Schema::new(&serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn arguments_are_what_the_schema_says() {
        let schema = schema(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#);
        let read = |text: &str| read(Some(&schema), text);
        assert!(matches!(read(r#"{"n": 3}"#), ToolInput::Valid(json) if json.get() == r#"{"n": 3}"#));
        let Some(text) = fault("f", &read(r#"{"n": "three"}"#)) else { panic!("it is wrong") };
        assert_eq!(text, r#"The arguments of "f" are not as its parameters say: /n: "three" is not of type "integer"."#);
        assert!(matches!(read(""), ToolInput::Invalid { errors, .. } if errors == [r#""n" is a required property"#]));
        assert!(matches!(read("[1]"), ToolInput::Invalid { errors, .. } if errors == ["they are not an object"]));
        for malformed in ["{", "no", "{} {}", "{\"n\": \"\\ud800\"}"] {
            assert!(matches!(read(malformed), ToolInput::Malformed(_)), "{malformed}");
        }
    }

    #[test]
    fn any_object_is_fine_without_a_schema() {
        assert!(matches!(read(None, " "), ToolInput::Valid(json) if json.get() == "{}"));
        assert!(matches!(read(None, r#"{"a":1}"#), ToolInput::Valid(_)));
        assert!(matches!(read(None, "3"), ToolInput::Invalid { .. }));
    }
}
