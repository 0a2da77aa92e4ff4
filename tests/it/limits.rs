//! Each limit at its value and one beyond it: what passes, what is refused, and with which code.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::app::{TestApp, said};
use crate::http::{Answer, Exchange, within};
use crate::socket::{Came, Client};

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// A native message for `session`.
fn message(turn: &str, text: &str) -> Value {
    json!({ "type": "client.message", "agent_id": "steady", "turn_id": turn, "stream": false,
            "message": { "id": format!("u-{turn}"), "role": "user", "content": text } })
}

async fn input(app: &TestApp, session: &str, turn: &str, text: &str) -> Answer {
    app.post(&format!("/v1/sessions/{session}/inputs"), &message(turn, text)).await
}

fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn a_head_has_a_limit() {
    let app = TestApp::with(|options| options.header_bytes_max = 2048);
    let host = app.address.to_string();
    let others = "/healthz".len() + "host".len() + host.len() + "x-long".len() + 2 * ": \r\n".len();
    for (bytes, status) in [(2048, 200), (2049, 431)] {
        let long = "x".repeat(bytes - others);
        let answer = Exchange::send(app.address, "GET", "/healthz", &[("host", &host), ("x-long", &long)], None).await.whole().await;
        assert_eq!(answer.status, status, "{bytes}");
        if status == 431 {
            assert_eq!((answer.refusal(), answer.json()["limit"].clone()), (refused(431, "head_too_large"), json!(2048)));
        }
    }
}

#[tokio::test]
async fn one_connection_more_is_closed_before_anything_is_read() {
    let app = TestApp::with(|options| options.connections_max = 2);
    let [_one, two] = [open(&app).await, open(&app).await];
    let mut third = within(tokio::net::TcpStream::connect(app.address)).await.unwrap();
    let mut got = Vec::new();
    // It may be cut before all of it was read.
    let _ = within(third.read_to_end(&mut got)).await;
    let got = String::from_utf8_lossy(&got).into_owned();
    assert!(got.starts_with("HTTP/1.1 503") && got.contains("\"too_many_connections\""), "{got}");
    drop((two, third));
    within(async {
        while !is_served(&app).await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A connection that was served, and stays.
async fn open(app: &TestApp) -> Exchange {
    let mut exchange = Exchange::send(app.address, "GET", "/healthz", &[], None).await;
    exchange.until("headwater").await;
    exchange
}

/// Whether a new connection is served.
async fn is_served(app: &TestApp) -> bool {
    let Ok(mut stream) = tokio::net::TcpStream::connect(app.address).await else { return false };
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut got = Vec::new();
    // Refused, it may be closed at any time.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await;
    let _ = stream.read_to_end(&mut got).await;
    got.starts_with(b"HTTP/1.1 200")
}

#[tokio::test]
async fn requests_of_a_peer_come_in_a_burst_and_then_wait() {
    let app = TestApp::with(|options| {
        options.limit_loopback = true;
        (options.peer_requests_per_sec, options.peer_requests_burst) = (number(1), number(5));
    });
    for _ in 0..5 {
        assert_eq!(app.get("/healthz").await.status, 200);
    }
    let mut answer = app.get("/healthz").await;
    for _ in 0..50 {
        if answer.status == 429 {
            break;
        }
        answer = app.get("/healthz").await;
    }
    assert_eq!(answer.refusal(), refused(429, "rate_limited"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    let app = TestApp::with(|options| (options.peer_requests_per_sec, options.peer_requests_burst) = (number(1), number(1)));
    for _ in 0..9 {
        assert_eq!(app.get("/healthz").await.status, 200, "peers on this machine aren't held to it");
    }
}

#[tokio::test]
async fn one_socket_more_is_refused() {
    let app = TestApp::with(|options| options.sockets_max = 1);
    let _one = Client::open(app.address, "/agents/demo").await;
    let upgrade = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let answer = Exchange::send(app.address, "GET", "/agents/demo", &upgrade, None).await.whole().await;
    assert_eq!(answer.refusal(), refused(503, "too_many_connections"));
}

#[tokio::test]
async fn a_socket_that_says_too_much_is_closed() {
    let app = TestApp::with(|options| (options.socket_frames_per_sec, options.socket_frames_burst) = (number(1), number(3)));
    let mut client = Client::open(app.address, "/agents/demo").await;
    for _ in 0..3 {
        client.say(&json!({ "type": "ping" })).await;
        assert_eq!(client.next().await, Came::Event(json!({ "type": "pong" })));
    }
    let mut came = Came::Event(Value::Null);
    for _ in 0..50 {
        client.say(&json!({ "type": "ping" })).await;
        came = client.next().await;
        if came != Came::Event(json!({ "type": "pong" })) {
            break;
        }
    }
    assert_eq!(came, Came::Closed(4029));
}

#[tokio::test]
async fn what_a_client_offers_has_limits() {
    let app = TestApp::with(|options| (options.tools_max, options.client_bytes_max, options.json_values_max) = (2, 500, 50));
    let tool = |n: usize| json!({ "name": format!("t{n}"), "description": "" });
    let asked = |field: &str, native: &str, value: &Value| {
        let (mut run, mut input) = (said("s1", "r1", "short"), message("r2", "short"));
        run[field] = value.clone();
        input["client"] = json!({ native: value });
        (run, input)
    };
    let tools = |count: usize| json!((0..count).map(tool).collect::<Vec<_>>());
    let cases = [
        ("tools", "tools", tools(2), tools(3)),
        ("state", "state", json!("x".repeat(490)), json!("x".repeat(499))),
        ("forwardedProps", "forwarded_props", json!({ "x": vec![1; 48] }), json!({ "x": vec![1; 49] })),
    ];
    for (n, (field, native, fine, too_much)) in cases.iter().enumerate() {
        let (run, mut body) = asked(field, native, too_much);
        assert_eq!(app.post("/agents/steady", &run).await.refusal(), refused(413, "content_too_large"), "{field}");
        assert_eq!(app.post("/v1/inputs", &body).await.refusal(), refused(413, "content_too_large"), "{native}");
        let (mut run, input) = asked(field, native, fine);
        (run["threadId"], run["context"], run["state"]) = (json!(format!("a{n}")), Value::Null, run["state"].clone());
        if *field != "forwardedProps" {
            run["forwardedProps"] = Value::Null;
        }
        let answer = app.post("/agents/steady", &run).await;
        assert_eq!(answer.status, 200, "{field}: {}", answer.text());
        body = input;
        body["turn_id"] = json!(format!("n{n}"));
        let answer = app.post("/v1/inputs", &body).await;
        assert_eq!(answer.status, 202, "{native}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_title_has_a_limit() {
    let app = TestApp::with(|options| options.title_bytes_max = 10);
    assert_eq!(input(&app, "s1", "t1", "short").await.status, 202);
    for (bytes, status) in [(10, 200), (11, 400)] {
        let body = json!({ "title": "x".repeat(bytes) }).to_string();
        let answer = Exchange::send(app.address, "PATCH", "/v1/sessions/s1", &[], Some(&body)).await.whole().await;
        assert_eq!(answer.status, status, "{bytes}: {}", answer.text());
    }
}

#[tokio::test]
async fn depth_is_refused_at_every_entry() {
    let app = TestApp::start();
    assert_eq!(input(&app, "s1", "t1", "short").await.status, 202);
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let run = |field: &str| format!(r#"{{"threadId": "s2", "runId": "r", "messages": [], "{field}": {deep}}}"#);
    let native = |field: &str| {
        format!(
            r#"{{"type": "client.message", "agent_id": "demo", "message": {{"role": "user", "content": "x", "{field}": {deep}}}, "client": {{"state": {deep}}}}}"#
        )
    };
    let bodies = [
        ("POST", "/agents/demo", run("state")),
        ("POST", "/agents/demo", run("forwardedProps")),
        ("POST", "/agents/demo", run("unknown")),
        ("POST", "/agents/demo", deep.clone()),
        ("POST", "/agents/demo/connect", run("state")),
        ("POST", "/agents/demo/stop/s1", format!(r#"{{"runId": {deep}}}"#)),
        ("POST", "/v1/inputs", native("metadata")),
        ("POST", "/v1/sessions/s1/inputs", native("unknown")),
        ("POST", "/v1/sessions/s1/head", format!(r#"{{"node_id": {deep}}}"#)),
        ("POST", "/v1/sessions/s1/fork", format!(r#"{{"at": {deep}}}"#)),
        ("PATCH", "/v1/sessions/s1", format!(r#"{{"title": {deep}}}"#)),
        ("POST", "/v1/sessions/s3/records", format!("{deep}\n")),
        (
            "POST",
            "/v1/sessions/s3/records",
            format!(
                "{{\"format\":\"headwater.session\",\"version\":1,\"session_id\":\"s3\",\"agent_id\":\"demo\"}}\n{{\"seq\":1,\"record\":{deep}}}\n"
            ),
        ),
    ];
    for (method, path, body) in bodies {
        // What the description says of bodies isn't asked of these.
        let bytes =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let answer = Exchange::raw(app.address, bytes.as_bytes()).await.whole().await;
        let (status, code) = answer.refusal();
        assert!(status == 400 && ["bad_json", "bad_request", "bad_import"].contains(&code.as_str()), "{path}: {status} {code}");
    }
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.send(tokio_tungstenite::tungstenite::Message::text(run("state"))).await;
    let event = client.event().await;
    assert_eq!((&event["type"], &event["code"]), (&json!("RUN_ERROR"), &json!("bad_json")), "{event}");
}

#[tokio::test]
async fn inputs_of_a_session_come_in_a_burst_and_then_wait() {
    let app = TestApp::limited("session_inputs_per_sec = 1\nsession_inputs_burst = 3");
    for n in 0..3 {
        assert_eq!(input(&app, "s1", &format!("t{n}"), "short").await.status, 202, "{n}");
        app.until("s1", |page| page["status"] == "idle").await;
    }
    let mut answer = input(&app, "s1", "t3", "short").await;
    for n in 4..50 {
        if answer.status == 429 {
            break;
        }
        app.until("s1", |page| page["status"] == "idle").await;
        answer = input(&app, "s1", &format!("t{n}"), "short").await;
    }
    assert_eq!(answer.refusal(), refused(429, "rate_limited"));
    assert_eq!(input(&app, "s2", "t1", "short").await.status, 202, "other sessions don't wait");
}

#[tokio::test]
async fn one_turn_more_is_refused_until_one_ends() {
    let app = TestApp::limited("running_turns_max = 2");
    for session in ["s1", "s2"] {
        assert_eq!(input(&app, session, "t1", "long").await.status, 202);
    }
    assert_eq!(input(&app, "s3", "t1", "short").await.refusal(), refused(503, "too_many_turns"));
    assert_eq!(app.get("/v1/sessions/s3").await.status, 404, "nothing was written");
    assert_eq!(app.post("/v1/sessions/s1/inputs", &json!({ "type": "client.cancel" })).await.status, 200);
    assert_eq!(input(&app, "s3", "t1", "short").await.status, 202);
}

#[tokio::test]
async fn the_sessions_that_were_idle_longest_leave_for_another() {
    let app = TestApp::limited("sessions_max = 2");
    for session in ["s1", "s2", "s3", "s4"] {
        assert_eq!(input(&app, session, "t1", "short").await.status, 202, "{session}");
        app.until(session, |page| page["status"] == "idle").await;
    }
    assert_eq!(app.nodes("s1").await.len(), 2, "it comes back");
}

#[tokio::test]
async fn a_session_more_is_refused_while_all_are_in_use() {
    let app = TestApp::limited("sessions_max = 2");
    assert_eq!(input(&app, "s1", "t1", "long").await.status, 202);
    assert_eq!(input(&app, "s2", "t1", "short").await.status, 202);
    app.until("s2", |page| page["status"] == "idle").await;
    let mut reader = Exchange::send(app.address, "GET", "/v1/sessions/s2/events", &[], None).await;
    reader.until("retry: ").await;
    let refusal = input(&app, "s3", "t1", "short").await;
    assert_eq!(refusal.refusal(), refused(503, "too_many_sessions"));
    assert_eq!(refusal.header("retry-after"), Some("1"));
    drop(reader);
    within(async {
        while input(&app, "s3", "t1", "short").await.status == 503 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_reply_asks_for_so_many_tools_with_so_much() {
    let paint = |thread: &str, text: &str| {
        let mut body = said(thread, "r1", text);
        body["tools"] = json!([{ "name": "paint", "description": "", "parameters": { "type": "object" } }]);
        body
    };
    let last = |events: Vec<Value>| events.last().cloned().unwrap();
    let app = TestApp::limited("reply_calls_max = 1");
    assert_eq!(last(app.run(&paint("s1", "paint")).await)["type"], "RUN_FINISHED");
    assert_eq!(last(app.run(&paint("s2", "paint twice")).await)["code"], "llm_bad_response");
    // {"what":"paint"} and one byte more.
    let app = TestApp::limited("arguments_bytes_max = 16");
    assert_eq!(last(app.run(&paint("s1", "paint")).await)["type"], "RUN_FINISHED");
    assert_eq!(last(app.run(&paint("s2", "paint!")).await)["code"], "llm_bad_response");
}
