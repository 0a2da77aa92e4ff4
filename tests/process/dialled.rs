//! A worker that dials in to the real program, and `kill -9` of both at each step of a turn: each decision is answered once.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use super::gateway::Gateway;

const CONFIG: &str = r#"
[llm.quick]
kind = "script"
file = "rules.toml"
[agent.bot]
llm = "quick"
[agent.bot.worker]
kind = "socket"
token = { env = "BOT_TOKEN" }
"#;

const RULES: &str = "[[rule]]\ntext = \"Done.\"\n";

/// A worker that does what is proposed.
pub struct Worker(WebSocket<TcpStream>);

impl Worker {
    /// Dials in for the agent `bot`, and is welcomed.
    fn dial(gateway: &Gateway) -> Self {
        Self::dial_for(gateway, "bot")
    }

    /// Dials in for an agent, and is welcomed.
    pub fn dial_for(gateway: &Gateway, agent: &str) -> Self {
        let stream = TcpStream::connect(gateway.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        let mut request = format!("ws://{}/v1/worker", gateway.address()).into_client_request().expect("an address");
        request.headers_mut().insert("authorization", "Bearer s3cret".parse().expect("a header"));
        let mut worker = Self(client(request, stream).expect("the socket opens").0);
        worker.say(&json!({"type": "hello", "agent_ids": [agent], "credit": 1}));
        let welcome = worker.hear().expect("a frame");
        assert_eq!(welcome["type"], "welcome", "{welcome}");
        worker
    }

    fn say(&mut self, frame: &Value) {
        // The server may have been lost.
        let _ = self.0.send(Message::text(frame.to_string()));
    }

    /// The next frame; nothing at the end.
    fn hear(&mut self) -> Option<Value> {
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).expect("JSON")),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Does what is proposed for so many steps (a question, its answer, what came of that), or to the end.
    fn work(&mut self, steps: usize) {
        let mut left = steps;
        while left > 0
            && let Some(frame) = self.hear()
        {
            left -= 1;
            if frame["type"] == "decision" && left > 0 {
                left -= 1;
                let decision = &frame["decision"];
                self.say(&json!({"type": "answer", "decision_id": decision["decision_id"], "answer": decision["proposed"]}));
            }
        }
    }
}

fn start(home: &Path) -> Gateway {
    Gateway::start_with(home, "127.0.0.1:0", &[("HEADWATER__LOG__FORMAT", "json"), ("BOT_TOKEN", "s3cret")])
}

#[test]
fn each_decision_is_answered_once_whatever_is_killed_and_when() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), CONFIG).unwrap();
    std::fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let mut gateway = start(home.path());
    // A turn has two decisions of three steps each.
    for steps in 1..=6 {
        let session = format!("s{steps}");
        let mut worker = Worker::dial(&gateway);
        // Held until the kill: a client that goes away stops its turn.
        let run = gateway.run(&session);
        worker.work(steps);
        gateway.kill();
        drop((worker, run));
        gateway = start(home.path());
        let mut worker = Worker::dial(&gateway);
        let works = std::thread::spawn(move || worker.work(usize::MAX));
        let page = gateway.until_idle(&session).expect("what was asked about was durable");
        let said: Vec<_> = page["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
        assert_eq!(said, ["count", "Done."], "after {steps} steps");
        let records = gateway.get(&format!("/v1/sessions/{session}/records")).unwrap().to_string();
        assert_eq!(records.matches("\"decision.answered\"").count(), 2, "after {steps} steps: {records}");
        assert_eq!(records.matches("\"turn.completed\"").count(), 1, "after {steps} steps: {records}");
        gateway.kill();
        works.join().unwrap();
        gateway = start(home.path());
    }
}
