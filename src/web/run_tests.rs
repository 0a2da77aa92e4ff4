//! Runs fed by hand.

use std::sync::Arc;

use super::*;
use crate::ids::NodeId;
use crate::protocol::{Code, Cursor, Ignored, IgnoredReason, Live, Message, Role};
use crate::runtime::{Sink, channel};

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
    Submitted { accepted, snapshot: None, cursor: Cursor::after(1), following }
}

fn running(dialect: Dialect) -> (Sink, RunStream) {
    let (sink, reader) = channel(4);
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
        assert!(sink.send(&batch(vec![EventBody::TurnCancelled { turn_id: "r1".into() }])));
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
        let (sink, reader) = channel(1);
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
    let submitted = Submitted {
        snapshot: Some(Arc::new(Snapshot {
            messages: vec![Arc::new(Message::text(Role::User, "hi").with_id("u1".into()))],
            ..Snapshot::default()
        })),
        ..submitted(accepted, Following::Ended(TurnEnd::Completed))
    };
    let mut stream = RunStream::submitted(names(Dialect::Legacy), submitted, CancellationToken::new());
    let told: Told = stream.first(Duration::ZERO).await;
    assert_eq!(told.types(), ["RUN_STARTED", "CUSTOM", "CUSTOM", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
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
    assert!(stream.next::<Told>().await.is_none());
}

#[tokio::test]
async fn a_session_that_is_not_there_is_an_empty_conversation() {
    let mut stream = RunStream::empty(names(Dialect::V1), CancellationToken::new());
    let told: Told = stream.first(Duration::from_mins(1)).await;
    assert_eq!(told.types(), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(told.0[1]["messages"], json!([]));
}
