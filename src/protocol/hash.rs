//! JSON values by what they say: equal ones hash alike, whatever the order of their keys and however they were written. May not know what
//! they are for.

use serde_json::Value;

/// Adds a value: each with its kind and its length, so that no two values give the same bytes.
pub fn hash_value(hasher: &mut blake3::Hasher, value: &Value) {
    let text = |hasher: &mut blake3::Hasher, mark: u8, text: &str| {
        hasher.update(&[mark]).update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    match value {
        Value::Null => drop(hasher.update(b"n")),
        Value::Bool(is) => drop(hasher.update(if *is { b"t" } else { b"f" })),
        Value::Number(number) => text(hasher, b'#', &number.to_string()),
        Value::String(said) => text(hasher, b'"', said),
        Value::Array(items) => {
            hasher.update(b"[").update(&(items.len() as u64).to_le_bytes());
            for item in items {
                hash_value(hasher, item);
            }
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            hasher.update(b"{").update(&(fields.len() as u64).to_le_bytes());
            for (key, value) in fields {
                text(hasher, b'"', key);
                hash_value(hasher, value);
            }
        }
    }
}
