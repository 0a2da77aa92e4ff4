//! Runs over WebSocket.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::app::{TestApp, check_run, said, text, types, v1};
use crate::http::within;

/// A client's end of a socket.
pub struct Client(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// What comes from a server.
#[derive(Debug, PartialEq)]
pub enum Came {
    Event(Value),
    Pong(Vec<u8>),
    Closed(u16),
    Ended,
}

impl Client {
    /// Opens a socket.
    pub async fn open(address: SocketAddr, path: &str) -> Self {
        let (stream, _) = within(connect_async(format!("ws://{address}{path}"))).await.expect("the socket opens");
        Self(stream)
    }

    /// A socket that was opened.
    pub fn over(stream: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self(stream)
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Message) {
        within(self.0.send(message)).await.expect("the socket is open");
    }

    /// Sends JSON.
    pub async fn say(&mut self, body: &Value) {
        self.send(Message::text(body.to_string())).await;
    }

    /// What comes next; the server's pings are answered and passed over.
    pub async fn next(&mut self) -> Came {
        loop {
            match within(self.0.next()).await {
                Some(Ok(Message::Text(text))) => return Came::Event(serde_json::from_str(&text).expect("JSON")),
                Some(Ok(Message::Pong(content))) => return Came::Pong(content.to_vec()),
                Some(Ok(Message::Close(frame))) => return Came::Closed(frame.map_or(1005, |frame| frame.code.into())),
                Some(Ok(Message::Ping(_))) => {}
                Some(Ok(other)) => panic!("{other:?}"),
                Some(Err(_)) | None => return Came::Ended,
            }
        }
    }

    /// The next event.
    pub async fn event(&mut self) -> Value {
        match self.next().await {
            Came::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    /// Events up to a terminal.
    pub async fn run(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await;
            let is_last = event["type"] == "RUN_FINISHED" || event["type"] == "RUN_ERROR";
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// The events of texts, in envelopes or bare, up to a terminal.
    pub async fn run_of_envelopes(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let text = self.event().await;
            let event = text.get("chunk").cloned().unwrap_or(text);
            let is_last = event["type"] == "RUN_FINISHED" || event["type"] == "RUN_ERROR";
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// Waits for an event of a type.
    pub async fn until(&mut self, kind: &str) {
        while self.event().await["type"] != kind {}
    }

    /// Waits for the close frame.
    pub async fn closed(&mut self) -> u16 {
        loop {
            match self.next().await {
                Came::Closed(code) => return code,
                Came::Event(_) | Came::Pong(_) => {}
                Came::Ended => panic!("ended without a close frame"),
            }
        }
    }
}

#[tokio::test]
async fn several_runs_in_a_row() {
    let app = TestApp::start();
    for path in ["/agents/demo", "/agents/demo/ws"] {
        let thread = format!("s{}", path.len());
        let mut client = Client::open(app.address, path).await;
        for (run, words) in [("r1", "one"), ("r2", "two")] {
            client.say(&said(&thread, run, words)).await;
            let events = client.run().await;
            check_run(&events);
            assert_eq!(text(&events), format!("You said: {words}"));
            assert_eq!(events.last().unwrap()["runId"], run);
        }
    }
}

#[tokio::test]
async fn pings_are_answered() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.say(&json!({"type": "ping"})).await;
    assert_eq!(client.event().await, json!({"type": "pong"}));
    client.send(Message::Ping(b"there?".to_vec().into())).await;
    assert_eq!(client.next().await, Came::Pong(b"there?".to_vec()));
}

#[tokio::test]
async fn an_abort_stops_the_run_and_the_socket_stays() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.say(&json!({"type": "abort"})).await;
    for (run, abort) in [("r1", json!({"type": "abort", "runId": "r1"})), ("r2", json!({"type": "abort"}))] {
        client.say(&v1(said(run, run, "long"))).await;
        client.until("TEXT_MESSAGE_CONTENT").await;
        client.say(&json!({"type": "abort", "runId": "another"})).await;
        client.say(&abort).await;
        let rest = client.run().await;
        assert_eq!(rest.last().unwrap()["outcome"], json!({"type": "cancelled"}), "{rest:?}");
        assert_eq!(app.nodes(run).await[1]["partial"], true);
    }
    client.say(&said("s3", "r3", "hello")).await;
    check_run(&client.run().await);
}

#[tokio::test]
async fn an_abort_right_behind_its_run_is_not_lost() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.say(&v1(said("s1", "r1", "long"))).await;
    client.say(&json!({"type": "abort", "runId": "r1"})).await;
    let events = client.run().await;
    check_run(&events);
    assert_eq!(events.last().unwrap()["outcome"], json!({"type": "cancelled"}));
}

#[tokio::test]
async fn frames_that_come_during_a_run_are_answered_after_it() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.say(&v1(said("s1", "r1", "long"))).await;
    client.until("TEXT_MESSAGE_CONTENT").await;
    client.say(&said("s2", "r2", "two")).await;
    client.send(Message::text("{")).await;
    client.say(&v1(said("s3", "r3", "three"))).await;
    client.say(&said("s4", "r4", "four")).await;
    client.say(&json!({"type": "abort", "runId": "r3"})).await;
    client.say(&json!({"type": "abort", "runId": "r1"})).await;
    let first = client.run().await;
    assert_eq!(first.last().unwrap()["outcome"], json!({"type": "cancelled"}));
    assert!(!types(&first).contains(&"RUN_STARTED"), "nothing else is told during a run");

    let second = client.run().await;
    check_run(&second);
    assert_eq!(text(&second), "You said: two");
    let refused = client.event().await;
    assert_eq!((&refused["type"], &refused["code"]), (&json!("RUN_ERROR"), &json!("bad_json")));
    let third = client.run().await;
    assert_eq!(types(&third), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!((&third[1]["runId"], &third[1]["outcome"]["type"]), (&json!("r3"), &json!("cancelled")));
    assert_eq!(text(&client.run().await), "You said: four");
    assert_eq!(app.get("/v1/sessions/s3").await.status, 404, "a run that was stopped before it began never was");
}

#[tokio::test]
async fn too_many_waiting_frames_close_the_socket() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo").await;
    client.say(&said("s0", "r0", "long")).await;
    client.until("TEXT_MESSAGE_CONTENT").await;
    for n in 1..=9 {
        client.say(&said(&format!("s{n}"), "r1", "x")).await;
    }
    assert_eq!(client.closed().await, 1008);
    assert_eq!(app.post("/agents/demo/stop/s0", &json!({})).await.json(), json!({"stopped": true}), "the turn goes on without its socket");
}

#[tokio::test]
async fn a_refusal_is_a_lone_error_and_the_socket_stays() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo").await;
    for (frame, code) in [
        ("{", "bad_json"),
        (r#"{"type": "dance"}"#, "bad_request"),
        (r#"{"type": "subscribe", "threadId": "s1"}"#, "not_available"),
        (r#"{"threadId": "s1", "runId": "r1", "messages": [], "tools": [{"name": ""}]}"#, "bad_request"),
    ] {
        client.send(Message::text(frame)).await;
        let refused = client.event().await;
        assert_eq!((&refused["type"], &refused["code"]), (&json!("RUN_ERROR"), &json!(code)), "{frame}");
        assert!(refused["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    client.say(&said("s1", "r1", "hello")).await;
    check_run(&client.run().await);
}

#[tokio::test]
async fn a_turn_that_runs_elsewhere_refuses_a_second() {
    let app = TestApp::start();
    let mut first = Client::open(app.address, "/agents/demo").await;
    first.say(&said("s1", "r1", "long")).await;
    first.until("TEXT_MESSAGE_CONTENT").await;
    let mut second = Client::open(app.address, "/agents/demo").await;
    second.say(&said("s1", "r2", "hello")).await;
    let refused = second.event().await;
    assert_eq!((&refused["type"], &refused["code"]), (&json!("RUN_ERROR"), &json!("turn_already_active")));
    first.say(&json!({"type": "abort"})).await;
    first.run().await;
    second.say(&said("s2", "r3", "hello")).await;
    check_run(&second.run().await);
}

#[tokio::test]
async fn a_socket_that_goes_away_leaves_its_turn_running() {
    let app = TestApp::start();
    for agent in ["demo", "fleeting"] {
        let mut client = Client::open(app.address, &format!("/agents/{agent}")).await;
        client.say(&said(agent, "r1", "short pause")).await;
        client.until("RUN_STARTED").await;
        drop(client);
        app.until(agent, |page| page["status"] == "idle").await;
    }
    let nodes = app.nodes("demo").await;
    assert_eq!(nodes[1]["message"]["content"], "After a pause.", "{nodes:?}");
    assert_eq!(app.nodes("fleeting").await.len(), 1, "its agent wants it stopped");
}

#[tokio::test]
async fn a_close_is_answered() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/agents/demo").await;
    within(client.0.close(None)).await.unwrap();
    assert_eq!(client.closed().await, 1005);
    let ended = tokio::time::timeout(Duration::from_millis(500), client.next()).await;
    assert_eq!(ended.expect("the server hangs up at once"), Came::Ended);
}

#[tokio::test]
async fn a_server_that_stops_closes_idle_sockets_and_lets_runs_end() {
    let app = TestApp::start();
    let mut idle = Client::open(app.address, "/agents/demo").await;
    let mut busy = Client::open(app.address, "/agents/demo").await;
    busy.say(&said("s1", "r1", "short pause")).await;
    busy.until("RUN_STARTED").await;
    app.draining.cancel();
    assert_eq!(idle.closed().await, 1012);
    let rest = busy.run().await;
    assert_eq!((text(&rest).as_str(), &rest.last().unwrap()["type"]), ("After a pause.", &json!("RUN_FINISHED")));
    assert_eq!(busy.closed().await, 1012);
}
