//! Workers over HTTP, with a real program behind them: what it is asked, what comes of its answers, and that each session stays usable.

mod answers;
mod faults;
mod program;

use serde_json::{Value, json};

use crate::app::TestApp;
use crate::http::{Answer, within};
use program::{Program, Question};

/// A server whose agent `asks` has a program for a worker.
struct Desk {
    app: TestApp,
    program: Program,
}

impl Desk {
    /// With more options of the worker.
    fn start(more: &str) -> Self {
        let program = Program::start();
        let worker = format!("url = \"http://{}/decide\"\n{more}", program.address);
        Self { app: TestApp::asking(&worker), program }
    }

    /// A message into a session.
    async fn say(&self, session: &str, turn: &str, text: &str) {
        let message = json!({"id": format!("u-{turn}"), "role": "user", "content": text});
        let input = json!({"type": "client.message", "agent_id": "asks", "turn_id": turn, "stream": false, "message": message});
        let answer = self.app.post(&format!("/v1/sessions/{session}/inputs"), &input).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    /// The next decision.
    async fn asked(&mut self) -> Question {
        within(self.program.questions.recv()).await.expect("a decision")
    }

    /// Does what is proposed; what was asked.
    async fn accepts(&mut self) -> Value {
        let question = self.asked().await;
        let body = question.body.clone();
        question.proposed();
        body
    }

    /// Does what is proposed until the turn is over.
    async fn finishes(&mut self, session: &str) -> Value {
        let app = &self.app;
        let program = &mut self.program;
        let accepts = async {
            while let Some(question) = program.questions.recv().await {
                question.proposed();
            }
        };
        tokio::select! {
            page = app.until(session, |page| page["status"] == "idle") => page,
            () = accepts => panic!("the program ended"),
        }
    }

    /// An answer that comes by itself.
    async fn answer(&self, decision: &Value, body: &Value) -> Answer {
        self.app.post(&format!("/v1/decisions/{}", decision.as_str().unwrap()), body).await
    }

    /// What the records of one kind say.
    async fn records(&self, session: &str, kind: &str) -> Vec<Value> {
        let page = self.app.get(&format!("/v1/sessions/{session}/records?limit=1000")).await.json();
        let records = page["records"].as_array().cloned().unwrap_or_default();
        let records = records.into_iter().map(|line| line["record"].clone()).filter(|record| record["type"] == kind);
        records.map(|record| record["data"].clone()).collect()
    }
}

/// The texts of a session's messages.
fn texts(page: &Value) -> Vec<&str> {
    page["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap_or_default()).collect()
}
