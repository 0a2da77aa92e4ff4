//! Real faults of other systems, at the level of the engine (the numbers are those of the list of cases). `S` is a session with the
//! path u1, a1, u2, a2.

use headwater::engine::record::Body;
use headwater::engine::{self, Finished};
use headwater::ids::NodeId;
use headwater::protocol::{CallError, CallErrorKind, Code, Finish, Message, PartialView, Role, SameIdEdit, ToolCall, ViewOptions};

use crate::talk::{ATTEMPTS, Asked, Talk, listed};

fn user(id: &str, text: &str) -> Message {
    Message::text(Role::User, text).with_id(id.into())
}

fn reply(id: &NodeId) -> Message {
    Message::text(Role::Assistant, "as the client has it").with_id(id.clone())
}

/// S, and the view of it.
fn four_messages() -> (Talk, Vec<Message>) {
    let mut talk = Talk::default();
    let mut view = Vec::new();
    for n in 1..=2 {
        view.push(user(&format!("u{n}"), &format!("question {n}")));
        talk.submit(&Asked::view(view.clone())).unwrap();
        view.push(reply(&talk.finish(&format!("answer {n}"), Vec::new()).0));
    }
    (talk, view)
}

/// What the model reads now.
fn prompt(talk: &Talk) -> Vec<String> {
    engine::prompt(&talk.session).unwrap().iter().map(|message| message.joined_text()).collect()
}

fn ids(talk: &Talk) -> Vec<NodeId> {
    listed(&talk.session).1.into_iter().map(|node| node.id).collect()
}

fn refused(talk: &mut Talk, view: Vec<Message>) -> headwater::protocol::Refusal {
    let seq = talk.session.seq;
    let refusal = talk.submit(&Asked::view(view)).unwrap_err();
    assert_eq!(talk.session.seq, seq, "a refusal writes nothing");
    refusal
}

#[test]
fn b01_an_edit_under_the_same_id_is_told() {
    let (mut talk, mut view) = four_messages();
    view.truncate(1);
    view[0] = user("u1", "something else");
    let before = ids(&talk);
    let (_, accepted) = talk.submit(&Asked::view(view)).unwrap();
    assert_eq!(accepted.ignored_edits, [NodeId::from("u1")]);
    assert!(accepted.recorded.is_empty() && accepted.reply);
    assert_eq!(talk.head_id(), Some("u1".into()));
    assert_eq!(ids(&talk), before);
    assert_eq!(prompt(&talk), ["question 1"]);
}

#[test]
fn b01_an_edit_under_the_same_id_forks_when_asked() {
    let (mut talk, mut view) = four_messages();
    view.truncate(1);
    view[0] = user("u1", "something else");
    let options = ViewOptions { same_id_edit: SameIdEdit::Fork, ..ViewOptions::default() };
    let (_, accepted) = talk.submit(&Asked { messages: view, options, ..Asked::default() }).unwrap();
    assert!(accepted.ignored_edits.is_empty() && accepted.resync);
    assert_eq!(accepted.recorded.len(), 1);
    assert_ne!(accepted.recorded[0], "u1".into());
    assert_eq!(prompt(&talk), ["something else"]);
}

#[test]
fn b02_a_list_that_was_lost_is_a_branch_or_goes_on() {
    for (partial_view, reads) in
        [(PartialView::Root, vec!["new"]), (PartialView::Append, vec!["question 1", "answer 1", "question 2", "answer 2", "new"])]
    {
        let (mut talk, _) = four_messages();
        let before = ids(&talk);
        let options = ViewOptions { partial_view, ..ViewOptions::default() };
        let asked = Asked { messages: vec![user("new-1", "new")], options, ..Asked::default() };
        let (_, accepted) = talk.submit(&asked).unwrap();
        assert_eq!(prompt(&talk), reads);
        assert_eq!(accepted.root_branch, partial_view == PartialView::Root);
        assert_eq!(accepted.resync, partial_view == PartialView::Append);
        assert_eq!(ids(&talk)[..4], before[..], "every message of before is there");
    }
}

#[test]
fn b04_an_id_twice_in_a_view_is_refused() {
    let (mut talk, view) = four_messages();
    let twice = [&view[..3], &[user("u1", "again")]].concat();
    let refusal = refused(&mut talk, twice);
    assert_eq!((refusal.code, refusal.details["index"].as_u64()), (Code::DuplicateMessageId, Some(3)));
    let refusal = refused(&mut talk, vec![user("x", "x"), user("x", "x")]);
    assert_eq!((refusal.code, refusal.details["index"].as_u64()), (Code::DuplicateMessageId, Some(1)));
    talk.submit(&Asked::view([&view[..], &[user("u3", "goes on")]].concat())).unwrap();
    assert_eq!(prompt(&talk).last().unwrap(), "goes on");
}

#[test]
fn b06_equal_content_is_no_duplicate() {
    let (mut talk, mut view) = four_messages();
    for id in ["a", "b"] {
        view.push(user(id, "yes"));
        talk.submit(&Asked::view(view.clone())).unwrap();
        view.push(reply(&talk.finish("ok", Vec::new()).0));
    }
    let yes = listed(&talk.session).1.iter().filter(|node| node.message.joined_text() == "yes").count();
    assert_eq!(yes, 2);
}

#[test]
fn b07_a_parent_is_never_the_clients_word() {
    let (mut talk, view) = four_messages();
    // The follow-up stands after a reply that the client made up a name for.
    let placeholder = Message::text(Role::Assistant, "").with_id("3f2c_".into());
    let (_, accepted) = talk.submit(&Asked::view([&view[..3], &[placeholder, user("u3", "and?")]].concat())).unwrap();
    assert_eq!(accepted.recorded, ["u3".into()]);
    let tree = &talk.session.tree;
    let parent = tree.find(&"u3".into()).and_then(|ix| tree.parent(ix)).map(|ix| tree.id(ix));
    assert_eq!(parent, Some("u2".into()), "below the last message that is known");
    assert_eq!(accepted.head_id, Some("u3".into()));
}

#[test]
fn b07_a_follow_up_before_the_end_is_refused_and_names_the_turn() {
    let (mut talk, view) = four_messages();
    talk.submit(&Asked { turn_id: Some("T".into()), ..Asked::view([&view[..], &[user("u3", "go")]].concat()) }).unwrap();
    let early = reply(&talk.reply_id().unwrap());
    let refusal = refused(&mut talk, [&view[..], &[user("u3", "go"), early.clone(), user("u4", "more")]].concat());
    assert_eq!((refusal.code, refusal.details["turn_id"].as_str()), (Code::TurnAlreadyActive, Some("T")));
    let (a3, _) = talk.finish("done", Vec::new());
    let (_, accepted) = talk.submit(&Asked::view([&view[..], &[user("u3", "go"), early, user("u4", "more")]].concat())).unwrap();
    assert_eq!(accepted.recorded, ["u4".into()]);
    assert_eq!(talk.reader_view()[5], a3);
}

#[test]
fn b08_failed_calls_leave_no_node() {
    let (mut talk, mut view) = four_messages();
    let before = (ids(&talk), listed(&talk.session).0);
    view.truncate(3);
    for kind in [CallErrorKind::Unavailable, CallErrorKind::TimedOut, CallErrorKind::Cut, CallErrorKind::Nonsense, CallErrorKind::Refused] {
        talk.submit(&Asked::view(view.clone())).unwrap();
        for _ in 1..ATTEMPTS {
            if talk.session.turn.is_some() {
                talk.fail(kind, None);
                talk.wake();
            }
        }
        if talk.session.turn.is_some() {
            talk.fail(kind, None);
        }
        assert!(talk.session.turn.is_none(), "the turn ended");
        assert_eq!(ids(&talk), before.0);
        assert_eq!(listed(&talk.session).0, Some("u2".into()));
        assert_eq!(talk.snapshot().len(), 3, "the path can be shown");
    }
}

#[test]
fn b08_a_reply_without_a_word_is_none() {
    for finish in [Finish::Filtered, Finish::Length, Finish::Stop, Finish::ToolCalls] {
        let (mut talk, view) = four_messages();
        talk.submit(&Asked::view(view[..3].to_vec())).unwrap();
        let Some(engine::Effect::Call { id, attempt }) = talk.call() else { panic!("a call is wanted") };
        let nothing: Result<Finished, CallError> = Ok(Finished::of_model(Message::empty(Role::Assistant), finish, None));
        let context = talk.context();
        let records = engine::call_finished(&talk.session, &id, attempt, nothing, &context);
        talk.take(&records);
        assert!(matches!(records.last().unwrap().body, Body::TurnFailed(_)));
        assert_eq!(listed(&talk.session).1.len(), 4);
    }
}

#[test]
fn b08_a_reply_that_a_filter_stopped_is_partial() {
    let (mut talk, view) = four_messages();
    talk.submit(&Asked::view(view[..3].to_vec())).unwrap();
    let Some(engine::Effect::Call { id, attempt }) = talk.call() else { panic!("a call is wanted") };
    let mut message = Message::text(Role::Assistant, "I can explain how");
    message.tool_calls.push(ToolCall::new("c1".into(), "look", "{}"));
    let stopped = Ok(Finished::of_model(message, Finish::Filtered, None));
    let context = talk.context();
    let records = engine::call_finished(&talk.session, &id, attempt, stopped, &context);
    talk.take(&records);
    assert!(matches!(&records.last().unwrap().body, Body::TurnFailed(failed) if failed.code == Code::LlmRefused));
    let (head, nodes) = listed(&talk.session);
    let reply = nodes.iter().find(|node| Some(&node.id) == head.as_ref()).unwrap();
    assert!(reply.partial && reply.message.tool_calls.is_empty() && talk.session.turn.is_none());
    assert_eq!((nodes.len(), reply.message.joined_text().as_str()), (5, "I can explain how"));
    talk.replays();
}

#[test]
fn b10_regenerating_keeps_every_sibling() {
    let (mut talk, view) = four_messages();
    let mut replies = vec![view[3].id.clone().unwrap()];
    for n in 0..5 {
        talk.submit(&Asked::view(view[..3].to_vec())).unwrap();
        replies.push(talk.finish(&format!("again {n}"), Vec::new()).0);
    }
    talk.replays();
    let (head, nodes) = listed(&talk.session);
    let siblings: Vec<NodeId> = nodes.iter().filter(|node| node.parent_id == Some("u2".into())).map(|node| node.id.clone()).collect();
    assert_eq!(siblings, replies);
    assert_eq!(head.as_ref(), replies.last());
}

#[test]
fn b12_of_many_submits_one_starts() {
    let (mut talk, view) = four_messages();
    let asked = |n: usize| Asked {
        turn_id: Some(format!("T{n}").as_str().into()),
        ..Asked::view([&view[..], &[user(&format!("x{n}"), "me first")]].concat())
    };
    talk.submit(&asked(0)).unwrap();
    for n in 1..16 {
        let seq = talk.session.seq;
        let refusal = talk.submit(&asked(n)).unwrap_err();
        assert_eq!((refusal.code, refusal.details["turn_id"].as_str()), (Code::TurnAlreadyActive, Some("T0")));
        assert_eq!(talk.session.seq, seq);
    }
    let (_, again) = talk.submit(&asked(0)).unwrap();
    assert!(again.duplicate);
    talk.finish("to the first", Vec::new());
    assert_eq!(listed(&talk.session).1.len(), 6);
}

#[test]
fn a_view_comes_to_the_same_in_a_large_tree() {
    let come_to = |side: usize| {
        let mut talk = Talk::default();
        let mut view = Vec::new();
        for n in 0..20 {
            view.push(user(&format!("u{n}"), "asks"));
            talk.submit(&Asked { run: Some(false), ..Asked::view(view.clone()) }).unwrap();
        }
        let mut tree = talk.session.tree.clone();
        for n in 0..side {
            let parent = NodeId::from(format!("u{}", n % 20));
            let new = engine::MessageNew::plain(format!("side{n}").into(), Some(parent), Message::text(Role::User, "aside"));
            tree.add(n as u64, 0, &new).unwrap();
        }
        view.remove(7);
        view.push(user("new", "and this?"));
        engine::reconcile(&tree, talk.session.head, &engine::View::new(view), ViewOptions::default()).unwrap()
    };
    assert_eq!(come_to(0), come_to(50_000));
}
