//! Joins by any name, in any state, from wherever; stops through another connection; and what there is nothing of.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::model::{Piece, model};
use super::stream::{Framed, built, framed, is_end, merged, of_text};
use crate::app::{TestApp, said, text, types, v1};
use crate::http::{Exchange, body};
use crate::socket::{Came, Client};

fn start() -> TestApp {
    TestApp::over(model(), |_| {})
}

/// A view whose user message says what the model is to say.
fn told(thread: &str, run: &str, replies: &[Vec<Piece>]) -> Value {
    let mut view = said(thread, run, &serde_json::to_string(replies).unwrap());
    view["tools"] = json!([{"name": "paint", "description": "", "parameters": {"type": "object"}}]);
    view
}

fn words(text: &str, wait_ms: u64) -> Vec<Piece> {
    text.chars().flat_map(|char| [Piece::Text(char.to_string()), Piece::Wait(wait_ms)]).collect()
}

fn paints() -> Vec<Piece> {
    vec![Piece::Text("I paint.".to_owned()), Piece::Call(0, "paint".to_owned()), Piece::Arguments(0, "{}".to_owned()), Piece::Used(5)]
}

async fn get(app: &TestApp, query: &str) -> Vec<Framed> {
    let answer = app.get(&format!("/agents/steady?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    framed(&answer.text())
}

fn events(framed: &[Framed]) -> Vec<Value> {
    framed.iter().map(|framed| framed.event.clone()).collect()
}

fn last_id(framed: &[Framed]) -> String {
    framed.iter().rev().find_map(|framed| framed.id.clone()).expect("an id")
}

#[tokio::test]
async fn a_turn_that_went_on_with_results_is_joined_run_by_run() {
    let app = start();
    let first = v1(told("s1", "r1", &[paints(), words("Painted.", 0)]));
    let one = framed(&app.post("/agents/steady", &first).await.text());
    let call = one.iter().find(|framed| framed.event["type"] == "TOOL_CALL_START").unwrap().event.clone();
    let mut second = first.clone();
    second["runId"] = json!("r2");
    let messages = second["messages"].as_array_mut().unwrap();
    messages.push(json!({"id": call["parentMessageId"], "role": "assistant", "content": "I paint.", "toolCalls": [
        {"id": call["toolCallId"], "type": "function", "function": {"name": "paint", "arguments": "{}"}}
    ]}));
    messages.push(json!({"id": "res", "role": "tool", "toolCallId": call["toolCallId"], "content": "a house"}));
    let two = framed(&app.post("/agents/steady", &second).await.text());
    assert_eq!(two.last().unwrap().event["usage"], Value::Null, "{two:#?}");

    for (run, whole, messages) in [("r1", &one, 1), ("r2", &two, 3)] {
        let joined = get(&app, &format!("threadId=s1&runId={run}&offset=-1&protocolVersion=1.0")).await;
        assert_eq!(joined[0].event["runId"], run);
        assert_eq!(joined[1].event["messages"].as_array().unwrap().len(), messages, "{run}: {:#?}", joined[1]);
        assert_eq!(merged(&joined[2..]), merged(&whole[1..]), "{run}");
        for (at, framed) in whole.iter().enumerate().filter(|(_, framed)| framed.id.is_some() && !is_end(&framed.event)) {
            let id = framed.id.as_ref().unwrap();
            let rest = get(&app, &format!("threadId=s1&runId={run}&offset={id}&protocolVersion=1.0")).await;
            assert_eq!(merged(whole[..=at].iter().chain(&rest)), merged(whole), "{run} after {id}");
        }
    }
    let usage = &one.last().unwrap().event["usage"];
    assert_eq!(usage[0]["inputTokens"], 5);
    let ended = get(&app, &format!("threadId=s1&runId=r1&offset={}&protocolVersion=1.0", one[1].id.as_ref().unwrap())).await;
    assert_eq!(ended.last().unwrap().event["usage"], *usage, "of the whole run");
}

#[tokio::test]
async fn a_run_that_waits_is_joined_while_it_waits() {
    let app = start();
    app.post("/agents/steady", &told("s1", "r1", &[paints()])).await;
    let joined = get(&app, "threadId=s1&runId=r1&protocolVersion=1.0").await;
    let end = &joined.last().unwrap().event;
    assert_eq!(end["outcome"]["pendingToolCallIds"].as_array().unwrap().len(), 1, "{end}");
    let mut socket = Client::open(app.address, "/agents/steady?threadId=s1&runId=r1&offset=-1").await;
    assert_eq!(types(&socket.run_of_envelopes().await).last(), Some(&"RUN_FINISHED"));
    assert_eq!(socket.next().await, Came::Closed(1000));
    let hydrated = app.get("/agents/steady?threadId=s1").await.json();
    assert_eq!((&hydrated["activeRun"], hydrated["messages"].as_array().unwrap().len()), (&Value::Null, 2));
}

#[tokio::test]
async fn a_queued_run_is_joined_before_it_begins() {
    let app = start();
    let first = told("s1", "r1", &[words(&"word ".repeat(100), 5)]);
    let mut one = Exchange::post(app.address, "/agents/steady", &first.to_string()).await;
    one.until("TEXT_MESSAGE_CONTENT").await;
    let queued = json!({"type": "client.message", "agent_id": "steady", "turn_id": "r2", "queue": true,
        "message": {"role": "user", "content": serde_json::to_string(&[words("four", 0)]).unwrap()}});
    let mut two = Exchange::send(
        app.address,
        "POST",
        "/v1/sessions/s1/inputs",
        &[("Content-Type", "application/json"), ("Accept", "text/event-stream")],
        Some(&queued.to_string()),
    )
    .await;
    two.until("accepted").await;
    let mut joined = Exchange::send(app.address, "GET", "/agents/steady?threadId=s1&runId=r2&offset=-1", &[], None).await;
    joined.until(": queued").await;
    assert!(!String::from_utf8_lossy(&joined.got).contains("RUN_STARTED"));
    let told = framed(&joined.whole().await.text());
    assert_eq!(types(&events(&told))[..2], ["RUN_STARTED", "MESSAGES_SNAPSHOT"]);
    assert_eq!(text(&events(&told)), "four");
    let again = get(&app, "threadId=s1&runId=r2&offset=-1").await;
    assert_eq!(merged(&again[1..]), merged(&told[1..]));
    let hydrated = app.get("/agents/steady?threadId=s1").await.json();
    assert_eq!(hydrated["activeRun"], Value::Null);
}

#[tokio::test]
async fn what_there_is_nothing_of_is_refused_with_what_to_do() {
    let app = start();
    app.post("/agents/steady", &told("s1", "r1", &[words("Hello", 0)])).await;
    let refused = |query: &'static str| {
        let app = &app;
        async move { app.get(&format!("/agents/steady?{query}")).await.refusal() }
    };
    assert_eq!(refused("threadId=none&runId=r1").await, (404, "session_not_found".to_owned()));
    assert_eq!(refused("threadId=s1&runId=r9").await, (404, "run_not_found".to_owned()));
    assert_eq!(refused("threadId=s1&runId=r1&offset=99").await, (404, "cursor_unknown".to_owned()));
    assert_eq!(refused("threadId=s1&runId=r1&offset=1").await, (404, "cursor_unknown".to_owned()));
    assert_eq!(refused("threadId=s1&runId=r1&offset=ours").await, (404, "cursor_unknown".to_owned()));
    assert_eq!(refused("threadId=s1&offset=4").await, (400, "bad_request".to_owned()));
    assert_eq!(refused("runId=r1").await, (400, "bad_request".to_owned()));
    assert_eq!(refused("").await, (400, "not_available".to_owned()));
    for (query, code) in [
        ("threadId=s1&runId=r9&offset=-1", 1008),
        ("threadId=none&runId=r1&offset=-1", 1008),
        ("runId=r1&offset=-1", 1008),
        ("threadId=s1&runId=r1&offset=99", 4009),
        ("threadId=s1&runId=r1&offset=ours", 4009),
    ] {
        let mut socket = Client::open(app.address, &format!("/agents/steady?{query}")).await;
        assert_eq!(socket.next().await, Came::Closed(code), "{query}");
    }
}

/// What a reader has in the end that came back after each of the ids that it saw, against what one has that was there all the time.
async fn check_cuts(app: &TestApp, thread: &str, whole: &[Framed]) {
    let joined = get(app, &format!("threadId={thread}&runId=r1")).await;
    let from_start = |rest: &[Framed]| built(joined[..2].iter().chain(rest));
    for (at, framed) in whole.iter().enumerate().filter(|(_, framed)| framed.id.is_some() && !is_end(&framed.event)) {
        let id = framed.id.as_ref().unwrap();
        let rest = get(app, &format!("threadId={thread}&runId=r1&offset={id}")).await;
        assert_eq!(from_start(&[&whole[..=at], &rest].concat()), from_start(whole), "{thread} after {id}: {rest:#?}");
        assert_eq!(merged(rest.last()), merged(whole.last()), "{thread} after {id}");
        assert_eq!(rest.iter().filter(|framed| is_end(&framed.event)).count(), 1, "{thread} after {id}");
    }
}

#[tokio::test]
async fn a_cursor_in_a_reply_that_was_given_up_goes_on_with_the_conversation() {
    let app = start();
    let about = |last| {
        let call = [Piece::Call(0, "paint".to_owned()), Piece::Arguments(0, "{\"a".to_owned())];
        let said = [Piece::Thought("hm".to_owned()), Piece::Text("I was".to_owned()), Piece::Wait(30)];
        vec![said.into_iter().chain(call).chain([Piece::Wait(30), last]).collect::<Vec<_>>()]
    };
    // It failed for good.
    let whole = framed(&app.post("/agents/steady", &told("s1", "r1", &about(Piece::Refused))).await.text());
    assert_eq!(types(&events(&whole)).last(), Some(&"RUN_ERROR"));
    check_cuts(&app, "s1", &whole).await;
    let text = whole.iter().find(|framed| framed.event["type"] == "TEXT_MESSAGE_CONTENT").unwrap();
    let rest = get(&app, &format!("threadId=s1&runId=r1&offset={}", text.id.as_ref().unwrap())).await;
    assert_eq!(types(&events(&rest)), ["MESSAGES_SNAPSHOT", "RUN_ERROR"]);
    assert_eq!(rest[0].event["messages"].as_array().unwrap().len(), 1);
    // It failed, and was tried again.
    let mut again = about(Piece::Fails);
    again[0].push(Piece::Text("Now.".to_owned()));
    let retried = TestApp::over_twice(model());
    let whole = framed(&retried.post("/agents/steady", &told("s2", "r1", &again)).await.text());
    let kinds = events(&whole);
    assert_eq!(types(&kinds).iter().filter(|kind| **kind == "MESSAGES_SNAPSHOT").count(), 1, "{kinds:#?}");
    assert_eq!(built(&whole).as_object().unwrap().values().next_back(), Some(&json!("Now.")));
    check_cuts(&retried, "s2", &whole).await;
    // It was stopped, and its call was dropped.
    let view = told("s3", "r1", &about(Piece::Wait(60_000)));
    let mut run = Exchange::post(app.address, "/agents/steady", &view.to_string()).await;
    run.until("TOOL_CALL_ARGS").await;
    app.post("/agents/steady/stop/s3", &json!({})).await;
    let whole = framed(&run.whole().await.text());
    assert_eq!(built(&whole).as_object().unwrap().len(), 3, "what was asked, thought and said: {whole:#?}");
    check_cuts(&app, "s3", &whole).await;
    // What never was is refused.
    for (thread, never) in [("s1", "3.9.2"), ("s1", "2.1.4"), ("s3", "3.2.1")] {
        let answer = app.get(&format!("/agents/steady?threadId={thread}&runId=r1&offset={never}")).await;
        assert_eq!(answer.refusal(), (404, "cursor_unknown".to_owned()), "{thread} after {never}");
    }
}

#[tokio::test]
async fn a_turn_that_goes_on_with_results_that_name_no_run_is_joined_by_the_name_that_it_got() {
    let app = start();
    let first = v1(told("s1", "r1", &[paints(), words(&"Painted. ".repeat(20), 5)]));
    let one = framed(&app.post("/agents/steady", &first).await.text());
    let call = one.iter().find(|framed| framed.event["type"] == "TOOL_CALL_START").unwrap().event["toolCallId"].clone();
    let result = json!({"type": "tool.result", "agent_id": "steady", "tool_call_id": call, "content": "a house", "stream": false});
    assert_eq!(app.post("/v1/sessions/s1/inputs", &result).await.status, 202);
    let hydrated = app.get("/agents/steady?threadId=s1").await.json();
    let run = hydrated["activeRun"]["runId"].as_str().expect("it runs").to_owned();
    assert_ne!(run, "r1", "that run is over");
    let two = get(&app, &format!("threadId=s1&runId={run}&offset=-1")).await;
    assert_eq!(types(&events(&two))[..3], ["RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START"]);
    assert_eq!(text(&events(&two)), "Painted. ".repeat(20));
    for (at, framed) in two.iter().enumerate().filter(|(_, framed)| framed.id.is_some() && !is_end(&framed.event)) {
        let rest = get(&app, &format!("threadId=s1&runId={run}&offset={}", framed.id.as_ref().unwrap())).await;
        assert_eq!(merged(two[..=at].iter().chain(&rest)), merged(&two));
    }
    let over = get(&app, "threadId=s1&runId=r1&offset=-1").await;
    assert_eq!(text(&events(&over)), "I paint.", "the first run is what it was");
}

#[tokio::test]
async fn a_lost_post_is_gone_on_with_by_the_same_post() {
    let app = start();
    let view = told("s1", "r1", &[words("Hello there", 3)]);
    let headers = |id: &'static str| [("Content-Type", "application/json"), ("Last-Event-ID", id)];
    // Nothing was taken yet: it begins the run.
    let mut first = Exchange::send(app.address, "POST", "/agents/steady", &headers("3"), Some(&view.to_string())).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let had = framed(&body(&first.got));
    drop(first);
    let id = last_id(&had);
    let headers = [("Content-Type", "application/json"), ("Last-Event-ID", id.as_str())];
    let rest = framed(&Exchange::send(app.address, "POST", "/agents/steady", &headers, Some(&view.to_string())).await.whole().await.text());
    let joined = get(&app, "threadId=s1&runId=r1").await;
    assert_eq!(merged(had[1..].iter().chain(&rest)), merged(&joined[2..]));
    assert_eq!(app.nodes("s1").await.len(), 2);
}

#[tokio::test]
async fn a_header_is_newer_than_the_query() {
    let app = start();
    let whole = framed(&app.post("/agents/steady", &told("s1", "r1", &[words("Hello", 0)])).await.text());
    let id = whole[whole.len() - 2].id.clone().unwrap();
    let headers = [("Last-Event-ID", id.as_str())];
    let path = "/agents/steady?threadId=s1&runId=r1&offset=-1";
    let rest = framed(&Exchange::send(app.address, "GET", path, &headers, None).await.whole().await.text());
    assert_eq!(types(&events(&rest)), ["RUN_FINISHED"]);
}

#[tokio::test]
async fn b13_a_stop_through_another_connection_ends_a_resumed_stream_once() {
    let app = start();
    let view = told("s1", "r1", &[words(&"word ".repeat(200), 5)]);
    let mut first = Exchange::post(app.address, "/agents/steady", &view.to_string()).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let had = framed(&body(&first.got));
    drop(first);
    let path = format!("/agents/steady?threadId=s1&runId=r1&offset={}", last_id(&had));
    let mut one = Exchange::send(app.address, "GET", &path, &[], None).await;
    let mut two = Client::open(app.address, &path).await;
    one.until("TEXT_MESSAGE_CONTENT").await;
    of_text(two.event().await);
    let stopped = app.post("/agents/steady/stop/s1", &json!({"runId": "r1"})).await;
    assert_eq!(stopped.json(), json!({"stopped": true}));
    let rest = framed(&one.whole().await.text());
    let ends = rest.iter().filter(|framed| is_end(&framed.event)).count();
    assert_eq!((ends, is_end(&rest.last().unwrap().event)), (1, true));
    assert_eq!(types(&two.run_of_envelopes().await).last(), Some(&"RUN_FINISHED"));
    assert_eq!(two.next().await, Came::Closed(1000));
    let joined = get(&app, "threadId=s1&runId=r1").await;
    assert_eq!(merged(had[1..].iter().chain(&rest)), merged(&joined[2..]), "what was kept is what was told");
    assert_eq!(app.get("/v1/sessions/s1").await.json()["status"], "idle");
}

#[tokio::test]
async fn a_resumed_run_is_stopped_on_its_own_socket() {
    let app = start();
    let view = told("s1", "r1", &[words(&"word ".repeat(200), 5)]);
    let mut first = Exchange::post(app.address, "/agents/steady", &view.to_string()).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let mut socket = Client::open(app.address, "/agents/steady?threadId=s1&runId=r1&offset=-1").await;
    of_text(socket.event().await);
    socket.say(&json!({"type": "abort", "runId": "r1"})).await;
    assert_eq!(types(&socket.run_of_envelopes().await).last(), Some(&"RUN_FINISHED"));
    assert_eq!(types(&events(&framed(&first.whole().await.text()))).last(), Some(&"RUN_FINISHED"));
}

#[tokio::test]
async fn a_socket_that_resumed_takes_runs_too() {
    let app = start();
    app.post("/agents/steady", &told("s1", "r1", &[words("one", 0)])).await;
    let slow = told("s2", "r2", &[words("two two", 5)]);
    let mut other = Exchange::post(app.address, "/agents/steady", &slow.to_string()).await;
    other.until("TEXT_MESSAGE_CONTENT").await;
    let mut socket = Client::open(app.address, "/agents/steady?threadId=s2&runId=r2&offset=-1").await;
    of_text(socket.event().await);
    socket.say(&told("s3", "r3", &[words("three", 0)])).await;
    let two = socket.run_of_envelopes().await;
    assert_eq!(text(&two), "two two");
    let three = socket.run_of_envelopes().await;
    assert_eq!((text(&three).as_str(), &three[0]["runId"]), ("three", &json!("r3")));
    socket.say(&told("s3", "r4", &[])).await;
    assert_eq!(types(&socket.run_of_envelopes().await).last(), Some(&"RUN_FINISHED"));
    socket.send(Message::Close(None)).await;
}

#[tokio::test]
async fn b15_a_reader_that_lingers_gets_all_of_the_next_turn_and_cursors_rise_for_ever() {
    let app = start();
    let one = framed(&app.post("/agents/steady", &told("s1", "r1", &[words(&"word ".repeat(150), 0)])).await.text());
    // Whoever holds the end of the first turn still gets every event of the second, by the same cursors.
    let linger = last_id(&one);
    let mut events_of_all = Exchange::send(app.address, "GET", &format!("/v1/sessions/s1/events?after={linger}"), &[], None).await;
    events_of_all.until("retry:").await;
    let mut view = told("s1", "r2", &[words("the second answer", 0)]);
    let reply = &app.nodes("s1").await[1];
    let known = json!([{"id": "u-r1", "role": "user", "content": "x"}, {"id": reply["id"], "role": "assistant", "content": "x"}]);
    let messages: Vec<Value> = known.as_array().unwrap().iter().chain(view["messages"].as_array().unwrap()).cloned().collect();
    view["messages"] = Value::Array(messages);
    let two = framed(&app.post("/agents/steady", &view).await.text());
    let cursor = |framed: &Framed| framed.id.as_ref().map(|id| id.parse::<headwater::protocol::Cursor>().unwrap());
    let cursors: Vec<_> = one.iter().chain(&two).filter_map(cursor).collect();
    assert!(cursors.is_sorted_by(|one, next| one < next), "they rise over turns");
    assert_eq!(text(&events(&two)), "the second answer");
    events_of_all.until("turn.completed").await;
    let told: Vec<Value> = framed(&body(&events_of_all.got)).into_iter().map(|framed| framed.event).collect();
    let said: String = told.iter().filter(|event| event["part"] == "text").filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(said, "the second answer");
    let at = two.iter().position(|framed| framed.id.is_some()).unwrap();
    let rest = get(&app, &format!("threadId=s1&runId=r2&offset={}", two[at].id.as_ref().unwrap())).await;
    assert_eq!(merged(&rest), merged(&two[at + 1..]));
}

#[tokio::test]
async fn a_chat_that_opens_finds_its_messages_and_the_run_that_is_active() {
    let app = start();
    let none = app.get("/agents/steady?threadId=none").await.json();
    assert_eq!(none, json!({"messages": [], "activeRun": null, "interrupts": null}));
    let view = told("s1", "r1", &[words(&"word ".repeat(40), 5)]);
    let mut run = Exchange::post(app.address, "/agents/steady", &view.to_string()).await;
    run.until("TEXT_MESSAGE_CONTENT").await;
    let hydrated = app.get("/agents/steady?threadId=s1").await.json();
    assert_eq!(hydrated["activeRun"], json!({"runId": "r1"}));
    let messages = hydrated["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[0]["role"]), (1, &json!("user")), "the reply in the making comes with its run");
    run.whole().await;
    let hydrated = app.get("/agents/steady?threadId=s1").await.json();
    assert_eq!((&hydrated["activeRun"], &hydrated["messages"][1]["parts"][0]["type"]), (&Value::Null, &json!("text")));
}

#[tokio::test]
async fn capabilities_are_what_is_there() {
    let app = start();
    let capabilities = app.get("/agents/steady/capabilities").await.json();
    assert_eq!(capabilities["transport"]["websocket"], true);
    assert_eq!(capabilities["transport"]["resumable"], true);
    assert_eq!(capabilities["tools"]["clientProvided"], true);
    let none = json!({"image": false, "audio": false, "video": false, "pdf": false, "file": false});
    assert_eq!(capabilities["multimodal"]["input"], none, "as the agent's llm says");
    assert_eq!(app.get("/agents/nobody/capabilities").await.refusal(), (404, "unknown_agent".to_owned()));
}
