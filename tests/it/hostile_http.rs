//! HTTP as nobody should speak it: what it means must never depend on who reads it, and nobody waits for ever.

use std::fmt::Write;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::app::{TestApp, said, text};
use crate::http::{Exchange, events, within};

/// Everything that comes back on a connection, to its end, which must come.
async fn answered(app: &TestApp, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    // The server may close before it has read everything.
    let _ = within(stream.write_all(bytes)).await;
    let mut got = Vec::new();
    within(async {
        let _ = stream.read_to_end(&mut got).await;
    })
    .await;
    String::from_utf8_lossy(&got).into_owned()
}

async fn still_fine(app: &TestApp) {
    assert_eq!(text(&app.run(&said("after", "r1", "hello")).await), "You said: hello");
    for session in ["s1", "smuggled"] {
        assert_eq!(app.get(&format!("/v1/sessions/{session}")).await.status, 404, "nothing was submitted to {session}");
    }
}

#[tokio::test]
async fn a_request_has_one_length() {
    let app = TestApp::start();
    let smuggled = {
        let body = said("smuggled", "r1", "hello").to_string();
        format!("POST /agents/demo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    for (what, lengths) in [
        ("two lengths", "Content-Length: 0\r\nContent-Length: 5".to_owned()),
        ("a list of lengths", "Content-Length: 0, 5".to_owned()),
        ("a length with a sign", "Content-Length: +5".to_owned()),
        ("a negative length", "Content-Length: -1".to_owned()),
        ("a length in hex", "Content-Length: 0x10".to_owned()),
        ("a length beyond all numbers", format!("Content-Length: {}", "9".repeat(40))),
        ("chunks in another coding", "Transfer-Encoding: chunked, identity".to_owned()),
        ("an unknown coding", "Transfer-Encoding: xchunked".to_owned()),
        ("a space before the colon", "Content-Length : 0".to_owned()),
        ("chunks over HTTP/1.0", "Transfer-Encoding: chunked".to_owned()),
    ] {
        let version = if what.ends_with("1.0") { "1.0" } else { "1.1" };
        let head = format!("POST /agents/demo HTTP/{version}\r\nHost: localhost\r\n{lengths}\r\n\r\n");
        let answer = answered(&app, format!("{head}{smuggled}").as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.0 4"), "{what}: {answer}");
        assert!(!answer.contains("RUN_STARTED"), "{what}: {answer}");
    }
    // Both a length and chunks: whoever stands before this server may read the one, this one the other.
    let head = "POST /agents/demo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer = answered(&app, format!("{head}0\r\n\r\n{smuggled}").as_bytes()).await;
    assert!(!answer.contains("RUN_STARTED"), "{answer}");
    still_fine(&app).await;
}

#[tokio::test]
async fn chunks_that_lie_are_refused() {
    let app = TestApp::start();
    let head = "POST /agents/demo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunk in [
        "zz\r\n{}\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\n{}\r\n",
        "-2\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}xx0\r\n\r\n",
        "2;a\nb\r\n{}\r\n0\r\n\r\n",
    ] {
        let answer = answered(&app, format!("{head}{chunk}").as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{chunk:?}: {answer}");
    }
    still_fine(&app).await;
}

#[tokio::test]
async fn garbage_ends_a_connection() {
    let app = TestApp::start();
    for garbage in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(),
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA\0B: c\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: line\r\n\r\n",
    ] {
        let answer = answered(&app, garbage).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{garbage:?}: {answer}");
    }
    let mut long = "GET / HTTP/1.1\r\nHost: localhost\r\n".to_owned();
    for n in 0..200_000 {
        write!(long, "x-{n}: y\r\n").unwrap();
    }
    let answer = answered(&app, long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let answer = answered(&app, format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20)).as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    still_fine(&app).await;
}

#[tokio::test]
async fn what_came_before_the_garbage_is_answered() {
    let app = TestApp::start();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = answered(&app, format!("{}\x16\x03\x01 garbage\r\n\r\n{request}", request.repeat(3)).as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    assert_eq!(answer.matches("\"status\":\"ok\"").count(), 3, "{answer}");
    still_fine(&app).await;
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let app = TestApp::start();
    let mut slow = TcpStream::connect(app.address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let (mut reader, mut writer) = slow.split();
    let mut got = Vec::new();
    // A byte now and then doesn't keep it open.
    let dripping = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            if writer.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    within(async {
        tokio::select! {
            _ = reader.read_to_end(&mut got) => {}
            () = dripping => {}
        }
    })
    .await;
    let answer = String::from_utf8_lossy(&got);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    still_fine(&app).await;
}

#[tokio::test]
async fn a_body_that_drips_is_given_up() {
    let app = TestApp::with(|options| options.body_secs = 1);
    for head in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
        let mut slow =
            Exchange::raw(app.address, format!("POST /agents/demo HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n").as_bytes()).await;
        let (mut reader, mut writer) = slow.stream.split();
        let mut got = vec![0; 4096];
        let dripping = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                if writer.write_all(b"1\r\n \r\n").await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let read = within(async {
            tokio::select! {
                read = reader.read(&mut got) => read,
                () = dripping => unreachable!("it drips until it is answered"),
            }
        })
        .await
        .unwrap();
        let answer = String::from_utf8_lossy(&got[..read]);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("did not arrive within 1 s"), "{head}: {answer}");
    }
    still_fine(&app).await;
}

#[tokio::test]
async fn json_without_bottom_and_halves_of_characters_are_refused_everywhere() {
    let app = TestApp::start();
    app.run(&said("known", "r1", "hello")).await;
    let before = app.nodes("known").await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let lone = r#""\ud800""#.to_owned();
    for (path, with) in [
        ("/agents/demo", r#"{"threadId": "known", "runId": "r2", "messages": [], "state": _}"#),
        ("/agents/demo", r#"{"threadId": "known", "runId": "r2", "messages": [{"id": "u9", "role": "user", "content": _}]}"#),
        ("/agents/demo", r#"{"threadId": "known", "runId": "r2", "messages": [], "forwardedProps": {"x": _}}"#),
        ("/agents/demo", r#"{"threadId": "known", "runId": "r2", "messages": [], "context": [{"description": "d", "value": _}]}"#),
        ("/agents/demo/connect", r#"{"threadId": _}"#),
        ("/agents/demo/stop/known", r#"{"runId": _}"#),
        ("/v1/inputs", r#"{"type": "client.message", "agent_id": "demo", "message": {"role": "user", "content": _}}"#),
        (
            "/v1/sessions/known/inputs",
            r#"{"type": "client.message", "agent_id": "demo", "client": {"state": _}, "message": {"role": "user", "content": "x"}}"#,
        ),
        (
            "/v1/sessions/known/inputs",
            r#"{"type": "client.append", "agent_id": "demo", "messages": [{"role": "user", "content": "x", "metadata": {"x": _}}]}"#,
        ),
        ("/v1/sessions/known/head", r#"{"node_id": _}"#),
        ("/v1/sessions/known/fork", r#"{"session_id": _}"#),
    ] {
        for bad in [&deep, &objects, &lone] {
            let answer = Exchange::post(app.address, path, &with.replace('_', bad)).await.whole().await;
            let shown: String = bad.chars().take(10).collect();
            assert_eq!(answer.status, 400, "{path} {with} {shown}: {}", answer.text());
            assert!(answer.body.len() < 1000, "an error repeats little of what was sent");
        }
    }
    assert_eq!(app.nodes("known").await, before);
    still_fine(&app).await;
}

#[tokio::test]
async fn packed_bodies_are_never_unpacked() {
    let app = TestApp::start();
    // What gzip makes of a megabyte of zeros would be longer than this; the answer doesn't depend on it.
    let bomb = "\u{1f}\u{8}\u{0}".repeat(100);
    for path in ["/agents/demo", "/agents/demo/connect", "/v1/inputs", "/v1/sessions/s1/records"] {
        for encoding in ["gzip", "br", "deflate", "zstd", "identity, gzip"] {
            let answer = Exchange::send(app.address, "POST", path, &[("Content-Encoding", encoding)], Some(&bomb)).await.whole().await;
            assert_eq!(answer.refusal(), (415, "unsupported_encoding".to_owned()), "{path} {encoding}");
            assert!(answer.text().contains("Content-Encoding"), "{}", answer.text());
        }
    }
    let body = said("after", "r0", "hello").to_string();
    let answer = Exchange::send(app.address, "POST", "/agents/demo", &[("Content-Encoding", "identity")], Some(&body)).await.whole().await;
    assert_eq!(text(&events(&answer.text())), "You said: hello");
    assert_eq!(json!(answer.status), 200);
}
