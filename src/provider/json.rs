//! TOML values as JSON. May not know what they are for.

use serde_json::Value;

/// The same value in JSON: tables become objects, times become texts. The error names a number that JSON doesn't have.
pub(super) fn from_toml(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if number.is_finite() => number.into(),
        toml::Value::Float(number) => return Err(format!("JSON has no number {number}")),
        toml::Value::Boolean(boolean) => boolean.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(list) => list.into_iter().map(from_toml).collect::<Result<_, _>>()?,
        toml::Value::Table(table) => {
            let field = |(name, value)| from_toml(value).map(|value| (name, value));
            table.into_iter().map(field).collect::<Result<_, _>>()?
        }
    })
}
