//! Agents in the place of a model: what they carried out, several replies in a row, what they leave to the client.

use headwater::engine::record::Record;
use headwater::engine::{self, Effect, Finished, Maker};
use headwater::ids::NodeId;
use headwater::protocol::{CallErrorKind, Content, Finish, Input, InputBody, Json, Message, Part, PartKind, Role, ToolCall};

use crate::talk::{Asked, CALLS_MAX, Talk};

/// What an agent says.
#[derive(Default)]
struct Says<'a> {
    text: &'a str,
    /// Calls, with their results.
    calls: &'a [(&'a str, &'a str, Option<&'a str>)],
    goes_on: bool,
}

fn says(talk: &mut Talk, said: &Says<'_>) -> Vec<Record> {
    let content = (!said.text.is_empty()).then(|| Content::Text(said.text.to_owned()));
    let tool_calls = said.calls.iter().map(|(id, tool, _)| ToolCall::new((*id).into(), *tool, "{}")).collect();
    let message = Message { content, tool_calls, ..Message::empty(Role::Assistant) };
    let result = |(id, _, text): &(&str, &str, Option<&str>)| {
        Some(Message { tool_call_id: Some((*id).into()), ..Message::text(Role::Tool, (*text)?) })
    };
    let results = said.calls.iter().filter_map(result).collect();
    let finish = if said.goes_on { Finish::ToolCalls } else { Finish::Stop };
    let maker = Maker::Agent { goes_on: said.goes_on };
    talk.ended(Ok(Finished { results, maker, ..Finished::of_model(message, finish, None) }))
}

fn kinds(records: &[Record]) -> Vec<String> {
    let first = |record: &Record| crate::told::told(&record.body).split(' ').next().map(str::to_owned);
    records.iter().filter_map(first).collect()
}

fn asked() -> Talk {
    let mut talk = Talk::default();
    talk.submit(&Asked::view(vec![user("u1")]).with_tools(&["confirm"])).unwrap();
    talk
}

fn user(id: &str) -> Message {
    Message::text(Role::User, format!("says {id}")).with_id(id.into())
}

fn prompt(talk: &Talk) -> Vec<String> {
    let read = engine::prompt(&talk.session).unwrap();
    read.iter().map(|message| format!("{:?}: {}", message.role, message.joined_text())).collect()
}

#[test]
fn what_it_carried_out_is_recorded_with_its_reply() {
    let mut talk = asked();
    let records = says(&mut talk, &Says { text: "Looking.", calls: &[("c1", "look", Some("blue"))], goes_on: true });
    assert_eq!(kinds(&records), ["message.new", "llm.call.completed", "message.new", "llm.call.started"]);
    let Some(Effect::Call { attempt: 1, .. }) = talk.call() else { panic!("it goes on") };
    let records = says(&mut talk, &Says { text: "It is blue.", ..Says::default() });
    assert_eq!(kinds(&records), ["message.new", "llm.call.completed", "turn.completed"]);
    assert_eq!(prompt(&talk), ["User: says u1", "Assistant: Looking.", "Tool: blue", "Assistant: It is blue."]);
    talk.replays();
}

#[test]
fn an_end_without_a_word_is_no_node() {
    let mut talk = asked();
    says(&mut talk, &Says { text: "Looking.", calls: &[("c1", "look", Some("blue"))], goes_on: true });
    let records = says(&mut talk, &Says::default());
    assert_eq!(kinds(&records), ["llm.call.completed", "turn.completed"]);
    // So is a turn in which it says nothing at all.
    talk.submit(&Asked::view(vec![user("u1"), user("u2")])).unwrap();
    assert_eq!(kinds(&says(&mut talk, &Says::default())), ["llm.call.completed", "turn.completed"]);
    talk.replays();
}

#[test]
fn what_it_leaves_open_is_the_clients() {
    let mut talk = asked();
    let calls = [("c1", "look", Some("blue")), ("c2", "confirm", None), ("c3", "of_nobody", None)];
    let records = says(&mut talk, &Says { text: "Well?", calls: &calls, goes_on: false });
    assert_eq!(kinds(&records), ["message.new", "llm.call.completed", "message.new", "turn.waiting"]);
    assert_eq!(talk.session.tree.open_calls(), ["c2".into(), "c3".into()]);
    for id in ["c2", "c3"] {
        let result =
            Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, "yes") }.with_id(format!("{id}:tool").as_str().into());
        talk.submit(&Asked { kind: crate::talk::Kind::Result, ..Asked::view(vec![result]) }).unwrap();
    }
    let Some(Effect::Call { attempt: 1, .. }) = talk.call() else { panic!("it is asked again") };
    assert_eq!(talk.session.turn.as_ref().unwrap().calls, 2, "it began anew");
    says(&mut talk, &Says { text: "Good.", ..Says::default() });
    assert!(talk.session.turn.is_none());
    talk.replays();
}

#[test]
fn arguments_that_are_none_are_told_to_it() {
    let mut talk = asked();
    let message = Message { tool_calls: vec![ToolCall::new("c1".into(), "confirm", "[")], ..Message::empty(Role::Assistant) };
    let maker = Maker::Agent { goes_on: false };
    let records = talk.ended(Ok(Finished { maker, ..Finished::of_model(message, Finish::ToolCalls, None) }));
    assert_eq!(kinds(&records), ["message.new", "llm.call.completed", "message.new", "llm.call.started"]);
    assert_eq!(talk.session.turn.as_ref().unwrap().calls, 2);
    talk.replays();
}

#[test]
fn thoughts_alone_are_kept() {
    let mut talk = asked();
    let content = Some(Content::Parts(vec![Part::text(PartKind::Reasoning, "hm")]));
    let message = Message { content, ..Message::empty(Role::Assistant) };
    let maker = Maker::Agent { goes_on: true };
    talk.ended(Ok(Finished { maker, ..Finished::of_model(message, Finish::ToolCalls, None) }));
    says(&mut talk, &Says { text: "So.", ..Says::default() });
    assert_eq!(prompt(&talk), ["User: says u1", "Assistant: So."]);
    talk.replays();
}

#[test]
fn a_long_run_is_one_call_and_one_that_is_lost_counts_each_time() {
    let mut talk = asked();
    for n in 0..3 * CALLS_MAX {
        let id = format!("c{n}");
        says(&mut talk, &Says { text: "", calls: &[(&id, "look", Some("blue"))], goes_on: true });
        assert_eq!(talk.session.turn.as_ref().unwrap().calls, 1, "however much it says");
    }
    let mut times = 1;
    loop {
        talk.fail(CallErrorKind::Cut, None);
        talk.wake();
        times += 1;
        assert_eq!(talk.session.turn.as_ref().unwrap().calls, times, "it begins anew");
        let id = format!("d{times}");
        let records = says(&mut talk, &Says { text: "", calls: &[(&id, "look", Some("blue"))], goes_on: true });
        if talk.session.turn.is_none() {
            assert_eq!(kinds(&records).last().map(String::as_str), Some("turn.failed"));
            break;
        }
    }
    assert_eq!(times, CALLS_MAX + 1);
    talk.replays();
}

#[test]
fn who_steers_is_read_by_the_next_call() {
    let mut talk = asked();
    talk.submit(&Asked { on_busy: headwater::protocol::OnBusy::Steer, kind: crate::talk::Kind::Append, ..Asked::view(vec![user("u2")]) })
        .unwrap();
    says(&mut talk, &Says { text: "", calls: &[("c1", "look", Some("blue"))], goes_on: true });
    let call = talk.session.turn.as_ref().unwrap().call.as_ref().unwrap();
    assert!(call.goes_on && call.arrivals == 1);
    assert_eq!(prompt(&talk).last().unwrap(), "User: says u2");
    says(&mut talk, &Says { text: "Both.", ..Says::default() });
    assert!(talk.session.turn.is_none());
    talk.replays();
}

#[test]
fn a_crash_in_the_middle_begins_anew_with_what_is_recorded() {
    let mut talk = asked();
    says(&mut talk, &Says { text: "", calls: &[("c1", "look", Some("blue"))], goes_on: true });
    talk.recover();
    let Some(Effect::Call { attempt: 2, .. }) = talk.call() else { panic!("another attempt") };
    assert_eq!(prompt(&talk), ["User: says u1", "Assistant: ", "Tool: blue"]);
    says(&mut talk, &Says { text: "It is blue.", ..Says::default() });
    assert!(talk.session.turn.is_none());
    talk.replays();
}

#[test]
fn its_state_is_kept_with_the_branch() {
    let mut talk = asked();
    let state = |text: &str| Some(serde_json::from_str::<Json>(text).unwrap());
    let maker = Maker::Agent { goes_on: false };
    let said = |text: &str, state: Option<Json>| Finished {
        maker,
        state,
        ..Finished::of_model(Message::text(Role::Assistant, text), Finish::Stop, None)
    };
    let records = talk.ended(Ok(said("Done.", state(r#"{"seat":1}"#))));
    assert_eq!(kinds(&records), ["message.new", "llm.call.completed", "state.updated", "turn.completed"]);
    talk.submit(&Asked { kind: crate::talk::Kind::Append, ..Asked::view(vec![user("u2")]) }).unwrap();
    let records = talk.ended(Ok(said("The same.", state(r#"{ "seat": 1 }"#))));
    assert_eq!(kinds(&records), ["message.new", "llm.call.completed", "turn.completed"]);
    assert_eq!(talk.session.state().unwrap().map(Json::get), Some(r#"{"seat":1}"#));
    talk.replays();
}

#[test]
fn a_branch_has_a_name_of_its_own() {
    let reply = |talk: &Talk| talk.reply_id().unwrap();
    let branch = |talk: &Talk| engine::branch(&talk.session, &reply(talk));
    let mut talk = asked();
    assert_eq!(branch(&talk), "u1".into());
    let a1 = reply(&talk);
    says(&mut talk, &Says { text: "", calls: &[("c1", "look", Some("blue"))], goes_on: true });
    assert_eq!(branch(&talk), "u1".into());
    let a1b = reply(&talk);
    says(&mut talk, &Says { text: "One.", ..Says::default() });
    let seen = |id: &NodeId| Message::empty(Role::Assistant).with_id(id.clone());
    let first = [user("u1"), seen(&a1), seen(&a1b)];
    let view = |more: Message| first.iter().cloned().chain([more]).collect::<Vec<_>>();
    talk.submit(&Asked::view(view(user("u2")))).unwrap();
    assert_eq!(branch(&talk), "u1".into(), "one turn follows the other");
    says(&mut talk, &Says { text: "Two.", ..Says::default() });
    // An edit.
    talk.submit(&Asked::view(view(user("u3")))).unwrap();
    assert_eq!(branch(&talk), "u3".into());
    says(&mut talk, &Says { text: "Three.", ..Says::default() });
    // Again, and on from there.
    talk.submit(&Asked::view(view(user("u3")))).unwrap();
    let again = reply(&talk);
    assert_eq!(branch(&talk), again);
    says(&mut talk, &Says { text: "Four.", ..Says::default() });
    let on = view(user("u3")).into_iter().chain([seen(&again), user("u4")]).collect();
    talk.submit(&Asked::view(on)).unwrap();
    assert_eq!(branch(&talk), again);
    says(&mut talk, &Says { text: "Five.", ..Says::default() });
    // The first message is edited.
    talk.submit(&Asked::view(vec![user("u5")])).unwrap();
    assert_eq!(branch(&talk), "u5".into());
}

/// The agent asks a person about a call of its own.
fn pauses(talk: &mut Talk) {
    let message = Message { tool_calls: vec![ToolCall::new("c1".into(), "book", "{}")], ..Message::text(Role::Assistant, "May I?") };
    let raised = r#"{"id":"i1","reason":"approval","tool_call_id":"c1"}"#;
    let interrupts = vec![serde_json::from_str(raised).unwrap()];
    let maker = Maker::Agent { goes_on: false };
    let records = talk.ended(Ok(Finished { maker, interrupts, ..Finished::of_model(message, Finish::ToolCalls, None) }));
    assert_eq!(kinds(&records), ["message.new", "llm.call.completed", "session.interrupted"]);
    assert!(talk.session.is_interrupted() && talk.session.tree.open_calls().is_empty() && talk.call().is_none());
}

fn resume(talk: &mut Talk) {
    let answer = serde_json::from_str(r#"{"interrupt_id":"i1","status":"resolved","payload":{"approved":true}}"#).unwrap();
    let body = InputBody::Resume { interrupts: vec![answer], view: None };
    let input = Input { body, ..Asked::view(Vec::new()).with_tools(&[]).input() };
    let context = talk.context();
    let (records, _) = engine::submit(&talk.session, &"s".into(), &engine::Submit::from(input), &context).unwrap();
    talk.take(&records);
}

#[test]
fn an_agent_that_asks_a_person_goes_on_with_the_answer() {
    let mut talk = asked();
    pauses(&mut talk);
    resume(&mut talk);
    let resumed = talk.session.resumed_interrupts();
    assert_eq!(resumed.iter().map(|resumed| resumed.interrupt_id.as_str()).collect::<Vec<_>>(), ["i1"]);
    // The call is carried out in the next run: its result comes alone.
    let result = Message { tool_call_id: Some("c1".into()), ..Message::text(Role::Tool, "booked") };
    let maker = Maker::Agent { goes_on: true };
    let nothing = Finished::of_model(Message::empty(Role::Assistant), Finish::ToolCalls, None);
    let records = talk.ended(Ok(Finished { results: vec![result], maker, ..nothing }));
    assert_eq!(kinds(&records), ["llm.call.completed", "message.new", "llm.call.started"]);
    assert!(talk.session.resumed_interrupts().is_empty());
    says(&mut talk, &Says { text: "Done.", ..Says::default() });
    assert_eq!(prompt(&talk), ["User: says u1", "Assistant: May I?", "Tool: booked", "Assistant: Done."]);
    talk.replays();
}

#[test]
fn who_does_not_answer_leaves_a_call_without_a_result() {
    let mut talk = asked();
    pauses(&mut talk);
    let context = talk.context();
    let records = engine::cancel(&talk.session, None, &context);
    talk.take(&records);
    talk.submit(&Asked { kind: crate::talk::Kind::Append, ..Asked::view(vec![user("u2")]) }).unwrap();
    assert_eq!(prompt(&talk)[2], "Tool: This call was interrupted and has no result.");
    talk.replays();
}
