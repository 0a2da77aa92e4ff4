//! The native API. What these tests ask in common.

mod agree;
mod arrivals;
mod cases;
mod documented;
mod events;
mod inputs;
mod queues;
mod records;
mod refused;
mod sessions;
mod tools;

use serde_json::{Value, json};

use crate::app::TestApp;
use crate::http::{Answer, Exchange};

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// `event:`, when it has one.
    pub name: String,
    /// `id:`, when it has one.
    pub id: String,
    pub data: Value,
}

impl Told {
    /// Its name, or the type of its event.
    pub fn kind(&self) -> &str {
        if self.name.is_empty() { self.data["type"].as_str().unwrap_or_default() } else { &self.name }
    }
}

/// The events of a stream, as far as they are whole.
pub fn told(body: &str) -> Vec<Told> {
    let whole = body.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    let field = |frame: &str, field: &str| frame.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned);
    whole
        .split("\n\n")
        .filter_map(|frame| {
            let data = field(frame, "data: ")?;
            let data = serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}"));
            Some(Told { name: field(frame, "event: ").unwrap_or_default(), id: field(frame, "id: ").unwrap_or_default(), data })
        })
        .collect()
}

/// What streams bring, without pieces of replies.
pub fn kinds(told: &[Told]) -> Vec<&str> {
    told.iter().map(Told::kind).filter(|kind| *kind != "llm.delta").collect()
}

/// The text that events bring piece by piece.
pub fn said(told: &[Told]) -> String {
    told.iter().filter(|told| told.data["part"] == "text").filter_map(|told| told.data["delta"].as_str()).collect()
}

impl TestApp {
    /// Any request, with a JSON body or none; the answer is JSON too.
    pub async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_string);
        Exchange::send(self.address, method, path, &[("Accept", "application/json")], body.as_deref()).await.whole().await
    }

    /// One input to a session, answered as JSON.
    pub async fn input(&self, session: &str, body: &Value) -> Answer {
        self.ask("POST", &format!("/v1/sessions/{session}/inputs"), Some(body)).await
    }

    /// One input that is taken.
    pub async fn taken(&self, session: &str, body: &Value) -> Value {
        let answer = self.input(session, body).await;
        assert!(matches!(answer.status, 200 | 202), "{body}: {}", answer.text());
        answer.json()
    }

    /// One input, and its stream to the end.
    pub async fn streamed(&self, session: &str, body: &Value) -> Vec<Told> {
        let answer = self.post(&format!("/v1/sessions/{session}/inputs"), body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        told(&answer.text())
    }

    /// One input, whose stream is read as it comes.
    pub async fn follow(&self, session: &str, body: &Value) -> Exchange {
        Exchange::post(self.address, &format!("/v1/sessions/{session}/inputs"), &body.to_string()).await
    }

    /// A session's page.
    pub async fn page(&self, session: &str) -> Value {
        let answer = self.get(&format!("/v1/sessions/{session}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Waits until nothing runs.
    pub async fn idle(&self, session: &str) -> Value {
        self.until(session, |page| page["status"] == "idle").await
    }

    /// What is said at the head, speaker by speaker.
    pub async fn texts(&self, session: &str) -> Vec<String> {
        let page = self.page(session).await;
        let messages = page["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// A message of the user's under a turn id; the message's id is `u-` and that.
pub fn message(turn: &str, text: &str) -> Value {
    json!({"type": "client.message", "agent_id": "demo", "turn_id": turn, "message": {"id": format!("u-{turn}"), "role": "user", "content": text}})
}

/// The same with another field.
pub fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}
