//! The examples of docs/protocol.md, run in their order: what the document shows is what comes. Ids that Headwater makes and times
//! differ from run to run; everything else is the same.

use std::collections::HashMap;

use serde_json::Value;

use super::told;
use crate::app::TestApp;
use crate::http::{Answer, Exchange};

/// What ids begin with that the server makes.
const MADE: [&str; 2] = ["hw_", "call_"];

/// Numbers from here on are times.
const TIMES: u64 = 1_000_000_000_000;

/// The blocks of the document: what is asked, and what comes.
fn examples() -> Vec<(String, String)> {
    let document = include_str!("../../../docs/protocol.md");
    let blocks: Vec<&str> = document.split("```http\n").skip(1).map(|rest| rest.split_once("\n```").expect("the block ends").0).collect();
    let is_answer = |block: &str| block.starts_with(|c: char| c.is_ascii_digit());
    let pair = |pair: &[&str]| match pair {
        [asked, answer] if !is_answer(asked) && is_answer(answer) => ((*asked).to_owned(), (*answer).to_owned()),
        _ => panic!("a request is followed by its answer: {pair:?}"),
    };
    blocks.chunks(2).map(pair).collect()
}

#[tokio::test]
async fn the_export_that_is_shown_can_be_imported() {
    let document = include_str!("../../../docs/protocol.md");
    let shown = document.split("```json\n").skip(1).map(|rest| rest.split_once("```").expect("the block ends").0);
    let file = shown.into_iter().find(|block| block.contains("headwater.session")).expect("an export");
    let app = TestApp::of_the_demo();
    let imported = Exchange::send(app.address, "POST", "/v1/sessions/spring/records", &[], Some(file)).await.whole().await;
    assert_eq!(imported.status, 201, "{}", imported.text());
    assert_eq!(app.page("spring").await["messages"], serde_json::json!([]));
}

/// The document's ids and those of this run.
#[derive(Default)]
struct Ids(HashMap<String, String>);

impl Ids {
    /// A request with this run's ids.
    fn filled(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (shown, real)| text.replace(&format!("\"{shown}\""), &format!("\"{real}\"")))
    }

    /// Whether what came is what is shown; learns ids on the way.
    fn same(&mut self, shown: &Value, came: &Value) -> bool {
        match (shown, came) {
            (Value::String(shown), Value::String(came)) if MADE.iter().any(|made| shown.starts_with(made) && came.starts_with(made)) => {
                self.0.entry(shown.clone()).or_insert_with(|| came.clone()) == came
            }
            (Value::Number(shown), Value::Number(came)) if shown.as_u64() >= Some(TIMES) && came.as_u64() >= Some(TIMES) => true,
            (Value::Array(shown), Value::Array(came)) => {
                shown.len() == came.len() && shown.iter().zip(came).all(|(shown, came)| self.same(shown, came))
            }
            (Value::Object(shown), Value::Object(came)) => {
                shown.len() == came.len()
                    && shown.iter().zip(came).all(|((name, shown), (other, came))| name == other && self.same(shown, came))
            }
            (shown, came) => shown == came,
        }
    }
}

async fn ask(app: &TestApp, asked: &str, live: bool) -> Answer {
    let (head, body) = asked.split_once("\n\n").map_or((asked, None), |(head, body)| (head, Some(body)));
    let mut lines = head.lines();
    let (method, path) = lines.next().and_then(|line| line.split_once(' ')).expect("a method and a path");
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
    let mut exchange = Exchange::send(app.address, method, path, &headers, body).await;
    if live {
        exchange.until("\"cursor\":\"4\"").await;
        let body = crate::http::body(&exchange.got).into_bytes();
        return Answer { status: 200, head: String::new(), body };
    }
    exchange.whole().await
}

#[tokio::test]
async fn the_examples_are_what_happens() {
    let app = TestApp::of_the_demo();
    let mut ids = Ids::default();
    let examples = examples();
    assert!(examples.len() >= 14, "only {} examples", examples.len());
    for (asked, expected) in examples {
        let answer = ask(&app, &ids.filled(&asked), asked.contains("/events")).await;
        let (head, body) = expected.split_once("\n\n").unwrap_or((&expected, ""));
        assert!(head.starts_with(&answer.status.to_string()), "{asked}: {}", answer.text());
        let text = answer.text();
        if head.contains("text/event-stream") {
            let came = told(&text);
            let mut came = came.iter();
            for shown in told(&format!("{body}\n\n")) {
                let found = came.by_ref().find(|came| came.name == shown.name && came.id == shown.id && came.kind() == shown.kind());
                let found = found.unwrap_or_else(|| panic!("{asked}: {shown:?} isn't among {text}"));
                assert!(ids.same(&shown.data, &found.data), "{asked}:\n{}\n{}", shown.data, found.data);
            }
        } else if !body.is_empty() {
            let shown: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
            assert!(ids.same(&shown, &answer.json()), "{asked}:\n{shown}\n{text}");
        }
        if answer.status == 202 && !asked.contains("\"long\"") && answer.json()["queued"] == false {
            app.idle(answer.json()["session_id"].as_str().unwrap()).await;
        }
    }
}
