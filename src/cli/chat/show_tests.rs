//! What is shown of streams that are whole, joined in the middle, told again, or begin anew.

use std::sync::Arc;

use super::*;
use crate::protocol::{Code, FunctionCall, Part, ToolCall, Writing};

/// Everything that is shown of these events, one character a piece: `~` thoughts, `(` remarks, `!` what went wrong, `>` own messages.
fn shown(show: &mut Show, told: &[Told]) -> String {
    let pieces = told.iter().flat_map(|told| show.told(told));
    pieces.fold(String::new(), |text, piece| match piece {
        Piece::Say(said) | Piece::Aside(said) | Piece::Paragraph(said) => text + &said,
        Piece::ThinkStart => text + "~",
        Piece::Think(thought) => text + &thought,
        Piece::Alarm(alarm) => text + "!" + &alarm,
        Piece::Typed(typed) => text + ">" + &typed,
        Piece::Fresh => text + "|",
    })
}

fn writing(id: &str, attempt: u32) -> Told {
    Told::Writing { reply_id: id.into(), attempt }
}

fn begins(id: &str) -> Told {
    Told::Live(Live::TextStarted { reply_id: id.into() })
}

fn text(id: &str, delta: &str) -> Told {
    Told::Live(Live::Text { reply_id: id.into(), delta: delta.to_owned() })
}

fn node(message: Message, id: &str, partial: bool) -> Told {
    let id = NodeId::from(id);
    Told::Node(Box::new(Node { shown_id: Some(id.clone()), kind: NodeKind::Message, message: Some(message.with_id(id)), partial }))
}

fn reply(id: &str, text: &str) -> Told {
    node(Message::text(Role::Assistant, text), id, false)
}

fn completed() -> Told {
    Told::Ended { turn_id: "t".into(), end: Ended::Completed }
}

#[test]
fn a_reply_is_shown_as_it_grows_and_once() {
    let mut show = Show::default();
    let events = [writing("r", 1), begins("r"), text("r", "The ri"), text("r", "ver"), reply("r", "The river"), completed()];
    assert_eq!(shown(&mut show, &events), "|The river||");
}

#[test]
fn a_reply_that_was_joined_late_is_shown_when_it_is_whole() {
    let mut show = Show::default();
    assert_eq!(shown(&mut show, &[text("r", "ver"), reply("r", "The river")]), "The river|");
    assert_eq!(shown(&mut show, &[begins("r1"), text("r1", "The ri"), text("r1", "ver")]), "The river");
    let message = Message::text(Role::Assistant, "The ri").with_id("r2".into());
    let writing = Some(Writing { reply_id: "r2".into(), text: true, reasoning: None, calls: Vec::new() });
    let whole = Told::Whole(Box::new(Snapshot { messages: vec![Arc::new(message)], writing, ..Snapshot::default() }));
    assert_eq!(shown(&mut show, &[whole.clone(), text("r2", "ver"), whole, reply("r2", "The river runs")]), "|The river| runs|");
}

#[test]
fn room_is_made_in_one_line_and_copies_and_summaries_are_not_shown() {
    let mut show = Show::default();
    let summary = Node { shown_id: None, kind: NodeKind::Epoch, message: None, partial: false };
    let copy = Node { shown_id: Some("r".into()), kind: NodeKind::Message, message: None, partial: false };
    let events = [Told::Limited, Told::Node(Box::new(summary)), Told::Node(Box::new(copy)), writing("r2", 1), reply("r2", "Yes")];
    assert_eq!(shown(&mut show, &events), "(the conversation is long: room is made for the reply; nothing of what you see is lost)|Yes|");
}

#[test]
fn thoughts_and_calls_are_told_apart() {
    let mut show = Show::default();
    let thought = Live::Reasoning { reply_id: "r".into(), index: 1, delta: "hm".to_owned() };
    let events = [
        writing("r", 1),
        Told::Live(Live::ReasoningStarted { reply_id: "r".into(), index: 1 }),
        Told::Live(thought),
        Told::Live(Live::ReasoningEnded { reply_id: "r".into(), index: 1 }),
    ];
    assert_eq!(shown(&mut show, &events), "|~hm|");
    let mut message = Message::empty(Role::Assistant);
    message.content = Some(Content::Parts(vec![Part::text(PartKind::Reasoning, "hmm"), Part::text(PartKind::Text, "I look.")]));
    message.tool_calls = vec![ToolCall {
        id: "c".into(),
        kind: "function".to_owned(),
        function: FunctionCall { name: "look".to_owned(), arguments: "{\"at\":\n1}".to_owned() },
        encrypted_value: None,
    }];
    let mut result = Message::text(Role::Tool, "two");
    result.tool_call_id = Some("c".into());
    let mut failure = Message::empty(Role::Tool);
    (failure.tool_call_id, failure.error) = (Some("other".into()), Some("no \x1b".to_owned()));
    let waiting = Told::Waiting { turn_id: "t".into(), calls: vec!["c".into()] };
    let events = [node(message, "r", false), waiting, node(result, "x", false), node(failure, "y", false)];
    let expected = "m|I look.[calls look {\"at\": 1}]|(the reply waits for look, which another app carries out; /cancel gives it up, and so does a message)\
        [look answers two][a tool failed: no \\u{1b}]";
    assert_eq!(shown(&mut show, &events), expected);
}

#[test]
fn own_messages_are_shown_once() {
    let mut show = Show::default();
    show.sent("u1".into(), true);
    show.sent("u2".into(), false);
    let user = |id| node(Message::text(Role::User, format!("text of {id}")), id, false);
    assert_eq!(shown(&mut show, &[user("u1"), user("u2"), user("u3")]), ">text of u2(from somewhere else)>text of u3");
}

#[test]
fn what_goes_wrong_is_told() {
    let mut show = Show::default();
    let failed = Told::Failed { code: Code::LlmCut, retried: true };
    let events = [
        writing("r", 1),
        begins("r"),
        text("r", "I was"),
        failed,
        writing("r2", 2),
        begins("r2"),
        text("r2", "I am"),
        reply("r2", "I am"),
        completed(),
    ];
    let expected = "|I was(the model failed: llm_cut; trying again)(what was written is given up; the reply begins again)I am||";
    assert_eq!(shown(&mut show, &events), expected);
    let end = Ended::Failed { code: Code::LlmRefused, message: "no".to_owned() };
    assert_eq!(shown(&mut show, &[Told::Ended { turn_id: "t".into(), end }]), "!the reply failed (llm_refused): no");
    let stopped = [
        writing("r3", 1),
        begins("r3"),
        text("r3", "half"),
        node(Message::text(Role::Assistant, "half"), "r3", true),
        Told::Ended { turn_id: "t".into(), end: Ended::Cancelled { reason: None, messages: Vec::new() } },
    ];
    assert_eq!(shown(&mut show, &stopped), "|half|(stopped; what was said is kept)");
}
