//! Sockets that break the rules, or don't read. Frames are written by hand.

use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;

use crate::app::{TestApp, said, text};
use crate::http::Exchange;
use crate::raw::{CONTINUES, ENDS, HANDSHAKE, PING, TEXT, TEXT_BEGINS, close_code, frame, upgraded};
use crate::socket::Client;

#[tokio::test]
async fn each_broken_rule_has_its_close_code() {
    let app = TestApp::with(|options| {
        options.frame_bytes_max = 1000;
        options.message_bytes_max = 3000;
        options.message_frames_max = 10;
    });
    let declared = frame(TEXT, &vec![b' '; 70_000])[..14].to_vec();
    let long: Vec<u8> = [frame(TEXT_BEGINS, &[b' '; 900]), frame(CONTINUES, &[b' '; 900]).repeat(3)].concat();
    let empty: Vec<u8> = [frame(TEXT_BEGINS, b""), frame(CONTINUES, b"").repeat(20)].concat();
    let cut_character: Vec<u8> = [frame(TEXT_BEGINS, b"\xc3"), frame(0x80, b"\x28")].concat();
    for (what, bytes, code) in [
        ("a frame that declares too much", declared, 1009),
        ("a message that is too long", long, 1009),
        ("a message of too many frames", empty, 1009),
        ("binary", frame(0x82, b"x"), 1003),
        ("bytes that aren't UTF-8", frame(TEXT, b"\xff"), 1007),
        ("a character cut wrongly", cut_character, 1007),
        ("no mask", vec![TEXT, 1, b'x'], 1002),
        ("a reserved bit", frame(0xc1, b"x"), 1002),
        ("an unknown kind", frame(0x83, b"x"), 1002),
        ("a continuation of nothing", frame(0x80, b"x"), 1002),
        ("a close code that nobody may send", frame(0x88, &999u16.to_be_bytes()), 1002),
    ] {
        let (mut stream, _) = upgraded(&app, &[]).await;
        stream.write_all(&bytes).await.unwrap();
        assert_eq!(close_code(&mut stream).await, Some(code), "{what}");
    }
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.say(&said("s1", "r1", "hello")).await;
    client.run().await;
}

#[tokio::test]
async fn a_message_may_come_in_pieces() {
    let app = TestApp::start();
    let (mut stream, _) = upgraded(&app, &[]).await;
    let body = said("s1", "r1", "hello ä").to_string();
    let mut bytes = Vec::new();
    for (n, piece) in body.as_bytes().chunks(7).enumerate() {
        bytes.extend(frame(if n == 0 { TEXT_BEGINS } else { CONTINUES }, piece));
        bytes.extend(frame(PING, b"?"));
    }
    bytes.extend(frame(ENDS, b""));
    for piece in bytes.chunks(3) {
        stream.write_all(piece).await.unwrap();
    }
    app.until("s1", |page| page["status"] == "idle").await;
    assert_eq!(app.nodes("s1").await[1]["message"]["content"], "You said: hello ä");
}

#[tokio::test]
async fn the_largest_limits_are_limits() {
    let app = TestApp::with(|options| {
        (options.outbox_batches_max, options.outbox_bytes_max, options.waiting_runs_max) = (usize::MAX, usize::MAX, usize::MAX);
        (options.ping_secs, options.keep_alive_secs, options.write_secs, options.body_secs) = (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        options.first_words_ms = u64::MAX;
    });
    let mut socket = Client::open(app.address, "/agents/demo").await;
    socket.say(&said("s1", "r1", "hello")).await;
    assert_eq!(text(&socket.run().await), "You said: hello");
    assert_eq!(text(&app.run(&said("s2", "r1", "hello")).await), "You said: hello");
}

#[tokio::test]
async fn an_unknown_subprotocol_is_refused_before_the_upgrade() {
    let app = TestApp::start();
    let headers = [&HANDSHAKE, &[("Sec-WebSocket-Protocol", "mqtt, graphql-ws")][..]].concat();
    let answer = Exchange::send(app.address, "GET", "/agents/demo", &headers, None).await.whole().await;
    assert_eq!(answer.refusal(), (400, "bad_request".to_owned()));
    assert!(answer.text().contains("ag-ui.ws.v1"), "{}", answer.text());
}

#[tokio::test]
async fn what_is_no_handshake_is_refused() {
    let app = TestApp::start();
    let answer = Exchange::send(app.address, "GET", "/agents/demo/ws", &[("Upgrade", "websocket")], None).await.whole().await;
    assert_eq!(answer.refusal(), (400, "bad_request".to_owned()));
}

#[tokio::test]
async fn a_peer_that_never_answers_is_dead() {
    let app = TestApp::with(|options| options.ping_secs = 1);
    let (mut stream, _) = upgraded(&app, &[]).await;
    let ended = tokio::time::timeout(Duration::from_secs(10), close_code(&mut stream)).await;
    assert!(ended.is_ok(), "two pings without an answer end the connection");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_and_slows_nobody() {
    let app = TestApp::with(|options| {
        options.outbox_bytes_max = 64 << 10;
        options.write_secs = 1;
        options.waiting_runs_max = 20;
    });
    let (mut stalled, _) = upgraded(&app, &[]).await;
    // One word, hence one token. Ten such replies are more than what the kernel keeps for a connection.
    let words = format!("flood-{}", "0123456789".repeat(220));
    for n in 0..10 {
        stalled.write_all(&frame(TEXT, said(&format!("s{n}"), "r1", &words).to_string().as_bytes())).await.unwrap();
    }
    let mut beside = Client::open(app.address, "/agents/demo").await;
    beside.say(&said("beside", "r1", "hello")).await;
    beside.run().await;

    tokio::time::timeout(Duration::from_mins(1), async {
        while SockRef::from(&stalled).take_error().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the connection is cut without anyone reading");
    let mut begun = 0;
    while app.get(&format!("/v1/sessions/s{begun}")).await.status == 200 {
        app.until(&format!("s{begun}"), |page| page["status"] == "idle").await;
        let nodes = app.nodes(&format!("s{begun}")).await;
        assert!(nodes.len() == 2 && nodes[1].get("partial").is_none(), "its turns go on to their end");
        begun += 1;
    }
    assert!((1..10).contains(&begun), "{begun} of its runs began");
    beside.send(Message::text(r#"{"type": "ping"}"#)).await;
    beside.event().await;
}
