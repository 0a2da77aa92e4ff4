//! What docs/workers.md shows is what is sent and what is taken.

use serde_json::Value;

use super::*;
use crate::protocol::{Code, TriggerKind};

const DOCUMENT: &str = include_str!("../../../docs/workers.md");

fn examples() -> Vec<Value> {
    let blocks = DOCUMENT.split("```json\n").skip(1).map(|rest| rest.split_once("\n```").expect("the block ends").0);
    blocks.map(|block| serde_json::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}"))).collect()
}

#[test]
fn the_request_that_is_shown_is_one() {
    let shown = &examples()[0];
    let mut sent = request(1);
    sent.decision_id = shown["decision_id"].as_str().unwrap().into();
    sent.messages = vec![Message::text(Role::User, "Hello").with_id("u1".into()).into()];
    sent.attempt = 1;
    sent.deadline = shown["deadline"].as_u64().unwrap();
    assert_eq!(serde_json::to_value(sent).unwrap(), *shown);
}

#[test]
fn the_answers_that_are_shown_can_be_read() {
    let answers = &examples()[1..];
    assert!(answers.len() >= 3);
    for answer in answers {
        let read = DecisionAnswer::decode(answer.to_string().as_bytes(), &Limits::DEFAULT);
        assert!(read.is_ok_and(|read| !read.actions.is_empty()), "{answer}");
    }
}

#[test]
fn each_trigger_each_action_and_each_code_has_a_row() {
    let has_row = |name: &str| assert!(DOCUMENT.contains(&format!("\n| `{name}` |")), "{name} has no row");
    let named = TriggerKind::asked_by_default().into_iter().chain([TriggerKind::TurnFinished]);
    named.map(TriggerKind::as_str).for_each(has_row);
    [Code::WorkerFailed, Code::WorkerTimedOut, Code::WorkerBadAnswer].map(Code::as_str).into_iter().for_each(has_row);
    // The refusal of an action that there isn't names those that there are.
    let refused = DecisionAnswer::decode(b"{\"actions\": [{\"type\": \"dance\"}]}", &Limits::DEFAULT).unwrap_err().message;
    let (_, allowed) = refused.split_once("allowed: ").expect("it says what is allowed");
    let allowed: Vec<&str> = allowed.split(", ").map(|name| name.trim_matches('`')).collect();
    assert!(allowed.len() >= 6, "{allowed:?}");
    allowed.into_iter().for_each(has_row);
}
