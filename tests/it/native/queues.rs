//! Turns that wait for another: their places, their streams, their cancelling, their limit.

use serde_json::{Value, json};

use super::{kinds, message, said, told, with};
use crate::app::TestApp;

fn cancel(turn: &str) -> Value {
    json!({"type": "client.cancel", "turn_id": turn})
}

async fn running(app: &TestApp) {
    app.taken("s1", &message("t0", "long")).await;
    app.until("s1", |page| page["status"] == "running").await;
}

#[tokio::test]
async fn a_second_turn_is_refused_or_waits() {
    let app = TestApp::start();
    running(&app).await;
    let refused = app.input("s1", &message("t1", "first")).await;
    assert_eq!(refused.refusal(), (409, "turn_already_active".to_owned()));
    assert_eq!((&refused.json()["turn_id"], &refused.json()["queue_depth"]), (&json!("t0"), &json!(0)));
    let queued = app.input("s1", &with(message("t1", "first"), "queue", json!(true))).await;
    assert_eq!((queued.status, queued.json()["queued"].clone(), queued.json()["position"].clone()), (202, json!(true), json!(1)));
    let second = app.taken("s1", &with(message("t2", "second"), "queue", json!(true))).await;
    assert_eq!(second["position"], 2);
    let refused = app.input("s1", &message("t3", "third")).await.json();
    assert_eq!(refused["queue_depth"], 2, "409 carries the real depth");
    let page = app.page("s1").await;
    assert_eq!(page["running_turn"]["turn_id"], "t0");
    let places: Vec<_> =
        page["queue"].as_array().unwrap().iter().map(|turn| (turn["turn_id"].as_str().unwrap(), &turn["position"])).collect();
    assert_eq!(places, [("t1", &json!(1)), ("t2", &json!(2))]);
    assert_eq!(page["queue"][0]["messages"][0]["content"], "first");
    let again = app.input("s1", &with(message("t2", "second"), "queue", json!(true))).await;
    assert_eq!((again.status, again.json()["position"].clone(), again.json()["duplicate"].clone()), (200, json!(2), json!(true)));
    app.taken("s1", &cancel("t0")).await;
    app.until("s1", |page| page["status"] == "idle" && page["queue"] == json!([])).await;
    let texts = app.texts("s1").await;
    assert_eq!(texts[texts.len() - 4..], ["first", "You said: first", "second", "You said: second"]);
}

#[tokio::test]
async fn merged_messages_are_one_turn_under_all_their_names() {
    let app = TestApp::start();
    running(&app).await;
    let one = app.taken("s1", &with(message("t1", "one"), "queue", json!("merge"))).await;
    let two = app.taken("s1", &with(message("t2", "two"), "queue", json!("merge"))).await;
    assert_eq!((&one["turn_id"], &two["turn_id"], &two["position"]), (&json!("t1"), &json!("t1"), &json!(1)));
    app.taken("s1", &cancel("t0")).await;
    app.until("s1", |page| page["status"] == "idle" && page["queue"] == json!([])).await;
    let texts = app.texts("s1").await;
    assert_eq!(texts[texts.len() - 3..], ["one", "two", "You said: two"]);
    let known = app.taken("s1", &with(message("t2", "two"), "queue", json!("merge"))).await;
    assert_eq!((&known["turn_id"], &known["duplicate"]), (&json!("t1"), &json!(true)));
}

#[tokio::test]
async fn a_waiting_turns_stream_begins_with_the_turn() {
    let app = TestApp::start();
    running(&app).await;
    let mut stream = app.follow("s1", &with(message("t1", "me too"), "queue", json!(true))).await;
    stream.until("event: accepted").await;
    app.until("s1", |page| page["queue"].as_array().is_some_and(|queue| queue.len() == 1)).await;
    let so_far = told(&crate::http::body(&stream.got));
    assert_eq!((kinds(&so_far), &so_far[0].data["queued"]), (vec!["accepted"], &json!(true)));
    app.taken("s1", &cancel("t0")).await;
    let all = told(&stream.whole().await.text());
    let kinds = kinds(&all);
    assert!(kinds.contains(&"session.snapshot") && kinds.contains(&"turn.started"), "{kinds:?}");
    assert_eq!((kinds.last(), said(&all).as_str()), (Some(&"turn.completed"), "You said: me too"));
    assert!(all.iter().all(|told| told.data["turn_id"] != "t0"), "nothing of the turn before it: {kinds:?}");
}

#[tokio::test]
async fn a_waiting_turn_that_is_cancelled_never_begins() {
    let app = TestApp::start();
    running(&app).await;
    let mut stream = app.follow("s1", &with(message("t1", "me too"), "queue", json!(true))).await;
    stream.until("event: accepted").await;
    assert_eq!(app.taken("s1", &cancel("t1")).await, json!({"cancelled": true}));
    let all = told(&stream.whole().await.text());
    assert_eq!(kinds(&all), ["accepted", "turn.cancelled"]);
    assert_eq!(all[1].data["messages"], json!(["u-t1"]));
    assert_eq!(app.taken("s1", &cancel("t1")).await, json!({"cancelled": false}));
    assert_eq!(app.page("s1").await["queue"], json!([]));
    let anew = app.taken("s1", &with(message("t2", "x"), "queue", json!(true))).await;
    assert_eq!(anew["position"], 1);
}

#[tokio::test]
async fn a_queue_has_a_limit() {
    let app = TestApp::start();
    running(&app).await;
    for n in 1..=4 {
        let queued = app.taken("s1", &with(message(&format!("t{n}"), "x"), "queue", json!(true))).await;
        assert_eq!(queued["position"], n);
    }
    let full = app.input("s1", &with(message("t5", "x"), "queue", json!(true))).await;
    assert_eq!((full.refusal(), full.header("retry-after")), ((429, "queue_full".to_owned()), Some("1")));
    let merged = app.input("s1", &with(message("t5", "x"), "queue", json!("merge"))).await;
    assert_eq!(merged.refusal(), (429, "queue_full".to_owned()), "the last one that waits isn't open");
    assert_eq!(app.page("s1").await["queue"].as_array().unwrap().len(), 4);
    assert_eq!(app.taken("s1", &cancel("t4")).await, json!({"cancelled": true}));
    assert_eq!(app.taken("s1", &with(message("t5", "x"), "queue", json!("merge"))).await["position"], 4);
    let many: Vec<Value> = (0..5).map(|n| json!({"role": "user", "content": n.to_string()})).collect();
    let append = json!({"type": "client.append", "agent_id": "demo", "queue": "merge", "messages": many});
    assert_eq!(app.input("s1", &append).await.refusal(), (429, "queue_full".to_owned()), "messages have a limit too");
}

#[tokio::test]
async fn cancelling_nothing_is_no_error() {
    let app = TestApp::start();
    assert_eq!(app.taken("nowhere", &json!({"type": "client.cancel"})).await, json!({"cancelled": false}));
    assert_eq!(app.get("/v1/sessions/nowhere").await.status, 404, "it made no session");
    app.streamed("s1", &message("t1", "hello")).await;
    assert_eq!(app.taken("s1", &json!({"type": "client.cancel"})).await, json!({"cancelled": false}));
    assert_eq!(app.taken("s1", &cancel("t1")).await, json!({"cancelled": false}), "it has ended");
    assert_eq!(app.taken("s1", &cancel("t9")).await, json!({"cancelled": false}));
}

#[tokio::test]
async fn leaving_the_branch_gives_up_what_waited_for_it() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    app.taken("s1", &message("t2", "long")).await;
    app.taken("s1", &with(message("t3", "later"), "queue", json!(true))).await;
    let moved = app.ask("POST", "/v1/sessions/s1/head", Some(&json!({"node_id": "u-t1"}))).await;
    assert_eq!(moved.json(), json!({"session_id": "s1", "head_id": "u-t1", "cancelled": ["t2", "t3"]}));
    let page = app.page("s1").await;
    assert_eq!((&page["status"], &page["queue"], &page["head_id"]), (&json!("idle"), &json!([]), &json!("u-t1")));
}
