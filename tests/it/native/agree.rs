//! The description and the code agree on what an input is: of inputs that are broken in any way, what one takes the other takes.

use headwater::protocol::native::{self, NativeInput};
use headwater::protocol::{Code, Limits, Refusal};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::described;

const LIMITS: Limits = Limits { view_messages_max: 1000, content_bytes_max: 100_000, ..Limits::DEFAULT };

/// Good inputs that have every field between them.
fn good() -> Vec<Value> {
    let user = json!({"id": "u1", "role": "user", "name": "Ada", "metadata": {"a": 1}, "encrypted_value": "x", "content": [
        {"type": "text", "text": "look", "id": "p1", "metadata": {}},
        {"type": "image", "source": {"type": "url", "value": "https://example.com/a.png", "mime_type": "image/png", "provider": "p"}},
        {"type": "document", "source": {"type": "data", "value": "eA=="}}]});
    let reply = json!({"id": "a1", "role": "assistant", "content": [
        {"type": "reasoning", "text": "hm", "encrypted_value": "x"}, {"type": "text", "text": "yes"}, {"type": "tool_call", "tool_call_id": "c1"}],
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let result = json!({"id": "r1", "role": "tool", "tool_call_id": "c1", "content": "fine", "error": "not quite"});
    let activity = json!({"id": "x1", "role": "activity", "activity_type": "plan", "content": {"steps": [1]}});
    let client = json!({"tools": [{"name": "paint", "description": "", "parameters": {"type": "object"}, "metadata": {}}], "context": [{}], "state": 1, "forwarded_props": {}});
    vec![
        json!({"type": "client.message", "session_id": "s", "agent_id": "demo", "turn_id": "t", "stream": true, "queue": "merge", "run": false,
            "client": client, "message": user}),
        json!({"type": "client.append", "agent_id": "demo", "queue": true, "messages": [user, reply, result, activity]}),
        json!({"type": "client.messages", "agent_id": "demo", "partial_view": "append", "same_id_edit": "fork", "messages": [
            {"role": "system", "content": "be brief"}, user, {"role": "reasoning", "content": "hm"}, reply, result, activity]}),
        json!({"type": "client.cancel", "turn_id": "t"}),
        json!({"type": "tool.result", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}], "id": "r1", "client": client}),
        json!({"type": "tool.error", "tool_call_id": "c1", "error": "x", "turn_id": "t"}),
    ]
}

/// The smaller bodies: their schema, how they are read, good ones.
type Small = (&'static str, fn(&[u8]) -> Result<(), Refusal>, Vec<Value>);

fn small() -> Vec<Small> {
    vec![
        (
            "HeadMove",
            |body| native::head_move(body, &LIMITS).map(drop),
            vec![json!({"node_id": "u1", "label": "here"}), json!({"to_label": "here", "label": "there"}), json!({"node_id": null})],
        ),
        (
            "SessionUpdate",
            |body| native::update(body, &LIMITS).map(drop),
            vec![json!({"title": "x", "archived": true}), json!({"title": null})],
        ),
        ("ForkInput", |body| native::fork(body, &LIMITS).map(drop), vec![json!({"session_id": "s", "at": "u1"})]),
    ]
}

/// All places in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(list) => list.iter().enumerate().for_each(|(n, value)| places(value, &format!("{at}/{n}"), found)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| places(value, &format!("{at}/{name}"), found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Values that stand where they don't belong.
fn strange() -> Vec<Value> {
    let words = [
        "",
        "x",
        "user",
        "assistant",
        "tool",
        "activity",
        "system",
        "text",
        "image",
        "reasoning",
        "function",
        "merge",
        "steer",
        "root",
        "url",
    ];
    let mut values: Vec<Value> = words.iter().map(|word| json!(word)).collect();
    values.extend([
        json!(null),
        json!(true),
        json!(0),
        json!(1.5),
        json!([]),
        json!({}),
        json!(["x"]),
        json!({"x": 1}),
        json!("x".repeat(129)),
    ]);
    values
}

const FIELDS: &[&str] = &[
    "type",
    "agent_id",
    "message",
    "messages",
    "content",
    "role",
    "tool_calls",
    "tool_call_id",
    "error",
    "activity_type",
    "text",
    "source",
    "id",
    "run",
    "queue",
    "client",
    "other",
];

/// One way to break an input.
#[derive(Clone, Debug)]
enum Break {
    Replace(Index, Index),
    Remove(Index),
    Add(Index, Index, Index),
}

fn breaks() -> impl Strategy<Value = Break> {
    let index = any::<Index>;
    prop_oneof![
        (index(), index()).prop_map(|(at, value)| Break::Replace(at, value)),
        index().prop_map(Break::Remove),
        (index(), index(), index()).prop_map(|(at, field, value)| Break::Add(at, field, value)),
    ]
}

fn apply(value: &mut Value, how: &Break) {
    let mut all = Vec::new();
    places(value, "", &mut all);
    let strange = strange();
    match how {
        Break::Replace(at, with) => *value.pointer_mut(at.get::<String>(&all)).expect("a place") = with.get(&strange).clone(),
        Break::Remove(at) => {
            let (parent, name) = at.get::<String>(&all).rsplit_once('/').unwrap_or_default();
            match value.pointer_mut(parent) {
                Some(Value::Object(fields)) => drop(fields.remove(name)),
                Some(Value::Array(list)) if !name.is_empty() => drop(list.remove(name.parse().expect("an index"))),
                _ => {}
            }
        }
        Break::Add(at, field, with) => {
            if let Some(Value::Object(fields)) = value.pointer_mut(at.get::<String>(&all)) {
                fields.insert((*field.get(FIELDS)).to_owned(), with.get(&strange).clone());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_and_description_take_the_same_inputs(which in any::<Index>(), breaks in prop::collection::vec(breaks(), 0..4)) {
        let mut input = which.get(&good()).clone();
        for how in &breaks {
            apply(&mut input, how);
        }
        let read = NativeInput::decode(input.to_string().as_bytes(), &LIMITS);
        let faults = described::invalid(&json!({"$ref": "#/components/schemas/Input"}), &input);
        if let Err(refusal) = &read {
            prop_assert!(matches!(refusal.code, Code::BadRequest | Code::BadId | Code::NotAvailable), "{refusal} {input}");
            prop_assert!(!refusal.message.is_empty() && refusal.message.len() < 1000, "{refusal}");
        }
        prop_assert_eq!(read.is_ok(), faults.is_empty(), "{}\n{:?}\n{:?}", input, read, faults);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_and_description_take_the_same_small_bodies(which in any::<Index>(), good in any::<Index>(), breaks in prop::collection::vec(breaks(), 0..3)) {
        let (schema, read, goods) = &small()[which.index(small().len())];
        let mut body = good.get::<Value>(goods).clone();
        for how in &breaks {
            apply(&mut body, how);
        }
        let read = read(body.to_string().as_bytes());
        let faults = described::invalid(&json!({"$ref": format!("#/components/schemas/{schema}")}), &body);
        // How long a label is, the session says.
        let only_its_label = faults.iter().all(|fault| fault.starts_with("/label"));
        prop_assert!(read.is_ok() == faults.is_empty() || (read.is_ok() && only_its_label), "{schema} {body}\n{read:?}\n{faults:?}");
    }
}

#[test]
fn the_good_ones_are_good() {
    for input in good() {
        NativeInput::decode(input.to_string().as_bytes(), &LIMITS).unwrap_or_else(|refusal| panic!("{input}: {refusal}"));
    }
}
