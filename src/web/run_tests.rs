//! Runs fed by hand.

use std::sync::Arc;

use super::*;
use crate::ids::NodeId;
use crate::protocol::{Code, Cursor, Ignored, IgnoredReason, Live, Message, Role};
use crate::runtime::{Batch, Sink, channel};

/// The types of what was told, in order.
#[derive(Default, Debug)]
struct Told(Vec<Value>);

impl Chunk for Told {
    fn add(&mut self, frames: &Frames) {
        self.0.extend(frames.texts().map(|text| serde_json::from_slice::<Value>(&text).unwrap()));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl Told {
    fn types(&self) -> Vec<&str> {
        self.0.iter().map(|event| event["type"].as_str().unwrap()).collect()
    }
}

fn names(dialect: Dialect) -> Names {
    Names { dialect, thread: "s1".into(), run: "r1".into() }
}

fn accepted() -> Accepted {
    Accepted { new_from: Some(0), ..Accepted::plain("s1".into(), "r1".into()) }
}

fn submitted(accepted: Accepted, following: Following) -> Submitted {
    Submitted { accepted, snapshot: None, state: None, room: Vec::new(), cursor: Cursor::after(1), following }
}

fn running(dialect: Dialect) -> (Sink, RunStream) {
    let (sink, reader) = channel(4, 1 << 20);
    let stream = RunStream::submitted(names(dialect), submitted(accepted(), Following::Running(reader)), CancellationToken::new());
    (sink, stream)
}

fn batch(bodies: Vec<EventBody>) -> Arc<Batch> {
    Arc::new(Batch::new(bodies.into_iter().map(|body| Event { cursor: None, at: 0, body }).collect()))
}

fn reply() -> NodeId {
    "a1".into()
}

fn text(delta: &str) -> EventBody {
    EventBody::Live(Live::Text { reply_id: reply(), delta: delta.to_owned() })
}

fn text_started() -> EventBody {
    EventBody::Live(Live::TextStarted { reply_id: reply() })
}

fn text_ended() -> EventBody {
    EventBody::Live(Live::ReplyEnded { reply_id: reply(), text: true, reasoning: None, calls: Vec::new() })
}

fn call_completed(usage: Option<Usage>) -> EventBody {
    EventBody::CallCompleted { call_id: "c1".into(), hidden: false, usage }
}

fn completed() -> EventBody {
    EventBody::TurnCompleted { turn_id: "r1".into() }
}

#[tokio::test]
async fn what_is_ready_comes_together_and_the_terminal_with_it() {
    let (sink, mut stream) = running(Dialect::Legacy);
    assert!(sink.send(&batch(vec![text_started(), text("He")])));
    assert!(sink.send(&batch(vec![text("llo"), text_ended(), completed()])));
    let told: Told = stream.next().await.unwrap();
    assert_eq!(
        told.types(),
        ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    );
    assert_eq!(stream.end(), Some(&RunEnd::Turn(TurnEnd::Completed)));
    assert!(stream.next::<Told>().await.is_none(), "nothing after the terminal");
}

#[tokio::test(start_paused = true)]
async fn the_opening_waits_for_the_first_words_but_not_for_long() {
    let (sink, mut stream) = running(Dialect::Legacy);
    let (told, ()) = tokio::join!(stream.first::<Told>(Duration::from_millis(10)), async {
        tokio::time::sleep(Duration::from_millis(3)).await;
        assert!(sink.send(&batch(vec![EventBody::TurnStarted { turn_id: "r1".into(), agent_id: "demo".into() }])));
        tokio::time::sleep(Duration::from_millis(3)).await;
        assert!(sink.send(&batch(vec![text_started(), text("He")])));
    });
    assert_eq!(told.types(), ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]);

    let (_sink, mut silent) = running(Dialect::Legacy);
    let told: Told = silent.first(Duration::from_millis(10)).await;
    assert_eq!(told.types(), ["RUN_STARTED"]);
    assert_eq!(silent.end(), None);
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let (sink, mut stream) = running(Dialect::Legacy);
    assert_eq!(stream.next::<Told>().await.unwrap().types(), ["RUN_STARTED"]);
    for _ in 0..3 {
        let given_up = tokio::select! {
            biased;
            _ = stream.next::<Told>() => false,
            () = std::future::ready(()) => true,
        };
        assert!(given_up);
    }
    assert!(sink.send(&batch(vec![text_started()])));
    assert_eq!(stream.next::<Told>().await.unwrap().types(), ["TEXT_MESSAGE_START"]);
}

#[tokio::test]
async fn another_turns_end_is_not_this_ones() {
    let (sink, mut stream) = running(Dialect::Legacy);
    assert!(sink.send(&batch(vec![EventBody::TurnCompleted { turn_id: "r0".into() }, text_started()])));
    assert_eq!(stream.next::<Told>().await.unwrap().types(), ["RUN_STARTED", "TEXT_MESSAGE_START"]);
    assert_eq!(stream.end(), None);
}

#[tokio::test]
async fn a_failure_has_a_code_and_words() {
    for (message, told_message) in [("the model is down", "the model is down"), ("", "llm_unavailable")] {
        let (sink, mut stream) = running(Dialect::V1);
        let failed = EventBody::TurnFailed { turn_id: "r1".into(), code: Code::LlmUnavailable, message: message.to_owned() };
        assert!(sink.send(&batch(vec![failed])));
        let told: Told = stream.next().await.unwrap();
        assert_eq!(told.types(), ["RUN_STARTED", "RUN_ERROR"]);
        assert_eq!(told.0[1]["code"], "llm_unavailable");
        assert_eq!(told.0[1]["message"], told_message);
    }
}

#[tokio::test]
async fn cancelled_is_told_to_those_who_can_read_it() {
    for (dialect, outcome) in [(Dialect::V1, json!({"type": "cancelled"})), (Dialect::Legacy, Value::Null)] {
        let (sink, mut stream) = running(dialect);
        assert!(sink.send(&batch(vec![EventBody::TurnCancelled { turn_id: "r1".into(), reason: None, messages: Vec::new() }])));
        let told: Told = stream.next().await.unwrap();
        assert_eq!(told.types(), ["RUN_STARTED", "RUN_FINISHED"]);
        assert_eq!(told.0[1]["outcome"], outcome);
        assert_eq!(stream.end(), Some(&RunEnd::Turn(TurnEnd::Cancelled)));
    }
}

#[tokio::test]
async fn tokens_ride_in_the_terminal() {
    let (sink, mut stream) = running(Dialect::V1);
    let usage =
        |input, output| Usage { input_tokens: Some(input), output_tokens: Some(output), model: Some("m".into()), ..Usage::default() };
    assert!(sink.send(&batch(vec![call_completed(Some(usage(10, 2))), call_completed(None)])));
    assert!(sink.send(&batch(vec![call_completed(Some(usage(20, 3))), completed()])));
    let told: Told = stream.next().await.unwrap();
    let usage = &told.0.last().unwrap()["usage"];
    assert_eq!((&usage[0]["inputTokens"], &usage[0]["outputTokens"], &usage[0]["model"]), (&json!(30), &json!(5), &json!("m")));
}

#[tokio::test]
async fn a_reader_that_is_dropped_gets_one_terminal_that_says_why() {
    let (sink, mut slow) = running(Dialect::Legacy);
    while sink.send(&batch(vec![text("x")])) {}
    drop(sink);
    let mut told: Told = slow.next().await.unwrap();
    told.0.extend(slow.next::<Told>().await.unwrap().0);
    assert_eq!(told.types().iter().filter(|kind| **kind == "RUN_ERROR").count(), 1);
    assert_eq!(told.0.last().unwrap()["code"], "too_slow");
    assert_eq!(slow.end(), Some(&RunEnd::Slow));
    assert!(slow.next::<Told>().await.is_none());

    let failed = Some(Code::StoreUnavailable);
    for (draining, failed, code) in [(true, None, "shutting_down"), (false, None, "internal"), (false, failed, "store_unavailable")] {
        let (sink, reader) = channel(1, 1 << 20);
        let token = CancellationToken::new();
        let mut stream = RunStream::submitted(names(Dialect::V1), submitted(accepted(), Following::Running(reader)), token.clone());
        assert_eq!(stream.next::<Told>().await.unwrap().types(), ["RUN_STARTED"]);
        if draining {
            token.cancel();
        }
        match failed {
            None => drop(sink),
            Some(failed) => sink.fail(failed),
        }
        assert_eq!(stream.next::<Told>().await.unwrap().0[0]["code"], code);
    }
}

#[tokio::test]
async fn what_became_of_the_view_is_never_silent() {
    let mut accepted = accepted();
    accepted.new_from = Some(2);
    accepted.implied = vec!["u2".into()];
    accepted.implied_count = 1;
    accepted.ignored = vec![Ignored { index: 3, id: Some("x".into()), reason: IgnoredReason::NotFromClients }];
    accepted.ignored_edits = vec!["u1".into()];
    accepted.ignored_tools = vec!["look".to_owned()];
    let submitted = Submitted {
        snapshot: Some(Arc::new(Snapshot {
            messages: vec![Arc::new(Message::text(Role::User, "hi").with_id("u1".into()))],
            ..Snapshot::default()
        })),
        ..submitted(accepted, Following::Ended(TurnEnd::Completed))
    };
    let mut stream = RunStream::submitted(names(Dialect::Legacy), submitted, CancellationToken::new());
    let told: Told = stream.first(Duration::ZERO).await;
    assert_eq!(told.types(), ["RUN_STARTED", "CUSTOM", "CUSTOM", "CUSTOM", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(told.0[1]["name"], "headwater.view");
    assert_eq!(
        told.0[1]["value"],
        json!({
            "new_from": 2,
            "implied": ["u2"],
            "implied_count": 1,
            "ignored": [{"index": 3, "id": "x", "reason": "not_from_clients"}],
        })
    );
    assert_eq!(told.0[2]["value"], json!({"message_ids": ["u1"]}));
    assert_eq!((&told.0[3]["name"], &told.0[3]["value"]), (&json!("headwater.ignored_tools"), &json!({"names": ["look"]})));
    assert!(stream.next::<Told>().await.is_none());
}

#[tokio::test]
async fn a_session_that_is_not_there_is_an_empty_conversation() {
    let mut stream = RunStream::empty(names(Dialect::V1), CancellationToken::new());
    let told: Told = stream.first(Duration::from_mins(1)).await;
    assert_eq!(told.types(), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(told.0[1]["messages"], json!([]));
}

/// A run `r1` whose turn is `turn` and waits for another.
fn queued(dialect: Dialect, turn: &str) -> (Sink, RunStream) {
    let (sink, reader) = channel(4, 1 << 20);
    let accepted =
        Accepted { queued: true, position: Some(1), ignored_edits: vec!["u1".into()], ..Accepted::plain("s1".into(), turn.into()) };
    let submitted = Submitted { snapshot: Some(snapshot("as it was")), ..submitted(accepted, Following::Running(reader)) };
    (sink, RunStream::submitted(names(dialect), submitted, CancellationToken::new()))
}

fn snapshot(text: &str) -> Arc<Snapshot> {
    Arc::new(Snapshot { messages: vec![Arc::new(Message::text(Role::User, text).with_id("u1".into()))], ..Snapshot::default() })
}

fn began(turn: &str) -> EventBody {
    EventBody::TurnStarted { turn_id: turn.into(), agent_id: "demo".into() }
}

fn cancelled(turn: &str) -> EventBody {
    EventBody::TurnCancelled { turn_id: turn.into(), reason: None, messages: Vec::new() }
}

#[tokio::test]
async fn a_queued_run_begins_with_its_turn_and_the_conversation_as_it_is_then() {
    for turn in ["r1", "another run's"] {
        let (sink, mut stream) = queued(Dialect::Legacy, turn);
        assert!(stream.first::<Told>(Duration::from_mins(1)).await.is_empty(), "nothing is told before");
        assert!(stream.is_queued());
        assert!(sink.send(&batch(vec![cancelled("r0"), text("r0's")])));
        assert!(sink.send(&batch(vec![began(turn), EventBody::Resync(snapshot("as it is"))])));
        assert!(sink.send(&batch(vec![text_started(), text_ended(), EventBody::TurnCompleted { turn_id: turn.into() }])));
        let told: Told = stream.next().await.unwrap();
        let types = ["RUN_STARTED", "CUSTOM", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"];
        assert_eq!(told.types(), types);
        assert_eq!((&told.0[0]["runId"], &told.0[2]["messages"][0]["content"]), (&json!("r1"), &json!("as it is")));
        assert!(!stream.is_queued());
        assert!(stream.next::<Told>().await.is_none());
    }
}

#[tokio::test]
async fn a_queued_run_that_never_begins_has_a_start_and_an_end() {
    for (dialect, outcome) in [(Dialect::V1, json!({"type": "cancelled"})), (Dialect::Legacy, Value::Null)] {
        let (sink, mut stream) = queued(dialect, "r1");
        assert!(sink.send(&batch(vec![cancelled("r1")])));
        let told: Told = stream.next().await.unwrap();
        assert_eq!(told.types(), ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]);
        assert_eq!(told.0[2]["outcome"], outcome);
        assert!(stream.next::<Told>().await.is_none());
    }
}

#[tokio::test]
async fn a_queued_run_that_is_lost_is_an_error_alone() {
    let (sink, mut stream) = queued(Dialect::V1, "r1");
    sink.fail(Code::StoreUnavailable);
    let told: Told = stream.next().await.unwrap();
    assert_eq!(told.types(), ["RUN_ERROR"]);
    assert_eq!(told.0[0]["code"], "store_unavailable");
    assert!(stream.next::<Told>().await.is_none());
}

/// The outcome of a run that ended because its turn waits for `c1` and `c2`.
fn pending(dialect: Dialect) -> Value {
    match dialect {
        Dialect::V1 => json!({"type": "success", "pendingToolCallIds": ["c1", "c2"]}),
        Dialect::Legacy => Value::Null,
    }
}

#[tokio::test]
async fn a_run_ends_well_when_its_turn_waits_and_those_who_can_read_it_learn_for_what() {
    for dialect in Dialect::ALL {
        let (sink, mut stream) = running(dialect);
        let calls = vec!["c1".into(), "c2".into()];
        assert!(sink.send(&batch(vec![EventBody::TurnWaiting { turn_id: "r0".into(), calls: calls.clone() }])));
        assert!(sink.send(&batch(vec![EventBody::TurnWaiting { turn_id: "r1".into(), calls: calls.clone() }])));
        let told: Told = stream.next().await.unwrap();
        assert_eq!(told.types(), ["RUN_STARTED", "RUN_FINISHED"]);
        assert_eq!(told.0[1]["outcome"], pending(dialect));
        assert_eq!(stream.end(), Some(&RunEnd::Turn(TurnEnd::Waiting { calls })));
        assert!(stream.next::<Told>().await.is_none());
    }
}

#[tokio::test]
async fn a_run_whose_results_were_not_the_last_ends_at_once_with_what_is_left() {
    for dialect in Dialect::ALL {
        let accepted = Accepted { reply: false, waiting: vec!["c1".into(), "c2".into()], ..Accepted::plain("s1".into(), "r0".into()) };
        let submitted = submitted(accepted, Following::Ended(TurnEnd::Completed));
        let mut stream = RunStream::submitted(names(dialect), submitted, CancellationToken::new());
        let told: Told = stream.first(Duration::ZERO).await;
        assert_eq!(told.types(), ["RUN_STARTED", "RUN_FINISHED"]);
        assert_eq!((&told.0[1]["outcome"], &told.0[1]["runId"]), (&pending(dialect), &json!("r1")));
    }
}

#[tokio::test]
async fn who_joins_while_a_turn_waits_sees_its_calls_and_an_end() {
    for dialect in Dialect::ALL {
        let call = crate::protocol::ToolCall::new("c1".into(), "weather", "{}");
        let asks = Message { tool_calls: vec![call], ..Message::empty(Role::Assistant) }.with_id(reply());
        let snapshot = Arc::new(Snapshot { messages: vec![Arc::new(asks)], ..Snapshot::default() });
        let waiting = vec!["c1".into(), "c2".into()];
        let joined = Joined {
            snapshot,
            room: Vec::new(),
            cursor: Cursor::after(1),
            running: None,
            waiting: Waits { calls: waiting, ..Waits::default() },
        };
        let mut stream = RunStream::joined(names(dialect), joined, CancellationToken::new());
        let told: Told = stream.first(Duration::from_mins(1)).await;
        assert_eq!(told.types(), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
        assert_eq!(told.0[1]["messages"][0]["toolCalls"][0]["id"], "c1");
        assert_eq!(told.0[2]["outcome"], pending(dialect));
    }
}

#[tokio::test]
async fn a_run_that_goes_on_with_a_turn_ends_with_that_and_reports_its_own_tokens() {
    let (sink, reader) = channel(4, 1 << 20);
    let accepted = Accepted::plain("s1".into(), "r0".into());
    let mut stream = RunStream::submitted(names(Dialect::V1), submitted(accepted, Following::Running(reader)), CancellationToken::new());
    let usage = Usage { input_tokens: Some(3), ..Usage::default() };
    assert!(sink.send(&batch(vec![call_completed(Some(usage)), EventBody::TurnCompleted { turn_id: "r0".into() }])));
    let told: Told = stream.next().await.unwrap();
    assert_eq!(told.types(), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!((&told.0[1]["runId"], &told.0[1]["usage"][0]["inputTokens"]), (&json!("r1"), &json!(3)));
}
