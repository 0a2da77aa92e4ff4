//! JSON as values: whether two are equal, what became of one, and changes applied to one (RFC 6902). May not know what they are for.

use json_patch::PatchOperation;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::{Digest, Json, hash_value};

/// So deep a value may nest, as everything that comes from outside.
const DEPTH_MAX: usize = 100;

/// A change can't be applied. The value is as it was.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unapplied {
    /// It is no list of changes.
    #[error("a JSON Patch is a list of operations")]
    NoList,
    /// One of them is none.
    #[error("{1}")]
    NoOperation(usize, String),
    /// One of them doesn't apply.
    #[error("{1}")]
    Misfit(usize, String),
    /// The value would have more bytes than this.
    #[error("the value would have more than {1} bytes")]
    TooLarge(usize, usize),
    /// The value would nest too deep.
    #[error("the value would be nested deeper than {DEPTH_MAX}")]
    TooDeep(usize),
}

impl Unapplied {
    /// Which of the operations.
    pub(super) fn index(&self) -> Option<usize> {
        match self {
            Self::NoList => None,
            Self::NoOperation(index, _) | Self::Misfit(index, _) | Self::TooLarge(index, _) | Self::TooDeep(index) => Some(*index),
        }
    }
}

/// What JSON says, whatever the order of its keys and however it is written. Text that is no JSON says nothing.
pub(super) fn value(json: &Json) -> Value {
    serde_json::from_str(json.get()).unwrap_or(Value::Null)
}

/// Equal values have the same.
pub(super) fn digest(value: &Value) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hash_value(&mut hasher, value);
    Digest::of(&hasher)
}

/// How `to` comes of `from`, when that takes fewer bytes than `to` itself.
pub(super) fn shorter(from: &Value, to: &Value, to_bytes: usize) -> Option<Json> {
    let patch = json_patch::diff(from, to);
    Json::from_value(&patch).ok().filter(|patch| patch.get().len() < to_bytes)
}

/// Applies changes one after another: all of them or none. The result has at most `bytes_max` bytes.
pub(super) fn patched(value: &Value, patch: &Json, bytes_max: usize) -> Result<Value, Unapplied> {
    let operations: Vec<&RawValue> = serde_json::from_str(patch.get()).map_err(|_| Unapplied::NoList)?;
    let mut patched = value.clone();
    let mut copied = 0_usize;
    for (index, operation) in operations.iter().enumerate() {
        let operation: PatchOperation =
            serde_json::from_str(operation.get()).map_err(|error| Unapplied::NoOperation(index, crate::protocol::json_fault(&error)))?;
        let (to, added) = match &operation {
            PatchOperation::Add(add) => (&add.path, Some(&add.value)),
            PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
            PatchOperation::Move(moved) => (&moved.path, patched.pointer(moved.from.as_str())),
            PatchOperation::Copy(copy) => {
                let source = patched.pointer(copy.from.as_str());
                // What is copied again and again would double each time.
                copied = copied.saturating_add(source.map_or(0, bytes));
                (&copy.path, source)
            }
            PatchOperation::Remove(remove) => (&remove.path, None),
            PatchOperation::Test(test) => (&test.path, None),
        };
        if copied > bytes_max {
            return Err(Unapplied::TooLarge(index, bytes_max));
        }
        if to.count() + added.map_or(0, depth) > DEPTH_MAX {
            return Err(Unapplied::TooDeep(index));
        }
        json_patch::patch(&mut patched, std::slice::from_ref(&operation))
            .map_err(|error| Unapplied::Misfit(index, format!("{} at {:?}", error.kind, operation.path().as_str())))?;
    }
    Ok(patched)
}

fn bytes(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> Json {
        Json::from_value(value).unwrap()
    }

    #[test]
    fn the_order_of_keys_says_nothing_and_the_order_of_items_does() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let one = digest(&parse(r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#));
        assert_eq!(one, digest(&parse(r#"{"b":{"d":null,"c":[1,2]},"a":1}"#)));
        for other in [
            r#"{"a": 1, "b": {"c": [2, 1], "d": null}}"#,
            r#"{"a": 1, "b": {"c": [1, 2]}}"#,
            r#"{"a": "1", "b": {"c": [1, 2], "d": null}}"#,
            r#"{"a": 1, "b": {"c": [1, 2], "d": false}}"#,
        ] {
            assert_ne!(one, digest(&parse(other)), "{other}");
        }
    }

    #[test]
    fn a_patch_applies_as_a_whole_or_says_which_operation_does_not() {
        let state = json!({"todo": ["a", "b"], "n": 1});
        let patch = json!([{"op": "test", "path": "/n", "value": 1}, {"op": "add", "path": "/todo/-", "value": "c"}, {"op": "remove", "path": "/n"}]);
        assert_eq!(patched(&state, &of(&patch), 1000), Ok(json!({"todo": ["a", "b", "c"]})));
        let index = |patch: Value| patched(&state, &of(&patch), 1000).unwrap_err().index();
        assert_eq!(index(json!([{"op": "remove", "path": "/n"}, {"op": "remove", "path": "/n"}])), Some(1));
        assert_eq!(index(json!([{"op": "test", "path": "/n", "value": 2}])), Some(0));
        assert_eq!(index(json!([{"op": "grow", "path": "/n", "value": 2}])), Some(0));
        assert_eq!(index(json!([{"op": "add", "path": "n", "value": 2}])), Some(0));
        assert_eq!(index(json!({"op": "remove", "path": "/n"})), None);
    }

    #[test]
    fn copies_of_copies_and_deep_values_end() {
        let doubles: Vec<Value> = (0..64).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")})).collect();
        let big = patched(&json!({"a": {"x": "some text"}}), &of(&json!(doubles)), 10_000).unwrap_err();
        assert!(matches!(big, Unapplied::TooLarge(..)), "{big:?}");
        let nests: Vec<Value> = (0..200).map(|_| json!({"op": "move", "from": "/a", "path": "/b"})).collect();
        assert!(patched(&json!({"a": 1}), &of(&json!(nests)), 10_000).is_err());
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
        let mut path = "/a".to_owned();
        for _ in 0..120 {
            path.push_str("/a");
            operations.push(json!({"op": "add", "path": path, "value": {}}));
        }
        assert!(matches!(patched(&json!({}), &of(&json!(operations)), 100_000), Err(Unapplied::TooDeep(_))));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4_i64).prop_map(Value::from),
            "[a-c~/]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c~/]{0,2}", inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_became_of_a_value_leads_from_it_to_the_other((from, to) in (values(), values())) {
            prop_assert_eq!(from == to, digest(&from) == digest(&to));
            let patch = shorter(&from, &to, usize::MAX).unwrap();
            prop_assert_eq!(patched(&from, &patch, 100_000).unwrap(), to);
        }
    }
}
