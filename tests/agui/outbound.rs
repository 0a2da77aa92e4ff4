//! Single events and messages, in both dialects.

use std::sync::Arc;

use headwater::agui::{Dialect, Outcome, custom, render, run_error, run_finished, run_started, snapshot};
use headwater::protocol::{
    Code, Content, Cursor, Event, EventBody, Frames, Json, KeptReason, LimitReason, Live, Message, NodeKind, OpenCall, Part, PartKind,
    Role, Snapshot, Source, ToolCall, Usage, Writing,
};
use serde_json::{Value, json};

use crate::frames::{events, sent};
use crate::schema::assert_valid;

fn live(n: u64, live: Live) -> Event {
    Event { cursor: Some(Cursor { seq: 4, within: Some((1, n)) }), at: 7, body: EventBody::Live(live) }
}

fn record(seq: u64, body: EventBody) -> Event {
    Event { cursor: Some(Cursor::after(seq)), at: 7, body }
}

fn message_new(shown: bool, message: Message) -> EventBody {
    let id = message.id.clone().unwrap();
    EventBody::MessageNew {
        node_id: id.clone(),
        parent_id: None,
        kind: NodeKind::Message,
        shown_id: shown.then_some(id),
        message: Some(Arc::new(message)),
        copied_from: None,
        reads_as: None,
        partial: false,
        call_id: None,
        source: None,
    }
}

/// The events of a frame, valid, without their timestamps.
fn told(frames: &Frames) -> Vec<Value> {
    let mut events = events(frames);
    assert_valid(&events);
    for event in &mut events {
        event.as_object_mut().unwrap().remove("timestamp");
    }
    events
}

fn both(give: impl Fn(Dialect) -> Frames) -> Vec<Value> {
    let [legacy, v1] = Dialect::ALL.map(|dialect| told(&give(dialect)));
    assert_eq!(legacy, v1, "the dialects differ");
    v1
}

fn reply() -> Vec<Event> {
    let reply_id = || "r".into();
    let call = || "c".into();
    vec![
        live(2, Live::ReasoningStarted { reply_id: reply_id(), index: 1 }),
        live(4, Live::Reasoning { reply_id: reply_id(), index: 1, delta: "hm".to_owned() }),
        live(5, Live::TextStarted { reply_id: reply_id() }),
        live(8, Live::Text { reply_id: reply_id(), delta: "Let".to_owned() }),
        live(11, Live::Text { reply_id: reply_id(), delta: " me".to_owned() }),
        live(11, Live::Text { reply_id: reply_id(), delta: String::new() }),
        live(12, Live::ToolCallStarted { reply_id: reply_id(), id: call(), name: "weather".to_owned() }),
        live(16, Live::ToolCallArguments { id: call(), delta: "{\"a\"".to_owned() }),
        live(19, Live::ToolCallArguments { id: call(), delta: ":1}".to_owned() }),
        live(23, Live::ReplyEnded { reply_id: reply_id(), text: true, reasoning: Some(1), calls: vec![call()] }),
    ]
}

#[test]
fn a_reply_is_told_part_by_part_and_what_follows_itself_is_merged() {
    let reasoning = "r:reasoning-1";
    assert_eq!(
        both(|dialect| render(dialect, &reply())),
        [
            json!({"type": "REASONING_START", "messageId": reasoning}),
            json!({"type": "REASONING_MESSAGE_START", "messageId": reasoning, "role": "reasoning"}),
            json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": reasoning, "delta": "hm"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "r", "role": "assistant"}),
            json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "r", "delta": "Let me"}),
            json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "weather", "parentMessageId": "r"}),
            json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"a\":1}"}),
            json!({"type": "REASONING_MESSAGE_END", "messageId": reasoning}),
            json!({"type": "REASONING_END", "messageId": reasoning}),
            json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "r"}),
        ]
    );
}

#[test]
fn each_mark_has_a_cursor_of_its_own() {
    let ids: Vec<_> = sent(&render(Dialect::V1, &reply())).into_iter().map(|sent| sent.id.map(|id| id.to_string())).collect();
    let ids: Vec<_> = ids.iter().map(Option::as_deref).collect();
    let expected = [1, 2, 4, 5, 11, 12, 19, 20, 21, 22, 23].map(|told| Some(format!("4.1.{told}")));
    let expected: Vec<_> = expected.iter().map(Option::as_deref).collect();
    assert_eq!(ids, expected);
}

#[test]
fn timestamps_are_whole_milliseconds() {
    for event in events(&render(Dialect::V1, &reply())) {
        assert_eq!(event["timestamp"].as_u64(), Some(7), "{event}");
    }
}

#[test]
fn a_reply_that_only_calls_is_told_without_text() {
    let reply_id = || "r".into();
    let told = both(|dialect| {
        render(
            dialect,
            &[
                live(1, Live::ToolCallStarted { reply_id: reply_id(), id: "c".into(), name: "f".to_owned() }),
                record(
                    5,
                    EventBody::Live(Live::ReplyEnded { reply_id: reply_id(), text: false, reasoning: None, calls: vec!["c".into()] }),
                ),
            ],
        )
    });
    let kinds: Vec<_> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["TOOL_CALL_START", "TOOL_CALL_END"]);
}

#[test]
fn what_is_not_for_the_stream_gives_nothing() {
    let text = |role| Message::text(role, "x").with_id("m".into());
    let result = Message { tool_call_id: Some("c".into()), ..text(Role::Tool) };
    let nothing = [
        EventBody::SessionCreated { agent_id: "a".into() },
        EventBody::HeadMoved { head_id: None, label: None, reads_as: None },
        EventBody::TurnStarted { turn_id: "t".into(), agent_id: "a".into() },
        EventBody::TurnCompleted { turn_id: "t".into() },
        EventBody::TurnFailed { turn_id: "t".into(), code: Code::Internal, message: "x".to_owned() },
        EventBody::TurnCancelled { turn_id: "t".into(), reason: None, messages: Vec::new() },
        EventBody::TurnRecovered { turn_id: "t".into() },
        EventBody::CallStarted { turn_id: "t".into(), call_id: "c".into(), attempt: 1, reply_id: "r".into(), hidden: true, arrivals: 0 },
        EventBody::CallCompleted { call_id: "c".into(), hidden: false, usage: None },
        EventBody::CallFailed { call_id: "c".into(), attempt: 1, hidden: false, code: Code::LlmCut, not_before: None },
        EventBody::CallVoided { call_id: "c".into(), hidden: false },
        message_new(true, text(Role::User)),
        message_new(true, text(Role::Assistant)),
        message_new(false, result),
        EventBody::Live(Live::ReplyEnded { reply_id: "r".into(), text: false, reasoning: None, calls: vec![] }),
        EventBody::Live(Live::Text { reply_id: "r".into(), delta: String::new() }),
    ];
    for body in nothing {
        for dialect in Dialect::ALL {
            assert!(render(dialect, &[record(3, body.clone())]).is_empty(), "{body:?}");
        }
    }
}

fn media(kind: PartKind, source: &Value) -> Part {
    Part { text: None, source: Some(Json::from_value(source).unwrap()), ..Part::text(kind, "") }
}

fn result(content: Option<Content>, error: Option<&str>) -> Message {
    let error = error.map(str::to_owned);
    Message { content, error, tool_call_id: Some("c".into()), ..Message::empty(Role::Tool) }.with_id("x".into())
}

#[test]
fn results_are_text_to_legacy_readers() {
    let file = || media(PartKind::Image, &json!({"type": "file", "value": "f"}));
    let text = |text| Part::text(PartKind::Text, text);
    let v1_file = json!({"type": "image", "source": {"type": "file", "value": "f"}});
    for (message, legacy, v1) in [
        (result(Some(Content::Text("18".to_owned())), None), json!("18"), json!("18")),
        (result(None, Some("time-out")), json!("time-out"), json!("time-out")),
        (result(Some(Content::Text("part".to_owned())), Some("time-out")), json!("part"), json!("part")),
        (result(Some(Content::Parts(vec![])), None), json!(""), json!([])),
        (
            result(Some(Content::Parts(vec![text("a"), file(), text("b")])), None),
            json!("ab"),
            json!([{"type": "text", "text": "a"}, v1_file, {"type": "text", "text": "b"}]),
        ),
        (
            result(Some(Content::Parts(vec![media(PartKind::Image, &json!({"type": "url", "value": "u"}))])), None),
            json!(r#"[{"type":"image","source":{"type":"url","value":"u"}}]"#),
            json!([{"type": "image", "source": {"type": "url", "value": "u"}}]),
        ),
    ] {
        for (dialect, content) in [(Dialect::Legacy, legacy), (Dialect::V1, v1)] {
            let told = told(&render(dialect, &[record(3, message_new(true, message.clone()))]));
            assert_eq!(
                told,
                [json!({"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c", "content": content, "role": "tool"})]
            );
            let shown = told_messages(dialect, vec![message.clone()]);
            assert_eq!(shown[0]["content"], content);
        }
    }
}

#[test]
fn what_a_worker_says_is_told_whole_and_what_others_say_is_not() {
    let parts = [(PartKind::Reasoning, "hm"), (PartKind::Text, "so"), (PartKind::Reasoning, ""), (PartKind::Text, " it is")];
    let message = Message {
        content: Some(Content::Parts(parts.map(|(kind, text)| Part::text(kind, text)).into())),
        tool_calls: vec![ToolCall::new("c1".into(), "look".to_owned(), "{}")],
        ..Message::empty(Role::Assistant)
    };
    let said = message_new(true, message.with_id("w1".into()));
    let EventBody::MessageNew { node_id, parent_id, kind, shown_id, message, .. } = said.clone() else { unreachable!() };
    let (copied_from, reads_as, partial, call_id, source) = (None, None, false, None, Some(Source::Worker));
    let by_worker = EventBody::MessageNew { node_id, parent_id, kind, shown_id, message, copied_from, reads_as, partial, call_id, source };
    let custom = EventBody::Custom { turn_id: "t1".into(), name: "progress".to_owned(), value: serde_json::from_str("[1]").unwrap() };
    let events = both(|dialect| render(dialect, &[record(3, by_worker.clone()), record(4, custom.clone())]));
    let reasoning = |id: &str, text: &str| {
        let mut told = vec![
            json!({"type": "REASONING_START", "messageId": id}),
            json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}),
        ];
        if !text.is_empty() {
            told.push(json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": text}));
        }
        told.extend([json!({"type": "REASONING_MESSAGE_END", "messageId": id}), json!({"type": "REASONING_END", "messageId": id})]);
        told
    };
    let mut expected = reasoning("w1:reasoning-1", "hm");
    expected.extend(reasoning("w1:reasoning-2", ""));
    expected.extend([
        json!({"type": "TEXT_MESSAGE_START", "messageId": "w1", "role": "assistant"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "w1", "delta": "so"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "w1", "delta": " it is"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": "w1"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "look", "parentMessageId": "w1"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "{}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c1"}),
        json!({"type": "CUSTOM", "name": "progress", "value": [1]}),
    ]);
    assert_eq!(events, expected);
    assert_eq!(both(|dialect| render(dialect, &[record(3, said.clone())])), Vec::<Value>::new());
}

#[test]
fn an_activity_is_told_whole() {
    let content = Some(Content::Object(Json::from_value(&json!({"done": 1})).unwrap()));
    let message = Message { content, activity_type: Some("plan".to_owned()), ..Message::empty(Role::Activity) }.with_id("x".into());
    let told = both(|dialect| render(dialect, &[record(3, message_new(true, message.clone()))]));
    assert_eq!(told, [json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "x", "activityType": "plan", "content": {"done": 1}})]);
}

fn told_messages(dialect: Dialect, messages: Vec<Message>) -> Vec<Value> {
    let given = Snapshot { messages: messages.into_iter().map(Arc::new).collect(), ..Snapshot::default() };
    let told = told(&snapshot(dialect, &given, None));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["type"], "MESSAGES_SNAPSHOT");
    told[0]["messages"].as_array().unwrap().clone()
}

#[test]
fn messages_are_shown_as_ag_ui_spells_them() {
    let part = |kind, text| Part::text(kind, text);
    let reply = Message {
        content: Some(Content::Parts(vec![
            part(PartKind::Reasoning, "hm"),
            part(PartKind::Text, "Let "),
            Part { text: None, tool_call_id: Some("c".into()), ..part(PartKind::ToolCall, "") },
            part(PartKind::Reasoning, "so"),
            part(PartKind::Text, "me"),
        ])),
        tool_calls: vec![ToolCall::new("c".into(), "f", "{}")],
        ..Message::empty(Role::Assistant)
    };
    let user = Message {
        content: Some(Content::Parts(vec![
            Part { id: Some("p".to_owned()), ..part(PartKind::Text, "Look") },
            media(PartKind::Image, &json!({"type": "data", "value": "AA==", "mime_type": "image/png"})),
            media(PartKind::Audio, &json!({"type": "data", "value": "AA=="})),
            media(PartKind::Video, &json!({"type": "url", "value": "v", "mime_type": "video/mp4"})),
        ])),
        name: Some("Ada".to_owned()),
        metadata: Some(Json::from_value(&json!({"n": 1})).unwrap()),
        ..Message::empty(Role::User)
    };
    let shown = Dialect::ALL.map(|dialect| {
        told_messages(
            dialect,
            vec![
                Message::text(Role::System, "Be kind.").with_id("s".into()),
                user.clone().with_id("u".into()),
                reply.clone().with_id("r".into()),
                Message::empty(Role::Assistant).with_id("empty".into()),
                result(None, Some("time-out")),
                Message::empty(Role::Activity).with_id("act".into()),
            ],
        )
    });
    assert_eq!(shown[0], shown[1]);
    assert_eq!(
        shown[1],
        [
            json!({"id": "s", "role": "system", "content": "Be kind."}),
            json!({"id": "u", "role": "user", "name": "Ada", "metadata": {"n": 1}, "content": [
                {"type": "text", "text": "Look", "id": "p"},
                {"type": "image", "source": {"type": "data", "value": "AA==", "mimeType": "image/png"}},
                {"type": "audio", "source": {"type": "data", "value": "AA==", "mimeType": "application/octet-stream"}},
                {"type": "video", "source": {"type": "url", "value": "v", "mimeType": "video/mp4"}},
            ]}),
            json!({"id": "r:reasoning-1", "role": "reasoning", "content": "hm"}),
            json!({"id": "r:reasoning-2", "role": "reasoning", "content": "so"}),
            json!({"id": "r", "role": "assistant", "content": "Let me",
                "toolCalls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            json!({"id": "empty", "role": "assistant"}),
            json!({"id": "x", "role": "tool", "toolCallId": "c", "content": "time-out", "error": "time-out"}),
            json!({"id": "act", "role": "activity", "activityType": "", "content": {}}),
        ]
    );
}

#[test]
fn files_become_a_line_of_text_for_legacy_readers() {
    let content = Some(Content::Parts(vec![media(PartKind::Document, &json!({"type": "file", "value": "f-1", "provider": "openai"}))]));
    let user = Message { content, ..Message::empty(Role::User) }.with_id("u".into());
    let shown = |dialect| told_messages(dialect, vec![user.clone()])[0]["content"].clone();
    assert_eq!(shown(Dialect::V1), json!([{"type": "document", "source": {"type": "file", "value": "f-1", "provider": "openai"}}]));
    assert_eq!(shown(Dialect::Legacy), json!([{"type": "text", "text": "[file \"f-1\"]"}]));
}

#[test]
fn a_snapshot_opens_again_what_is_being_written() {
    let reply = Message {
        content: Some(Content::Parts(vec![Part::text(PartKind::Text, "Let"), Part::text(PartKind::Reasoning, "h")])),
        tool_calls: vec![ToolCall::new("c".into(), "f", "{\"a")],
        ..Message::empty(Role::Assistant)
    };
    let given = Snapshot {
        interrupts: Vec::new(),
        messages: vec![Arc::new(Message::text(Role::User, "hi").with_id("u".into())), Arc::new(reply.with_id("r".into()))],
        state: Some(Json::from_value(&json!({"n": 1})).unwrap()),
        writing: Some(Writing {
            reply_id: "r".into(),
            text: true,
            reasoning: Some(1),
            calls: vec![OpenCall { id: "c".into(), name: "f".to_owned() }],
        }),
    };
    let frames = snapshot(Dialect::V1, &given, Some(Cursor::after(9)));
    let kinds: Vec<_> = told(&frames).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    let starts = ["TEXT_MESSAGE_START", "REASONING_START", "REASONING_MESSAGE_START", "TOOL_CALL_START"];
    assert_eq!(kinds, [&["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"][..], &starts].concat());
    let ids: Vec<_> = sent(&frames).into_iter().map(|sent| sent.id).collect();
    assert_eq!(ids, [None, None, None, None, None, Some(Cursor::after(9))]);
    let resync = render(Dialect::V1, &[record(9, EventBody::Resync(Arc::new(given.clone())))]);
    assert_eq!(told(&resync), told(&frames));
}

#[test]
fn a_reply_that_has_only_thought_is_no_message_yet() {
    let content = Some(Content::Parts(vec![Part::text(PartKind::Reasoning, "h")]));
    let reply = Message { content, ..Message::empty(Role::Assistant) }.with_id("r".into());
    let mut given = Snapshot {
        interrupts: Vec::new(),
        messages: vec![Arc::new(reply)],
        state: None,
        writing: Some(Writing { reply_id: "r".into(), text: false, reasoning: Some(1), calls: vec![] }),
    };
    let ids = |given: &Snapshot| {
        let told = told(&snapshot(Dialect::V1, given, None));
        told[0]["messages"].as_array().unwrap().iter().map(|message| message["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&given), ["r:reasoning-1"]);
    given.writing = None;
    assert_eq!(ids(&given), ["r:reasoning-1", "r"]);
}

#[test]
fn a_run_starts_and_ends_in_its_readers_dialect() {
    let (thread, run) = ("t".into(), "r".into());
    let started = |dialect| told(&run_started(dialect, &thread, &run, 5));
    assert_eq!(started(Dialect::Legacy), [json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})]);
    assert_eq!(started(Dialect::V1), [json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0"})]);

    let finished = |dialect, outcome| told(&run_finished(dialect, &thread, &run, outcome, &[], 6));
    let plain = [json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})];
    assert_eq!(finished(Dialect::V1, Outcome::Success), plain);
    assert_eq!(finished(Dialect::Legacy, Outcome::Success), plain);
    assert_eq!(finished(Dialect::Legacy, Outcome::Cancelled), plain);
    let cancelled = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "cancelled"}});
    assert_eq!(finished(Dialect::V1, Outcome::Cancelled), [cancelled]);
}

#[test]
fn usage_is_summed_by_model() {
    let usage = |model: &str, input, output| Usage {
        input_tokens: Some(input),
        output_tokens: output,
        model: Some(model.to_owned()),
        ..Usage::default()
    };
    let calls = [usage("a", 10, Some(1)), usage("b", u64::MAX, None), usage("a", 5, Some(2))];
    let told = both(|dialect| run_finished(dialect, &"t".into(), &"r".into(), Outcome::Success, &calls, 6));
    assert_eq!(
        told[0]["usage"],
        json!([{"model": "a", "inputTokens": 15, "outputTokens": 3, "totalTokens": 18}, {"model": "b", "inputTokens": 9_007_199_254_740_991_u64}])
    );
}

#[test]
fn an_error_always_says_something() {
    let told = |message| both(|dialect| run_error(dialect, Code::LlmCut, message, Some(Cursor::after(3))));
    assert_eq!(told("The stream was cut."), [json!({"type": "RUN_ERROR", "message": "The stream was cut.", "code": "llm_cut"})]);
    assert_eq!(told(""), [json!({"type": "RUN_ERROR", "message": "llm_cut", "code": "llm_cut"})]);
}

#[test]
fn a_custom_event_has_any_value() {
    for value in [json!({"new_from": 1}), json!(null), json!([])] {
        let told = both(|dialect| custom(dialect, "headwater.view", &value, None));
        assert_eq!(told, [json!({"type": "CUSTOM", "name": "headwater.view", "value": value})]);
    }
}

#[test]
fn that_room_is_made_is_told_in_words_of_the_dialects_and_where_to_resume() {
    let (turn_id, call_id) = (|| "t1".into(), || "c1".into());
    let limited = |strategy: Option<&str>, window| EventBody::ContextLimited {
        turn_id: turn_id(),
        call_id: call_id(),
        reason: LimitReason::Overflow,
        strategy: strategy.map(str::to_owned),
        tokens: 186_400,
        window,
    };
    let replaced = |call_id| EventBody::ContextReplaced { turn_id: turn_id(), call_id, epoch: 2, tokens: 20, background: true };
    let kept = EventBody::ContextKept { turn_id: turn_id(), call_id: call_id(), reason: KeptReason::NoGain };
    let bodies = [limited(Some("summarize"), Some(200_000)), limited(None, None), replaced(Some(call_id())), replaced(None), kept];
    let said: Vec<Event> = (4..).zip(bodies).map(|(seq, body)| record(seq, body)).collect();
    assert_eq!(
        both(|dialect| render(dialect, &said)),
        [
            json!({"type": "CUSTOM", "name": "context.limited", "value": {
                "turnId": "t1", "callId": "c1", "reason": "overflow", "strategy": "summarize", "tokens": 186_400, "window": 200_000,
            }}),
            json!({"type": "CUSTOM", "name": "context.limited", "value": {
                "turnId": "t1", "callId": "c1", "reason": "overflow", "tokens": 186_400,
            }}),
            json!({"type": "CUSTOM", "name": "context.replaced", "value": {
                "turnId": "t1", "callId": "c1", "epoch": 2, "tokens": 20, "background": true,
            }}),
            json!({"type": "CUSTOM", "name": "context.replaced", "value": {"turnId": "t1", "epoch": 2, "tokens": 20, "background": true}}),
            json!({"type": "CUSTOM", "name": "context.kept", "value": {"turnId": "t1", "callId": "c1", "reason": "no_gain"}}),
        ]
    );
    let cursors: Vec<_> = render(Dialect::V1, &said).iter().map(|(cursor, _)| cursor.unwrap()).collect();
    assert_eq!(cursors, ["4", "5", "6", "7", "8"]);
}
