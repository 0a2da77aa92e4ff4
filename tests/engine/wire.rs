//! Records as they are stored: one file a type. Each is read, and written as it was.

use std::path::Path;

use headwater::engine::record::{Body, Record};
use headwater::engine::{MessageNew, Session};
use serde_json::Value;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire/records")
}

/// Without whitespace outside of strings, in the order of the file.
fn tight(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap();
    value.to_string()
}

#[test]
fn every_type_is_written_as_it_was_read() {
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let record = Record::decode(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(tight(&String::from_utf8(record.encode()).unwrap()), tight(&text), "{}", path.display());
        assert_eq!(Record::decode(&record.encode()).unwrap(), record);
        let type_of = serde_json::from_str::<Value>(&text).unwrap()["type"].as_str().unwrap().to_owned();
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with(&type_of), "{} holds a {type_of}", path.display());
        let unknown = matches!(record.body, Body::Unknown(_));
        assert_eq!(unknown, type_of == "some.later.type", "{}", path.display());
        seen.push(type_of);
    }
    for type_of in TYPES {
        assert!(seen.iter().any(|seen| seen == type_of), "no fixture of {type_of}");
    }
}

/// Every type that this version writes.
const TYPES: [&str; 31] = [
    "session.created",
    "session.forked",
    "session.updated",
    "message.new",
    "head.moved",
    "turn.queued",
    "turn.started",
    "turn.joined",
    "turn.waiting",
    "turn.completed",
    "turn.failed",
    "turn.cancelled",
    "turn.recovered",
    "llm.call.started",
    "llm.call.completed",
    "llm.call.failed",
    "call.voided",
    "arrival.queued",
    "arrival.consumed",
    "decision.asked",
    "decision.answered",
    "decision.failed",
    "tool.calls.taken",
    "tool.call.started",
    "tool.call.completed",
    "tool.call.failed",
    "state.updated",
    "agent.updated",
    "session.interrupted",
    "session.interrupt_resumed",
    "turn.suspended",
];

#[test]
fn a_later_encoding_of_a_known_type_is_not_understood() {
    let later = r#"{"v":2,"type":"turn.completed","at":5,"must_understand":true,"data":{"turn":"T","how":"well"}}"#;
    let record = Record::decode(later.as_bytes()).unwrap();
    let Body::Unknown(unknown) = &record.body else { panic!("{record:?}") };
    assert!(unknown.must_understand);
    assert_eq!(record.encode(), later.as_bytes());
    let mut session = Session::default();
    session.evolve(record).unwrap();
    assert_eq!(session.newer.as_deref(), Some("turn.completed"));
}

#[test]
fn what_is_no_record_is_an_error() {
    for bad in ["", "{}", "[1]", r#"{"v":1,"type":"message.new","at":1,"data":{}}"#, r#"{"v":1,"type":"turn.started","at":-1,"data":{}}"#] {
        assert!(Record::decode(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn records_that_do_not_fit_are_an_error_and_change_nothing() {
    let message = |id: &str, parent: Option<&str>| {
        let said = headwater::protocol::Message::text(headwater::protocol::Role::User, "x");
        let new = MessageNew::plain(id.into(), parent.map(Into::into), said);
        Record { at: 1, body: Body::MessageNew(Box::new(new)) }
    };
    let mut session = Session::default();
    session.evolve(message("u1", None)).unwrap();
    for bad in [message("u1", None), message("u2", Some("nowhere"))] {
        session.evolve(bad).unwrap_err();
    }
    for name in [
        "turn.joined",
        "turn.waiting",
        "turn.queued.into",
        "turn.completed",
        "turn.failed",
        "turn.cancelled",
        "turn.recovered",
        "llm.call.started",
        "llm.call.completed",
        "arrival.queued",
        "arrival.consumed",
        "tool.calls.taken",
        "tool.call.started",
        "tool.call.completed",
        "tool.call.failed",
        "tool.call.failed.last",
        "session.interrupted",
        "session.interrupt_resumed",
        "turn.suspended",
    ] {
        let text = std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        session.evolve(Record::decode(text.as_bytes()).unwrap()).unwrap_err();
    }
    assert_eq!((session.seq, session.tree.len()), (1, 1));
}
