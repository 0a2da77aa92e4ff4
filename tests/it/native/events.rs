//! Events from any place on: all of them, once, in order.

use serde_json::json;

use super::{Told, kinds, message, said, told, with};
use crate::app::TestApp;
use crate::http::{self, Exchange};

async fn open(app: &TestApp, query: &str, last_event_id: Option<&str>) -> Exchange {
    let path = format!("/v1/sessions/s1/events{query}");
    let headers: Vec<_> = last_event_id.iter().map(|id| ("Last-Event-ID", *id)).collect();
    Exchange::send(app.address, "GET", &path, &headers, None).await
}

/// What a reader gets until `text` has come.
async fn until(mut stream: Exchange, text: &str) -> Vec<Told> {
    stream.until(text).await;
    told(&http::body(&stream.got))
}

#[tokio::test]
async fn everything_from_the_start() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let mut stream = open(&app, "?after=0", None).await;
    stream.until("turn.completed").await;
    let body = http::body(&stream.got);
    assert!(body.starts_with("retry: 1000\n\n"), "{body}");
    let told = told(&body);
    assert_eq!(
        kinds(&told),
        ["session.created", "message.new", "turn.started", "llm.call.started", "message.new", "llm.call.completed", "turn.completed"]
    );
    let ids: Vec<_> = told.iter().map(|told| told.id.as_str()).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "7"], "one cursor a record");
    assert!(told.iter().all(|told| told.data["cursor"] == told.id && told.data["at"].is_u64()));
    assert_eq!(told[1].data["message"]["content"], "hello");
    assert_eq!(told[1].data["shown_id"], "u-t1");
}

#[tokio::test]
async fn without_a_place_only_what_comes() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let mut stream = open(&app, "", None).await;
    stream.until("retry: 1000").await;
    app.streamed("s1", &message("t2", "more")).await;
    let told = until(stream, "turn.completed").await;
    assert_eq!(kinds(&told)[..2], ["message.new", "turn.started"]);
    assert_eq!((told[1].data["turn_id"].clone(), said(&told).as_str()), (json!("t2"), "You said: more"));
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_and_doubles_nothing() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    app.streamed("s1", &message("t2", "more")).await;
    let end = "\"type\":\"turn.completed\",\"turn_id\":\"t2\"}\n\n";
    let all = until(open(&app, "?after=0", None).await, end).await;
    assert!(all.len() > 10, "{}", all.len());
    for cut in 1..all.len() {
        let rest = until(open(&app, "?after=0", Some(&all[cut - 1].id)).await, end).await;
        assert_eq!(rest[0], all[cut], "after {}", all[cut - 1].id);
        assert!(rest.windows(2).all(|pair| pair[0].id != pair[1].id));
    }
    let after = until(open(&app, "?after=5", None).await, end).await;
    assert_eq!(after[0], all[5]);
}

#[tokio::test]
async fn a_reader_comes_back_in_the_middle_of_a_reply() {
    let app = TestApp::start();
    let mut turn = app.follow("s1", &message("t1", "long")).await;
    turn.until("event: accepted").await;
    let mut first = open(&app, "?after=0", None).await;
    first.until("\"part\":\"text\"").await;
    drop(first);
    turn.until("\"part\":\"text\"").await;
    let begun = told(&http::body(&turn.got));
    let within: Vec<_> = begun.iter().filter(|told| told.data["part"] == "text").collect();
    let at = within[0].id.clone();
    assert_eq!(at.split('.').count(), 3, "inside the call: {at}");
    let mut second = open(&app, "", Some(&at)).await;
    second.until("\"part\":\"text\"").await;
    app.taken("s1", &json!({"type": "client.cancel"})).await;
    let rest = until(second, "turn.cancelled").await;
    let partial = rest.iter().find(|told| told.kind() == "message.new").expect("what was said is kept");
    let before = within[0].data["delta"].as_str().unwrap();
    assert_eq!(partial.data["message"]["content"], json!(format!("{before}{}", said(&rest))), "the two readings are the whole");
}

#[tokio::test]
async fn a_queue_and_its_ends_are_told() {
    let app = TestApp::start();
    app.taken("s1", &message("t1", "long")).await;
    app.taken("s1", &with(message("t2", "two"), "queue", json!("merge"))).await;
    app.taken("s1", &with(message("t3", "three"), "queue", json!("merge"))).await;
    app.ask("PATCH", "/v1/sessions/s1", Some(&json!({"title": "Three"}))).await;
    app.taken("s1", &json!({"type": "client.cancel", "turn_id": "t3"})).await;
    app.ask("POST", "/v1/sessions/s1/head", Some(&json!({"node_id": null}))).await;
    app.idle("s1").await;
    let told = until(open(&app, "?after=0", None).await, "head.moved").await;
    let queued: Vec<_> = told.iter().filter(|told| told.kind() == "turn.queued").collect();
    assert_eq!((&queued[0].data["turn_id"], queued[0].data.get("joined")), (&json!("t2"), None));
    assert_eq!((&queued[1].data["turn_id"], &queued[1].data["joined"]), (&json!("t2"), &json!(true)));
    let cancelled: Vec<_> = told.iter().filter(|told| told.kind() == "turn.cancelled").collect();
    assert_eq!(cancelled[0].data["messages"], json!(["u-t2", "u-t3"]), "cancelling a merged submit removes the whole group");
    assert_eq!((&cancelled[1].data["turn_id"], &cancelled[1].data["reason"]), (&json!("t1"), &json!("branch_left")));
    assert!(told.iter().any(|told| told.kind() == "session.updated" && told.data["title"] == "Three"));
}

#[tokio::test]
async fn a_silent_stream_stays_open() {
    let app = TestApp::with(|options| options.keep_alive_secs = 1);
    app.streamed("s1", &message("t1", "hello")).await;
    let mut stream = open(&app, "", None).await;
    stream.until(": keep-alive\n\n").await;
    app.streamed("s1", &message("t2", "more")).await;
    stream.until("turn.completed").await;
}

#[tokio::test]
async fn places_that_are_none_are_refused() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    for (query, header) in
        [("?after=x", None), ("?after=01", None), ("?after=1.1", None), ("?after=-1", None), ("?since=0", None), ("", Some("x"))]
    {
        assert_eq!(open(&app, query, header).await.whole().await.refusal(), (400, "bad_request".to_owned()), "{query} {header:?}");
    }
    let nowhere = app.get("/v1/sessions/nowhere/events").await;
    assert_eq!(nowhere.refusal(), (404, "session_not_found".to_owned()));
    let too_far = open(&app, "?after=99", None).await.whole().await;
    assert_eq!(too_far.refusal().0, 400, "{}", too_far.text());
}

#[tokio::test]
async fn readers_have_a_limit() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let mut readers = Vec::new();
    for _ in 0..16 {
        let mut reader = open(&app, "", None).await;
        reader.until("retry: 1000").await;
        readers.push(reader);
    }
    let one_more = open(&app, "", None).await.whole().await;
    assert_eq!((one_more.refusal(), one_more.header("retry-after")), ((429, "too_many_readers".to_owned()), Some("1")));
}
