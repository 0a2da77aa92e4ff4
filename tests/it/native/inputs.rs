//! Inputs: what is accepted, as JSON and as a stream; repeats; whose session it is.

use serde_json::json;

use super::{kinds, message, said, told, with};
use crate::app::TestApp;
use crate::http::Exchange;

#[tokio::test]
async fn a_message_is_accepted_and_its_turn_streamed() {
    let app = TestApp::start();
    let answer = app.post("/v1/sessions/s1/inputs", &message("t1", "good morning")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    let told = told(&answer.text());
    let expected = ["accepted", "llm.call.completed", "message.new", "turn.completed"];
    let kinds = kinds(&told);
    assert_eq!((kinds.first(), kinds.last()), (expected.first(), expected.last()), "{kinds:?}");
    assert!(expected.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    assert_eq!(said(&told), "You said: good morning");
    let accepted = &told[0].data;
    assert_eq!((&accepted["session_id"], &accepted["turn_id"]), (&json!("s1"), &json!("t1")));
    assert_eq!((&accepted["reply"], &accepted["queued"], &accepted["duplicate"]), (&json!(true), &json!(false), &json!(false)));
    assert_eq!(accepted["recorded"], json!(["u-t1"]));
    assert!(told.iter().filter(|told| told.name.is_empty() && !told.id.is_empty()).all(|told| told.data["cursor"] == told.id));
    let page = app.page("s1").await;
    assert_eq!((&page["status"], &page["agent_id"]), (&json!("idle"), &json!("demo")));
    assert_eq!(app.texts("s1").await, ["good morning", "You said: good morning"]);
}

#[tokio::test]
async fn the_answer_is_json_for_who_does_not_ask_for_a_stream() {
    let app = TestApp::start();
    let answer = app.input("s1", &message("t1", "hello")).await;
    assert_eq!((answer.status, answer.header("content-type")), (202, Some("application/json")));
    app.idle("s1").await;
    let plain = app.post("/v1/sessions/s1/inputs", &with(message("t2", "again"), "stream", json!(false))).await;
    assert_eq!((plain.status, plain.json()["reply"].clone()), (202, json!(true)));
    app.idle("s1").await;
    let silent = app.input("s1", &with(message("t3", "noted"), "run", json!(false))).await;
    assert_eq!((silent.status, silent.json()["reply"].clone()), (202, json!(false)));
    assert_eq!(app.page("s1").await["head_id"], "u-t3");
}

#[tokio::test]
async fn a_turn_id_is_taken_once() {
    let app = TestApp::start();
    let first = app.taken("s1", &message("t1", "hello")).await;
    app.idle("s1").await;
    let again = app.input("s1", &message("t1", "hello")).await;
    assert_eq!(
        (again.status, again.json()["duplicate"].clone(), again.json()["turn_id"].clone()),
        (200, json!(true), first["turn_id"].clone())
    );
    let stream = app.streamed("s1", &message("t1", "hello")).await;
    assert_eq!(kinds(&stream), ["accepted", "session.snapshot", "turn.completed"]);
    assert_eq!(stream[1].data["messages"].as_array().unwrap().len(), 2);
    let other = app.input("s1", &message("t1", "goodbye")).await;
    assert_eq!(other.refusal(), (409, "turn_id_reused".to_owned()));
    assert_eq!(app.nodes("s1").await.len(), 2, "nothing was written twice");
}

#[tokio::test]
async fn a_repeat_joins_the_turn_that_runs() {
    let app = TestApp::start();
    let mut first = app.follow("s1", &message("t1", "long")).await;
    first.until("\"part\":\"text\"").await;
    let mut second = app.follow("s1", &message("t1", "long")).await;
    second.until("\"part\":\"text\"").await;
    let seen = told(&String::from_utf8_lossy(&second.got));
    assert_eq!((seen[0].data["duplicate"].clone(), seen[1].kind()), (json!(true), "session.snapshot"));
    assert_eq!(app.taken("s1", &json!({"type": "client.cancel", "turn_id": "t1"})).await, json!({"cancelled": true}));
    for stream in [first, second] {
        let body = stream.whole().await.text();
        assert_eq!(told(&body).last().map(|told| told.kind().to_owned()).as_deref(), Some("turn.cancelled"));
    }
}

#[tokio::test]
async fn without_a_session_one_is_made_and_a_repeat_meets_it() {
    let app = TestApp::start();
    let first = app.ask("POST", "/v1/inputs", Some(&message("t1", "hello"))).await;
    assert_eq!(first.status, 202, "{}", first.text());
    let session = first.json()["session_id"].as_str().unwrap().to_owned();
    app.idle(&session).await;
    let again = app.ask("POST", "/v1/inputs", Some(&message("t1", "hello"))).await;
    assert_eq!((again.status, again.json()["session_id"].clone()), (200, json!(session)));
    let other = app.ask("POST", "/v1/inputs", Some(&message("t2", "hello"))).await.json();
    assert_ne!(other["session_id"], json!(session));
    let nameless = json!({"type": "client.message", "agent_id": "demo", "message": {"role": "user", "content": "hello"}});
    let one = app.ask("POST", "/v1/inputs", Some(&nameless)).await.json();
    let two = app.ask("POST", "/v1/inputs", Some(&nameless)).await.json();
    assert_ne!(one["session_id"], two["session_id"], "without a turn id nothing is a repeat");
    let named = app.ask("POST", "/v1/inputs", Some(&with(message("t9", "hi"), "session_id", json!("s9")))).await;
    assert_eq!(named.json()["session_id"], "s9");
    let same = app.input("s9", &with(with(message("t10", "hi"), "session_id", json!("s9")), "queue", json!(true))).await;
    assert_eq!(same.status, 202, "{}", same.text());
}

#[tokio::test]
async fn a_view_edits_and_switches() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "one")).await;
    let reply = app.page("s1").await["head_id"].clone();
    let view = |turn: &str, messages: serde_json::Value| json!({"type": "client.messages", "agent_id": "demo", "turn_id": turn, "messages": messages});
    let user = |id: &str, text: &str| json!({"id": id, "role": "user", "content": text});
    let kept = json!({"id": reply, "role": "assistant", "content": "You said: one"});
    let edited = app.streamed("s1", &view("t2", json!([user("u-edit", "two")]))).await;
    assert_eq!((&edited[0].data["new_from"], &edited[0].data["root_branch"]), (&json!(0), &json!(true)));
    assert_eq!(app.texts("s1").await, ["two", "You said: two"]);
    let back = app.input("s1", &view("t3", json!([user("u-t1", "one"), kept]))).await;
    assert_eq!((back.status, back.json()["reply"].clone(), back.json()["new_from"].clone()), (202, json!(false), json!(2)));
    assert_eq!(app.texts("s1").await, ["one", "You said: one"]);
    let forgotten = app.streamed("s1", &view("t4", json!([user("u-t1", "ONE"), user("u-more", "three")]))).await;
    assert_eq!(forgotten[0].data["ignored_edits"], json!(["u-t1"]));
    let ended = app.streamed("s1", &view("t5", json!([user("u-t1", "one"), kept]))).await;
    assert_eq!(kinds(&ended), ["accepted", "turn.completed"], "a stream of no turn has its end too");
}

#[tokio::test]
async fn an_append_brings_what_a_front_end_does_not_write() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let activity = json!({"id": "act1", "role": "activity", "activity_type": "plan", "content": {"steps": ["a\nb"]}});
    let append = |turn: &str, messages: serde_json::Value| json!({"type": "client.append", "agent_id": "demo", "turn_id": turn, "messages": messages});
    let shown = app.taken("s1", &append("t2", json!([activity]))).await;
    assert_eq!((&shown["reply"], &shown["recorded"]), (&json!(false), &json!(["act1"])));
    let again = app.input("s1", &append("t3", json!([activity]))).await;
    assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)));
    let imported = json!([
        {"id": "o1", "role": "user", "content": "weather?"},
        {"id": "o2", "role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"id": "o3", "role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"id": "o4", "role": "assistant", "content": "It is sunny."},
    ]);
    let taken = app.taken("s1", &append("t4", imported)).await;
    assert_eq!((&taken["reply"], &taken["head_id"]), (&json!(false), &json!("o4")));
    let nodes = app.nodes("s1").await;
    let kinds: Vec<_> = nodes.iter().map(|node| node["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "custom", "message", "message", "message", "message"]);
    assert_eq!(nodes[2]["message"]["content"], json!({"steps": ["a\nb"]}));
}

#[tokio::test]
async fn several_agents_share_a_session() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let other = with(message("t2", "and you?"), "agent_id", json!("steady"));
    let told = app.streamed("s1", &other).await;
    assert_eq!(kinds(&told).last(), Some(&"turn.completed"));
    let events = app.get("/v1/sessions/s1/records").await.json();
    let agents: Vec<_> = events["records"].as_array().unwrap().iter().filter(|line| line["record"]["type"] == "turn.started").collect();
    assert_eq!(agents.iter().map(|line| line["record"]["data"]["agent_id"].as_str().unwrap()).collect::<Vec<_>>(), ["demo", "steady"]);
    assert_eq!(app.page("s1").await["agent_id"], "demo", "the agent that it began with");
}

#[tokio::test]
async fn who_goes_away_leaves_the_turn_to_itself() {
    let app = TestApp::start();
    let mut stream = app.follow("s1", &message("t1", "short pause")).await;
    stream.until("event: accepted").await;
    drop(stream);
    app.idle("s1").await;
    assert_eq!(app.texts("s1").await, ["short pause", "After a pause."]);
}

#[tokio::test]
async fn an_agent_may_want_it_stopped_when_its_reader_goes_away() {
    let app = TestApp::start();
    for turn in [json!("t1"), json!(null)] {
        let body = with(with(message("t1", "long"), "agent_id", json!("fleeting")), "turn_id", turn.clone());
        let session = format!("s-{}", turn.is_null());
        let mut stream = app.follow(&session, &body).await;
        stream.until("\"part\":\"text\"").await;
        drop(stream);
        app.idle(&session).await;
        let nodes = app.nodes(&session).await;
        assert_eq!(nodes.last().unwrap()["partial"], true, "what was said is kept: {nodes:?}");
    }
}

#[tokio::test]
async fn line_breaks_in_relayed_json_break_no_stream() {
    let app = TestApp::start();
    let body = "{\"type\": \"client.message\", \"agent_id\": \"demo\", \"message\": {\"id\": \"u1\", \"role\": \"user\", \"content\": \"hello\", \"metadata\": {\r\n \"a\":\n\n 1}}}";
    let answer = Exchange::post(app.address, "/v1/sessions/s1/inputs", body).await.whole().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let events = Exchange::send(app.address, "GET", "/v1/sessions/s1/events?after=0", &[], None).await;
    let mut events = events;
    events.until("turn.completed").await;
    let body = crate::http::body(&events.got);
    let new = told(&body).into_iter().find(|told| told.kind() == "message.new").expect("the message");
    assert_eq!(new.data["message"]["metadata"], json!({"a": 1}));
    let run = app.run(&crate::app::view("s1", "r2", &[("u1", "hello"), ("u2", "more")])).await;
    crate::app::check_run(&run);
    let joined = app.post("/agents/demo/connect", &json!({"threadId": "s1"})).await.text();
    let snapshot = crate::http::events(&joined).into_iter().find(|event| event["type"] == "MESSAGES_SNAPSHOT").expect("the whole");
    assert_eq!(snapshot["messages"][0]["metadata"], json!({"a": 1}));
}
