//! The law of cuts: whatever a reader has, and what it gets when it comes back with the last id it saw, is the whole stream, once
//! and in order; and what a reader gets that joins is the conversation.

use serde_json::Value;

use super::model::{Chance, model, script};
use super::stream::{Framed, built, flat, framed, is_end, merged, of_text};
use crate::app::{TestApp, check_run, said, v1};
use crate::http::{Exchange, body, within};
use crate::socket::{Came, Client};

const RUNS: u64 = 10;

fn start() -> TestApp {
    TestApp::over(model(), |_| {})
}

/// A body, as a dialect has it.
type Asked = fn(Value) -> Value;

/// How runs are asked for in a dialect: the query, and the body.
fn dialects() -> [(&'static str, Asked); 2] {
    [("", |body| body), ("&protocolVersion=1.0", v1)]
}

async fn whole(app: &TestApp, thread: &str, body: &Value) -> Vec<Framed> {
    let answer = app.post("/agents/steady", body).await;
    assert_eq!(answer.status, 200, "{thread}: {}", answer.text());
    let told = framed(&answer.text());
    check_run(&told.iter().map(|framed| framed.event.clone()).collect::<Vec<_>>());
    told
}

async fn resumed(app: &TestApp, thread: &str, offset: &str, query: &str) -> Vec<Framed> {
    let answer = app.get(&format!("/agents/steady?threadId={thread}&runId=r1&offset={offset}{query}")).await;
    assert_eq!(answer.status, 200, "{offset}: {}", answer.text());
    framed(&answer.text())
}

/// Ids rise, and every event after the opening has one.
fn check_ids(told: &[Framed]) {
    let cursors: Vec<headwater::protocol::Cursor> = told.iter().filter_map(|framed| framed.id.as_ref()?.parse().ok()).collect();
    assert!(cursors.is_sorted_by(|one, next| one < next), "{told:#?}");
    let first = told.iter().position(|framed| framed.id.is_some()).unwrap();
    assert!(told[first..].iter().all(|framed| framed.id.is_some()), "{told:#?}");
}

#[tokio::test]
async fn after_its_end_a_run_is_gone_on_with_at_every_character() {
    let app = start();
    for seed in 0..RUNS {
        for (query, dialect) in dialects() {
            let thread = format!("s{seed}{}", query.len());
            let told = whole(&app, &thread, &dialect(said(&thread, "r1", &script(&mut Chance::new(seed), 0)))).await;
            check_ids(&told);
            let (all, pieces) = (merged(&told), flat(&told));
            for (at, piece) in pieces.iter().enumerate() {
                let Some(id) = &piece.id else { continue };
                let rest = resumed(&app, &thread, id, query).await;
                if is_end(&piece.event) {
                    // Whoever has the end is told it again, and nothing else.
                    assert_eq!(merged(&rest), [merged([piece])[0].clone()]);
                    assert_eq!(rest[0].id, None);
                    continue;
                }
                assert_eq!(merged(pieces[..=at].iter().chain(&rest)), all, "seed {seed}, after {id}");
            }
        }
    }
}

#[tokio::test]
async fn a_run_is_joined_from_its_start_and_with_its_conversation() {
    let app = start();
    for seed in 0..RUNS {
        for (query, dialect) in dialects() {
            let thread = format!("s{seed}{}", query.len());
            let told = whole(&app, &thread, &dialect(said(&thread, "r1", &script(&mut Chance::new(seed), 0)))).await;
            let joined = resumed(&app, &thread, "-1", query).await;
            check_ids(&joined);
            assert_eq!((&joined[0].event["type"], &joined[1].event["type"]), (&"RUN_STARTED".into(), &"MESSAGES_SNAPSHOT".into()));
            assert_eq!(merged(&joined[2..]), merged(&told[1..]), "seed {seed}");
            let without = framed(&app.get(&format!("/agents/steady?threadId={thread}&runId=r1{query}")).await.text());
            assert_eq!(merged(&without), merged(&joined));

            let connect = dialect(serde_json::json!({"threadId": thread}));
            let connected = framed(&app.post("/agents/steady/connect", &connect).await.text());
            assert_eq!(built(&connected), built(&joined), "seed {seed}");
        }
    }
}

/// Reads `count` events of an answer that goes on, or all there are.
async fn some(app: &TestApp, method: &str, path: &str, body_json: Option<&Value>, count: usize) -> Vec<Framed> {
    let text = body_json.map(Value::to_string);
    let headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")];
    let mut exchange = Exchange::send(app.address, method, path, &headers, text.as_deref()).await;
    loop {
        let told = framed(&body(&exchange.got));
        if told.len() >= count || told.iter().any(|framed| is_end(&framed.event)) {
            return told.into_iter().take(count).collect();
        }
        assert!(exchange.read().await, "it ended early: {}", String::from_utf8_lossy(&exchange.got));
    }
}

#[tokio::test]
async fn while_it_is_made_a_run_is_gone_on_with_by_readers_that_come_and_go() {
    let app = start();
    for seed in 0..4 {
        for (query, dialect) in dialects() {
            let mut chance = Chance::new(seed);
            let thread = format!("s{seed}{}", query.len());
            let body = dialect(said(&thread, "r1", &script(&mut chance, 2)));
            let mut had = some(&app, "POST", "/agents/steady", Some(&body), 1 + chance.below(3)).await;
            let mut sockets = 0;
            while !had.iter().any(|framed| is_end(&framed.event)) {
                let id = had.iter().rev().find_map(|framed| framed.id.clone()).expect("an id");
                let count = 1 + chance.below(4);
                let path = format!("/agents/steady?threadId={thread}&runId=r1&offset={id}{query}");
                if chance.below(2) == 0 {
                    had.extend(some(&app, "GET", &path, None, count).await);
                    continue;
                }
                sockets += 1;
                let mut socket = Client::open(app.address, &path).await;
                for _ in 0..count {
                    let framed = of_text(socket.event().await);
                    let last = is_end(&framed.event);
                    had.push(framed);
                    if last {
                        assert_eq!(socket.next().await, Came::Closed(1000));
                        break;
                    }
                }
            }
            check_ids(&had);
            let joined = resumed(&app, &thread, "-1", query).await;
            assert_eq!(merged(&had[1..]), merged(&joined[2..]), "seed {seed}, {sockets} sockets");
        }
    }
}

#[tokio::test]
async fn over_a_socket_a_run_is_gone_on_with_at_every_event() {
    let app = start();
    for seed in 0..RUNS {
        let thread = format!("s{seed}");
        let told = whole(&app, &thread, &said(&thread, "r1", &script(&mut Chance::new(seed), 0))).await;
        for (at, framed) in told.iter().enumerate() {
            let Some(id) = &framed.id else { continue };
            let mut socket = Client::open(app.address, &format!("/agents/steady?threadId={thread}&runId=r1&offset={id}")).await;
            let rest = within(async {
                let mut rest = Vec::new();
                loop {
                    match socket.next().await {
                        Came::Event(text) => rest.push(of_text(text)),
                        Came::Closed(1000) => return rest,
                        other => panic!("{other:?}"),
                    }
                }
            })
            .await;
            let before = if is_end(&framed.event) { &told[..at] } else { &told[..=at] };
            assert_eq!(merged(before.iter().chain(&rest)), merged(&told), "seed {seed}, after {id}");
        }
    }
}

#[tokio::test]
async fn several_readers_read_one_run_each_whole() {
    let app = start();
    let mut chance = Chance::new(77);
    let body = said("s1", "r1", &script(&mut chance, 3));
    let mut first = Exchange::post(app.address, "/agents/steady", &body.to_string()).await;
    first.until("RUN_STARTED").await;
    let mut readers = Vec::new();
    for n in 0..6 {
        let path = "/agents/steady?threadId=s1&runId=r1&offset=-1";
        readers.push(Exchange::send(app.address, "GET", path, &[], None).await);
        if n % 2 == 0 {
            first.read().await;
        }
    }
    let told = framed(&first.whole().await.text());
    for reader in readers {
        let joined = framed(&reader.whole().await.text());
        assert_eq!(merged(&joined[2..]), merged(&told[1..]));
    }
}

/// Every reader falls behind all the time, and goes on from the log, each by its own way.
#[tokio::test]
async fn readers_that_fall_behind_are_told_the_same() {
    let app = TestApp::over_limited(model(), "reader_batches_max = 1", |_| {});
    for seed in 0..RUNS {
        let thread = format!("s{seed}");
        let body = said(&thread, "r1", &script(&mut Chance::new(seed), 1));
        let mut first = Exchange::post(app.address, "/agents/steady", &body.to_string()).await;
        first.until("RUN_STARTED").await;
        let joined = serde_json::json!({"threadId": thread}).to_string();
        let joined = Exchange::post(app.address, "/agents/steady/connect", &joined).await;
        let path = format!("/agents/steady?threadId={thread}&runId=r1&offset=-1");
        let resuming = Exchange::send(app.address, "GET", &path, &[], None).await;
        let mut socket = Client::open(app.address, &path).await;
        let mut on_socket = Vec::new();
        while on_socket.last().is_none_or(|last: &Framed| !is_end(&last.event)) {
            on_socket.push(of_text(socket.event().await));
        }
        let told = framed(&first.whole().await.text());
        check_run(&told.iter().map(|framed| framed.event.clone()).collect::<Vec<_>>());
        let whole = resumed(&app, &thread, "-1", "").await;
        assert_eq!(merged(&told[1..]), merged(&whole[2..]), "seed {seed}");
        assert_eq!(merged(&framed(&resuming.whole().await.text())), merged(&whole), "seed {seed}");
        assert_eq!(merged(&on_socket), merged(&whole), "seed {seed}");
        assert_eq!(built(&framed(&joined.whole().await.text())), built(&whole), "seed {seed}");
    }
}
