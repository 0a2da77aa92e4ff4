//! A submit's stream, piece by piece.

use serde_json::{Value, json};

use super::*;
use crate::protocol::{Accepted, CancelReason, Live, Snapshot};
use crate::runtime::{Sink, channel};

fn stream(following: Following, snapshot: Option<Snapshot>) -> TurnStream {
    let accepted = Accepted::plain("s1".into(), "t1".into());
    let submitted =
        Submitted { accepted, snapshot: snapshot.map(Arc::new), state: None, room: Vec::new(), cursor: Cursor::after(3), following };
    TurnStream::new(submitted, CancellationToken::new())
}

fn running() -> (Sink, TurnStream) {
    let (sink, reader) = channel(4, 1 << 20);
    (sink, stream(Following::Running(reader), None))
}

fn batch(bodies: Vec<EventBody>) -> Arc<Batch> {
    Arc::new(Batch::new(bodies.into_iter().map(|body| Event { cursor: Some(Cursor::after(4)), at: 7, body }).collect()))
}

fn text(piece: Option<Bytes>) -> String {
    String::from_utf8(piece.expect("a piece").to_vec()).unwrap()
}

#[tokio::test]
async fn it_begins_with_what_was_accepted_and_ends_with_the_turn() {
    let (sink, mut stream) = running();
    let first = text(stream.next().await);
    let data = first.strip_prefix("event: accepted\nid: 3\ndata: ").and_then(|rest| rest.strip_suffix("\n\n")).expect("one frame");
    assert_eq!(serde_json::from_str::<Value>(data).unwrap()["turn_id"], "t1");
    assert_eq!(stream.end(), None);
    for delta in ["Hel", "lo"] {
        let live = Live::Text { reply_id: "a1".into(), delta: delta.to_owned() };
        assert!(sink.send(&batch(vec![EventBody::Live(live)])));
    }
    assert!(sink.send(&batch(vec![EventBody::TurnCompleted { turn_id: "t1".into() }])));
    let rest = text(stream.next().await);
    assert_eq!(rest.matches("\n\n").count(), 3, "what is ready goes out as one piece: {rest}");
    assert!(rest.ends_with("id: 4\ndata: {\"cursor\":\"4\",\"at\":7,\"type\":\"turn.completed\",\"turn_id\":\"t1\"}\n\n"), "{rest}");
    assert_eq!(stream.end(), Some("completed"));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn another_turns_end_is_not_its_own() {
    let (sink, mut stream) = running();
    let _ = stream.next().await;
    let other = EventBody::TurnCancelled { turn_id: "t0".into(), reason: Some(CancelReason::Superseded), messages: Vec::new() };
    assert!(sink.send(&batch(vec![other])));
    assert!(text(stream.next().await).contains("superseded"));
    assert_eq!(stream.end(), None);
    assert!(sink.send(&batch(vec![EventBody::TurnWaiting { turn_id: "t1".into(), calls: vec!["c1".into()] }])));
    assert!(text(stream.next().await).contains(r#""calls":["c1"]"#));
    assert_eq!(stream.end(), Some("waiting"));
}

#[tokio::test]
async fn a_turn_of_before_is_shown_and_ended() {
    let ends = [
        (TurnEnd::Completed, "completed", json!({"turn_id": "t1"})),
        (TurnEnd::Cancelled, "cancelled", json!({"turn_id": "t1"})),
        (TurnEnd::Waiting { calls: vec!["c1".into()] }, "waiting", json!({"turn_id": "t1", "calls": ["c1"]})),
        (
            TurnEnd::Failed { code: Code::LlmRefused, message: "no".to_owned() },
            "failed",
            json!({"turn_id": "t1", "code": "llm_refused", "message": "no"}),
        ),
    ];
    for (end, word, fields) in ends {
        let mut stream = stream(Following::Ended(end), Some(Snapshot::default()));
        let all = text(stream.next().await);
        let frames: Vec<&str> = all.split_terminator("\n\n").collect();
        assert!(frames[0].starts_with("event: accepted\n") && frames[1].contains(r#""type":"session.snapshot""#), "{all}");
        let mut last: Value = serde_json::from_str(frames[2].strip_prefix("data: ").unwrap()).unwrap();
        let fields_of = last.as_object_mut().unwrap();
        assert!(fields_of.remove("at").is_some());
        assert_eq!(fields_of.remove("type"), Some(json!(format!("turn.{word}"))));
        assert_eq!(last, fields);
        assert_eq!(stream.end(), Some(word));
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn a_reader_that_falls_behind_is_told_so() {
    let (sink, mut stream) = running();
    let _ = stream.next().await;
    while sink.send(&batch(vec![EventBody::TurnRecovered { turn_id: "t1".into() }])) {}
    drop(sink);
    let mut all = String::new();
    while let Some(piece) = stream.next().await {
        all.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert!(all.ends_with("the turn goes on\"}\n\n") && all.contains("event: refusal\ndata: {\"error\":\"too_slow\""), "{all}");
    assert_eq!(stream.end(), Some("too_slow"));
}

#[tokio::test]
async fn a_session_that_is_lost_says_why() {
    let refused = async |fail: Option<Code>, draining: bool| {
        let (sink, mut stream) = running();
        let _ = stream.next().await;
        if draining {
            stream.draining.cancel();
        }
        if let Some(code) = fail {
            sink.fail(code);
        } else {
            drop(sink);
        }
        let all = text(stream.next().await);
        assert!(stream.next().await.is_none());
        let data = all.strip_prefix("event: refusal\ndata: ").expect("a refusal").trim_end();
        serde_json::from_str::<Value>(data).unwrap()["error"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(None, true).await, "shutting_down");
    assert_eq!(refused(None, false).await, "internal");
    assert_eq!(refused(Some(Code::StoreUnavailable), false).await, "store_unavailable");
    assert_eq!(refused(Some(Code::SessionDeleted), false).await, "session_deleted");
}

#[test]
fn a_batch_is_rendered_once_for_all_its_readers() {
    let told = batch(vec![EventBody::TurnCompleted { turn_id: "t1".into() }]);
    let one = told.rendered(RENDERING, render).sse.as_ptr();
    assert_eq!(told.rendered(RENDERING, render).sse.as_ptr(), one);
}
