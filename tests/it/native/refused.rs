//! Bad input: the documented answer, nothing written, and the next request works.

use serde_json::{Value, json};

use super::{message, said, with};
use crate::app::TestApp;
use crate::http::Exchange;

#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_is_written() {
    let app = TestApp::with(|options| {
        options.view_messages_max = 5;
        options.content_bytes_max = 1000;
    });
    app.streamed("s1", &message("t1", "hello")).await;
    let before = app.get("/v1/sessions/s1/records").await.json();
    let long = "x".repeat(129);
    let user = |id: &str| json!({"id": id, "role": "user", "content": "x"});
    let view =
        |messages: Vec<Value>| json!({"type": "client.messages", "agent_id": "demo", "turn_id": "t2", "messages": messages}).to_string();
    let append =
        |messages: Vec<Value>| json!({"type": "client.append", "agent_id": "demo", "turn_id": "t2", "messages": messages}).to_string();
    let cases: Vec<(String, u16, &str, &str)> = vec![
        ("{".to_owned(), 400, "bad_json", ""),
        (String::new(), 400, "bad_json", ""),
        ("[]".to_owned(), 400, "bad_request", ""),
        ("{}".to_owned(), 400, "bad_request", "type"),
        (json!({"type": "client.shout"}).to_string(), 400, "bad_request", "type"),
        (json!({"type": "client.action", "agent_id": "demo"}).to_string(), 400, "bad_request", "name"),
        (json!({"type": "client.action", "agent_id": "demo", "name": "x", "queue": true}).to_string(), 400, "bad_request", "queue"),
        (json!({"type": "client.action", "agent_id": "demo", "name": "x"}).to_string(), 400, "bad_request", "agent_id"),
        (json!({"type": "interrupt.resume", "resume": []}).to_string(), 400, "bad_request", "resume"),
        (json!({"type": "interrupt.resume"}).to_string(), 400, "bad_request", "interrupts"),
        (
            json!({"type": "interrupt.resume", "interrupts": [{"interrupt_id": "i", "status": "done"}]}).to_string(),
            400,
            "bad_request",
            "interrupts[0].status",
        ),
        (json!({"type": "session.event", "agent_id": "demo"}).to_string(), 400, "bad_request", "name"),
        (json!({"type": "session.event", "name": "x"}).to_string(), 400, "bad_request", "agent_id"),
        (json!({"type": "session.event", "agent_id": "demo", "name": "x", "queue": "steer"}).to_string(), 400, "bad_request", "queue"),
        (with(message("t2", "x"), "queue", json!("soon")).to_string(), 400, "bad_request", "queue"),
        (with(message("t2", "x"), "thread", json!("s1")).to_string(), 400, "bad_request", "thread"),
        (with(message("t2", "x"), "agent_id", json!("nobody")).to_string(), 404, "unknown_agent", ""),
        (with(message("t2", "x"), "session_id", json!("s2")).to_string(), 400, "bad_request", "session_id"),
        (with(message("t2", "x"), "turn_id", json!(long)).to_string(), 400, "bad_id", "turn_id"),
        (with(message("t2", "x"), "turn_id", json!("")).to_string(), 400, "bad_id", "turn_id"),
        (message("t2", &"x".repeat(1001)).to_string(), 413, "content_too_large", "message.content"),
        (with(message("t2", "x"), "message", json!({"role": "assistant", "content": "x"})).to_string(), 400, "bad_request", "message.role"),
        (with(message("t2", "x"), "message", json!({"id": "hw_mine", "role": "user", "content": "x"})).to_string(), 400, "reserved_id", ""),
        (view((0..6).map(|n| user(&n.to_string())).collect()), 413, "view_too_long", "messages"),
        (view(vec![user("u8"), user("u9"), user("u8")]), 400, "duplicate_message_id", ""),
        (append(vec![user("u8"), user("u8")]), 400, "duplicate_message_id", ""),
        (append(vec![]), 400, "bad_request", ""),
        (append(vec![json!({"role": "system", "content": "x"})]), 400, "bad_request", "messages[0].role"),
        (append(vec![user("u8"), json!({"role": "activity", "content": {}})]), 400, "bad_request", "messages[1].activity_type"),
        (append(vec![user("hw_mine")]), 400, "reserved_id", ""),
        (json!({"type": "tool.result", "content": "x"}).to_string(), 400, "bad_request", "tool_call_id"),
        (json!({"type": "tool.result", "tool_call_id": "nobodys", "content": "x"}).to_string(), 409, "call_not_open", ""),
        (with(message("t1", "other"), "message", user("u9")).to_string(), 409, "turn_id_reused", ""),
    ];
    for (body, status, code, at) in cases {
        let answer = Exchange::post(app.address, "/v1/sessions/s1/inputs", &body).await.whole().await;
        let shown: String = body.chars().take(120).collect();
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{shown}");
        assert_eq!(answer.json().get("at").and_then(Value::as_str).unwrap_or_default(), at, "{shown}: {}", answer.text());
    }
    assert_eq!(app.get("/v1/sessions/s1/records").await.json(), before, "the log is unchanged");
    assert_eq!(said(&app.streamed("s1", &message("t2", "still there?")).await), "You said: still there?");
    assert_eq!(app.get("/v1/sessions").await.json()["sessions"].as_array().unwrap().len(), 1, "no session was made");
}

#[tokio::test]
async fn small_bodies_are_read_strictly() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    for (method, path, body, status, code) in [
        ("PATCH", "/v1/sessions/s1", "{", 400, "bad_json"),
        ("PATCH", "/v1/sessions/s1", "{}", 400, "bad_request"),
        ("PATCH", "/v1/sessions/s1", r#"{"name": "x"}"#, 400, "bad_request"),
        ("PATCH", "/v1/sessions/s1", r#"{"title": 1}"#, 400, "bad_request"),
        ("POST", "/v1/sessions/s1/head", "{}", 400, "bad_request"),
        ("POST", "/v1/sessions/s1/head", r#"{"head_id": "u-t1"}"#, 400, "bad_request"),
        ("POST", "/v1/sessions/s1/head", r#"{"node_id": ""}"#, 400, "bad_id"),
        ("POST", "/v1/sessions/s1/head", r#"{"node_id": "u-t1", "to_label": "x"}"#, 400, "bad_request"),
        ("POST", "/v1/sessions/s1/fork", "[]", 400, "bad_request"),
        ("POST", "/v1/sessions/s1/fork", r#"{"session": "s2"}"#, 400, "bad_request"),
        ("POST", "/v1/sessions/s1/fork", r#"{"session_id": ""}"#, 400, "bad_id"),
        ("POST", "/v1/inputs", r#"{"type": "client.cancel"}"#, 400, "bad_request"),
        ("POST", "/v1/inputs", r#"{"type": "tool.result", "tool_call_id": "c", "content": "x"}"#, 400, "bad_request"),
    ] {
        let answer = Exchange::send(app.address, method, path, &[], Some(body)).await.whole().await;
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{method} {path} {body}");
    }
    for query in ["limit=0", "limit=1001", "limit=x", "archived=maybe", "after=", "page=2"] {
        let answer = app.get(&format!("/v1/sessions?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
    let long = "x".repeat(129);
    for path in [format!("/v1/sessions/{long}"), format!("/v1/sessions/{long}/events"), format!("/v1/sessions/{long}/records")] {
        assert_eq!(app.get(&path).await.refusal(), (400, "bad_id".to_owned()), "{path}");
    }
    let deleted = app.ask("DELETE", &format!("/v1/sessions/{long}"), None).await;
    assert_eq!(deleted.refusal(), (400, "bad_id".to_owned()));
}

#[tokio::test]
async fn a_route_says_what_it_is_there_for() {
    let app = TestApp::start();
    for (method, path, allow) in [
        ("POST", "/v1/sessions", "GET, HEAD"),
        ("PUT", "/v1/sessions/s1", "GET, HEAD, PATCH, DELETE"),
        ("GET", "/v1/inputs", "POST"),
        ("GET", "/v1/sessions/s1/inputs", "POST"),
        ("DELETE", "/v1/sessions/s1/records", "GET, HEAD, POST"),
        ("HEAD", "/v1/sessions/s1/events", "GET"),
        ("POST", "/openapi.json", "GET, HEAD"),
        ("DELETE", "/agents/demo", "GET, POST"),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", app.address);
        let mut exchange = Exchange::raw(app.address, head.as_bytes()).await;
        while exchange.read().await {}
        let got = String::from_utf8_lossy(&exchange.got).to_ascii_lowercase();
        assert!(got.starts_with("http/1.1 405 "), "{method} {path}: {got}");
        assert!(got.contains(&format!("allow: {}\r\n", allow.to_ascii_lowercase())), "{method} {path}: {got}");
    }
}
