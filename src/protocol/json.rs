//! JSON that is only relayed: kept as its text, checked once when it comes in, never parsed into a tree.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Relayed JSON may nest this deep; every reader of it can follow.
const DEPTH_MAX: usize = 100;

/// So many characters of a fault are told.
const FAULT_CHARS_MAX: usize = 200;

/// Any JSON value, as it was written, but on one line: it stands in lines of files and of streams. Deserializing refuses what later
/// readers could not parse: nesting deeper than 100 and escaped surrogates that have no partner.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// The value's text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Takes JSON text that comes from a trusted serializer.
    pub fn from_value(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|raw| Self(raw.into()))
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self(RawValue::from_string("{}".to_owned()).expect("an object is JSON").into())
    }

    /// Takes JSON that comes from outside, checked as deserializing checks it.
    pub fn checked(raw: &RawValue) -> Result<Self, JsonError> {
        check(raw.get()).map(|found| Self::on_one_line(raw.to_owned(), found)).map_err(JsonError)
    }

    /// Between tokens a space means what a line break means; inside strings no line break stands.
    fn on_one_line(raw: Box<RawValue>, found: Found) -> Self {
        let spaced = |raw: &RawValue| RawValue::from_string(raw.get().replace(['\n', '\r'], " "));
        match found {
            Found::OneLine => Self(raw.into()),
            Found::Lines => Self(spaced(&raw).unwrap_or(raw).into()),
        }
    }

    /// Whether later readers can parse `raw`.
    pub fn check(raw: &RawValue) -> Result<(), JsonError> {
        check(raw.get()).map(|_| ()).map_err(JsonError)
    }

    /// Whether it holds more than `max` values, those inside others counted.
    pub fn has_more_than(&self, max: usize) -> bool {
        let bytes = self.get().as_bytes();
        // Each takes at least one byte and a comma.
        bytes.len() > max && values(bytes) > max
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }
}

/// Why JSON from outside isn't relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(&'static str);

/// What a reader of JSON says, without the position. It may repeat a whole value: of a long text only the ends are kept.
pub fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&position).unwrap_or(&text);
    match (text.char_indices().nth(FAULT_CHARS_MAX / 2), text.char_indices().nth_back(FAULT_CHARS_MAX / 2)) {
        (Some((first, _)), Some((last, _))) if first < last => format!("{}…{}", &text[..first], &text[last..]),
        (Some(_) | None, Some(_) | None) => text.to_owned(),
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let found = check(raw.get()).map_err(D::Error::custom)?;
        Ok(Self::on_one_line(raw, found))
    }
}

/// How many values JSON holds: itself, and what follows each bracket and comma.
fn values(bytes: &[u8]) -> usize {
    let (mut values, mut at, mut in_string) = (1, 0, false);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at += 1,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

/// How a value that is fine was written.
#[derive(Clone, Copy)]
enum Found {
    OneLine,
    Lines,
}

fn check(text: &str) -> Result<Found, &'static str> {
    let bytes = text.as_bytes();
    let mut found = Found::OneLine;
    let (mut depth, mut at, mut in_string) = (0usize, 0usize, false);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                at += escape(&bytes[at..])?;
            }
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err("JSON is nested deeper than 100");
                }
            }
            b']' | b'}' if !in_string => depth -= 1,
            b'\n' | b'\r' => found = Found::Lines,
            _ => {}
        }
    }
    Ok(found)
}

/// How many bytes an escape takes after its backslash; surrogates must come in pairs.
fn escape(rest: &[u8]) -> Result<usize, &'static str> {
    const LONE: &str = "a surrogate escape in JSON has no partner";
    if rest.first() != Some(&b'u') {
        return Ok(1);
    }
    match unit(&rest[1..]) {
        Some(0xD800..=0xDBFF) => match rest.get(5..7) {
            Some(b"\\u") if matches!(unit(&rest[7..]), Some(0xDC00..=0xDFFF)) => Ok(11),
            _ => Err(LONE),
        },
        Some(0xDC00..=0xDFFF) => Err(LONE),
        _ => Ok(5),
    }
}

fn unit(digits: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_text_as_written() {
        let json: Json = serde_json::from_str(r#"{"n": 12345678901234567890123, "e": "\ud83d\ude00 \\ud800"}"#).unwrap();
        assert_eq!(json.get(), r#"{"n": 12345678901234567890123, "e": "\ud83d\ude00 \\ud800"}"#);
    }

    #[test]
    fn stands_on_one_line() {
        let json: Json = serde_json::from_str("{\r\n \"a\": [1,\n2], \"b\": \"\\n\"}").unwrap();
        assert_eq!(json.get(), r#"{   "a": [1, 2], "b": "\n"}"#);
        let raw = RawValue::from_string("[\n]".to_owned()).unwrap();
        assert_eq!(Json::checked(&raw).unwrap().get(), "[ ]");
    }

    #[test]
    fn values_are_counted() {
        let json: Json = serde_json::from_str(r#"{"a": [1, 2], "b,[": "x,\",[\\"}"#).unwrap();
        assert_eq!(values(json.get().as_bytes()), 5, "a bracket counts as one, filled or not");
        assert!(json.has_more_than(4) && !json.has_more_than(5));
    }

    #[test]
    fn refuses_what_later_readers_cannot_parse() {
        for bad in [r#""\ud800""#, r#"["\udc00"]"#, r#""\ud800\ud800""#, r#""\ud800x""#] {
            assert!(serde_json::from_str::<Json>(bad).is_err(), "{bad}");
        }
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(serde_json::from_str::<Json>(&deep(100)).is_ok());
        assert!(serde_json::from_str::<Json>(&deep(101)).is_err());
    }
}
