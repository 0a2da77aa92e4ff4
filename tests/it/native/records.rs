//! The log as it is stored, exports and imports.

use headwater::protocol::RecordsPage;
use headwater::protocol::export::Writer;
use serde_json::{Value, json};

use super::{message, with};
use crate::app::TestApp;
use crate::http::{Answer, Exchange};

/// A session's export, as a client of the API makes it.
async fn export(app: &TestApp, session: &str) -> String {
    let (mut writer, mut file) = Writer::begin(&session.into(), &"demo".into());
    let mut after = 0;
    loop {
        let text = app.get(&format!("/v1/sessions/{session}/records?limit=3&after={after}")).await.text();
        let page: RecordsPage = serde_json::from_str(&text).unwrap();
        file.extend(page.records.iter().map(|line| writer.record(&line.record)));
        match page.next {
            Some(next) => after = next,
            None => return file + &writer.end(),
        }
    }
}

async fn import(app: &TestApp, session: &str, file: &str) -> Answer {
    let headers = [("Content-Type", "application/x-ndjson")];
    Exchange::send(app.address, "POST", &format!("/v1/sessions/{session}/records"), &headers, Some(file)).await.whole().await
}

fn with_line(file: &str, n: usize, change: impl Fn(&str) -> Option<String>) -> String {
    let change = |(at, line): (usize, &str)| if at == n { change(line) } else { Some(line.to_owned()) };
    file.lines().enumerate().filter_map(change).map(|line| line + "\n").collect()
}

async fn talk(app: &TestApp) {
    app.streamed("s1", &message("t1", "one")).await;
    app.streamed("s1", &message("t2", "two")).await;
    app.ask("POST", "/v1/sessions/s1/head", Some(&json!({"node_id": "u-t1", "label": "start"}))).await;
    app.streamed("s1", &json!({"type": "client.message", "agent_id": "demo", "turn_id": "t3", "message": {"id": "u-t1", "role": "user", "content": "one"}})).await;
    app.ask("PATCH", "/v1/sessions/s1", Some(&json!({"title": "Numbers"}))).await;
}

#[tokio::test]
async fn a_log_is_read_page_by_page() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "one")).await;
    let page = app.get("/v1/sessions/s1/records?limit=2").await.json();
    assert_eq!((&page["end"], &page["next"], page["records"].as_array().unwrap().len()), (&json!(7), &json!(2), 2));
    assert_eq!((&page["records"][0]["seq"], &page["records"][0]["record"]["type"]), (&json!(1), &json!("session.created")));
    let rest = app.get("/v1/sessions/s1/records?after=2").await.json();
    assert_eq!((rest["records"].as_array().unwrap().len(), rest.get("next")), (5, None));
    let nothing = app.get("/v1/sessions/s1/records?after=7").await.json();
    assert_eq!((nothing["records"].clone(), nothing.get("next")), (json!([]), None));
    for query in ["limit=0", "limit=1001", "after=x", "after=-1", "from=1"] {
        let answer = app.get(&format!("/v1/sessions/s1/records?{query}")).await;
        assert_eq!(answer.refusal(), (400, "bad_request".to_owned()), "{query}");
    }
    assert_eq!(app.get("/v1/sessions/nowhere/records").await.refusal(), (404, "session_not_found".to_owned()));
}

#[tokio::test]
async fn an_import_gives_the_same_session() {
    let app = TestApp::start();
    talk(&app).await;
    let file = export(&app, "s1").await;
    let other = TestApp::start();
    let imported = import(&other, "s1", &file).await;
    assert_eq!((imported.status, imported.header("location")), (201, Some("/v1/sessions/s1")), "{}", imported.text());
    assert_eq!(other.page("s1").await, app.page("s1").await);
    for view in ["reader", "raw"] {
        let path = format!("/v1/sessions/s1/tree?view={view}");
        assert_eq!(other.get(&path).await.json(), app.get(&path).await.json());
    }
    assert_eq!(export(&other, "s1").await, file);
    let again = import(&other, "s1", &file).await;
    assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)));
    let elsewhere = import(&other, "s2", &file).await;
    assert_eq!(elsewhere.status, 201, "under another id it is another session");
    other.streamed("s1", &message("t4", "four")).await;
    assert_eq!(import(&other, "s1", &file).await.refusal(), (409, "session_exists".to_owned()), "it has grown since");
    let known = other.taken("s2", &message("t2", "two")).await;
    assert_eq!(known["duplicate"], true, "turn ids are known there too");
}

#[tokio::test]
async fn what_was_unfinished_ends_with_the_import() {
    let app = TestApp::start();
    app.taken("s1", &message("t1", "long")).await;
    app.taken("s1", &with(message("t2", "later"), "queue", json!(true))).await;
    let file = export(&app, "s1").await;
    let other = TestApp::start();
    assert_eq!(import(&other, "s1", &file).await.status, 201);
    let page = other.page("s1").await;
    assert_eq!((&page["status"], &page["queue"]), (&json!("idle"), &json!([])));
    let records = other.get("/v1/sessions/s1/records").await.json();
    let ends: Vec<_> = records["records"].as_array().unwrap().iter().filter(|line| line["record"]["type"] == "turn.cancelled").collect();
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|line| line["record"]["data"]["reason"] == "imported"), "{ends:?}");
    let again = import(&other, "s1", &file).await;
    assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)), "{}", again.text());
    let told = other.streamed("s1", &message("t3", "go on")).await;
    assert_eq!(super::said(&told), "You said: go on");
}

#[tokio::test]
async fn a_file_that_was_cut_doubled_or_changed_is_refused() {
    let app = TestApp::start();
    talk(&app).await;
    let file = export(&app, "s1").await;
    let last = file.lines().count() - 1;
    let other = TestApp::start();
    let cases: Vec<(&str, String, &str)> = vec![
        ("empty", String::new(), "bad_import"),
        ("cut in a line", file[..file.len() / 2].to_owned(), "bad_import"),
        ("cut after a line", with_line(&file, last, |_| None), "bad_import"),
        ("doubled", format!("{file}{file}"), "bad_import"),
        ("a line doubled", with_line(&file, 2, |line| Some(format!("{line}\n{line}"))), "bad_import"),
        ("a line missing", with_line(&file, 2, |_| None), "bad_import"),
        ("changed", with_line(&file, 2, |line| Some(line.replace("one", "ONE"))), "bad_import"),
        ("no export", "{\"hello\": 1}\n".to_owned(), "bad_import"),
        ("not JSON", "hello\n".to_owned(), "bad_import"),
        ("a newer file", with_line(&file, 0, |line| Some(line.replace("\"version\":1", "\"version\":2"))), "newer_version"),
    ];
    for (name, file, code) in cases {
        let refused = import(&other, "s1", &file).await;
        assert_eq!(refused.refusal().1, code, "{name}");
    }
    assert_eq!(other.get("/v1/sessions?archived=all").await.json(), json!({"sessions": []}), "nothing was written");
    assert_eq!(import(&other, "s1", &file).await.status, 201);
}

/// An export of these records, whole in itself.
fn made(records: &[Value]) -> String {
    let (mut writer, mut file) = Writer::begin(&"s1".into(), &"demo".into());
    for record in records {
        file.push_str(&writer.record(&serde_json::from_value(record.clone()).unwrap()));
    }
    file + &writer.end()
}

#[tokio::test]
async fn records_that_make_no_session_are_refused() {
    let app = TestApp::start();
    let record = |kind: &str, data: Value| json!({"v": 1, "type": kind, "at": 1, "must_understand": true, "data": data});
    let created = || record("session.created", json!({"agent_id": "demo"}));
    let new =
        |id: &str, parent: Value| record("message.new", json!({"id": id, "parent": parent, "message": {"role": "user", "content": "x"}}));
    for (records, code) in [
        (vec![new("u1", json!(null))], "bad_import"),
        (vec![created(), created()], "bad_import"),
        (vec![created(), new("u1", json!("nobody"))], "bad_import"),
        (vec![created(), new("u1", json!(null)), new("u1", json!(null))], "bad_import"),
        (vec![created(), record("head.moved", json!({"to": "nobody"}))], "bad_import"),
        (vec![created(), record("turn.completed", json!({"turn_id": "t1"}))], "bad_import"),
        (vec![created(), json!({"v": 1, "at": 1})], "bad_import"),
        (vec![created(), record("some.later.type", json!({}))], "newer_version"),
        (vec![created(), json!({"v": 99, "type": "message.new", "at": 1, "must_understand": true, "data": {}})], "newer_version"),
    ] {
        let refused = import(&app, "s1", &made(&records)).await;
        assert_eq!(refused.refusal().1, code, "{records:?}");
        assert_eq!(app.get("/v1/sessions/s1").await.status, 404, "{records:?}");
    }
    let optional = json!({"v": 1, "type": "some.later.type", "at": 1, "must_understand": false, "data": {}});
    assert_eq!(import(&app, "s1", &made(&[created(), optional, new("u1", json!(null))])).await.status, 201);
}

#[tokio::test]
async fn a_file_has_its_own_limit() {
    let app = TestApp::with(|options| {
        options.body_bytes_max = 1000;
        options.import_bytes_max = 5000;
    });
    app.streamed("s1", &message("t1", "one")).await;
    let file = export(&app, "s1").await;
    assert!(file.len() > 1000);
    assert_eq!(import(&app, "s2", &file).await.status, 201);
    let large = file + &" ".repeat(5000);
    let refused = import(&app, "s3", &large).await;
    assert_eq!((refused.refusal(), refused.json()["limit"].clone()), ((413, "body_too_large".to_owned()), json!(5000)));
}

#[tokio::test]
async fn deep_json_travels() {
    let app = TestApp::start();
    let deep = format!("{}{}", "[".repeat(95), "]".repeat(95));
    let body = format!(
        r#"{{"type": "client.message", "agent_id": "demo", "turn_id": "t1", "run": false, "message": {{"id": "u1", "role": "user", "content": "x", "metadata": {{"deep": {deep}}}}}}}"#
    );
    let taken = Exchange::send(app.address, "POST", "/v1/sessions/s1/inputs", &[], Some(&body)).await.whole().await;
    assert_eq!(taken.status, 202, "{}", taken.text());
    let file = export(&app, "s1").await;
    let imported = import(&app, "s2", &file).await;
    assert_eq!(imported.status, 201, "{}", imported.text());
    assert_eq!(app.nodes("s2").await, app.nodes("s1").await);
}
