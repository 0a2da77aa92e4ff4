//! The native API over one WebSocket.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::app::TestApp;
use crate::http::{Exchange, within};
use crate::socket::{Came, Client};

/// A message to agent `demo`.
fn message(turn: &str, text: &str) -> Value {
    json!({"type": "client.message", "agent_id": "demo", "turn_id": turn, "message": {"id": format!("u-{turn}"), "role": "user", "content": text}})
}

/// Submits over HTTP; what was accepted.
async fn submit(app: &TestApp, session: &str, body: &Value) -> Value {
    let path = format!("/v1/sessions/{session}/inputs");
    let answer = Exchange::send(app.address, "POST", &path, &[], Some(&body.to_string())).await.whole().await;
    assert!(matches!(answer.status, 200 | 202), "{}", answer.text());
    answer.json()
}

/// A frame that says a message.
fn said(reference: &str, session: &str, turn: &str, text: &str) -> Value {
    json!({"type": "input", "ref": reference, "session_id": session, "body": message(turn, text)})
}

/// Frames as they came, by what they are: answers by their `ref`, events by their session.
#[derive(Default)]
struct Heard {
    answers: BTreeMap<String, Value>,
    events: BTreeMap<String, Vec<Value>>,
    ended: Vec<Value>,
}

impl Heard {
    /// Reads until `enough`.
    async fn until(client: &mut Client, enough: impl Fn(&Self) -> bool) -> Self {
        let mut heard = Self::default();
        while !enough(&heard) {
            heard.take(client.event().await);
        }
        heard
    }

    fn take(&mut self, frame: Value) {
        match frame["type"].as_str().expect("a type") {
            "ack" | "error" | "pong" => {
                // What came before was read by the subscription that this one replaces.
                if let Some(session) = frame["body"]["session_id"].as_str().filter(|_| frame["body"]["cursor"].is_string()) {
                    self.events.remove(session);
                }
                let reference = frame["ref"].as_str().unwrap_or_default().to_owned();
                assert!(self.answers.insert(reference, frame).is_none(), "one answer each");
            }
            "event" => {
                assert_eq!(frame.get("id"), frame["event"].get("cursor"), "{frame}");
                self.events.entry(frame["session_id"].as_str().expect("a session").to_owned()).or_default().push(frame["event"].clone());
            }
            "unsubscribed" => self.ended.push(frame),
            other => panic!("{other}: {frame}"),
        }
    }

    fn has(&self, session: &str, kind: &str) -> bool {
        self.events.get(session).is_some_and(|events| events.iter().any(|event| event["type"] == kind))
    }
}

/// Events, those that go on with each other as one: how many pieces a text comes in is a matter of time.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in events {
        let same = |last: &Value| {
            let fields = ["type", "part", "reply_id", "id", "index"];
            event.get("delta").is_some() && last.get("delta").is_some() && fields.iter().all(|field| last.get(field) == event.get(field))
        };
        match joined.last_mut().filter(|last| same(last)) {
            Some(last) => {
                let delta = format!("{}{}", last["delta"].as_str().unwrap(), event["delta"].as_str().unwrap());
                (last["delta"], last["cursor"], last["at"]) = (json!(delta), event["cursor"].clone(), event["at"].clone());
            }
            None => joined.push(event.clone()),
        }
    }
    joined
}

/// What `GET …/events` tells after a place, up to an event of that type.
async fn events_over_http(app: &TestApp, session: &str, after: &str, last: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/events?after={after}");
    let mut read = Exchange::send(app.address, "GET", &path, &[], None).await;
    loop {
        let text = String::from_utf8_lossy(&read.got).into_owned();
        let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
        let events: Vec<Value> =
            whole.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| serde_json::from_str(data).expect("JSON")).collect();
        if events.iter().any(|event| event["type"] == last) {
            return events;
        }
        assert!(read.read().await, "the stream goes on: {text}");
    }
}

#[tokio::test]
async fn a_message_is_acked_and_its_events_come_with_their_cursors() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/v1/ws").await;
    client.say(&json!({"type": "input", "ref": "1", "body": message("t1", "hello")})).await;
    let ack = client.event().await;
    assert_eq!((&ack["type"], &ack["ref"], &ack["body"]["turn_id"]), (&json!("ack"), &json!("1"), &json!("t1")), "{ack}");
    let session = ack["body"]["session_id"].as_str().unwrap().to_owned();
    client.say(&json!({"type": "subscribe", "ref": "2", "session_id": session, "after": "0"})).await;
    let ack = client.event().await;
    assert_eq!(ack, json!({"type": "ack", "ref": "2", "body": {"session_id": session, "cursor": "0"}}));
    let heard = Heard::until(&mut client, |heard| heard.has(&session, "turn.completed")).await;
    let types: Vec<&str> = heard.events[&session].iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(types.first(), Some(&"session.created"));
    assert!(types.contains(&"message.new") && types.contains(&"llm.call.completed"), "{types:?}");
}

#[tokio::test]
async fn an_ack_has_the_body_that_rest_gives() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/v1/ws").await;
    let mut ask = async |frame: Value| {
        client.say(&frame).await;
        let answer = client.event().await;
        assert_eq!((&answer["type"], &answer["ref"]), (&json!("ack"), &frame["ref"]), "{answer}");
        answer["body"].clone()
    };
    let accepted = ask(said("1", "s1", "t1", "hello")).await;
    app.until("s1", |page| page["status"] == "idle").await;
    let again = submit(&app, "s1", &message("t1", "hello")).await;
    assert_eq!((&accepted["duplicate"], &again["duplicate"]), (&json!(false), &json!(true)));
    assert_eq!(ask(said("2", "s1", "t1", "hello")).await, again);
    let body = json!({"node_id": "u-t1", "label": "start"});
    assert_eq!(
        ask(json!({"type": "head", "ref": "3", "session_id": "s1", "body": body})).await,
        app.post("/v1/sessions/s1/head", &body).await.json()
    );
    let page = ask(json!({"type": "update", "ref": "4", "session_id": "s1", "body": {"title": "River"}})).await;
    assert_eq!(page, app.get("/v1/sessions/s1").await.json());
    assert_eq!(page["title"], "River");
    let forked = ask(json!({"type": "fork", "ref": "5", "session_id": "s1", "body": {"session_id": "s2"}})).await;
    assert_eq!(forked["session_id"], "s2");
    assert_eq!(app.post("/v1/sessions/s1/fork", &json!({"session_id": "s2"})).await.json()["duplicate"], true);
    let forked = ask(json!({"type": "fork", "ref": "6", "session_id": "s1"})).await;
    assert!(forked["session_id"].is_string(), "{forked}");
    assert_eq!(ask(json!({"type": "cancel", "ref": "7", "session_id": "s1"})).await, json!({"cancelled": false}));
    assert_eq!(
        ask(json!({"type": "input", "ref": "8", "session_id": "s1", "body": {"type": "client.cancel"}})).await,
        json!({"cancelled": false})
    );
    assert_eq!(ask(json!({"type": "unsubscribe", "ref": "9", "session_id": "s1"})).await, json!({"unsubscribed": false}));
}

#[tokio::test]
async fn a_turn_is_stopped_by_name() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/v1/ws").await;
    client.say(&said("1", "s1", "t1", "long")).await;
    client.event().await;
    client.say(&json!({"type": "cancel", "ref": "2", "session_id": "s1", "turn_id": "another"})).await;
    assert_eq!(client.event().await["body"], json!({"cancelled": false}));
    client.say(&json!({"type": "cancel", "ref": "3", "session_id": "s1", "turn_id": "t1"})).await;
    assert_eq!(client.event().await["body"], json!({"cancelled": true}));
    app.until("s1", |page| page["status"] == "idle").await;
}

#[tokio::test]
async fn every_bad_frame_is_refused_where_it_is_wrong_and_the_socket_stays() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/v1/ws").await;
    let long = "x".repeat(129);
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let frames: Vec<(String, Value, &str, Value)> = vec![
        ("{".to_owned(), Value::Null, "bad_json", Value::Null),
        ("[]".to_owned(), Value::Null, "bad_request", Value::Null),
        (r#"{"type": "dance", "ref": "a"}"#.to_owned(), json!("a"), "bad_request", json!("type")),
        (r#"{"ref": "a"}"#.to_owned(), json!("a"), "bad_request", json!("type")),
        (r#"{"type": 7, "ref": "a"}"#.to_owned(), json!("a"), "bad_request", json!("type")),
        (r#"{"type": "ping", "ref": 7}"#.to_owned(), Value::Null, "bad_request", json!("ref")),
        (r#"{"type": "ping", "ref": ""}"#.to_owned(), Value::Null, "bad_id", json!("ref")),
        (format!(r#"{{"type": "ping", "ref": "{long}"}}"#), Value::Null, "bad_id", json!("ref")),
        (r#"{"type": "ping", "ref": "a", "ref": "b"}"#.to_owned(), json!("b"), "bad_request", json!("ref")),
        (r#"{"type": "ping", "ref": "a", "session_id": "s1"}"#.to_owned(), json!("a"), "bad_request", json!("session_id")),
        (r#"{"type": "ping", "ref": "a", "colour": 1}"#.to_owned(), json!("a"), "bad_request", json!("colour")),
        (format!(r#"{{"type": "ping", "ref": "a", "colour": {deep}}}"#), Value::Null, "bad_request", json!("colour")),
        (r#"{"type": "subscribe", "ref": "a"}"#.to_owned(), json!("a"), "bad_request", json!("session_id")),
        (format!(r#"{{"type": "subscribe", "ref": "a", "session_id": "{long}"}}"#), json!("a"), "bad_id", json!("session_id")),
        (r#"{"type": "subscribe", "ref": "a", "session_id": "s1", "after": 12}"#.to_owned(), json!("a"), "bad_request", json!("after")),
        (r#"{"type": "subscribe", "ref": "a", "session_id": "s1", "after": "x"}"#.to_owned(), json!("a"), "bad_request", json!("after")),
        (r#"{"type": "subscribe", "ref": "a", "session_id": "s1", "after": "99"}"#.to_owned(), json!("a"), "bad_request", json!("after")),
        (r#"{"type": "subscribe", "ref": "a", "session_id": "s9"}"#.to_owned(), json!("a"), "session_not_found", Value::Null),
        (r#"{"type": "unsubscribe", "ref": "a"}"#.to_owned(), json!("a"), "bad_request", json!("session_id")),
        (r#"{"type": "input", "ref": "a"}"#.to_owned(), json!("a"), "bad_request", json!("body")),
        (r#"{"type": "input", "ref": "a", "body": 7}"#.to_owned(), json!("a"), "bad_request", json!("body")),
        (r#"{"type": "input", "ref": "a", "body": {"type": "dance"}}"#.to_owned(), json!("a"), "bad_request", json!("body.type")),
        (
            r#"{"type": "input", "ref": "a", "body": {"type": "client.action"}}"#.to_owned(),
            json!("a"),
            "bad_request",
            json!("body.agent_id"),
        ),
        (
            r#"{"type": "input", "ref": "a", "body": {"type": "client.message", "agent_id": "demo", "message": {"role": "pope"}}}"#
                .to_owned(),
            json!("a"),
            "bad_request",
            json!("body.message.role"),
        ),
        (
            r#"{"type": "input", "ref": "a", "body": {"type": "client.append", "agent_id": "nobody", "messages": []}}"#.to_owned(),
            json!("a"),
            "unknown_agent",
            Value::Null,
        ),
        (
            r#"{"type": "input", "ref": "a", "session_id": "s1", "body": {"type": "client.cancel", "session_id": "s2"}}"#.to_owned(),
            json!("a"),
            "bad_request",
            json!("session_id"),
        ),
        (r#"{"type": "input", "ref": "a", "body": {"type": "client.cancel"}}"#.to_owned(), json!("a"), "bad_request", json!("session_id")),
        (r#"{"type": "head", "ref": "a", "session_id": "s1", "body": {}}"#.to_owned(), json!("a"), "bad_request", json!("body")),
        (
            r#"{"type": "head", "ref": "a", "session_id": "s1", "body": {"node_id": "u9"}}"#.to_owned(),
            json!("a"),
            "node_not_found",
            Value::Null,
        ),
        (
            r#"{"type": "fork", "ref": "a", "session_id": "s1", "body": {"colour": 1}}"#.to_owned(),
            json!("a"),
            "bad_request",
            json!("body.colour"),
        ),
    ];
    client.say(&said("0", "s1", "t0", "hello")).await;
    assert_eq!(client.event().await["type"], "ack");
    for (frame, reference, code, at) in frames {
        client.send(Message::text(frame.clone())).await;
        let refused = client.event().await;
        let shown: String = frame.chars().take(200).collect();
        assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!(code)), "{shown}: {refused}");
        assert_eq!(refused.get("ref").unwrap_or(&Value::Null), &reference, "{shown}: {refused}");
        if at != Value::Null {
            assert_eq!(refused["at"], at, "{shown}: {refused}");
        }
    }
    client.say(&json!({"type": "ping", "ref": "here"})).await;
    assert_eq!(client.event().await, json!({"type": "pong", "ref": "here"}));
    client.say(&json!({"type": "ping"})).await;
    assert_eq!(client.event().await, json!({"type": "pong"}));
    client.send(Message::binary(b"{}".to_vec())).await;
    assert_eq!(client.closed().await, 1003);
}

#[tokio::test]
async fn sessions_are_read_side_by_side() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/v1/ws").await;
    let sessions = ["s1", "s2", "s3", "s4"];
    for session in sessions {
        submit(&app, session, &message("t0", "hello")).await;
        client.say(&json!({"type": "subscribe", "ref": format!("sub-{session}"), "session_id": session, "after": "0"})).await;
    }
    for session in sessions {
        app.until(session, |page| page["status"] == "idle").await;
        client.say(&said(session, session, "t1", "short pause")).await;
    }
    let done = |heard: &Heard, session: &str| {
        heard.events.get(session).is_some_and(|events| events.iter().filter(|event| event["type"] == "turn.completed").count() == 2)
    };
    let heard = Heard::until(&mut client, |heard| sessions.iter().all(|session| done(heard, session))).await;
    assert_eq!(heard.answers.len(), 8, "{:?}", heard.answers);
    for session in sessions {
        let events = &heard.events[session];
        let seqs: Vec<u64> = events
            .iter()
            .filter_map(|event| event["cursor"].as_str())
            .map(|cursor| cursor.split('.').next().unwrap().parse().unwrap())
            .collect();
        assert!(seqs.is_sorted(), "{seqs:?}");
        let text: String = events.iter().filter(|event| event["part"] == "text").filter_map(|event| event["delta"].as_str()).collect();
        assert!(text.ends_with("After a pause."), "{text}");
    }
}

#[tokio::test]
async fn a_socket_tells_what_http_tells_after_any_cursor() {
    let app = TestApp::start();
    submit(&app, "s1", &message("t1", "hello")).await;
    app.until("s1", |page| page["status"] == "idle").await;
    submit(&app, "s1", &message("t2", "long")).await;
    let mut client = Client::open(app.address, "/v1/ws").await;
    client.say(&json!({"type": "subscribe", "session_id": "s1", "after": "0"})).await;
    let pieces =
        |heard: &Heard| heard.events.get("s1").is_some_and(|events| events.iter().filter(|event| event["part"] == "text").count() >= 4);
    let live = Heard::until(&mut client, pieces).await;
    client.say(&json!({"type": "cancel", "session_id": "s1"})).await;
    let mut heard = Heard::until(&mut client, |heard| heard.has("s1", "turn.cancelled")).await;
    let mut whole = live.events["s1"].clone();
    whole.append(heard.events.get_mut("s1").unwrap());
    let mut cuts: Vec<String> = whole.iter().filter_map(|event| event["cursor"].as_str().map(str::to_owned)).collect();
    cuts.insert(0, "0".to_owned());
    // The last event is what the readers wait for.
    cuts.pop();
    for after in cuts {
        // Inside a reply that isn't there any more, the whole comes last.
        let last = if after.contains('.') { "session.snapshot" } else { "turn.cancelled" };
        let told = events_over_http(&app, "s1", &after, last).await;
        client.say(&json!({"type": "subscribe", "ref": after, "session_id": "s1", "after": after})).await;
        let heard = Heard::until(&mut client, |heard| heard.has("s1", last)).await;
        // What is told of a reply that isn't there any more is told now.
        let timeless = |events: &[Value]| -> Vec<Value> {
            joined(events)
                .into_iter()
                .map(|mut event| {
                    if event["type"] == "session.snapshot" {
                        event["at"] = Value::Null;
                    }
                    event
                })
                .collect()
        };
        assert_eq!(timeless(&heard.events["s1"]), timeless(&told), "after {after}");
    }
}

#[tokio::test]
async fn a_second_subscribe_replaces_the_first_and_a_refused_one_does_not() {
    let app = TestApp::start();
    submit(&app, "s1", &message("t1", "hello")).await;
    app.until("s1", |page| page["status"] == "idle").await;
    let mut client = Client::open(app.address, "/v1/ws").await;
    for reference in ["1", "2"] {
        client.say(&json!({"type": "subscribe", "ref": reference, "session_id": "s1", "after": "0"})).await;
        assert_eq!(client.event().await["ref"], reference);
        let heard = Heard::until(&mut client, |heard| heard.has("s1", "turn.completed")).await;
        assert_eq!(heard.events["s1"][0]["type"], "session.created", "all over again");
    }
    client.say(&json!({"type": "subscribe", "ref": "3", "session_id": "s1", "after": "77"})).await;
    assert_eq!(client.event().await["error"], "bad_request");
    submit(&app, "s1", &message("t2", "hello")).await;
    let heard = Heard::until(&mut client, |heard| heard.has("s1", "turn.completed")).await;
    assert_eq!(heard.events["s1"].iter().filter(|event| event["type"] == "turn.completed").count(), 1, "told once");
    client.say(&json!({"type": "unsubscribe", "ref": "4", "session_id": "s1"})).await;
    assert_eq!(client.event().await["body"], json!({"unsubscribed": true}));
    submit(&app, "s1", &message("t3", "hello")).await;
    app.until("s1", |page| page["status"] == "idle").await;
    client.say(&json!({"type": "ping"})).await;
    assert_eq!(client.event().await, json!({"type": "pong"}), "nothing comes any more");
}

#[tokio::test]
async fn without_a_place_only_what_comes_is_told() {
    let app = TestApp::start();
    submit(&app, "s1", &message("t1", "hello")).await;
    app.until("s1", |page| page["status"] == "idle").await;
    let mut client = Client::open(app.address, "/v1/ws").await;
    client.say(&json!({"type": "subscribe", "session_id": "s1", "after": null})).await;
    assert_eq!(client.event().await["type"], "ack");
    client.say(&said("1", "s1", "t2", "one more")).await;
    let heard = Heard::until(&mut client, |heard| heard.has("s1", "turn.completed")).await;
    assert_eq!(heard.events["s1"][0]["node_id"], "u-t2");
}

#[tokio::test]
async fn more_subscriptions_than_are_allowed_are_refused() {
    let app = TestApp::with(|options| options.socket_subscriptions_max = 2);
    let mut client = Client::open(app.address, "/v1/ws").await;
    for session in ["s1", "s2", "s3"] {
        submit(&app, session, &message("t1", "hello")).await;
    }
    for (session, kind) in [("s1", "ack"), ("s2", "ack"), ("s3", "error"), ("s1", "ack")] {
        client.say(&json!({"type": "subscribe", "ref": session, "session_id": session, "after": "0"})).await;
        let heard = Heard::until(&mut client, |heard| heard.answers.contains_key(session)).await;
        let answer = &heard.answers[session];
        assert_eq!(answer["type"], kind, "{answer}");
        assert!(kind == "ack" || answer["error"] == "too_many_readers", "{answer}");
    }
    client.say(&json!({"type": "unsubscribe", "ref": "gone", "session_id": "s2"})).await;
    client.say(&json!({"type": "subscribe", "ref": "s3", "session_id": "s3", "after": "0"})).await;
    let heard = Heard::until(&mut client, |heard| heard.answers.len() == 2).await;
    assert_eq!(heard.answers["s3"]["type"], "ack");
}

#[tokio::test]
async fn more_frames_than_may_wait_are_refused() {
    let app = TestApp::with(|options| options.socket_requests_max = 3);
    let mut client = Client::open(app.address, "/v1/ws").await;
    for n in 0..40 {
        client.say(&said(&n.to_string(), &format!("s{n}"), "t1", "hello")).await;
    }
    let heard = Heard::until(&mut client, |heard| heard.answers.len() == 40).await;
    let refused: Vec<&Value> = heard.answers.values().filter(|answer| answer["type"] == "error").collect();
    assert!(refused.iter().all(|answer| answer["error"] == "too_many_requests"), "{refused:?}");
    client.say(&said("last", "s1", "t2", "hello")).await;
    assert_eq!(client.event().await["type"], "ack", "once they are answered there is room again");
}

#[tokio::test]
async fn an_erased_session_is_told_and_the_socket_lives_on() {
    let app = TestApp::start();
    let mut client = Client::open(app.address, "/v1/ws").await;
    for session in ["s1", "s2"] {
        submit(&app, session, &message("t1", "hello")).await;
        app.until(session, |page| page["status"] == "idle").await;
        client.say(&json!({"type": "subscribe", "session_id": session})).await;
        Heard::until(&mut client, |heard| heard.answers.len() == 1).await;
    }
    assert_eq!(Exchange::send(app.address, "DELETE", "/v1/sessions/s1", &[], None).await.whole().await.status, 204);
    let heard = Heard::until(&mut client, |heard| !heard.ended.is_empty()).await;
    assert_eq!((&heard.ended[0]["session_id"], &heard.ended[0]["error"]), (&json!("s1"), &json!("session_deleted")), "{:?}", heard.ended);
    client.say(&said("1", "s2", "t2", "hello")).await;
    let heard = Heard::until(&mut client, |heard| heard.has("s2", "turn.completed") && heard.answers.contains_key("1")).await;
    assert_eq!(heard.answers["1"]["type"], "ack");
    client.say(&json!({"type": "subscribe", "ref": "2", "session_id": "s1"})).await;
    assert_eq!(client.event().await["error"], "session_deleted");
}

#[tokio::test]
async fn a_socket_that_goes_away_frees_its_readers() {
    let app = TestApp::start();
    submit(&app, "s1", &message("t1", "hello")).await;
    app.until("s1", |page| page["status"] == "idle").await;
    // As many as a session may have, again and again.
    for _ in 0..3 {
        let mut clients = Vec::new();
        for _ in 0..16 {
            let mut client = Client::open(app.address, "/v1/ws").await;
            within(async {
                loop {
                    client.say(&json!({"type": "subscribe", "session_id": "s1"})).await;
                    if client.event().await["type"] == "ack" {
                        break;
                    }
                }
            })
            .await;
            clients.push(client);
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_closes_sockets_that_read_nothing() {
    let app = TestApp::start();
    let mut idle = Client::open(app.address, "/v1/ws").await;
    app.draining.cancel();
    assert_eq!(idle.closed().await, 1012);
    let refused = app.get("/v1/ws").await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_ne!(idle.next().await, Came::Closed(1000));
}
