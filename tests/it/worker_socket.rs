//! Workers that dial in, over real sockets.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::app::{TestApp, check_run, said, text};
use crate::http::{Exchange, events, within};
use crate::raw::{HANDSHAKE, TEXT, close_code, frame, next};
use crate::socket::{Came, Client};

/// A worker of `agent` that was welcomed.
async fn worker(app: &TestApp, agent: &str, credit: u32) -> Client {
    let mut client = Client::open(app.address, "/v1/worker").await;
    client.say(&json!({"type": "hello", "agent_ids": [agent], "credit": credit, "name": "a test"})).await;
    let welcome = client.event().await;
    assert_eq!((&welcome["type"], &welcome["credit"]), (&json!("welcome"), &json!(credit)), "{welcome}");
    client
}

/// The next decision that a worker is asked.
async fn decision(client: &mut Client) -> Value {
    loop {
        let frame = client.event().await;
        match frame["type"].as_str() {
            Some("decision") => return frame["decision"].clone(),
            Some("answered" | "cancelled") => {}
            _ => panic!("{frame}"),
        }
    }
}

async fn answer(client: &mut Client, decision: &Value, answer: &Value) {
    client.say(&json!({"type": "answer", "decision_id": decision["decision_id"], "answer": answer})).await;
}

/// Answers, and waits until that was carried out.
async fn settle(client: &mut Client, decision: &Value, said: &Value) {
    answer(client, decision, said).await;
    within(async { while client.event().await != json!({"type": "answered", "decision_id": decision["decision_id"]}) {} }).await;
}

/// Does what is proposed until `decisions` were answered for good; which ones it was asked.
async fn accept(mut client: Client, decisions: usize) -> (Client, Vec<Value>) {
    let (mut asked, mut taken) = (Vec::new(), 0);
    while taken < decisions {
        let frame = client.event().await;
        match frame["type"].as_str() {
            Some("decision") => {
                answer(&mut client, &frame["decision"], &frame["decision"]["proposed"]).await;
                asked.push(frame["decision"].clone());
            }
            Some("answered") => taken += 1,
            _ => panic!("{frame}"),
        }
    }
    (client, asked)
}

/// A run of an agent, as its events.
async fn run(address: SocketAddr, agent: &str, thread: &str, words: &str) -> Vec<Value> {
    let body = said(thread, "r1", words).to_string();
    let answer = Exchange::post(address, &format!("/agents/{agent}"), &body).await.whole().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    events(&answer.text())
}

fn says(events: &[Value], words: &str) {
    check_run(events);
    assert_eq!((text(events).as_str(), &events.last().unwrap()["type"]), (words, &json!("RUN_FINISHED")), "{events:?}");
}

#[tokio::test]
async fn a_turn_is_decided_over_a_socket() {
    let app = TestApp::with_workers(|_| {});
    let worker = worker(&app, "bot", 4).await;
    let (events, (_worker, asked)) = tokio::join!(run(app.address, "bot", "s1", "hello"), accept(worker, 2));
    says(&events, "You said: hello");
    let kinds: Vec<_> = asked.iter().map(|decision| &decision["trigger"]["type"]).collect();
    assert_eq!(kinds, ["client.messages", "llm.finished"]);
    assert_eq!((&asked[0]["agent_id"], &asked[0]["session_id"], &asked[0]["attempt"]), (&json!("bot"), &json!("s1"), &json!(1)));
    assert_eq!(asked[0]["messages"][0]["content"], "hello");
}

#[tokio::test]
async fn several_workers_share_the_decisions_of_an_agent() {
    let app = TestApp::with_workers(|_| {});
    let (mut one, mut two) = (worker(&app, "bot", 1).await, worker(&app, "bot", 1).await);
    let turns = ["s1", "s2", "s3"].map(|session| run(app.address, "bot", session, session));
    let turns = futures_util::future::join_all(turns);
    let decide = async {
        // Each has one of the three; the third waits.
        let first = [decision(&mut one).await, decision(&mut two).await];
        let sessions: BTreeSet<_> = first.iter().map(|decision| decision["session_id"].to_string()).collect();
        assert_eq!(sessions.len(), 2);
        answer(&mut one, &first[0], &first[0]["proposed"]).await;
        answer(&mut two, &first[1], &first[1]["proposed"]).await;
        let mut left = 4;
        while left > 0 {
            tokio::select! {
                asked = decision(&mut one) => answer(&mut one, &asked, &asked["proposed"]).await,
                asked = decision(&mut two) => answer(&mut two, &asked, &asked["proposed"]).await,
            }
            left -= 1;
        }
    };
    let (turns, ()) = tokio::join!(turns, decide);
    for (events, session) in turns.iter().zip(["s1", "s2", "s3"]) {
        says(events, &format!("You said: {session}"));
    }
}

#[tokio::test]
async fn a_worker_that_dies_gives_its_decision_to_another() {
    let app = TestApp::with_workers(|_| {});
    let mut dies = worker(&app, "bot", 1).await;
    let turn = run(app.address, "bot", "s1", "hello");
    let decide = async {
        let first = decision(&mut dies).await;
        let mut lives = worker(&app, "bot", 1).await;
        drop(dies);
        let again = decision(&mut lives).await;
        assert_eq!(again, first, "the same decision, the same attempt");
        answer(&mut lives, &again, &again["proposed"]).await;
        let last = decision(&mut lives).await;
        settle(&mut lives, &last, &json!({})).await;
    };
    let (events, ()) = tokio::join!(turn, decide);
    says(&events, "You said: hello");
}

#[tokio::test]
async fn what_a_worker_worked_out_meanwhile_counts_when_it_is_back() {
    let app = TestApp::with_workers(|_| {});
    let mut first = worker(&app, "bot", 1).await;
    let turn = run(app.address, "bot", "s1", "hello");
    let decide = async {
        let asked = decision(&mut first).await;
        drop(first);
        let mut back = worker(&app, "bot", 0).await;
        answer(&mut back, &asked, &asked["proposed"]).await;
        assert_eq!(back.event().await, json!({"type": "answered", "decision_id": asked["decision_id"]}));
        // Sent once more, it is the same answer.
        answer(&mut back, &asked, &json!({})).await;
        assert_eq!(back.event().await["type"], "answered");
        back.say(&json!({"type": "credit", "credit": 1})).await;
        let last = decision(&mut back).await;
        assert_eq!(last["trigger"]["type"], "llm.finished");
        settle(&mut back, &last, &last["proposed"]).await;
    };
    let (events, ()) = tokio::join!(turn, decide);
    says(&events, "You said: hello");
}

#[tokio::test]
async fn a_turn_waits_for_a_worker_that_comes_later() {
    let app = TestApp::with_workers(|_| {});
    let turn = run(app.address, "bot", "s1", "hello");
    let decide = async {
        app.until("s1", |page| page["status"] == "running").await;
        accept(worker(&app, "bot", 1).await, 2).await
    };
    let (events, _) = tokio::join!(turn, decide);
    says(&events, "You said: hello");
}

#[tokio::test]
async fn an_answer_that_cannot_be_carried_out_is_refused_and_asked_again() {
    let app = TestApp::with_workers(|_| {});
    let mut bot = worker(&app, "bot", 1).await;
    let turn = run(app.address, "bot", "s1", "hello");
    let decide = async {
        let mut asked = decision(&mut bot).await;
        for (n, (wrong, at)) in [
            (json!({"actions": [{"type": "fly"}]}), "actions[0].type"),
            (json!({"actions": [{"type": "tool.call", "id": "unknown"}]}), "actions[0].id"),
        ]
        .into_iter()
        .enumerate()
        {
            answer(&mut bot, &asked, &wrong).await;
            let refused = bot.event().await;
            assert_eq!((&refused["type"], &refused["decision_id"]), (&json!("refused"), &asked["decision_id"]), "{refused}");
            assert_eq!((&refused["error"], &refused["at"]), (&json!("bad_answer"), &json!(at)), "{refused}");
            assert!(refused["message"].is_string() && refused["because"].is_string(), "{refused}");
            let again = decision(&mut bot).await;
            assert_eq!((&again["decision_id"], &again["attempt"]), (&asked["decision_id"], &json!(n + 2)));
            asked = again;
        }
        bot.say(&json!({"type": "failed", "decision_id": asked["decision_id"], "message": "not today"})).await;
        // It needn't be asked again to have its say, however wrong that is at first.
        answer(&mut bot, &asked, &json!({"actions": 1})).await;
        within(async { while bot.event().await["type"] != "refused" {} }).await;
        answer(&mut bot, &asked, &asked["proposed"]).await;
        // The next decision may come before it is told that this one was taken.
        let mut last = decision(&mut bot).await;
        while last["decision_id"] == asked["decision_id"] {
            last = decision(&mut bot).await;
        }
        settle(&mut bot, &last, &last["proposed"]).await;
    };
    let (events, ()) = tokio::join!(turn, decide);
    says(&events, "You said: hello");
}

#[tokio::test]
async fn a_decision_that_nobody_wants_is_cancelled() {
    let app = TestApp::with_workers(|_| {});
    let mut bot = worker(&app, "bot", 1).await;
    let turn = run(app.address, "bot", "s1", "hello");
    let decide = async {
        let asked = decision(&mut bot).await;
        assert_eq!(app.post("/agents/bot/stop/s1", &json!({})).await.json(), json!({"stopped": true}));
        assert_eq!(bot.event().await, json!({"type": "cancelled", "decision_id": asked["decision_id"]}));
        answer(&mut bot, &asked, &json!({})).await;
        let refused = bot.event().await;
        assert_eq!((&refused["type"], &refused["error"]), (&json!("refused"), &json!("decision_closed")), "{refused}");
        // Its credit is back.
        let (events, _) = tokio::join!(run(app.address, "bot", "s2", "more"), accept(bot, 2));
        says(&events, "You said: more");
    };
    tokio::join!(turn, decide);
}

/// Dials with these headers; what comes after the hello, and how the socket was closed.
async fn refused(app: &TestApp, authorization: Option<&str>, hello: &Value) -> (Value, Came) {
    let mut request = format!("ws://{}/v1/worker", app.address).into_client_request().unwrap();
    if let Some(authorization) = authorization {
        request.headers_mut().insert("authorization", authorization.parse().unwrap());
    }
    let mut client = Client::over(within(connect_async(request)).await.expect("the socket opens").0);
    client.say(hello).await;
    let first = client.event().await;
    let then = if first["type"] == "error" { client.next().await } else { Came::Ended };
    (first, then)
}

#[tokio::test]
async fn a_worker_serves_only_agents_that_it_may() {
    let app = TestApp::with_workers(|_| {});
    let hello = |agents: &[&str]| json!({"type": "hello", "agent_ids": agents});
    let with_token = |agents: &[&str], token: &str| json!({"type": "hello", "agent_ids": agents, "token": token});
    for (header, hello, code, close) in [
        (None, hello(&["nobody"]), "worker_not_allowed", 4003),
        (None, hello(&["demo"]), "worker_not_allowed", 4003),
        (None, hello(&["bot", "demo"]), "worker_not_allowed", 4003),
        (None, hello(&["guarded"]), "unauthorized", 4001),
        (None, with_token(&["guarded"], "s3cre"), "unauthorized", 4001),
        (Some("Bearer wrong"), hello(&["guarded"]), "unauthorized", 4001),
        (Some("Basic s3cret"), hello(&["guarded"]), "unauthorized", 4001),
    ] {
        let (error, closed) = refused(&app, header, &hello).await;
        assert_eq!((&error["type"], &error["error"]), (&json!("error"), &json!(code)), "{hello}: {error}");
        assert_eq!(closed, Came::Closed(close), "{hello}");
        assert!(!error.to_string().contains("s3cre"), "{error}");
    }
    for (header, hello) in [
        (None, with_token(&["guarded", "bot"], "s3cret")),
        (Some("Bearer s3cret"), hello(&["guarded"])),
        (Some("bearer s3cret"), hello(&["guarded"])),
    ] {
        assert_eq!(refused(&app, header, &hello).await.0["type"], "welcome", "{hello}");
    }
}

#[tokio::test]
async fn one_worker_more_than_allowed_is_refused_and_room_comes_back() {
    let app = TestApp::with_workers(|_| {});
    let mut connected = Vec::new();
    for _ in 0..3 {
        connected.push(worker(&app, "bot", 1).await);
    }
    let hello = json!({"type": "hello", "agent_ids": ["bot"]});
    let (error, closed) = refused(&app, None, &hello).await;
    assert_eq!((&error["error"], closed), (&json!("too_many_connections"), Came::Closed(1008)));
    drop(connected);
    Box::pin(within(async { while refused(&app, None, &hello).await.0["type"] != "welcome" {} })).await;
}

#[tokio::test]
async fn garbage_is_refused_and_the_worker_goes_on() {
    let app = TestApp::with_workers(|_| {});
    let mut client = Client::open(app.address, "/v1/worker").await;
    let expect = async |client: &mut Client, frame: &str, code: &str| {
        client.send(Message::text(frame)).await;
        let error = client.event().await;
        assert_eq!((&error["type"], &error["error"]), (&json!("error"), &json!(code)), "{frame}: {error}");
    };
    for (frame, code) in [
        ("{", "bad_json"),
        ("\"hello\"", "bad_request"),
        (r#"{"type":"credit","credit":1}"#, "bad_request"),
        (r#"{"type":"answer","decision_id":"d","answer":{}}"#, "bad_request"),
        (r#"{"type":"hello","agent_ids":[]}"#, "bad_request"),
        (r#"{"type":"hello","agent_ids":"bot"}"#, "bad_request"),
    ] {
        expect(&mut client, frame, code).await;
    }
    client.say(&json!({"type": "ping", "ref": "1"})).await;
    assert_eq!(client.event().await, json!({"type": "pong", "ref": "1"}));
    client.say(&json!({"type": "hello", "ref": "2", "agent_ids": ["bot"], "credit": 99_999})).await;
    let welcome = client.event().await;
    assert_eq!((&welcome["ref"], &welcome["credit"], &welcome["limits"]["credit_max"]), (&json!("2"), &json!(256), &json!(256)));
    for (frame, code) in [
        (r#"{"type":"hello","agent_ids":["bot"]}"#, "bad_request"),
        (r#"{"type":"answer","decision_id":"d"}"#, "bad_request"),
        (r#"{"type":"decision"}"#, "bad_request"),
        ("{\"type\":", "bad_json"),
    ] {
        expect(&mut client, frame, code).await;
    }
    client.say(&json!({"type": "answer", "decision_id": "nobody's", "answer": {}})).await;
    let refused = client.event().await;
    assert_eq!(
        (&refused["type"], &refused["error"], &refused["decision_id"]),
        (&json!("refused"), &json!("decision_closed"), &json!("nobody's"))
    );
    client.say(&json!({"type": "failed", "decision_id": "nobody's"})).await;
    assert_eq!(client.event().await["error"], "decision_closed");
    let (events, _) = tokio::join!(run(app.address, "bot", "s1", "hello"), accept(client, 2));
    says(&events, "You said: hello");
}

#[tokio::test]
async fn answers_come_as_fast_as_questions_and_a_flood_ends_the_socket() {
    let app = TestApp::with_workers(|options| {
        options.socket_frames_per_sec = 1.try_into().unwrap();
        options.socket_frames_burst = 4.try_into().unwrap();
    });
    let mut bot = worker(&app, "bot", 4).await;
    for session in ["s1", "s2", "s3", "s4"] {
        let (events, (client, _)) = tokio::join!(run(app.address, "bot", session, "hello"), accept(bot, 2));
        says(&events, "You said: hello");
        bot = client;
    }
    for _ in 0..10 {
        bot.say(&json!({"type": "answer", "decision_id": "nobody's", "answer": {}})).await;
    }
    assert_eq!(bot.closed().await, 4029);
}

/// A worker's connection, whose frames are written by hand, once it has said hello; the head of the handshake's answer.
async fn by_hand(app: &TestApp, more: &[(&str, &str)], credit: u32) -> (TcpStream, String) {
    let headers = [&HANDSHAKE[..], more].concat();
    let mut exchange = Exchange::send(app.address, "GET", "/v1/worker", &headers, None).await;
    exchange.until("\r\n\r\n").await;
    let head = String::from_utf8(exchange.got).unwrap();
    let hello = json!({"type": "hello", "agent_ids": ["bot"], "credit": credit}).to_string();
    exchange.stream.write_all(&frame(TEXT, hello.as_bytes())).await.unwrap();
    (exchange.stream, head)
}

/// Reads frames until one has `text` in it.
async fn until(stream: &mut TcpStream, text: &str) {
    let mut got = Vec::new();
    within(async {
        loop {
            let mut rest = got.as_slice();
            let frames: Vec<_> = std::iter::from_fn(|| next(&mut rest)).collect();
            if rest.is_empty() && frames.iter().any(|frame| String::from_utf8_lossy(&frame.payload).contains(text)) {
                return;
            }
            assert!(stream.read_buf(&mut got).await.unwrap() > 0, "{}", String::from_utf8_lossy(&got));
        }
    })
    .await;
}

#[tokio::test]
async fn too_large_a_frame_ends_the_socket_and_another_worker_goes_on() {
    let app = TestApp::with_workers(|_| {});
    let (mut stream, head) = by_hand(&app, &[("Sec-WebSocket-Protocol", "other, headwater.worker.v1")], 1).await;
    assert!(head.to_lowercase().contains("sec-websocket-protocol: headwater.worker.v1"), "{head}");
    let turn = run(app.address, "bot", "s1", "hello");
    let decide = async {
        until(&mut stream, "client.messages").await;
        // A gigabyte is announced; its header is enough.
        let declared = [&[TEXT, 0xff][..], &(1u64 << 30).to_be_bytes(), &[0; 4]].concat();
        stream.write_all(&declared).await.unwrap();
        assert_eq!(close_code(&mut stream).await, Some(1009));
        accept(worker(&app, "bot", 1).await, 2).await
    };
    let (events, _) = tokio::join!(turn, decide);
    says(&events, "You said: hello");
}

#[tokio::test]
async fn a_worker_that_reads_nothing_is_cut_and_another_goes_on() {
    let app = TestApp::with_workers(|options| options.write_secs = 1);
    let (mut stream, _) = by_hand(&app, &[], 200).await;
    SockRef::from(&stream).set_recv_buffer_size(4096).unwrap();
    until(&mut stream, "welcome").await;
    let large = "x".repeat(900_000);
    let sessions = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
    let turns = sessions.map(|session| run(app.address, "bot", session, &large));
    let decide = async {
        for session in sessions {
            app.until(session, |page| page["status"] == "running").await;
        }
        accept(worker(&app, "bot", 100).await, 16).await
    };
    let (turns, _) = tokio::join!(futures_util::future::join_all(turns), decide);
    for events in turns {
        says(&events, &format!("You said: {large}"));
    }
    drop(stream);
}

#[tokio::test]
async fn who_may_not_dial_is_refused_before_the_upgrade() {
    let app = TestApp::with_workers(|_| {});
    for (more, status, code) in
        [(("Origin", "https://evil.example"), 403, "origin_refused"), (("Sec-WebSocket-Protocol", "mqtt"), 400, "bad_request")]
    {
        let headers = [&HANDSHAKE[..], &[more]].concat();
        let answer = Exchange::send(app.address, "GET", "/v1/worker", &headers, None).await.whole().await;
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{more:?}");
    }
    assert_eq!(app.get("/v1/worker").await.refusal(), (400, "bad_request".to_owned()));
    let mut request = format!("ws://{}/v1/worker", app.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "headwater.worker.v1".parse().unwrap());
    let (_, answer) = within(connect_async(request)).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "headwater.worker.v1");
}

#[tokio::test]
async fn a_server_that_stops_lets_turns_end_with_their_workers() {
    let app = TestApp::with_workers(|_| {});
    let mut bot = worker(&app, "bot", 1).await;
    let mut new = Client::open(app.address, "/v1/worker").await;
    let turn = run(app.address, "bot", "s1", "hello");
    let decide = async {
        let asked = decision(&mut bot).await;
        app.draining.cancel();
        let drained = tokio::spawn({
            let runtime = app.runtime.clone();
            async move { runtime.drain().await }
        });
        assert_eq!(new.closed().await, 1012, "it hadn't said hello");
        answer(&mut bot, &asked, &asked["proposed"]).await;
        let last = decision(&mut bot).await;
        answer(&mut bot, &last, &last["proposed"]).await;
        assert_eq!(bot.closed().await, 1012);
        drained.await.unwrap();
    };
    let (events, ()) = tokio::join!(turn, decide);
    says(&events, "You said: hello");
    let again = connect_async(format!("ws://{}/v1/worker", app.address)).await;
    assert!(matches!(again, Err(Error::Http(answer)) if answer.status() == 503));
}

#[tokio::test]
async fn workers_are_counted_while_they_are_connected() {
    let app = TestApp::with_workers(|_| {});
    let counted = async |count: u32| {
        let line = format!("headwater_workers_connected{{agent=\"other\"}} {count}");
        within(async { while !app.get("/metrics").await.text().contains(&line) {} }).await;
    };
    let one = worker(&app, "other", 1).await;
    counted(1).await;
    let two = worker(&app, "other", 1).await;
    counted(2).await;
    drop((one, two));
    counted(0).await;
}
