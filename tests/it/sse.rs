//! Runs over POST.

use serde_json::{Value, json};

use crate::app::{TestApp, check_run, said, text, types, v1, view};
use crate::http::{Exchange, events};

#[tokio::test]
async fn a_run_is_a_stream_with_one_terminal() {
    let app = TestApp::start();
    let answer = app.post("/agents/demo", &said("s1", "r1", "good morning")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let events = events(&answer.text());
    check_run(&events);
    assert_eq!(text(&events), "You said: good morning");
    assert_eq!((&events[0]["threadId"], &events[0]["runId"]), (&json!("s1"), &json!("r1")));
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn two_runs_are_one_conversation() {
    let app = TestApp::start();
    let first = app.run(&said("s1", "r1", "one")).await;
    let reply = first.iter().find(|event| event["type"] == "TEXT_MESSAGE_START").unwrap()["messageId"].clone();
    let mut second = view("s1", "r2", &[("u-r1", "one"), ("u2", "two")]);
    second["messages"].as_array_mut().unwrap().insert(1, json!({"id": reply, "role": "assistant", "content": "You said: one"}));
    check_run(&app.run(&second).await);
    let nodes = app.nodes("s1").await;
    assert_eq!(nodes.len(), 4);
    assert!(nodes.windows(2).all(|pair| pair[1]["parent_id"] == pair[0]["id"]), "{nodes:?}");
}

#[tokio::test]
async fn a_second_submit_is_refused_and_names_the_turn() {
    let app = TestApp::start();
    let mut first = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "long").to_string()).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let answer = app.post("/agents/demo", &said("s1", "r2", "hello")).await;
    assert_eq!(answer.refusal(), (409, "turn_already_active".to_owned()));
    let body = answer.json();
    assert_eq!(body["turn_id"], "r1");
    assert!(body["started_at"].is_u64() && body["queue_depth"] == 0, "{body}");

    let stopped = app.post("/agents/demo/stop/s1", &json!({"runId": "r9"})).await;
    assert_eq!((stopped.status, stopped.json()), (200, json!({"stopped": false})));
    let stopped = app.post("/agents/demo/stop/s1", &json!({"runId": "r1"})).await;
    assert_eq!((stopped.status, stopped.json()), (200, json!({"stopped": true})));
    let events = events(&first.whole().await.text());
    check_run(&events);
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
    assert_eq!(events.last().unwrap()["outcome"], Value::Null, "the older client fails on a cancelled outcome");

    let stopped = Exchange::send(app.address, "POST", "/agents/demo/stop/s1", &[], None).await.whole().await;
    assert_eq!((stopped.status, stopped.json()), (200, json!({"stopped": false})));
    let nodes = app.nodes("s1").await;
    assert_eq!(nodes.len(), 2, "what was said is kept: {nodes:?}");
    assert_eq!(nodes[1]["partial"], true);
}

#[tokio::test]
async fn those_who_can_read_it_are_told_that_a_run_was_stopped() {
    let app = TestApp::start();
    let mut run = Exchange::post(app.address, "/agents/demo", &v1(said("s1", "r1", "long")).to_string()).await;
    run.until("TEXT_MESSAGE_CONTENT").await;
    assert_eq!(app.post("/agents/demo/stop/s1", &json!({})).await.json(), json!({"stopped": true}));
    let events = events(&run.whole().await.text());
    check_run(&events);
    assert_eq!(events.last().unwrap()["outcome"], json!({"type": "cancelled"}));
    assert!(types(&events).contains(&"TEXT_MESSAGE_END"), "what is open is closed before the terminal");
}

#[tokio::test]
async fn a_failure_is_a_run_error_and_the_session_goes_on() {
    let app = TestApp::start();
    let events = app.run(&said("s1", "r1", "fail")).await;
    check_run(&events);
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("llm_refused")));
    assert!(last["message"].as_str().is_some_and(|message| !message.is_empty()));
    let events = app.run(&view("s1", "r2", &[("u-r1", "fail"), ("u2", "again")])).await;
    assert_eq!(text(&events), "You said: again");
}

#[tokio::test]
async fn the_same_run_again_runs_nothing() {
    let app = TestApp::start();
    let body = said("s1", "r1", "once");
    app.run(&body).await;
    let events = app.run(&body).await;
    check_run(&events);
    let types = types(&events);
    assert!(types.contains(&"MESSAGES_SNAPSHOT") && !types.contains(&"TEXT_MESSAGE_CONTENT"), "{types:?}");
    assert_eq!(app.nodes("s1").await.len(), 2);
}

#[tokio::test]
async fn connecting_shows_the_whole_conversation_and_changes_nothing() {
    let app = TestApp::start();
    let answer = app.post("/agents/demo/connect", &json!({"threadId": "nowhere"})).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let empty = events(&answer.text());
    assert_eq!(types(&empty), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(empty[1]["messages"], json!([]));
    assert_eq!(app.get("/v1/sessions/nowhere").await.refusal(), (404, "session_not_found".to_owned()));

    app.run(&said("s1", "r1", "hello")).await;
    let asked = json!({"threadId": "s1", "runId": "r2", "messages": [], "tools": [], "context": []});
    let joined = events(&app.post("/agents/demo/connect", &asked).await.text());
    let again = events(&app.post("/agents/demo/connect", &asked).await.text());
    assert_eq!(joined[1], again[1], "connecting twice shows the same");
    check_run(&joined);
    assert_eq!(joined[0]["runId"], "r2");
    let messages = joined[1]["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[1]["content"]), (2, &json!("You said: hello")));
    assert_eq!(app.nodes("s1").await.len(), 2);
}

#[tokio::test]
async fn a_snapshot_and_the_tail_are_the_whole_reply() {
    let app = TestApp::start();
    let mut run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "long").to_string()).await;
    run.until("TEXT_MESSAGE_CONTENT").await;
    let mut joined = Exchange::post(app.address, "/agents/demo/connect", r#"{"threadId": "s1"}"#).await;
    joined.until("TEXT_MESSAGE_CONTENT").await;
    assert_eq!(app.post("/agents/demo/stop/s1", &json!({})).await.json(), json!({"stopped": true}));
    let (run, joined) = (events(&run.whole().await.text()), events(&joined.whole().await.text()));
    check_run(&joined);
    let snapshot = joined.iter().find(|event| event["type"] == "MESSAGES_SNAPSHOT").unwrap();
    let before = snapshot["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap_or_default().to_owned();
    assert_eq!(before + &text(&joined), text(&run));
}

#[tokio::test]
async fn a_client_that_goes_away_stops_its_turn() {
    let app = TestApp::start();
    let mut run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "long").to_string()).await;
    run.until("TEXT_MESSAGE_CONTENT").await;
    drop(run);
    app.until("s1", |page| page["status"] == "idle").await;
    assert_eq!(app.nodes("s1").await[1]["partial"], true);
}

#[tokio::test]
async fn a_client_that_goes_away_before_the_first_word_stops_its_turn() {
    let app = TestApp::with(|options| options.first_words_ms = 10_000);
    let run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "silent").to_string()).await;
    app.until("s1", |page| page["status"] == "running").await;
    drop(run);
    app.until("s1", |page| page["status"] == "idle").await;
    assert_eq!(app.nodes("s1").await.len(), 1, "nothing had been said");
}

#[tokio::test]
async fn an_agent_may_go_on_without_its_client() {
    let app = TestApp::start();
    let mut run = Exchange::post(app.address, "/agents/steady", &said("s1", "r1", "short pause").to_string()).await;
    run.until("RUN_STARTED").await;
    drop(run);
    app.until("s1", |page| page["status"] == "idle").await;
    let nodes = app.nodes("s1").await;
    assert_eq!(nodes[1]["message"]["content"], "After a pause.", "{nodes:?}");
}

#[tokio::test]
async fn someone_who_only_looks_on_stops_nothing_by_leaving() {
    let app = TestApp::start();
    let mut run = Exchange::post(app.address, "/agents/demo", &said("s1", "r1", "short pause").to_string()).await;
    run.until("RUN_STARTED").await;
    let mut joined = Exchange::post(app.address, "/agents/demo/connect", r#"{"threadId": "s1"}"#).await;
    joined.until("RUN_STARTED").await;
    drop(joined);
    assert_eq!(text(&events(&run.whole().await.text())), "After a pause.");
}
