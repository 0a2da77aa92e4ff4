//! JSON Schemas: whether one can be used, and whether a value fits. Nothing is fetched: a schema says all itself, and its patterns take
//! linear time. May not know what the values are for.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::{Json, json_fault};

/// The most bytes of a schema.
const BYTES_MAX: usize = 64 << 10;
/// So many characters of what is wrong are told.
const WHAT_CHARS_MAX: usize = 200;
/// So many things that are wrong are told.
const ERRORS_MAX: usize = 5;

/// A schema that can be used.
#[derive(Clone, Debug)]
pub struct Schema(Validator);

/// Where a value doesn't fit its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct SchemaMisfit {
    /// The place, as a JSON pointer; `/` for the value itself.
    pub at: String,
    /// What is wrong.
    pub what: String,
}

impl Schema {
    /// Takes a schema: an object. What is wrong with it, when it can't be used.
    pub fn new(schema: &Json) -> Result<Self, String> {
        if !schema.is_object() {
            return Err("a JSON Schema is an object".to_owned());
        }
        if schema.get().len() > BYTES_MAX {
            return Err(format!("a schema has at most {BYTES_MAX} bytes"));
        }
        let schema: Value = serde_json::from_str(schema.get()).map_err(|error| json_fault(&error))?;
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        options.build(&schema).map(Self).map_err(|error| clip(&error.to_string()))
    }

    /// Whether `value` fits; nothing is `null`.
    pub fn check(&self, value: Option<&Json>) -> Result<(), SchemaMisfit> {
        let text = value.map_or("null", Json::get);
        let value: Value = serde_json::from_str(text).map_err(|error| SchemaMisfit { at: "/".to_owned(), what: json_fault(&error) })?;
        self.0.validate(&value).map_err(|error| {
            let at = error.instance_path().to_string();
            SchemaMisfit { at: if at.is_empty() { "/".to_owned() } else { at }, what: clip(&error.to_string()) }
        })
    }

    /// What is wrong with a value, each thing with its place; nothing: it fits.
    pub fn errors(&self, value: &Value) -> Vec<String> {
        let told = |error: jsonschema::ValidationError<'_>| {
            let at = error.instance_path().to_string();
            clip(&if at.is_empty() { error.to_string() } else { format!("{at}: {error}") })
        };
        self.0.iter_errors(value).take(ERRORS_MAX).map(told).collect()
    }
}

/// What is wrong, in not too many characters.
fn clip(what: &str) -> String {
    match what.char_indices().nth(WHAT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &what[..end]),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_misfit_names_its_place() {
        let schema = Schema::new(&json(r#"{"type":"object","properties":{"a":{"items":{"type":"integer"}}},"required":["a"]}"#)).unwrap();
        assert_eq!(schema.check(Some(&json(r#"{"a":[1,2]}"#))), Ok(()));
        assert_eq!(schema.check(Some(&json(r#"{"a":[1,"x"]}"#))).unwrap_err().at, "/a/1");
        assert_eq!(schema.check(Some(&json("{}"))).unwrap_err().at, "/");
        assert_eq!(schema.check(None).unwrap_err().at, "/");
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(BYTES_MAX));
        for bad in [
            "true",
            "[]",
            r#"{"type":"nothing"}"#,
            r#"{"type":5}"#,
            r#"{"$ref":"http://127.0.0.1:9/x"}"#,
            r#"{"pattern":"("}"#,
            large.as_str(),
        ] {
            assert!(Schema::new(&json(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn much_that_is_wrong_is_told_in_few_words() {
        let schema = Schema::new(&json(r#"{"type":"integer"}"#)).unwrap();
        let said = schema.check(Some(&json(&format!("\"{}\"", "x".repeat(10_000))))).unwrap_err();
        assert!(said.what.chars().count() <= WHAT_CHARS_MAX + 1, "{}", said.what.len());
    }

    #[test]
    fn not_everything_that_is_wrong_is_told() {
        let schema = Schema::new(&json(r#"{"additionalProperties": {"type": "null"}}"#)).unwrap();
        let many: Vec<String> = (0..50).map(|n| format!("\"k{n}\": \"{}\"", "x".repeat(1000))).collect();
        let errors = schema.errors(&serde_json::from_str(&format!("{{{}}}", many.join(","))).unwrap());
        assert_eq!(errors.len(), ERRORS_MAX);
        assert!(errors.iter().all(|error| error.chars().count() <= WHAT_CHARS_MAX + 1));
    }
}
