//! What counts and how much, and the laws of adding it up.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::protocol::Json;

fn message(message: Value) -> Message {
    serde_json::from_value(message).unwrap()
}

fn characters(said: Value) -> u64 {
    Size::of_message(&message(said)).characters()
}

#[test]
fn a_message_counts_what_a_model_reads_of_it() {
    for (said, expected) in [
        (json!({"role": "user", "content": "żyżer"}), 5),
        (json!({"role": "user", "content": ""}), 0),
        (json!({"role": "user"}), 0),
        (json!({"role": "user", "content": "abc", "id": "m1", "name": "Ann", "metadata": {"k": "v"}}), 3),
        (json!({"role": "user", "content": [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]}), 3),
        (json!({"role": "system", "content": "abcd"}), 4),
        (json!({"role": "developer", "content": "abcd"}), 4),
        (json!({"role": "reasoning", "content": "abcd"}), 0),
        (json!({"role": "activity", "activity_type": "plan", "content": {"steps": ["one"]}}), 0),
        (json!({"role": "tool", "tool_call_id": "call_1", "content": "sunny"}), 5),
        (json!({"role": "tool", "tool_call_id": "call_1", "content": "", "error": "no net"}), 6),
        (json!({"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{\"a\":1}"}}]}), 11),
    ] {
        assert_eq!(characters(said.clone()), expected, "{said}");
    }
}

#[test]
fn a_media_part_counts_1200_tokens_whatever_is_in_it() {
    for kind in ["image", "audio", "video", "document"] {
        for value in ["", "aGk=", &"A".repeat(100_000)] {
            let part = json!({"type": kind, "source": {"type": "data", "value": value}});
            let size = Size::of_message(&message(json!({"role": "user", "content": [part, {"type": "text", "text": "what is it?"}]})));
            assert_eq!((size - Size::of_text("what is it?")).tokens(), 1_200, "{kind}");
            assert_eq!(size.tokens(), 1_203);
        }
    }
}

#[test]
fn reasoning_counts_when_it_goes_back() {
    let reply = |part: Value| characters(json!({"role": "assistant", "content": [part, {"type": "text", "text": "so"}]}));
    assert_eq!(reply(json!({"type": "reasoning", "text": "hmmm"})), 2, "nobody gets it back");
    assert_eq!(
        reply(json!({"type": "reasoning", "text": "hmmm", "encrypted_value": "anthropic:thinking:c2ln"})),
        6,
        "the signature isn't read"
    );
    assert_eq!(reply(json!({"type": "reasoning", "encrypted_value": "anthropic:redacted:ABCD"})), 25, "all there is of it");
    assert_eq!(reply(json!({"type": "tool_call", "tool_call_id": "c1"})), 2, "a place is no text");
}

#[test]
fn a_request_counts_its_system_prompt_and_its_tools_too() {
    let parameters = Json::from_value(&json!({"type": "object"})).unwrap();
    let tool = Tool { name: "look".into(), description: "Looks.".into(), parameters: Some(parameters), metadata: None };
    assert_eq!(Size::of_tool(&tool).characters(), 4 + 6 + 17);
    let messages = vec![Arc::new(Message::text(Role::User, "hello"))];
    let request =
        CallRequest { model: None, system: Some("Be kind.".into()), messages, tools: vec![tool], index: 0, hidden: false, occasion: None };
    assert_eq!(Size::of_request(&request).characters(), 8 + 27 + 5);
    assert_eq!(Size::of_request(&request).tokens(), 10);
}

#[test]
fn tokens_are_rounded_up() {
    let tokens = |characters| Size::from_characters(characters).tokens();
    assert_eq!([0, 1, 4, 5, 8].map(tokens), [0, 1, 1, 2, 2]);
    assert_eq!(tokens(u64::MAX), u64::MAX / 4 + 1);
    assert_eq!(Size::from_tokens(3).characters(), 12);
    assert_eq!(Size::from_tokens(u64::MAX).characters(), u64::MAX);
}

fn sizes() -> impl Strategy<Value = Size> {
    prop_oneof![0..10_000u64, any::<u64>(), Just(u64::MAX)].prop_map(Size::from_characters)
}

fn parts() -> impl Strategy<Value = Part> {
    let kind = prop_oneof![
        Just(PartKind::Text),
        Just(PartKind::Image),
        Just(PartKind::Audio),
        Just(PartKind::Video),
        Just(PartKind::Document),
        Just(PartKind::Reasoning),
        Just(PartKind::ToolCall),
    ];
    (kind, proptest::option::of(".{0,20}"), proptest::option::of("[a-z]{1,9}:[a-z]{0,9}")).prop_map(|(kind, text, encrypted_value)| Part {
        text,
        encrypted_value,
        ..Part::text(kind, "")
    })
}

fn messages() -> impl Strategy<Value = Message> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::Tool), Just(Role::System), Just(Role::Activity)];
    let content = proptest::option::of(prop_oneof![
        ".{0,40}".prop_map(Content::Text),
        proptest::collection::vec(parts(), 0..5).prop_map(Content::Parts),
    ]);
    let calls = proptest::collection::vec(("[a-z]{0,9}", ".{0,20}"), 0..3);
    (role, content, calls, proptest::option::of(".{0,20}")).prop_map(|(role, content, calls, error)| {
        let tool_calls = calls.into_iter().map(|(name, arguments)| ToolCall::new("c".into(), name, arguments)).collect();
        Message { content, tool_calls, error, ..Message::empty(role) }
    })
}

fn request(messages: Vec<Message>) -> CallRequest {
    let messages = messages.into_iter().map(Arc::new).collect();
    CallRequest { model: None, system: None, messages, tools: Vec::new(), index: 0, hidden: false, occasion: None }
}

proptest! {
    #[test]
    fn adding_is_associative_and_has_an_order_of_no_account(a in sizes(), b in sizes(), c in sizes()) {
        prop_assert_eq!((a + b) + c, a + (b + c));
        prop_assert_eq!(a + b, b + a);
        prop_assert_eq!(a + Size::ZERO, a);
    }

    #[test]
    fn more_is_never_less(a in sizes(), b in sizes()) {
        prop_assert!(a + b >= a);
        prop_assert!((a + b).tokens() >= a.tokens());
        prop_assert!((a - b) <= a);
        prop_assert!(Size::from_tokens(a.tokens()) >= a);
    }

    /// A path counted in pieces is the path counted whole, and each message on it only adds.
    #[test]
    fn a_path_can_be_counted_in_pieces(read in proptest::collection::vec(messages(), 0..12), cut in any::<prop::sample::Index>()) {
        let whole = Size::of_request(&request(read.clone()));
        let (first, rest) = read.split_at(cut.index(read.len() + 1));
        let (first, rest) = (Size::of_request(&request(first.to_vec())), Size::of_request(&request(rest.to_vec())));
        prop_assert_eq!(first + rest, whole);
        prop_assert_eq!(whole - first, rest);
        prop_assert!(first <= whole);
    }

    /// Nothing that is added to a message makes it smaller.
    #[test]
    fn a_message_only_grows(read in messages(), text in ".{0,40}") {
        let mut longer = read.clone();
        longer.content = Some(match read.content.clone() {
            None | Some(Content::Object(_)) => Content::Text(text),
            Some(Content::Text(said)) => Content::Text(said + &text),
            Some(Content::Parts(mut parts)) => {
                parts.push(Part::text(PartKind::Text, text));
                Content::Parts(parts)
            }
        });
        prop_assert!(Size::of_message(&longer) >= Size::of_message(&read));
    }

    /// By text alone, four characters are a token.
    #[test]
    fn a_text_counts_its_characters(text in ".{0,200}") {
        prop_assert_eq!(Size::of_text(&text).tokens(), (text.chars().count() as u64).div_ceil(4));
    }
}
