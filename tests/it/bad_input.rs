//! Bad input: the documented answer, nothing written, and the next request works.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::app::{TestApp, check_run, said, text, view};
use crate::http::Exchange;

async fn refused(app: &TestApp, body: &str) -> (u16, String) {
    Exchange::post(app.address, "/agents/demo", body).await.whole().await.refusal()
}

async fn still_fine(app: &TestApp, before: &[Value]) {
    assert_eq!(app.nodes("s1").await, before, "the log is unchanged");
    let run = format!("after-{}", before.len());
    let events = app.run(&view("s1", &run, &[("u-r1", "hello"), ("u-last", "still there?")])).await;
    check_run(&events);
    assert_eq!(text(&events), "You said: still there?");
}

#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_is_written() {
    let app = TestApp::with(|options| {
        options.view_messages_max = 50;
        options.content_bytes_max = 10_000;
    });
    app.run(&said("s1", "r1", "hello")).await;
    let before = app.nodes("s1").await;
    let long_id = "x".repeat(10_000);
    let many: Vec<(String, &str)> = (0..51).map(|n| (format!("m{n}"), "x")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(id, text)| (id.as_str(), *text)).collect();
    let with_tools = {
        let mut body = said("s1", "r2", "x");
        body["tools"] = json!([{"name": "", "description": "", "parameters": {}}]);
        body
    };
    let cases: Vec<(String, u16, &str)> = vec![
        ("{".to_owned(), 400, "bad_json"),
        (String::new(), 400, "bad_json"),
        ("\u{0}".to_owned(), 400, "bad_json"),
        ("[]".to_owned(), 400, "bad_request"),
        (r#"{"threadId": "s1", "runId": "r2"}"#.to_owned(), 400, "bad_request"),
        (r#"{"threadId": 1, "runId": "r2", "messages": []}"#.to_owned(), 400, "bad_request"),
        (json!({"threadId": "", "runId": "r2", "messages": []}).to_string(), 400, "bad_id"),
        (json!({"threadId": long_id, "runId": "r2", "messages": []}).to_string(), 400, "bad_id"),
        (view("s1", "r2", &[("u9", "a"), ("u9", "b")]).to_string(), 400, "duplicate_message_id"),
        (view("s1", "r2", &[(&long_id, "a")]).to_string(), 400, "bad_id"),
        (view("s1", "r2", &many).to_string(), 413, "view_too_long"),
        (said("s1", "r2", &"x".repeat(10_001)).to_string(), 413, "content_too_large"),
        (with_tools.to_string(), 400, "bad_request"),
        (
            r#"{"threadId": "s1", "runId": "r2", "messages": [{"id": "u9", "role": "user", "content": "\ud800"}]}"#.to_owned(),
            400,
            "bad_json",
        ),
    ];
    for (body, status, code) in cases {
        let shown: String = body.chars().take(80).collect();
        assert_eq!(refused(&app, &body).await, (status, code.to_owned()), "{shown}");
    }
    still_fine(&app, &before).await;
}

#[tokio::test]
async fn a_duplicate_names_its_place() {
    let app = TestApp::start();
    let answer = app.post("/agents/demo", &view("s1", "r1", &[("u1", "a"), ("u2", "b"), ("u1", "c")])).await;
    assert_eq!(answer.refusal(), (400, "duplicate_message_id".to_owned()));
    assert_eq!(answer.json()["index"], 2);
    assert_eq!(app.get("/v1/sessions/s1").await.status, 404);
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let app = TestApp::with(|options| options.body_bytes_max = 10_000);
    app.run(&said("s1", "r1", "hello")).await;
    let before = app.nodes("s1").await;
    let large = said("s1", "r2", &"x".repeat(10_000)).to_string();
    assert_eq!(refused(&app, &large).await, (413, "body_too_large".to_owned()));

    let head = format!("POST /agents/demo HTTP/1.1\r\nHost: {}\r\nContent-Length: 999999999999\r\n\r\n", app.address);
    let declared = Exchange::raw(app.address, head.as_bytes()).await.whole().await;
    assert_eq!(declared.refusal(), (413, "body_too_large".to_owned()));

    let mut chunked = format!("POST /agents/demo HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", app.address);
    for piece in large.as_bytes().chunks(1000) {
        write!(chunked, "{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()).unwrap();
    }
    let undeclared = Exchange::raw(app.address, chunked.as_bytes()).await.whole().await;
    assert_eq!(undeclared.refusal(), (413, "body_too_large".to_owned()));
    still_fine(&app, &before).await;
}

#[tokio::test]
async fn a_body_has_a_time_limit() {
    let app = TestApp::with(|options| options.body_secs = 1);
    let head = format!("POST /agents/demo HTTP/1.1\r\nHost: {}\r\nContent-Length: 100\r\n\r\n{{", app.address);
    let answer = Exchange::raw(app.address, head.as_bytes()).await.whole().await;
    assert_eq!(answer.refusal(), (400, "bad_request".to_owned()));
}

#[tokio::test]
async fn the_content_type_is_not_asked_for() {
    let app = TestApp::start();
    let body = said("s1", "r1", "hello").to_string();
    let answer = Exchange::send(app.address, "POST", "/agents/demo", &[("Content-Type", "text/plain")], Some(&body)).await.whole().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn small_bodies_are_checked_too() {
    let app = TestApp::start();
    for (path, body, code) in [
        ("/agents/demo/connect", "{", "bad_json"),
        ("/agents/demo/connect", "{}", "bad_request"),
        ("/agents/demo/connect", r#"{"threadId": ""}"#, "bad_id"),
        ("/agents/demo/connect", r#"{"threadId": "s1", "runId": ""}"#, "bad_id"),
        ("/agents/demo/stop/s1", "{", "bad_json"),
        ("/agents/demo/stop/s1", r#"{"runId": 1}"#, "bad_request"),
    ] {
        assert_eq!(Exchange::post(app.address, path, body).await.whole().await.refusal(), (400, code.to_owned()), "{path} {body}");
    }
    let wrong = json!({"threadId": "s1", "runId": ["x".repeat(5000)], "protocolVersion": "x".repeat(5000)}).to_string();
    for body in [wrong, json!("x".repeat(5000)).to_string()] {
        let answer = Exchange::post(app.address, "/agents/demo/connect", &body).await.whole().await;
        assert!(answer.status == 400 && answer.body.len() < 1000, "an error repeats little of what was sent: {}", answer.text());
    }
    let long = "x".repeat(129);
    for path in [format!("/agents/demo/stop/{long}"), format!("/v1/sessions/{long}")] {
        let method = if path.starts_with("/v1") { "GET" } else { "POST" };
        let answer = Exchange::send(app.address, method, &path, &[], None).await.whole().await;
        assert_eq!(answer.refusal(), (400, "bad_id".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_answered_and_cut() {
    let app = TestApp::with(|options| options.body_bytes_max = 10_000);
    for path in ["/agents/demo", "/agents/nobody", "/nowhere"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", app.address);
        let mut endless = Exchange::raw(app.address, head.as_bytes()).await;
        let chunk = format!("2710\r\n{}\r\n", "x".repeat(10_000));
        let (mut reader, mut writer) = endless.stream.split();
        let sending = async { while tokio::io::AsyncWriteExt::write_all(&mut writer, chunk.as_bytes()).await.is_ok() {} };
        let receiving = async {
            // The cut may come as an end or as an error; what came before it counts.
            let mut got = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut got).await;
            String::from_utf8_lossy(&got).to_ascii_lowercase()
        };
        let ((), answer) = crate::http::within(async { tokio::join!(sending, receiving) }).await;
        assert!(answer.starts_with("http/1.1 4"), "{path}: {answer}");
        assert!(answer.contains("connection: close"), "{path}: {answer}");
    }
    assert_eq!(app.post("/agents/demo", &said("s1", "r1", "hello")).await.status, 200);
}

#[tokio::test]
async fn a_connection_goes_on_after_a_chunked_body_that_was_read() {
    let app = TestApp::start();
    let body = said("s1", "r1", "hello").to_string();
    let head = format!("POST /agents/demo HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", app.address);
    let mut exchange = Exchange::raw(app.address, format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).as_bytes()).await;
    exchange.until("RUN_FINISHED").await;
    let next = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", app.address);
    tokio::io::AsyncWriteExt::write_all(&mut exchange.stream, next.as_bytes()).await.expect("the connection is open");
    exchange.until("\"status\":\"ok\"").await;
}

#[tokio::test]
async fn an_encoded_body_is_refused_clearly() {
    let app = TestApp::start();
    let body = said("s1", "r1", "hello").to_string();
    for (encoding, status) in [("gzip", 415), ("br", 415), ("identity, gzip", 415), ("identity", 200), ("Identity", 200)] {
        let answer =
            Exchange::send(app.address, "POST", "/agents/demo", &[("Content-Encoding", encoding)], Some(&body)).await.whole().await;
        assert_eq!(answer.status, status, "{encoding}: {}", answer.text());
        if status == 415 {
            assert_eq!(answer.refusal(), (415, "unsupported_encoding".to_owned()));
            assert!(answer.text().contains("Content-Encoding"), "{}", answer.text());
        }
    }
}
