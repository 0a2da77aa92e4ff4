//! Native JSON is fixed in files: what they hold is read and written again byte by byte (white space aside).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headwater::ids::{CallId, NodeId, TurnId};
use headwater::protocol::{
    CancelReason, Code, Cursor, Event, EventBody, ForkedFrom, Interrupt, KeptReason, LimitReason, Live, Message, NodeKind, OpenCall,
    Resume, ResumeStatus, Role, Snapshot, TriggerKind, Usage, Writing,
};
use serde::Deserialize;

fn json(text: &str) -> headwater::protocol::Json {
    serde_json::from_str(text).unwrap()
}

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

fn interrupt() -> Interrupt {
    let json = |text| serde_json::from_str(text).unwrap();
    Interrupt {
        id: "i1".into(),
        reason: "approval".to_owned(),
        message: Some("Shall I?".to_owned()),
        tool_call_id: Some("call_1".into()),
        payload: Some(json(r#"{"price":120}"#)),
        response_schema: Some(json(r#"{"type":"boolean"}"#)),
        expires_at: Some("2027-01-01T00:00:00Z".to_owned()),
        metadata: Some(json(r#"{"icon":"car"}"#)),
    }
}

fn resume() -> Resume {
    Resume { interrupt_id: "i1".into(), status: ResumeStatus::Resolved, payload: Some(serde_json::from_str("true").unwrap()) }
}

/// One of each kind; the compiler asks for those that come later.
#[expect(clippy::too_many_lines, reason = "one of each kind")]
fn events() -> Vec<Event> {
    let (turn_id, call_id, reply_id) = (TurnId::from("t1"), CallId::from("c1"), NodeId::from("r1"));
    let reply = || Arc::new(Message::text(Role::Assistant, "Hi").with_id("r1".into()));
    let live = |live| EventBody::Live(live);
    let bodies = vec![
        EventBody::SessionCreated { agent_id: "bot".into() },
        EventBody::MessageNew {
            node_id: reply_id.clone(),
            parent_id: Some("u1".into()),
            kind: NodeKind::Message,
            shown_id: Some(reply_id.clone()),
            message: Some(reply()),
            copied_from: None,
            reads_as: None,
            partial: true,
            call_id: Some(call_id.clone()),
            source: None,
        },
        EventBody::SessionForked { agent_id: "bot".into(), from: ForkedFrom { session_id: "s0".into(), node_id: Some("u1".into()) } },
        EventBody::SessionUpdated { title: Some(None), archived: Some(true) },
        EventBody::HeadMoved { head_id: Some("u1".into()), label: Some("before".to_owned()), reads_as: None },
        EventBody::TurnQueued {
            turn_id: turn_id.clone(),
            joined: true,
            agent_id: "bot".into(),
            messages: vec![Arc::new(Message::text(Role::User, "And?").with_id("u2".into()))],
        },
        EventBody::TurnJoined { turn_id: turn_id.clone(), name: "r2".into() },
        EventBody::TurnWaiting { turn_id: turn_id.clone(), calls: vec!["call_1".into()] },
        EventBody::SessionInterrupted { turn_id: turn_id.clone(), interrupts: vec![interrupt()] },
        EventBody::InterruptResumed { turn_id: turn_id.clone(), interrupts: vec![resume()] },
        EventBody::TurnSuspended { turn_id: turn_id.clone() },
        EventBody::TurnStarted { turn_id: turn_id.clone(), agent_id: "bot".into() },
        EventBody::TurnCompleted { turn_id: turn_id.clone() },
        EventBody::TurnFailed { turn_id: turn_id.clone(), code: Code::LlmCut, message: "The stream was cut.".to_owned() },
        EventBody::TurnCancelled { turn_id: turn_id.clone(), reason: Some(CancelReason::BranchLeft), messages: vec!["u2".into()] },
        EventBody::TurnRecovered { turn_id: turn_id.clone() },
        EventBody::ContextLimited {
            turn_id: turn_id.clone(),
            call_id: call_id.clone(),
            reason: LimitReason::Full,
            strategy: Some("summarize".to_owned()),
            tokens: 186_400,
            window: Some(200_000),
        },
        EventBody::ContextReplaced { turn_id: turn_id.clone(), call_id: Some(call_id.clone()), epoch: 1, tokens: 4_200, background: true },
        EventBody::ContextKept { turn_id: turn_id.clone(), call_id: call_id.clone(), reason: KeptReason::SummaryFailed },
        EventBody::ArrivalQueued {
            turn_id: "t2".into(),
            joins: Some(turn_id.clone()),
            messages: vec![Arc::new(Message::text(Role::User, "Shorter, please.").with_id("u3".into()))],
        },
        EventBody::DecisionAsked { turn_id: turn_id.clone(), decision_id: "d1".into(), trigger: TriggerKind::ContextLimit, attempt: 2 },
        EventBody::DecisionAnswered {
            turn_id: turn_id.clone(),
            decision_id: "d1".into(),
            actions: vec!["context.replace".to_owned(), "llm.call".to_owned()],
        },
        EventBody::DecisionFailed {
            turn_id: turn_id.clone(),
            decision_id: "d1".into(),
            attempt: 2,
            code: Code::WorkerTimedOut,
            not_before: Some(1500),
        },
        EventBody::ToolCallStarted { turn_id: turn_id.clone(), tool_call_id: "c1".into(), attempt: 1 },
        EventBody::ToolCallCompleted { turn_id: turn_id.clone(), tool_call_id: "c1".into() },
        EventBody::ToolCallFailed {
            turn_id: turn_id.clone(),
            tool_call_id: "c1".into(),
            attempt: 2,
            code: Code::ToolTimedOut,
            not_before: Some(1500),
        },
        EventBody::StateUpdated { state: None, patch: Some(json(r#"[{"op":"replace","path":"/step","value":2}]"#)) },
        EventBody::AgentUpdated { agent_id: "bot".into(), overridden: vec!["system", "llm"] },
        EventBody::Custom { turn_id: turn_id.clone(), name: "progress".to_owned(), value: serde_json::from_str(r#"{"step":2}"#).unwrap() },
        EventBody::ArrivalConsumed { turn_ids: vec!["t2".into()], call_id: Some(call_id.clone()), into: None },
        EventBody::CallStarted { turn_id, call_id: call_id.clone(), attempt: 1, reply_id: reply_id.clone(), hidden: false, arrivals: 1 },
        EventBody::CallCompleted {
            call_id: call_id.clone(),
            hidden: true,
            usage: Some(Usage { input_tokens: Some(12), output_tokens: Some(3), ..Usage::default() }),
        },
        EventBody::CallFailed { call_id: call_id.clone(), attempt: 1, hidden: false, code: Code::LlmRateLimited, not_before: Some(1500) },
        EventBody::CallVoided { call_id, hidden: false },
        live(Live::TextStarted { reply_id: reply_id.clone() }),
        live(Live::Text { reply_id: reply_id.clone(), delta: "Hi".to_owned() }),
        live(Live::ReasoningStarted { reply_id: reply_id.clone(), index: 1 }),
        live(Live::Reasoning { reply_id: reply_id.clone(), index: 1, delta: "Hm.".to_owned() }),
        live(Live::ReasoningEnded { reply_id: reply_id.clone(), index: 1 }),
        live(Live::ToolCallStarted { reply_id: reply_id.clone(), id: "call_1".into(), name: "weather".to_owned() }),
        live(Live::ToolCallArguments { id: "call_1".into(), delta: "{}".to_owned() }),
        live(Live::ReplyEnded { reply_id: reply_id.clone(), text: true, reasoning: None, calls: vec!["call_1".into()] }),
        EventBody::Resync(Arc::new(Snapshot {
            messages: vec![reply()],
            state: None,
            interrupts: vec![interrupt()],
            writing: Some(Writing {
                reply_id,
                text: true,
                reasoning: None,
                calls: vec![OpenCall { id: "call_1".into(), name: "weather".to_owned() }],
            }),
        })),
    ];
    bodies.into_iter().map(|body| Event { cursor: Some(Cursor { seq: 7, within: Some((1, 2)) }), at: 1000, body }).collect()
}

/// The file that an event's JSON stands in.
fn file_of(body: &EventBody) -> &'static str {
    match body {
        EventBody::SessionCreated { .. } => "session.created",
        EventBody::SessionForked { .. } => "session.forked",
        EventBody::SessionUpdated { .. } => "session.updated",
        EventBody::TurnQueued { .. } => "turn.queued",
        EventBody::TurnJoined { .. } => "turn.joined",
        EventBody::TurnWaiting { .. } => "turn.waiting",
        EventBody::SessionInterrupted { .. } => "session.interrupted",
        EventBody::InterruptResumed { .. } => "session.interrupt_resumed",
        EventBody::TurnSuspended { .. } => "turn.suspended",
        EventBody::MessageNew { .. } => "message.new",
        EventBody::HeadMoved { .. } => "head.moved",
        EventBody::TurnStarted { .. } => "turn.started",
        EventBody::TurnCompleted { .. } => "turn.completed",
        EventBody::TurnFailed { .. } => "turn.failed",
        EventBody::TurnCancelled { .. } => "turn.cancelled",
        EventBody::TurnRecovered { .. } => "turn.recovered",
        EventBody::ContextLimited { .. } => "context.limited",
        EventBody::ContextReplaced { .. } => "context.replaced",
        EventBody::ContextKept { .. } => "context.kept",
        EventBody::DecisionAsked { .. } => "decision.asked",
        EventBody::DecisionAnswered { .. } => "decision.answered",
        EventBody::Custom { .. } => "custom",
        EventBody::DecisionFailed { .. } => "decision.failed",
        EventBody::ToolCallStarted { .. } => "tool.call.started",
        EventBody::ToolCallCompleted { .. } => "tool.call.completed",
        EventBody::ToolCallFailed { .. } => "tool.call.failed",
        EventBody::StateUpdated { .. } => "state.updated",
        EventBody::AgentUpdated { .. } => "agent.updated",
        EventBody::ArrivalQueued { .. } => "arrival.queued",
        EventBody::ArrivalConsumed { .. } => "arrival.consumed",
        EventBody::CallStarted { .. } => "llm.call.started",
        EventBody::CallCompleted { .. } => "llm.call.completed",
        EventBody::CallFailed { .. } => "llm.call.failed",
        EventBody::CallVoided { .. } => "call.voided",
        EventBody::Resync(_) => "session.snapshot",
        EventBody::Live(live) => match live {
            Live::TextStarted { .. } => "llm.delta.text_started",
            Live::Text { .. } => "llm.delta.text",
            Live::ReasoningStarted { .. } => "llm.delta.reasoning_started",
            Live::Reasoning { .. } => "llm.delta.reasoning",
            Live::ReasoningEnded { .. } => "llm.delta.reasoning_ended",
            Live::ToolCallStarted { .. } => "llm.delta.tool_call_started",
            Live::ToolCallArguments { .. } => "llm.delta.tool_call_arguments",
            Live::ReplyEnded { .. } => "llm.delta.reply_ended",
        },
    }
}

#[test]
fn each_event_is_written_as_its_file_says() {
    let folder = fixtures().join("events");
    let events = events();
    for event in &events {
        let path = folder.join(format!("{}.json", file_of(&event.body)));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(serde_json::to_string(event).unwrap(), compact(&text), "{}", path.display());
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), events.len(), "one file a kind");
}
