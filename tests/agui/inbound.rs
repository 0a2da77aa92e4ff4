//! What front ends send, read from fixtures.

use std::fs;
use std::path::{Path, PathBuf};

use headwater::agui::{Dialect, Frame, Limits, RunInput};
use headwater::ids::TurnId;
use headwater::protocol::{Code, Content, InputBody, OnBusy, PartialView, Refusal, SameIdEdit, ViewOptions};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The limits that the fixtures are read under.
const LIMITS: Limits = Limits { view_messages_max: 20, content_bytes_max: 1000, ..Limits::DEFAULT };

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agui").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn native(run: &RunInput) -> Value {
    json!({
        "thread_id": run.thread_id,
        "run_id": run.run_id,
        "dialect": match run.dialect { Dialect::Legacy => "legacy", Dialect::V1 => "1.0" },
        "messages": run.messages,
        "client": run.client,
        "headwater": {
            "on_busy": run.headwater.on_busy,
            "run": run.headwater.run,
            "partial_view": run.headwater.partial_view,
            "same_id_edit": run.headwater.same_id_edit,
        },
    })
}

#[test]
fn what_front_ends_send_is_read_as_native_messages() {
    let mut count = 0;
    for path in files("good") {
        if path.to_string_lossy().ends_with(".native.json") {
            continue;
        }
        let run = RunInput::decode(&fs::read(&path).unwrap(), &LIMITS).unwrap_or_else(|refusal| panic!("{}: {refusal}", path.display()));
        let expected = fs::read_to_string(path.with_extension("native.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(native(&run), expected, "{}\n{}", path.display(), serde_json::to_string_pretty(&native(&run)).unwrap());
        count += 1;
    }
    assert!(count >= 9, "only {count} fixtures");
}

#[test]
fn bad_inputs_are_refused_with_code_and_place() {
    let mut count = 0;
    for path in files("bad") {
        let name = path.display();
        let fixture: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let body = fixture["text"].as_str().map_or_else(|| fixture["body"].to_string(), str::to_owned);
        let refusal = RunInput::decode(body.as_bytes(), &LIMITS).expect_err(&format!("{name} was read"));
        let given = serde_json::to_value(&refusal).unwrap();
        assert_eq!(given["error"], fixture["code"], "{name}: {given}");
        for field in ["message", "at", "line", "column"] {
            if let Some(expected) = fixture.get(field) {
                assert_eq!(given.get(field), Some(expected), "{name}: {given}");
            }
        }
        count += 1;
    }
    assert!(count >= 60, "only {count} fixtures");
}

fn refusal(body: &[u8]) -> Refusal {
    RunInput::decode(body, &LIMITS).unwrap_err()
}

#[test]
fn bytes_that_are_not_text_are_refused_where_they_stand() {
    let refusal = refusal(b"{\"threadId\":\"t\",\n \"\xff\"}");
    assert_eq!(refusal.code, Code::BadJson);
    assert_eq!(serde_json::to_value(&refusal.details).unwrap(), json!({"line": 2, "column": 3}));
}

#[test]
fn an_error_repeats_little_of_what_was_sent() {
    let body = json!({"threadId": "t", "runId": "r", "messages": [{"role": "x".repeat(5000)}]});
    assert!(refusal(body.to_string().as_bytes()).message.len() < 300);
    for body in [json!({"threadId": "t", "runId": "r", "messages": "\u{7f}".repeat(5000)}), json!("é".repeat(5000))] {
        assert!(refusal(body.to_string().as_bytes()).message.len() < 600, "{}", refusal(body.to_string().as_bytes()).message);
    }
    let mut options = serde_json::Map::new();
    for n in 0..100 {
        options.insert(format!("{}{n}", "x".repeat(500)), Value::Null);
    }
    let body = json!({"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"headwater": options}});
    assert!(refusal(body.to_string().as_bytes()).message.len() < 600);
}

#[test]
fn replies_that_come_back_may_be_larger_than_what_clients_write() {
    let body = |role: &str| {
        let text = "x".repeat(5000);
        json!({"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": role, "content": text, "toolCallId": "c"}]}).to_string()
    };
    for role in ["assistant", "reasoning"] {
        assert!(RunInput::decode_text(&body(role), &LIMITS).is_ok(), "{role}");
    }
    for role in ["user", "tool", "system", "developer"] {
        assert_eq!(RunInput::decode_text(&body(role), &LIMITS).unwrap_err().code, Code::ContentTooLarge, "{role}");
    }
}

#[test]
fn ids_of_128_bytes_and_views_at_the_limit_are_read() {
    let id = "é".repeat(64);
    let messages: Vec<_> = (0..20).map(|n| json!({"id": format!("{n}"), "role": "user", "content": "x"})).collect();
    let run = RunInput::decode_text(&json!({"threadId": id, "runId": id, "messages": messages}).to_string(), &LIMITS).unwrap();
    assert_eq!(run.thread_id.as_str(), id);
    assert_eq!(run.messages.len(), 20);
}

#[test]
fn what_is_relayed_keeps_its_text() {
    let body = r#"{"threadId":"t","runId":"r","messages":[{"role":"activity","content":{"n":1.50,"\u0061": [ 12345678901234567890123 ]}}],"state": {"a" : 1e400}}"#;
    let run = RunInput::decode_text(body, &LIMITS).unwrap();
    assert_eq!(run.client.state.unwrap().get(), r#"{"a" : 1e400}"#);
    let Some(Content::Object(object)) = &run.messages[0].content else { panic!("{:?}", run.messages) };
    assert_eq!(object.get(), r#"{"n":1.50,"a":[ 12345678901234567890123 ]}"#);
}

#[test]
fn the_order_of_fields_says_nothing() {
    let one = r#"{"threadId":"t","runId":"r","messages":[{"id":"x","role":"activity","activityType":"a","content":{"n": 1.0}}]}"#;
    let other = r#"{"messages":[{"content":{"n":1.0},"activityType":"a","role":"activity","id":"x"}],"runId":"r","threadId":"t"}"#;
    assert_eq!(RunInput::decode_text(one, &LIMITS).unwrap(), RunInput::decode_text(other, &LIMITS).unwrap());
}

#[test]
fn the_engines_input_takes_what_the_run_says_and_else_the_agents_defaults() {
    let read = |options: Value| {
        let body = json!({"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"headwater": options}});
        RunInput::decode_text(&body.to_string(), &LIMITS).unwrap()
    };
    let defaults = ViewOptions { partial_view: PartialView::Append, same_id_edit: SameIdEdit::Fork };
    let input = read(json!({})).into_input("bot".into(), defaults, OnBusy::Refuse);
    assert_eq!((input.agent_id.as_str(), input.turn_id.as_ref().map(TurnId::as_str), input.run), ("bot", Some("r"), None));
    assert_eq!(input.body, InputBody::Messages { messages: vec![], options: defaults });
    let input =
        read(json!({"run": true, "partial_view": "root", "same_id_edit": "ignore"})).into_input("bot".into(), defaults, OnBusy::Refuse);
    assert_eq!(input.run, Some(true));
    assert_eq!(input.body, InputBody::Messages { messages: vec![], options: ViewOptions::default() });
}

#[test]
fn what_becomes_of_a_run_while_a_turn_is_there_it_says_itself_or_its_agent() {
    let on_busy = |queue: Value, agents: OnBusy| {
        let body = json!({"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"headwater": {"queue": queue}}});
        RunInput::decode_text(&body.to_string(), &LIMITS).unwrap().into_input("bot".into(), ViewOptions::default(), agents).on_busy
    };
    for agents in [OnBusy::Refuse, OnBusy::Queue, OnBusy::Merge, OnBusy::Cancel] {
        assert_eq!(on_busy(Value::Null, agents), agents);
        assert_eq!(on_busy(json!(false), agents), OnBusy::Refuse);
        assert_eq!(on_busy(json!(true), agents), OnBusy::Queue);
        assert_eq!(on_busy(json!("merge"), agents), OnBusy::Merge);
    }
}

#[test]
fn a_frame_is_a_run_an_abort_or_a_ping() {
    let run = r#"{"threadId":"t","runId":"r","messages":[]}"#;
    let init = r#"{"threadId":"t","runId":"r","messages":[],"type":"INIT"}"#;
    let decode = |text: &str| Frame::decode(text, &LIMITS);
    let expected = Frame::Run(Box::new(RunInput::decode_text(run, &LIMITS).unwrap()));
    assert_eq!(decode(run).unwrap(), expected);
    assert_eq!(decode(init).unwrap(), expected);
    assert_eq!(decode(r#"{"type":null,"threadId":"t","runId":"r","messages":[]}"#).unwrap(), expected);
    assert_eq!(decode(r#"{"type":"abort","runId":"r"}"#).unwrap(), Frame::Abort { run_id: Some("r".into()) });
    assert_eq!(decode(r#"{"threadId":"t","runId":"r","messages":[],"type":"abort"}"#).unwrap(), Frame::Abort { run_id: Some("r".into()) });
    assert_eq!(decode(r#"{"runId":null,"type":"abort"}"#).unwrap(), Frame::Abort { run_id: None });
    assert_eq!(decode(r#"{"type":"ping"}"#).unwrap(), Frame::Ping);
}

#[test]
fn other_frames_are_refused() {
    for (text, code, message) in [
        (r#"{"type":"subscribe","threadId":"t"}"#, Code::NotAvailable, "frames of type `subscribe` need the subprotocol ag-ui.ws.v1"),
        (r#"{"type":"input","messages":5}"#, Code::NotAvailable, "frames of type `input` need the subprotocol ag-ui.ws.v1"),
        (r#"{"type":"head"}"#, Code::NotAvailable, "frames of type `head` need the subprotocol ag-ui.ws.v1"),
        (r#"{"type":"cancel"}"#, Code::NotAvailable, "frames of type `cancel` need the subprotocol ag-ui.ws.v1"),
        (r#"{"type":"PING"}"#, Code::BadRequest, "`PING` is no type of frame; allowed: none or `INIT` (a RunAgentInput), `abort`, `ping`"),
        (r#"{"type":7}"#, Code::BadRequest, "`7` is no type of frame"),
        (r#"{"type":"abort","runId":""}"#, Code::BadId, "runId: an id has 1 to 128 bytes; this one has 0"),
        (r#"{"runId":"r","messages":[]}"#, Code::BadRequest, "threadId: a RunAgentInput needs it"),
        (r#"{"type":"INIT","runId":"r","messages":[]}"#, Code::BadRequest, "threadId: a RunAgentInput needs it"),
        ("ping", Code::BadJson, "this is not JSON: expected value at line 1, column 1"),
        ("[]", Code::BadRequest, "invalid type: sequence, expected a RunAgentInput object"),
        (r#"{"type":"ping""#, Code::BadJson, "this is not JSON: EOF while parsing an object at line 1, column 14"),
    ] {
        let refusal = Frame::decode(text, &LIMITS).expect_err(text);
        assert_eq!(refusal.code, code, "{text}: {refusal}");
        assert!(refusal.message.starts_with(message), "{text}: {refusal}");
    }
}

/// A real input's bytes, some of them replaced, dropped or doubled.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = include_bytes!("../fixtures/agui/good/client-1.0-second.json");
    let change = (0..whole.len(), prop_oneof![any::<u8>(), prop::sample::select(b"\"{}[]:,\\0nu\xff".to_vec())], 0..3usize);
    prop::collection::vec(change, 0..4).prop_map(move |changes| {
        let mut bytes = whole.to_vec();
        for (at, byte, count) in changes {
            let at = at.min(bytes.len() - 1);
            bytes.splice(at..=at, std::iter::repeat_n(byte, count));
        }
        bytes
    })
}

proptest! {
    #[test]
    fn damaged_inputs_are_read_or_refused_in_words(bytes in damaged()) {
        if let Err(refusal) = RunInput::decode(&bytes, &LIMITS) {
            prop_assert!(matches!(refusal.code, Code::BadJson | Code::BadRequest | Code::BadId), "{refusal:?}");
            prop_assert!(!refusal.message.is_empty());
            let placed = refusal.details.contains_key("line") || refusal.details.contains_key("at");
            prop_assert!(placed || refusal.code == Code::BadRequest, "{refusal:?}");
        }
    }
}
