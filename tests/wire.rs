//! Native JSON is fixed in files: what they hold is read and written again byte by byte (white space aside).

use std::fs;
use std::path::{Path, PathBuf};

use headwater::protocol::{Cursor, Message};
use serde::Deserialize;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire")
}

/// The text without white space outside strings.
fn compact(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        if in_string || !c.is_ascii_whitespace() {
            out.push(c);
        }
        in_string = if c == '"' && !escaped { !in_string } else { in_string };
        escaped = in_string && c == '\\' && !escaped;
    }
    out
}

#[test]
fn messages_are_written_as_they_were_read() {
    let mut count = 0;
    for entry in fs::read_dir(fixtures().join("messages")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let message: Message = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let written = serde_json::to_string(&message).unwrap();
        assert_eq!(compact(&written), compact(&text), "{}", path.display());
        let again: Message = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), written, "{}", path.display());
        count += 1;
    }
    assert!(count >= 15, "only {count} fixtures");
}

#[derive(Deserialize)]
struct Cursors {
    valid: Vec<String>,
    invalid: Vec<String>,
}

fn cursors() -> Cursors {
    serde_json::from_str(&fs::read_to_string(fixtures().join("cursors.json")).unwrap()).unwrap()
}

#[test]
fn a_cursor_has_one_spelling() {
    let Cursors { valid, invalid } = cursors();
    for text in valid {
        let cursor: Cursor = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(cursor.to_string(), text);
        let json = serde_json::to_string(&cursor).unwrap();
        assert_eq!(serde_json::from_str::<Cursor>(&json).unwrap(), cursor);
        assert_eq!(json, format!("\"{text}\""));
    }
    for text in invalid {
        let error = text.parse::<Cursor>().expect_err(&text);
        assert!(error.to_string().contains("is not a cursor"), "{error}");
        assert!(serde_json::from_value::<Cursor>(text.into()).is_err());
    }
}

#[test]
fn cursors_are_in_the_order_of_the_log() {
    let order = ["0", "7", "7.1.0", "7.1.9", "7.1.10", "7.2.0", "8", "10"];
    let cursors: Vec<Cursor> = order.iter().map(|text| text.parse().unwrap()).collect();
    assert!(cursors.is_sorted_by(|one, next| one < next));
}
