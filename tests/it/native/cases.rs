//! Cases from other systems' trackers, on the native API.

use serde_json::{Value, json};

use super::{Told, kinds, message, said, told, with};
use crate::app::TestApp;
use crate::http::{self, Exchange};

/// What a stream tells after the first event of a kind.
fn after<'t>(told: &'t [Told], kind: &str) -> &'t [Told] {
    let at = told.iter().position(|told| told.kind() == kind).unwrap_or_else(|| panic!("no {kind}: {:?}", kinds(told)));
    &told[at + 1..]
}

#[tokio::test]
async fn b06_the_same_id_merged_twice_is_one_message() {
    let app = TestApp::start();
    app.taken("s1", &message("t0", "long")).await;
    let say = |turn: &str, id: &str| json!({"type": "client.append", "agent_id": "demo", "turn_id": turn, "queue": "merge", "messages": [{"id": id, "role": "user", "content": "yes"}]});
    app.taken("s1", &say("t1", "u-a")).await;
    let again = app.taken("s1", &say("t2", "u-a")).await;
    assert_eq!((&again["duplicate"], &again["turn_id"]), (&json!(true), &json!("t1")));
    app.taken("s1", &say("t3", "u-b")).await;
    let waiting = app.page("s1").await["queue"][0]["messages"].as_array().unwrap().clone();
    assert_eq!(
        waiting.iter().map(|message| message["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["u-a", "u-b"],
        "equal content is no duplicate"
    );
}

#[tokio::test]
async fn b13_a_stop_reaches_a_stream_that_was_resumed() {
    let app = TestApp::start();
    let mut first = app.follow("s1", &message("t1", "long")).await;
    first.until("\"part\":\"text\"").await;
    let last = told(&http::body(&first.got)).last().expect("a piece").id.clone();
    drop(first);
    let resumed = async || {
        let headers = [("Last-Event-ID", last.as_str())];
        let mut stream = Exchange::send(app.address, "GET", "/v1/sessions/s1/events", &headers, None).await;
        stream.until("\"part\":\"text\"").await;
        stream
    };
    let (mut one, mut two) = (resumed().await, resumed().await);
    assert_eq!(app.page("s1").await["status"], "running", "going away stops nothing");
    assert_eq!(app.taken("s1", &json!({"type": "client.cancel"})).await, json!({"cancelled": true}));
    for stream in [&mut one, &mut two] {
        stream.until("turn.cancelled").await;
    }
    let next = app.streamed("s1", &message("t2", "hello")).await;
    assert_eq!(said(&next), "You said: hello", "the session goes on");
    for mut stream in [one, two] {
        stream.until("\"turn_id\":\"t2\"}").await;
        stream.until("turn.completed").await;
        let told = told(&http::body(&stream.got));
        let ends = told.iter().filter(|told| told.data["turn_id"] == "t1" && told.kind() != "turn.started").count();
        assert_eq!(ends, 1, "one end: {:?}", kinds(&told));
        let rest = after(&told, "turn.cancelled");
        assert_eq!(rest.first().map(Told::kind), Some("message.new"), "nothing of it after its end: {:?}", kinds(&told));
        assert!(rest.iter().all(|told| !told.data["delta"].as_str().unwrap_or_default().contains("word")), "{:?}", kinds(&told));
    }
}

#[tokio::test]
async fn b15_the_sequence_goes_on_with_the_next_turn() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "one")).await;
    let mut events = Exchange::send(app.address, "GET", "/v1/sessions/s1/events?after=0", &[], None).await;
    events.until("turn.completed").await;
    app.streamed("s1", &message("t2", "two")).await;
    events.until("\"type\":\"turn.completed\",\"turn_id\":\"t2\"").await;
    let ids: Vec<(u64, u64, u64)> = told(&http::body(&events.got))
        .iter()
        .filter(|told| !told.id.is_empty())
        .map(|told| {
            let mut parts = told.id.split('.').map(|part| part.parse().unwrap());
            (parts.next().unwrap(), parts.next().unwrap_or(0), parts.next().unwrap_or(0))
        })
        .collect();
    assert!(ids.len() > 10 && ids.is_sorted_by(|one, next| one < next), "{ids:?}");
}

#[tokio::test]
async fn b18_a_stop_between_two_results_leaves_a_session_that_goes_on() {
    let app = TestApp::start();
    let tools = json!({"tools": [{"name": "paint"}]});
    let waiting = app.streamed("s1", &with(message("t1", "paint twice"), "client", tools)).await;
    let calls: Vec<Value> = waiting.last().unwrap().data["calls"].as_array().unwrap().clone();
    app.taken("s1", &json!({"type": "tool.result", "tool_call_id": calls[0], "content": "red"})).await;
    assert_eq!(app.taken("s1", &json!({"type": "client.cancel"})).await, json!({"cancelled": true}));
    let late = app.input("s1", &json!({"type": "tool.result", "tool_call_id": calls[1], "content": "blue"})).await;
    assert_eq!(late.refusal(), (409, "call_not_open".to_owned()));
    let next = app.streamed("s1", &message("t2", "never mind")).await;
    assert_eq!((kinds(&next).last(), said(&next).as_str()), (Some(&"turn.completed"), "You said: never mind"));
    let results: Vec<Value> = app.nodes("s1").await.into_iter().filter(|node| node["message"]["role"] == "tool").collect();
    assert_eq!(results.len(), 1, "the real result is kept, no other is made up: {results:?}");
    assert_eq!(results[0]["message"]["content"], "red");
}
