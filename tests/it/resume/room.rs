//! The law of cuts where room is made meanwhile: calls are held, histories replaced, calls refused as too long, summaries written in
//! the background and adopted, and arrivals read. Whatever a reader has, with what it gets when it comes back it has the whole.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::model::{Chance, model, script_of_room};
use super::stream::{Framed, built, flat, framed, is_end, merged, of_text};
use crate::app::{TestApp, check_run, said, types, v1};
use crate::http::{Exchange, body};
use crate::native::{Told, told};
use crate::socket::{Came, Client};

const AGENTS: [&str; 3] = ["tight", "forgetful", "ahead"];
const TURNS: usize = 7;

/// A body, as a dialect has it.
type Asked = fn(Value) -> Value;

fn dialects() -> [(&'static str, Asked); 2] {
    [("", |body| body), ("&protocolVersion=1.0", v1)]
}

/// A run, as the one who asked for it was told it.
struct Run {
    agent: &'static str,
    thread: String,
    id: String,
    query: &'static str,
    /// A message that waited meanwhile. Who was there then saw it waiting; the log of what was read doesn't say since when.
    waited: Option<&'static str>,
    told: Vec<Framed>,
}

impl Run {
    fn path(&self, offset: &str) -> String {
        let Self { agent, thread, id, query, .. } = self;
        format!("/agents/{agent}?threadId={thread}&runId={id}&offset={offset}{query}")
    }

    async fn resumed(&self, app: &TestApp, offset: &str) -> Vec<Framed> {
        let answer = app.get(&self.path(offset)).await;
        assert_eq!(answer.status, 200, "{} after {offset}: {}", self.id, answer.text());
        framed(&answer.text())
    }

    async fn on_socket(&self, app: &TestApp, offset: &str) -> Vec<Framed> {
        let mut socket = Client::open(app.address, &self.path(offset)).await;
        let mut rest = Vec::new();
        loop {
            match socket.next().await {
                Came::Event(text) => rest.push(of_text(text)),
                Came::Closed(1000) => return rest,
                other => panic!("{} after {offset}: {other:?}", self.id),
            }
        }
    }

    /// Holds what a reader gets that has everything up to this piece against the whole.
    fn hold(&self, pieces: &[Framed], at: usize, rest: &[Framed]) {
        let place = format!("{} of {}, {}, after {:?}", self.id, self.thread, self.agent, pieces[at].id);
        if is_end(&pieces[at].event) {
            assert_eq!(merged(rest), merged([&pieces[at]]), "{place}");
        } else {
            same(&self.settled(merged(pieces[..=at].iter().chain(rest))), &self.settled(merged(&self.told)), &place);
        }
    }

    /// The same, with what waited shown where it was read, and not before.
    fn settled(&self, mut told: Vec<Value>) -> Vec<Value> {
        let Some(waited) = self.waited else { return told };
        let snapshots = told.iter_mut().filter_map(|event| event.get_mut("messages")?.as_array_mut());
        let mut snapshots: Vec<&mut Vec<Value>> = snapshots.collect();
        let last = snapshots.pop().expect("a snapshot is told");
        assert!(last.iter().any(|message| message["id"] == waited), "{waited} was read");
        for messages in snapshots {
            messages.retain(|message| message["id"] != waited);
        }
        told
    }

    /// The law at every piece over server-sent events, at every event over a socket.
    async fn check(&self, app: &TestApp) {
        let kinds: Vec<Value> = self.told.iter().map(|framed| framed.event.clone()).collect();
        check_run(&kinds);
        let pieces = flat(&self.told);
        for (at, piece) in pieces.iter().enumerate() {
            let Some(id) = &piece.id else { continue };
            self.hold(&pieces, at, &self.resumed(app, id).await);
        }
        for (at, framed) in self.told.iter().enumerate() {
            let Some(id) = &framed.id else { continue };
            self.hold(&self.told, at, &self.on_socket(app, id).await);
        }
        let joined = self.resumed(app, "-1").await;
        assert_eq!(types(&[joined[0].event.clone(), joined[1].event.clone()]), ["RUN_STARTED", "MESSAGES_SNAPSHOT"]);
        if self.told[1].event["type"] == "MESSAGES_SNAPSHOT" {
            // It joined another in the middle, which is told here from its start.
            assert_eq!(built(&joined), built(&self.told), "{} of {}", self.id, self.thread);
        } else {
            assert_eq!(self.settled(merged(&joined[2..])), self.settled(merged(&self.told[1..])), "{} of {}", self.id, self.thread);
        }
    }
}

/// They are equal; else where they begin not to be.
fn same(got: &[Value], whole: &[Value], place: &str) {
    let differs = (0..got.len().max(whole.len())).find(|&at| got.get(at) != whole.get(at));
    let Some(at) = differs else { return };
    panic!(
        "{place}: event {at} of {} and {}:\n{:#?}\n{:#?}",
        got.len(),
        whole.len(),
        got.get(at..(at + 2).min(got.len())),
        whole.get(at..(at + 2).min(whole.len()))
    );
}

/// What a client sends that holds the conversation and says something more. Ids decide, so what it holds of replies is short.
async fn next(app: &TestApp, thread: &str, run: &str, text: &str) -> Value {
    let mut view = said(thread, run, text);
    let page = app.get(&format!("/v1/sessions/{thread}")).await;
    let held = if page.status == 200 { page.json()["messages"].as_array().cloned().unwrap_or_default() } else { Vec::new() };
    let held = held.into_iter().filter(|message| message["role"] == "user" || message["role"] == "assistant");
    let held = held.map(|message| json!({"id": message["id"], "role": message["role"], "content": "held"}));
    view["messages"] = held.chain([view["messages"][0].clone()]).collect();
    view
}

/// Talks until room was made a few times; each run as it was told.
async fn talked(app: &TestApp, agent: &'static str, thread: &str, query: &'static str, dialect: Asked, wait_ms: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut chance = Chance::new(thread.len() as u64 + 40);
    for n in 0..TURNS {
        let text = script_of_room(&mut chance, wait_ms, n == 3);
        let id = format!("r{n}");
        let answer = app.post(&format!("/agents/{agent}"), &dialect(next(app, thread, &id, &text).await)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        runs.push(Run { agent, thread: thread.to_owned(), id, query, waited: None, told: of_all(framed(&answer.text())) });
    }
    runs
}

/// Without what only the one who asked is told about its view.
fn of_all(told: Vec<Framed>) -> Vec<Framed> {
    let is_of_view = |event: &Value| ["headwater.view", "headwater.ignored_edits"].iter().any(|name| event["name"] == *name);
    told.into_iter().filter(|framed| !is_of_view(&framed.event)).collect()
}

/// The types of a session's records.
async fn recorded(app: &TestApp, thread: &str) -> Vec<String> {
    let page = app.get(&format!("/v1/sessions/{thread}/records?limit=1000")).await.json();
    let kind = |line: &Value| line["record"]["type"].as_str().expect("a type").to_owned();
    page["records"].as_array().expect("records").iter().map(kind).collect()
}

/// What must have happened, or the law was held by nothing.
async fn check_room(app: &TestApp, agent: &str, thread: &str) {
    let records: BTreeSet<String> = recorded(app, thread).await.into_iter().collect();
    let wanted: &[&str] = match agent {
        "ahead" => &["context.job.started", "context.replaced"],
        _ => &["context.limited", "context.replaced"],
    };
    assert!(wanted.iter().all(|kind| records.contains(*kind)), "{agent}: {records:?}");
}

#[tokio::test]
async fn a_run_in_which_room_is_made_is_gone_on_with_at_every_character() {
    for agent in AGENTS {
        let app = TestApp::with_little_room(model(), "");
        for (query, dialect) in dialects() {
            let thread = format!("s-{agent}{}", query.len());
            let runs = talked(&app, agent, &thread, query, dialect, 0).await;
            check_room(&app, agent, &thread).await;
            for run in &runs {
                run.check(&app).await;
            }
        }
    }
}

/// Where a session's stream is over, for this test.
fn is_over(event: &Value, last: &str) -> bool {
    ["turn.completed", "turn.failed"].contains(&event["type"].as_str().unwrap_or_default()) && event["turn_id"] == last
}

/// What is in the log of what came.
fn in_log(told: impl IntoIterator<Item = Value>) -> Vec<Value> {
    told.into_iter().filter(|event| !["llm.delta", "session.snapshot"].contains(&event["type"].as_str().unwrap_or_default())).collect()
}

/// A session's events after a place, up to the end of the turn `last`.
async fn events(app: &TestApp, thread: &str, after: &str, last: &str) -> Vec<Told> {
    let path = format!("/v1/sessions/{thread}/events?after={after}");
    let mut stream = Exchange::send(app.address, "GET", &path, &[], None).await;
    loop {
        let told = told(&body(&stream.got));
        if told.iter().any(|told| is_over(&told.data, last)) {
            return told;
        }
        let more = tokio::time::timeout(Duration::from_secs(10), stream.read()).await;
        assert!(more.is_ok_and(|more| more), "{thread} after {after} ends with {:?}", told.last());
    }
}

/// The same over the native socket.
async fn events_on_socket(client: &mut Client, thread: &str, after: &str, last: &str) -> Vec<Value> {
    client.say(&json!({"type": "subscribe", "ref": after, "session_id": thread, "after": after})).await;
    let mut told = Vec::new();
    let mut answered = false;
    loop {
        let frame = client.event().await;
        match frame["type"].as_str().expect("a type") {
            "ack" => answered = frame["ref"] == after,
            "event" if answered => told.push(frame["event"].clone()),
            "event" | "unsubscribed" => {}
            other => panic!("{other}: {frame}"),
        }
        if told.last().is_some_and(|event| is_over(event, last)) {
            return told;
        }
    }
}

#[tokio::test]
async fn a_session_in_which_room_is_made_is_read_on_from_every_event() {
    for agent in AGENTS {
        let app = TestApp::with_little_room(model(), "");
        let thread = format!("s-{agent}");
        // Read from the start, while it happens: with every piece of each reply.
        let live = async {
            app.until(&thread, |page| page["status"].is_string()).await;
            events(&app, &thread, "0", &format!("r{}", TURNS - 1)).await
        };
        let (_, live) = tokio::join!(talked(&app, agent, &thread, "", |body| body, 2), live);
        check_room(&app, agent, &thread).await;
        let whole = in_log(live.iter().map(|told| told.data.clone()));
        let last = format!("r{}", TURNS - 1);
        let mut client = Client::open(app.address, "/v1/ws").await;
        let mut tried = BTreeSet::new();
        for (at, piece) in live.iter().enumerate() {
            if piece.id.is_empty() || is_over(&piece.data, &last) || !tried.insert(piece.id.clone()) {
                continue;
            }
            let before = || live[..=at].iter().map(|told| told.data.clone());
            let rest = events(&app, &thread, &piece.id, &last).await;
            same(&in_log(before().chain(rest.into_iter().map(|told| told.data))), &whole, &format!("{agent} after {}", piece.id));
            let rest = events_on_socket(&mut client, &thread, &piece.id, &last).await;
            same(&in_log(before().chain(rest)), &whole, &format!("{agent} on a socket after {}", piece.id));
        }
    }
}

/// What joins the running turn, and what happens, while a run is told.
#[tokio::test]
async fn a_run_that_reads_arrivals_is_gone_on_with_at_every_character() {
    for agent in AGENTS {
        let app = TestApp::with_little_room(model(), "");
        for (query, dialect) in dialects() {
            let thread = format!("s-{agent}{}", query.len());
            talked(&app, agent, &thread, query, dialect, 0).await;
            let mut chance = Chance::new(5);
            let asked = dialect(next(&app, &thread, "first", &script_of_room(&mut chance, 4, false)).await);
            let mut first = Exchange::post(app.address, &format!("/agents/{agent}"), &asked.to_string()).await;
            first.until("RUN_STARTED").await;
            let happened = json!({"type": "session.event", "agent_id": agent, "turn_id": "happened", "name": "look", "content": "there", "show": true,
                "stream": false});
            let taken = app.post(&format!("/v1/sessions/{thread}/inputs"), &happened).await.json();
            assert_eq!(taken["arrival"], true, "{taken}");
            let mut steering = dialect(next(&app, &thread, "second", &script_of_room(&mut chance, 0, false)).await);
            steering["forwardedProps"] = json!({"headwater": {"queue": "steer"}});
            let second = app.post(&format!("/agents/{agent}"), &steering).await;
            assert_eq!(second.status, 200, "{}", second.text());
            let first = first.whole().await;
            for (id, answer) in [("first", first), ("second", second)] {
                let run = Run {
                    agent,
                    thread: thread.clone(),
                    id: id.to_owned(),
                    query,
                    waited: Some("u-second"),
                    told: of_all(framed(&answer.text())),
                };
                run.check(&app).await;
            }
            assert!(recorded(&app, &thread).await.iter().any(|kind| kind == "arrival.consumed"));
        }
    }
}

/// Every reader falls behind all the time, also while room is made.
#[tokio::test]
async fn readers_that_fall_behind_are_told_the_same_while_room_is_made() {
    for agent in AGENTS {
        let app = TestApp::with_little_room(model(), "reader_batches_max = 1");
        let thread = format!("s-{agent}");
        let mut chance = Chance::new(9);
        for n in 0..TURNS {
            let text = script_of_room(&mut chance, 1, n == 3);
            let id = format!("r{n}");
            let body = next(&app, &thread, &id, &text).await;
            let mut first = Exchange::post(app.address, &format!("/agents/{agent}"), &body.to_string()).await;
            first.until("data: ").await;
            let connect = json!({"threadId": thread}).to_string();
            let joined = Exchange::post(app.address, &format!("/agents/{agent}/connect"), &connect).await;
            let mut run = Run { agent, thread: thread.clone(), id, query: "", waited: None, told: Vec::new() };
            let resuming = Exchange::send(app.address, "GET", &run.path("-1"), &[], None).await;
            let on_socket = run.on_socket(&app, "-1").await;
            run.told = of_all(framed(&first.whole().await.text()));
            let whole = run.resumed(&app, "-1").await;
            assert_eq!(merged(&run.told[1..]), merged(&whole[2..]), "{agent}, turn {n}");
            assert_eq!(merged(&framed(&resuming.whole().await.text())), merged(&whole), "{agent}, turn {n}");
            assert_eq!(merged(&on_socket), merged(&whole), "{agent}, turn {n}");
            assert_eq!(built(&framed(&joined.whole().await.text())), built(&whole), "{agent}, turn {n}");
        }
        check_room(&app, agent, &thread).await;
    }
}
