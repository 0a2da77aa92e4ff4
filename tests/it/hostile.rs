//! Sockets on which somebody tries what the protocol doesn't allow. Frames are written by hand.

use tokio::io::AsyncWriteExt;

use crate::app::{TestApp, said, text};
use crate::http::{Exchange, within};
use crate::raw::{
    BINARY, CLOSE, CONTINUES, ENDS, HANDSHAKE, PING, PONG, TEXT, TEXT_BEGINS, close_code, closed_after, frame, to_end, upgraded,
};
use crate::socket::Client;

/// The server is as it was for everyone else.
async fn still_fine(app: &TestApp) {
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.say(&said("after", "r1", "hello")).await;
    assert_eq!(text(&client.run().await), "You said: hello");
    assert_eq!(app.get("/v1/sessions/s1").await.status, 404, "nothing was submitted");
}

#[tokio::test]
async fn b26_empty_continuations() {
    let app = TestApp::start();
    let pings: Vec<u8> = [frame(TEXT_BEGINS, b""), [frame(CONTINUES, b""), frame(PING, b"")].concat().repeat(20_000)].concat();
    let million: Vec<u8> = [frame(TEXT_BEGINS, b"{"), frame(CONTINUES, b"").repeat(1_000_000)].concat();
    for (what, bytes) in [("a million", million), ("with pings between", pings)] {
        let (mut stream, _) = upgraded(&app, &[]).await;
        let (mut reader, mut writer) = stream.split();
        let sending = async {
            // The server closes long before it has read everything.
            let _ = writer.write_all(&bytes).await;
        };
        let mut got = Vec::new();
        let receiving = async {
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut got).await;
        };
        within(async { tokio::join!(sending, receiving) }).await;
        let mut rest = got.as_slice();
        let close = std::iter::from_fn(|| crate::raw::next(&mut rest)).find(|got| got.first == CLOSE);
        assert_eq!(close.expect(what).payload[..2], 1009u16.to_be_bytes(), "{what}");
    }
    still_fine(&app).await;
}

#[tokio::test]
async fn b28_text_that_is_not_utf8() {
    let app = TestApp::start();
    let body = said("s1", "r1", "?").to_string().into_bytes();
    let at = body.iter().position(|byte| *byte == b'?').unwrap();
    let split = |bad: &[u8]| {
        let middle = [&body[at - 3..at], bad, &body[at + 1..at + 4]].concat();
        [frame(TEXT_BEGINS, &body[..at - 3]), frame(CONTINUES, &middle), frame(ENDS, &body[at + 4..])].concat()
    };
    for (what, bad) in [
        ("no character", b"\xff".as_slice()),
        ("a surrogate", b"\xed\xa0\x80"),
        ("longer than it may be", b"\xc0\xaf"),
        ("beyond the last one", b"\xf4\x90\x80\x80"),
        ("cut short", b"\xe2\x82"),
    ] {
        assert_eq!(closed_after(&app, &split(bad)).await, Some(1007), "{what}");
        assert_eq!(closed_after(&app, &frame(TEXT, bad)).await, Some(1007), "{what}, in one frame");
    }
    let cut = [frame(TEXT_BEGINS, b"\"\xe2\x82"), frame(ENDS, b"")].concat();
    assert_eq!(closed_after(&app, &cut).await, Some(1007), "the last character isn't whole");
    still_fine(&app).await;
    // One that is only cut between frames is fine.
    let (mut stream, _) = upgraded(&app, &[]).await;
    stream.write_all(&split("€".as_bytes())).await.unwrap();
    app.until("s1", |page| page["status"] == "idle").await;
    assert_eq!(app.nodes("s1").await[1]["message"]["content"], "You said: €");
}

#[tokio::test]
async fn b28_close_codes() {
    let app = TestApp::start();
    for code in [0u16, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
        assert_eq!(closed_after(&app, &frame(CLOSE, &code.to_be_bytes())).await, Some(1002), "{code}");
    }
    assert_eq!(closed_after(&app, &frame(CLOSE, &[3])).await, Some(1002), "half a code");
    assert_eq!(closed_after(&app, &frame(CLOSE, &[&1000u16.to_be_bytes(), b"\xff".as_slice()].concat())).await, Some(1002));
    assert_eq!(closed_after(&app, &frame(CLOSE, &[3; 126])).await, Some(1002), "longer than control frames may be");
    for code in [1000u16, 1001, 1003, 1007, 1011, 3000, 4999] {
        assert_eq!(closed_after(&app, &frame(CLOSE, &code.to_be_bytes())).await, Some(code), "{code} comes back");
    }
    assert_eq!(closed_after(&app, &frame(CLOSE, b"")).await, Some(1005));
    still_fine(&app).await;
}

#[tokio::test]
async fn frames_that_the_protocol_does_not_allow() {
    let app = TestApp::start();
    let (mut unmasked, mut masked) = (frame(TEXT, b"{}"), frame(PING, b"?"));
    unmasked[1] &= 0x7f;
    unmasked.drain(2..6);
    masked[0] |= 0x40;
    for (what, bytes, code) in [
        ("binary", frame(BINARY, b"{}"), 1003),
        ("binary in pieces", [frame(0x02, b"{"), frame(ENDS, b"}")].concat(), 1003),
        ("no mask", unmasked, 1002),
        ("reserved bit 1", frame(TEXT | 0x40, b"{}"), 1002),
        ("reserved bit 2", frame(TEXT | 0x20, b"{}"), 1002),
        ("reserved bit 3", frame(TEXT | 0x10, b"{}"), 1002),
        ("a reserved bit of a ping", masked, 1002),
        ("a data frame of no known kind", frame(0x87, b""), 1002),
        ("a control frame of no known kind", frame(0x8f, b""), 1002),
        ("a ping in pieces", frame(0x09, b"?"), 1002),
        ("a close in pieces", frame(0x08, &1000u16.to_be_bytes()), 1002),
        ("a ping that is too long", frame(PING, &[0; 126]), 1002),
        ("a text within a text", [frame(TEXT_BEGINS, b"{"), frame(TEXT, b"{}")].concat(), 1002),
        ("a continuation of nothing", frame(CONTINUES, b"x"), 1002),
        (
            "256 MB are announced",
            frame(TEXT, &vec![b' '; 70_000])[..2].iter().copied().chain([0, 0, 0, 0, 16, 0, 0, 0]).chain([0; 64]).collect(),
            1009,
        ),
        ("the longest frame there is", [vec![TEXT, 0xff], vec![0xff; 8], vec![0; 64]].concat(), 1009),
    ] {
        assert_eq!(closed_after(&app, &bytes).await, Some(code), "{what}");
    }
    still_fine(&app).await;
}

#[tokio::test]
async fn pings_and_pongs_may_come_in_any_number() {
    let app = TestApp::start();
    let (mut stream, _) = upgraded(&app, &[]).await;
    let bytes: Vec<u8> = [frame(PONG, b"unasked").repeat(500), frame(PING, b"are you there").repeat(100), frame(CLOSE, b"")].concat();
    stream.write_all(&bytes).await.unwrap();
    let got = to_end(&mut stream).await;
    assert_eq!(got.iter().filter(|got| got.first == PONG && got.payload == b"are you there").count(), 100);
    assert_eq!(got.last().unwrap().first, CLOSE);
}

#[tokio::test]
async fn who_pings_and_never_reads_is_closed() {
    let app = TestApp::with(|options| options.write_secs = 1);
    let (mut stream, _) = upgraded(&app, &[]).await;
    let pings = frame(PING, &[b'x'; 125]).repeat(1000);
    let refused = within(async {
        loop {
            if let Err(error) = stream.write_all(&pings).await {
                return error;
            }
        }
    })
    .await;
    assert!(matches!(refused.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset), "{refused}");
    still_fine(&app).await;
}

#[tokio::test]
async fn a_whole_conversation_may_come_byte_by_byte() {
    let app = TestApp::start();
    let mut head = format!("GET /agents/demo HTTP/1.1\r\nHost: {}\r\n", app.address);
    head.extend(HANDSHAKE.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
    let request = [head.into_bytes(), b"\r\n".to_vec()].concat();
    let mut exchange = Exchange::raw(app.address, &request[..1]).await;
    exchange.stream.set_nodelay(true).unwrap();
    for byte in &request[1..] {
        exchange.stream.write_all(&[*byte]).await.unwrap();
    }
    exchange.until("\r\n\r\n").await;
    let body = said("s1", "r1", "hello ä").to_string();
    for byte in [frame(TEXT, body.as_bytes()), frame(PING, b"?")].concat() {
        exchange.stream.write_all(&[byte]).await.unwrap();
    }
    exchange.until("RUN_FINISHED").await;
    assert_eq!(app.nodes("s1").await[1]["message"]["content"], "You said: hello ä");
    exchange.stream.write_all(&frame(CLOSE, b"")).await.unwrap();
    assert_eq!(close_code(&mut exchange.stream).await, Some(1005));
}

#[tokio::test]
async fn json_without_bottom_and_halves_of_characters_are_refused_on_sockets() {
    let app = TestApp::start();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let lone = r#"{"threadId": "s1", "runId": "r1", "messages": [{"id": "u1", "role": "user", "content": "\ud800"}]}"#;
    let in_state = format!(r#"{{"threadId": "s1", "runId": "r1", "messages": [], "state": {deep}}}"#);
    let mut client = Client::open(app.address, "/agents/demo").await;
    for bad in [deep.as_str(), in_state.as_str(), lone, "{\"type\": \"ping\"", "\u{0}"] {
        client.send(tokio_tungstenite::tungstenite::Message::text(bad)).await;
        let event = client.event().await;
        let shown: String = bad.chars().take(60).collect();
        assert_eq!(event["type"], "RUN_ERROR", "{shown}: {event}");
        assert!(["bad_json", "bad_request"].contains(&event["code"].as_str().unwrap()), "{shown}: {event}");
    }
    client.say(&said("s2", "r1", "hello")).await;
    assert_eq!(text(&client.run().await), "You said: hello");
    still_fine(&app).await;
}

#[tokio::test]
async fn b30_pages_of_other_origins_open_no_socket() {
    let local = TestApp::start();
    let listed = TestApp::with(|options| options.origins = vec!["https://app.example.com".to_owned(), "http://localhost:3000".to_owned()]);
    let evil = [
        "https://evil.example",
        "null",
        "NULL",
        "https://app.example.com.evil.example",
        "https://evil-app.example.com",
        "https://evil.example/https://app.example.com",
        "https://app.example.com@evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "file://",
        "chrome-extension://abcdefg",
    ];
    let almost = [
        "http://app.example.com",
        "https://app.example.com:443",
        "https://app.example.com:8443",
        "https://APP.example.com",
        "HTTPS://app.example.com",
        "https://app.example.com/",
        "https://app.example.com.",
        "http://localhost:3001",
        "http://localhost",
        "https://localhost:3000",
    ];
    let open = async |app: &TestApp, origin: &[(&str, &str)]| {
        let headers = [&HANDSHAKE, origin, &[("Cookie", "session=valid")]].concat();
        Exchange::send(app.address, "GET", "/agents/demo", &headers, None).await.whole().await
    };
    for origin in evil {
        for app in [&local, &listed] {
            let answer = open(app, &[("Origin", origin)]).await;
            assert_eq!(answer.refusal(), (403, "origin_refused".to_owned()), "{origin}");
            assert_eq!(answer.header("sec-websocket-accept"), None, "{origin}");
        }
    }
    for origin in almost {
        assert_eq!(open(&listed, &[("Origin", origin)]).await.refusal(), (403, "origin_refused".to_owned()), "{origin}");
    }
    for two in [["https://app.example.com", "https://evil.example"], ["https://evil.example", "https://app.example.com"]] {
        let answer = open(&listed, &two.map(|origin| ("Origin", origin))).await;
        assert_eq!(answer.refusal(), (403, "origin_refused".to_owned()), "{two:?}");
    }
    for (app, origin) in [(&listed, "https://app.example.com"), (&listed, "http://localhost:3000"), (&local, "http://127.0.0.1:5173")] {
        let mut exchange =
            Exchange::send(app.address, "GET", "/agents/demo", &[&HANDSHAKE, [("Origin", origin)].as_slice()].concat(), None).await;
        exchange.until("HTTP/1.1 101 ").await;
    }
}
