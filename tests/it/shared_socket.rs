//! AG-UI over a socket that several sessions and runs share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::app::{TestApp, said, v1, view};
use crate::http::{Exchange, within};
use crate::reader::{Reader, Said, words};
use crate::socket::Client;

/// Opens a socket with subprotocols.
async fn connect(address: SocketAddr, path: &str, protocols: &str) -> Result<(Client, Option<String>), (u16, String)> {
    let mut request = format!("ws://{address}{path}").into_client_request().expect("a request");
    request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_str(protocols).expect("a header"));
    match within(connect_async(request)).await {
        Ok((stream, response)) => {
            let chosen = response.headers().get("Sec-WebSocket-Protocol").map(|chosen| chosen.to_str().unwrap().to_owned());
            Ok((Client::over(stream), chosen))
        }
        Err(Error::Http(response)) => {
            let body = response.body().clone().unwrap_or_default();
            Err((response.status().as_u16(), String::from_utf8(body).expect("text")))
        }
        Err(error) => panic!("{error}"),
    }
}

/// What came on a shared socket.
#[derive(Default)]
pub struct Heard {
    threads: BTreeMap<String, Reader>,
    chunks: BTreeMap<String, Vec<Value>>,
    pub answers: Vec<Value>,
    pub ended: Vec<Value>,
}

impl Heard {
    fn thread(&self, thread: &str) -> Reader {
        self.threads.get(thread).cloned().unwrap_or_default()
    }
}

/// A device.
pub struct Device {
    pub client: Client,
    pub heard: Heard,
}

impl Device {
    pub async fn open(app: &TestApp) -> Self {
        let (client, chosen) = connect(app.address, "/agents/demo?protocolVersion=1.0", "ag-ui.ws.v1").await.expect("a socket");
        assert_eq!(chosen.as_deref(), Some("ag-ui.ws.v1"));
        Self { client, heard: Heard::default() }
    }

    pub async fn say(&mut self, frame: &Value) {
        self.client.say(frame).await;
    }

    async fn hear(&mut self) {
        let frame = self.client.event().await;
        match frame.get("chunk") {
            Some(chunk) => {
                assert_eq!(frame.get("type"), None);
                let thread = frame["threadId"].as_str().expect("each names its thread").to_owned();
                self.heard.threads.entry(thread.clone()).or_default().take(chunk);
                self.heard.chunks.entry(thread).or_default().push(frame);
            }
            None if frame["type"] == "unsubscribed" => self.heard.ended.push(frame),
            None => self.heard.answers.push(frame),
        }
    }

    pub async fn until(&mut self, enough: impl Fn(&Heard) -> bool) {
        let heard = tokio::time::timeout(Duration::from_secs(20), async {
            while !enough(&self.heard) {
                self.hear().await;
            }
        });
        let in_time = heard.await.is_ok();
        assert!(in_time, "it takes too long: {:#?}, {:?}", self.heard.threads, self.heard.answers);
    }

    /// Says something and waits for its answer.
    pub async fn ask(&mut self, mut frame: Value) -> Value {
        let reference = format!("ask-{}", self.heard.answers.len());
        frame["ref"] = json!(reference);
        self.say(&frame).await;
        self.until(|heard| heard.answers.iter().any(|answer| answer["ref"] == reference.as_str())).await;
        self.heard.answers.iter().find(|answer| answer["ref"] == reference.as_str()).unwrap().clone()
    }

    pub async fn subscribe(&mut self, thread: &str, after: Option<&str>) -> Value {
        let answer = self.ask(json!({"type": "subscribe", "threadId": thread, "after": after})).await;
        assert_eq!(answer["type"], "ack", "{answer}");
        answer
    }

    /// Waits for the ends of so many runs.
    pub async fn ends(&mut self, thread: &str, count: usize) {
        self.until(|heard| heard.threads.get(thread).is_some_and(|reader| reader.ends.len() >= count)).await;
    }

    pub fn reader(&self, thread: &str) -> &Reader {
        &self.heard.threads[thread]
    }
}

/// The messages of a session's page.
async fn page(app: &TestApp, session: &str) -> Vec<Said> {
    let page = app.until(session, |page| page["status"] != "running").await;
    page["messages"].as_array().unwrap().iter().map(words).collect()
}

/// Waits until two devices have what the session's page shows.
async fn same(app: &TestApp, thread: &str, devices: &mut [&mut Device]) {
    let expected = page(app, thread).await;
    for device in devices {
        device.until(|heard| heard.threads.get(thread).is_some_and(|reader| reader.run.is_none() && reader.messages == expected)).await;
    }
}

#[tokio::test]
async fn subprotocols_are_negotiated() {
    let app = TestApp::start();
    for path in ["/agents/demo", "/agents/demo/ws"] {
        for offer in ["ag-ui.ws.v1", "soap, ag-ui.ws.v1", "ag-ui.ws.v1,mqtt"] {
            let (mut client, chosen) = connect(app.address, path, offer).await.expect("a socket");
            assert_eq!(chosen.as_deref(), Some("ag-ui.ws.v1"), "{offer}");
            client.say(&json!({"type": "ping", "ref": "1"})).await;
            assert_eq!(client.event().await, json!({"type": "pong", "ref": "1"}));
        }
        let (status, body) = connect(app.address, path, "soap, mqtt").await.err().expect("none is spoken");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["error"], &body["protocols"]), (400, &json!("bad_request"), &json!(["ag-ui.ws.v1"])), "{body}");
        assert!(body["message"].as_str().unwrap().contains("soap, mqtt"), "{body}");
    }
    let (status, _) = connect(app.address, "/v1/ws", "ag-ui.ws.v1").await.err().expect("it has none");
    assert_eq!(status, 400);
    let mut plain = Client::open(app.address, "/agents/demo").await;
    plain.say(&json!({"type": "subscribe", "threadId": "s1"})).await;
    assert_eq!(plain.event().await["code"], "not_available");
}

#[tokio::test]
async fn runs_of_several_threads_share_the_socket() {
    let app = TestApp::start();
    let mut device = Device::open(&app).await;
    let threads = ["s1", "s2", "s3"];
    for thread in threads {
        device.say(&v1(said(thread, &format!("run-{thread}"), "short pause"))).await;
    }
    device.say(&v1(said("s4", "run-s4", "hello"))).await;
    device.ends("s4", 1).await;
    assert!(threads.iter().all(|thread| device.heard.threads.get(*thread).is_none_or(|reader| reader.ends.is_empty())), "nobody waits");
    for thread in threads {
        device.ends(thread, 1).await;
        assert_eq!(device.reader(thread).starts, [format!("run-{thread}")]);
        assert_eq!(device.reader(thread).messages.last().unwrap().2, "After a pause.");
    }
    let acks: BTreeSet<&str> = device.heard.answers.iter().filter_map(|ack| ack["runId"].as_str()).collect();
    assert_eq!(acks, BTreeSet::from(["run-s1", "run-s2", "run-s3", "run-s4"]), "{:?}", device.heard.answers);
}

#[tokio::test]
async fn a_run_that_is_refused_is_told_beside_the_one_that_runs() {
    let app = TestApp::start();
    let mut device = Device::open(&app).await;
    device.say(&v1(said("s1", "r1", "long"))).await;
    device.until(|heard| heard.threads.get("s1").is_some_and(|reader| !reader.open.is_empty())).await;
    device.say(&v1(said("s1", "r2", "hello"))).await;
    device.until(|heard| heard.answers.iter().any(|answer| answer["type"] == "error")).await;
    let refused = device.heard.answers.last().unwrap();
    assert_eq!((&refused["runId"], &refused["threadId"], &refused["error"]), (&json!("r2"), &json!("s1"), &json!("turn_already_active")));
    assert_eq!(refused["turn_id"], "r1");
    assert_eq!(device.reader("s1").run.as_deref(), Some("r1"), "the one that runs goes on");
    assert_eq!(device.ask(json!({"type": "abort", "runId": "nobodys"})).await["error"], "bad_request");
    assert_eq!(device.ask(json!({"type": "abort", "runId": "r1"})).await["body"], json!({"cancelled": true}));
    device.ends("s1", 1).await;
    assert_eq!(device.reader("s1").ends, ["cancelled"]);
}

#[tokio::test]
async fn runs_that_wait_for_their_turn_are_told_one_after_another() {
    let app = TestApp::start();
    let mut device = Device::open(&app).await;
    device.say(&v1(said("s1", "r1", "short pause"))).await;
    device.until(|heard| heard.threads.contains_key("s1")).await;
    for (run, messages) in [("r2", [("u-r1", "short pause"), ("u2", "two")]), ("r3", [("u-r1", "short pause"), ("u3", "three")])] {
        let mut body = v1(view("s1", run, &messages));
        body["forwardedProps"] = json!({"headwater": {"queue": true}});
        device.say(&body).await;
    }
    device.ends("s1", 3).await;
    let reader = device.reader("s1");
    assert_eq!((reader.starts.len(), reader.ends.len()), (3, 3));
    assert_eq!(reader.messages, page(&app, "s1").await);
}

#[tokio::test]
async fn two_devices_see_each_other() {
    let app = TestApp::start();
    let (mut one, mut two) = (Device::open(&app).await, Device::open(&app).await);
    one.say(&v1(said("s1", "r1", "hello"))).await;
    one.ends("s1", 1).await;
    two.subscribe("s1", None).await;
    one.subscribe("s1", None).await;
    same(&app, "s1", &mut [&mut one, &mut two]).await;
    // A message: its reader learns it with the run's start.
    let before = two.heard.chunks["s1"].len();
    one.say(&v1(view("s1", "r2", &[("u-r1", "hello"), ("u2", "and then?")]))).await;
    two.until(|heard| heard.thread("s1").starts.last().is_some_and(|run| run == "r2")).await;
    let started = two.heard.chunks["s1"].iter().skip(before).find(|frame| frame["chunk"]["type"] == "RUN_STARTED").unwrap();
    // The view left the reply out: another branch.
    assert!(started["chunk"].get("input").is_none());
    same(&app, "s1", &mut [&mut one, &mut two]).await;
}

#[tokio::test]
async fn what_others_write_comes_with_the_start_of_their_run() {
    let app = TestApp::start();
    let (mut one, mut two) = (Device::open(&app).await, Device::open(&app).await);
    one.say(&v1(said("s1", "r1", "hello"))).await;
    one.ends("s1", 1).await;
    two.subscribe("s1", None).await;
    two.ends("s1", 1).await;
    let from = two.heard.chunks["s1"].len();
    let message =
        json!({"type": "client.message", "agent_id": "demo", "turn_id": "r2", "message": {"id": "u2", "role": "user", "content": "go on"}});
    assert_eq!(one.ask(json!({"type": "input", "threadId": "s1", "body": message})).await["body"]["turn_id"], "r2");
    two.ends("s1", 2).await;
    let chunks: Vec<&Value> = two.heard.chunks["s1"][from..].iter().map(|frame| &frame["chunk"]).collect();
    assert_eq!((&chunks[0]["type"], &chunks[0]["runId"]), (&json!("RUN_STARTED"), &json!("r2")));
    assert_eq!(chunks[0]["input"]["messages"], json!([{"id": "u2", "role": "user", "content": "go on"}]), "only the news");
    assert!(!chunks.iter().any(|chunk| chunk["type"] == "MESSAGES_SNAPSHOT"), "no more is sent than happened");
    same(&app, "s1", &mut [&mut two]).await;
}

#[tokio::test]
async fn another_branch_is_shown_whole() {
    let app = TestApp::start();
    let (mut one, mut two) = (Device::open(&app).await, Device::open(&app).await);
    one.say(&v1(said("s1", "r1", "hello"))).await;
    one.ends("s1", 1).await;
    one.subscribe("s1", None).await;
    two.subscribe("s1", None).await;
    // Edit.
    one.say(&v1(view("s1", "r2", &[("u9", "another beginning")]))).await;
    two.until(|heard| heard.thread("s1").starts.iter().any(|run| run == "r2")).await;
    same(&app, "s1", &mut [&mut one, &mut two]).await;
    // Regenerate.
    two.say(&v1(view("s1", "r3", &[("u9", "another beginning")]))).await;
    one.until(|heard| heard.thread("s1").starts.iter().any(|run| run == "r3")).await;
    same(&app, "s1", &mut [&mut one, &mut two]).await;
    // Switch.
    let answer = two.ask(json!({"type": "head", "threadId": "s1", "body": {"node_id": "u-r1"}})).await;
    assert_eq!(answer["body"]["head_id"], "u-r1");
    same(&app, "s1", &mut [&mut one, &mut two]).await;
    assert_eq!(one.reader("s1").messages.len(), 1);
    // Stop from the other device.
    one.say(&v1(view("s1", "r4", &[("u-r1", "hello"), ("u4", "long")]))).await;
    two.until(|heard| heard.thread("s1").starts.iter().any(|run| run == "r4") && !heard.thread("s1").open.is_empty()).await;
    assert_eq!(two.ask(json!({"type": "cancel", "threadId": "s1", "runId": "r4"})).await["body"], json!({"cancelled": true}));
    for device in [&mut one, &mut two] {
        device.until(|heard| heard.thread("s1").ends.last().is_some_and(|end| end == "cancelled")).await;
    }
    same(&app, "s1", &mut [&mut one, &mut two]).await;
}

#[tokio::test]
async fn joins_in_the_middle_of_a_reply_and_goes_on_after_any_chunk() {
    let app = TestApp::start();
    let mut one = Device::open(&app).await;
    one.say(&v1(said("s1", "r1", "hello"))).await;
    one.ends("s1", 1).await;
    one.subscribe("s1", Some("0")).await;
    one.say(&v1(said("s1", "r2", "long"))).await;
    let pieces = |heard: &Heard, count: usize| {
        heard.chunks["s1"].iter().filter(|frame| frame["chunk"]["type"] == "TEXT_MESSAGE_CONTENT").count() >= count
    };
    one.until(|heard| pieces(heard, 5)).await;
    let mut two = Device::open(&app).await;
    two.subscribe("s1", None).await;
    two.until(|heard| heard.chunks.get("s1").is_some_and(|_| pieces(heard, 3))).await;
    assert_eq!(one.ask(json!({"type": "abort", "runId": "r2", "threadId": "s1"})).await["body"], json!({"cancelled": true}));
    same(&app, "s1", &mut [&mut one, &mut two]).await;
}

#[tokio::test]
async fn results_from_elsewhere_go_on_with_the_turn() {
    let app = TestApp::start();
    let (mut one, mut two) = (Device::open(&app).await, Device::open(&app).await);
    let mut body = v1(said("s1", "r1", "paint twice"));
    body["tools"] = json!([{"name": "paint", "description": "Paints.", "parameters": {"type": "object"}}]);
    one.say(&body).await;
    one.ends("s1", 1).await;
    two.subscribe("s1", None).await;
    two.ends("s1", 1).await;
    let waiting = app.get("/v1/sessions/s1").await.json();
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let calls: Vec<String> =
        waiting["messages"][1]["tool_calls"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect();
    for (n, call) in calls.iter().enumerate() {
        let result = json!({"type": "tool.result", "turn_id": format!("res-{n}"), "tool_call_id": call, "content": format!("painted {n}")});
        let ack = one.ask(json!({"type": "input", "threadId": "s1", "body": result})).await;
        assert_eq!(ack["type"], "ack", "{ack}");
        two.until(|heard| heard.thread("s1").starts.iter().any(|run| *run == format!("res-{n}"))).await;
    }
    two.ends("s1", 3).await;
    same(&app, "s1", &mut [&mut two]).await;
}

#[tokio::test]
async fn every_bad_frame_is_refused_and_the_socket_stays() {
    let app = TestApp::start();
    let mut device = Device::open(&app).await;
    let long = "x".repeat(129);
    for (frame, code, reference, run) in [
        ("{".to_owned(), "bad_json", Value::Null, Value::Null),
        ("7".to_owned(), "bad_request", Value::Null, Value::Null),
        (r#"{"type": "dance", "ref": "a"}"#.to_owned(), "bad_request", json!("a"), Value::Null),
        (format!(r#"{{"type": "ping", "ref": "{long}"}}"#), "bad_id", Value::Null, Value::Null),
        (r#"{"type": "subscribe", "ref": "a"}"#.to_owned(), "bad_request", json!("a"), Value::Null),
        (r#"{"type": "subscribe", "ref": "a", "session_id": "s1"}"#.to_owned(), "bad_request", json!("a"), Value::Null),
        (r#"{"type": "subscribe", "ref": "a", "threadId": "s9"}"#.to_owned(), "session_not_found", json!("a"), Value::Null),
        (r#"{"type": "subscribe", "ref": "a", "threadId": "s1", "after": "9999"}"#.to_owned(), "bad_request", json!("a"), Value::Null),
        (
            r#"{"type": "cancel", "ref": "a", "threadId": "s1", "protocolVersion": "1.0"}"#.to_owned(),
            "bad_request",
            json!("a"),
            Value::Null,
        ),
        (r#"{"type": "abort", "ref": "a"}"#.to_owned(), "bad_request", json!("a"), Value::Null),
        (r#"{"type": "input", "ref": "a", "threadId": "s1", "body": {}}"#.to_owned(), "bad_request", json!("a"), Value::Null),
        (r#"{"threadId": "s1", "runId": "r9", "ref": "a"}"#.to_owned(), "bad_request", json!("a"), json!("r9")),
        (r#"{"threadId": "s1", "runId": "r9", "messages": [{"role": "pope"}]}"#.to_owned(), "bad_request", Value::Null, json!("r9")),
    ] {
        let count = device.heard.answers.len();
        if count == 0 {
            device.say(&v1(said("s1", "r1", "hello"))).await;
            device.ends("s1", 1).await;
        }
        let count = device.heard.answers.len();
        device.client.send(Message::text(frame.clone())).await;
        device.until(|heard| heard.answers.len() > count).await;
        let refused = device.heard.answers.last().unwrap();
        let field = |name: &str| refused.get(name).cloned().unwrap_or_default();
        assert_eq!((field("type"), field("error")), (json!("error"), json!(code)), "{frame}: {refused}");
        assert_eq!((field("ref"), field("runId")), (reference, run), "{frame}: {refused}");
        assert_eq!(refused.get("session_id"), None, "a session is a thread here: {refused}");
        assert!(code != "session_not_found" || field("threadId") == "s9", "{refused}");
    }
    assert_eq!(device.ask(json!({"type": "ping"})).await["type"], "pong");
    device.client.send(Message::binary(vec![1])).await;
    assert_eq!(device.client.closed().await, 1003);
}

#[tokio::test]
async fn an_erased_thread_ends_its_run_and_its_subscription() {
    let app = TestApp::start();
    let mut device = Device::open(&app).await;
    device.say(&v1(said("s1", "r1", "hello"))).await;
    device.ends("s1", 1).await;
    device.subscribe("s1", None).await;
    device.say(&v1(said("s1", "r2", "long"))).await;
    device.until(|heard| heard.thread("s1").run.as_deref() == Some("r2")).await;
    assert_eq!(Exchange::send(app.address, "DELETE", "/v1/sessions/s1", &[], None).await.whole().await.status, 204);
    device.until(|heard| !heard.ended.is_empty()).await;
    assert_eq!((&device.heard.ended[0]["threadId"], &device.heard.ended[0]["error"]), (&json!("s1"), &json!("session_deleted")));
    assert_eq!(device.reader("s1").run, None);
    device.say(&v1(said("s2", "r3", "hello"))).await;
    device.ends("s2", 1).await;
}

/// Chunks without their times, pieces of one text that follow each other as one: how many there are is a matter of time.
fn flat(chunks: &[Value]) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = Vec::new();
    for frame in chunks {
        let (id, mut chunk) = (frame["id"].as_str().unwrap_or_default().to_owned(), frame["chunk"].clone());
        chunk.as_object_mut().unwrap().remove("timestamp");
        let same = |last: &Value| ["type", "messageId", "toolCallId"].iter().all(|field| last.get(field) == chunk.get(field));
        match all.last_mut().filter(|(_, last)| chunk.get("delta").is_some() && same(last)) {
            Some((last_id, last)) => {
                last["delta"] = json!(format!("{}{}", last["delta"].as_str().unwrap(), chunk["delta"].as_str().unwrap()));
                *last_id = id;
            }
            None => all.push((id, chunk)),
        }
    }
    all
}

/// Every place in chunks, and what comes after it.
fn cuts(all: &[(String, Value)]) -> Vec<(String, Vec<(String, Value)>)> {
    let mut cuts = Vec::new();
    for (index, (id, chunk)) in all.iter().enumerate().filter(|(_, (id, _))| !id.is_empty()) {
        if let (Some(delta), Some((call, told))) = (chunk["delta"].as_str(), id.rsplit_once('.')) {
            let (told, length): (usize, usize) = (told.parse().unwrap(), delta.chars().count());
            for left in 1..length {
                let mut rest = all[index..].to_vec();
                rest[0].1["delta"] = json!(delta.chars().skip(length - left).collect::<String>());
                cuts.push((format!("{call}.{}", told - left), rest));
            }
        }
        cuts.push((id.clone(), all[index + 1..].to_vec()));
    }
    cuts
}

#[tokio::test]
async fn after_any_cursor_comes_the_rest_of_the_whole() {
    let app = TestApp::start();
    let mut one = Device::open(&app).await;
    one.say(&v1(said("s1", "r1", "hello"))).await;
    one.ends("s1", 1).await;
    one.subscribe("s1", Some("0")).await;
    one.heard = Heard::default();
    let message = |turn: &str, text: &str| {
        json!({"type": "client.message", "agent_id": "demo", "turn_id": turn, "message": {"id": format!("u-{turn}"), "role": "user", "content": text},
            "client": {"tools": [{"name": "paint", "description": "Paints.", "parameters": {"type": "object"}}]}})
    };
    one.ask(json!({"type": "input", "threadId": "s1", "body": message("r2", "paint twice")})).await;
    let page = app.until("s1", |page| page["status"] == "waiting").await;
    for (n, call) in page["messages"][3]["tool_calls"].as_array().unwrap().iter().enumerate() {
        let result =
            json!({"type": "tool.result", "turn_id": format!("res-{n}"), "tool_call_id": call["id"], "content": format!("painted {n}")});
        one.ask(json!({"type": "input", "threadId": "s1", "body": result})).await;
    }
    app.until("s1", |page| page["status"] == "idle").await;
    let alone = json!({"type": "client.append", "agent_id": "demo", "turn_id": "r4", "run": false,
        "messages": [{"id": "u-r4", "role": "user", "content": "no answer, please"}]});
    one.ask(json!({"type": "input", "threadId": "s1", "body": alone})).await;
    one.ask(json!({"type": "input", "threadId": "s1", "body": message("r5", "hello again")})).await;
    one.until(|heard| heard.thread("s1").starts.iter().any(|run| run == "r5") && heard.thread("s1").run.is_none()).await;
    same(&app, "s1", &mut [&mut one]).await;
    let live = flat(&one.heard.chunks["s1"]);
    let (last, _) = live.last().unwrap().clone();

    let mut two = Device::open(&app).await;
    two.subscribe("s1", Some("0")).await;
    two.until(|heard| heard.chunks.get("s1").is_some_and(|chunks| chunks.last().unwrap()["id"] == last.as_str())).await;
    let whole = flat(&two.heard.chunks["s1"]);
    assert_eq!(two.reader("s1").messages, one.reader("s1").messages);
    assert!(whole.ends_with(&live), "what is told live is told again:\n{whole:#?}\n{live:#?}");
    let cuts = cuts(&whole);
    assert!(cuts.len() > 60, "{}", cuts.len());
    for (after, rest) in cuts {
        two.heard = Heard::default();
        let ack = two.subscribe("s1", Some(&after)).await;
        assert_eq!(ack["body"], json!({"threadId": "s1", "cursor": after}));
        // Reading in the middle of a run is no fault here: only the chunks count.
        let mut chunks = Vec::new();
        while !rest.is_empty() && chunks.last().is_none_or(|frame: &Value| frame["id"] != last.as_str()) {
            let frame = two.client.event().await;
            assert!(frame.get("chunk").is_some(), "{frame}");
            chunks.push(frame);
        }
        assert_eq!(flat(&chunks), rest, "after {after}");
    }
}
