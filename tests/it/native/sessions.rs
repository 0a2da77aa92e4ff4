//! Sessions: lists, titles, heads and names, forks, erasing.

use serde_json::{Value, json};

use super::{kinds, message, said, told, with};
use crate::app::TestApp;
use crate::http::{self, Exchange};

fn ids(page: &Value) -> Vec<&str> {
    page["sessions"].as_array().unwrap().iter().map(|session| session["session_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let app = TestApp::start();
    assert_eq!(app.get("/v1/sessions").await.json(), json!({"sessions": []}));
    for session in ["s3", "s1", "s2"] {
        app.streamed(session, &message("t1", "hello")).await;
    }
    let first = app.get("/v1/sessions?limit=2").await.json();
    assert_eq!((ids(&first), &first["next"]), (vec!["s1", "s2"], &json!("s2")));
    let rest = app.get("/v1/sessions?limit=2&after=s2").await.json();
    assert_eq!((ids(&rest), rest.get("next")), (vec!["s3"], None));
    let archived = app.ask("PATCH", "/v1/sessions/s2", Some(&json!({"archived": true}))).await;
    assert_eq!((archived.status, archived.json()["archived"].clone()), (200, json!(true)));
    assert_eq!(ids(&app.get("/v1/sessions").await.json()), ["s1", "s3"]);
    assert_eq!(ids(&app.get("/v1/sessions?archived=true").await.json()), ["s2"]);
    assert_eq!(ids(&app.get("/v1/sessions?archived=all").await.json()), ["s1", "s2", "s3"]);
}

#[tokio::test]
async fn a_title_comes_and_goes() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let change = async |body: Value| app.ask("PATCH", "/v1/sessions/s1", Some(&body)).await.json()["title"].clone();
    assert_eq!(change(json!({"title": "Rivers"})).await, "Rivers");
    assert_eq!(change(json!({"archived": false})).await, "Rivers", "what isn't said stays");
    assert_eq!(app.get("/v1/sessions").await.json()["sessions"][0]["title"], "Rivers");
    assert_eq!(change(json!({"title": null})).await, json!(null));
    let nowhere = app.ask("PATCH", "/v1/sessions/nowhere", Some(&json!({"title": "x"}))).await;
    assert_eq!(nowhere.refusal(), (404, "session_not_found".to_owned()));
}

#[tokio::test]
async fn what_can_be_read_can_be_asked_for_its_head() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    for path in ["/v1/sessions", "/v1/sessions/s1", "/v1/sessions/s1/tree", "/v1/sessions/s1/records", "/openapi.json"] {
        let head = format!("HEAD {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", app.address);
        let mut exchange = Exchange::raw(app.address, head.as_bytes()).await;
        while exchange.read().await {}
        let got = String::from_utf8_lossy(&exchange.got).into_owned();
        assert!(got.starts_with("HTTP/1.1 200 ") && got.ends_with("\r\n\r\n"), "{path}: {got}");
    }
    let described = app.get("/openapi.json").await;
    assert_eq!((described.status, described.json()["openapi"].clone()), (200, json!("3.1.0")));
}

#[tokio::test]
async fn reading_changes_nothing() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let records = app.get("/v1/sessions/s1/records").await.json();
    for path in ["", "/tree", "/tree?view=raw", "/records?limit=1", "/events?after=0", "/events"] {
        for session in ["s1", "nowhere"] {
            let mut exchange = Exchange::send(app.address, "GET", &format!("/v1/sessions/{session}{path}"), &[], None).await;
            exchange.until("\r\n\r\n").await;
        }
    }
    assert_eq!(app.get("/v1/sessions/s1/records").await.json(), records);
    assert_eq!(ids(&app.get("/v1/sessions?archived=all").await.json()), ["s1"], "no session was made");
}

#[tokio::test]
async fn the_head_goes_to_exactly_one_node() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "one")).await;
    let reply = app.page("s1").await["head_id"].clone();
    app.streamed("s1", &message("t2", "two")).await;
    let head = async |body: Value| app.ask("POST", "/v1/sessions/s1/head", Some(&body)).await;
    let moved = head(json!({"node_id": reply, "label": "before two"})).await;
    assert_eq!((moved.status, moved.json()), (200, json!({"session_id": "s1", "head_id": reply})));
    assert_eq!(app.texts("s1").await, ["one", "You said: one"]);
    assert_eq!(app.page("s1").await["checkpoints"], json!([{"label": "before two", "node_id": reply}]));
    assert_eq!(head(json!({"node_id": null})).await.json()["head_id"], json!(null));
    assert_eq!(app.texts("s1").await, Vec::<String>::new());
    app.streamed("s1", &message("t3", "anew")).await;
    assert_eq!(app.texts("s1").await, ["anew", "You said: anew"], "a branch at the root");
    assert_eq!(head(json!({"to_label": "before two"})).await.json()["head_id"], reply);
    let named = head(json!({"label": "here"})).await;
    assert_eq!((named.status, named.json()["head_id"].clone()), (200, reply.clone()));
    let tree = app.nodes("s1").await;
    assert_eq!(tree[1]["labels"], json!(["before two", "here"]));
    for (body, status, code) in [
        (json!({"node_id": "nobody"}), 404, "node_not_found"),
        (json!({"to_label": "nowhere"}), 404, "label_not_found"),
        (json!({"label": ""}), 400, "bad_request"),
        (json!({"label": "x".repeat(257)}), 400, "bad_request"),
        (json!({"node_id": null, "label": "nothing"}), 400, "bad_request"),
    ] {
        assert_eq!(head(body.clone()).await.refusal(), (status, code.to_owned()), "{body}");
    }
    assert_eq!(app.page("s1").await["head_id"], reply, "what is refused moves nothing");
}

#[tokio::test]
async fn a_fork_goes_on_by_itself_and_knows_the_old_ids() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "one")).await;
    let first = app.page("s1").await["head_id"].clone();
    app.streamed("s1", &message("t2", "two")).await;
    let fork = async |body: Value| app.ask("POST", "/v1/sessions/s1/fork", Some(&body)).await;
    let forked = fork(json!({"session_id": "s 2", "at": first})).await;
    assert_eq!((forked.status, forked.header("location")), (201, Some("/v1/sessions/s%202")));
    assert_eq!((&forked.json()["session_id"], &forked.json()["duplicate"]), (&json!("s 2"), &json!(false)));
    let again = fork(json!({"session_id": "s 2", "at": first})).await;
    assert_eq!((again.status, again.json()["duplicate"].clone()), (200, json!(true)));
    assert_eq!(fork(json!({"session_id": "s1"})).await.refusal(), (409, "session_exists".to_owned()));
    assert_eq!(fork(json!({"at": "nobody"})).await.refusal(), (404, "node_not_found".to_owned()));
    let page = app.page("s%202").await;
    assert_eq!(page["forked_from"], json!({"session_id": "s1", "node_id": first}));
    assert_eq!(app.texts("s%202").await, ["one", "You said: one"]);
    assert_ne!(page["messages"][0]["id"], "u-t1", "its ids are fresh");
    let view = json!({"type": "client.messages", "agent_id": "demo", "messages": [
        {"id": "u-t1", "role": "user", "content": "one"}, {"id": first, "role": "assistant", "content": "You said: one"},
        {"id": "u-new", "role": "user", "content": "three"}]});
    let told = app.streamed("s%202", &view).await;
    assert_eq!(told[0].data["new_from"], 2, "a front end goes on with what it has");
    assert_eq!(app.texts("s%202").await.len(), 4);
    assert_eq!(app.texts("s1").await.len(), 4, "the other one stays");
    let empty = Exchange::send(app.address, "POST", "/v1/sessions/s1/fork", &[], None).await.whole().await;
    assert_eq!(empty.status, 201, "{}", empty.text());
    assert!(empty.json()["session_id"].as_str().unwrap().starts_with("hw_"));
}

#[tokio::test]
async fn a_reader_may_fork_while_a_turn_runs() {
    let app = TestApp::start();
    app.taken("s1", &message("t1", "long")).await;
    let forked = app.ask("POST", "/v1/sessions/s1/fork", Some(&json!({"session_id": "s2"}))).await;
    assert_eq!((forked.status, app.page("s2").await["status"].clone()), (201, json!("idle")));
    assert_eq!(app.page("s1").await["status"], "running");
    let told = app.streamed("s2", &with(message("t2", "mine"), "run", json!(true))).await;
    assert_eq!(said(&told), "You said: mine");
}

#[tokio::test]
async fn an_erased_session_is_gone_for_a_day() {
    let app = TestApp::start();
    app.streamed("s1", &message("t1", "hello")).await;
    let gone = app.ask("DELETE", "/v1/sessions/s1", None).await;
    assert_eq!((gone.status, gone.body.len()), (204, 0));
    for (method, path, body) in [
        ("GET", "/v1/sessions/s1", None),
        ("GET", "/v1/sessions/s1/tree", None),
        ("GET", "/v1/sessions/s1/events", None),
        ("GET", "/v1/sessions/s1/records", None),
        ("DELETE", "/v1/sessions/s1", None),
        ("PATCH", "/v1/sessions/s1", Some(json!({"title": "x"}))),
        ("POST", "/v1/sessions/s1/head", Some(json!({"node_id": null}))),
        ("POST", "/v1/sessions/s1/fork", Some(json!({}))),
        ("POST", "/v1/sessions/s1/inputs", Some(message("t2", "hello"))),
        ("POST", "/v1/sessions/s1/inputs", Some(json!({"type": "tool.result", "tool_call_id": "c", "content": "x"}))),
    ] {
        let answer = app.ask(method, path, body.as_ref()).await;
        assert_eq!(answer.refusal(), (410, "session_deleted".to_owned()), "{method} {path} {body:?}");
    }
    assert_eq!(app.ask("DELETE", "/v1/sessions/nowhere", None).await.refusal(), (404, "session_not_found".to_owned()));
    assert_eq!(app.get("/v1/sessions?archived=all").await.json(), json!({"sessions": []}));
    let run = app.post("/agents/demo", &crate::app::said("s1", "r1", "hello")).await;
    assert_eq!(run.refusal(), (410, "session_deleted".to_owned()));
}

#[tokio::test]
async fn erasing_under_load_ends_every_stream_and_nothing_comes_back() {
    let app = TestApp::start();
    let mut turn = app.follow("s1", &message("t1", "long")).await;
    turn.until("\"part\":\"text\"").await;
    let mut waiting = app.follow("s1", &with(message("t2", "later"), "queue", json!(true))).await;
    waiting.until("event: accepted").await;
    let mut events = Exchange::send(app.address, "GET", "/v1/sessions/s1/events?after=0", &[], None).await;
    events.until("\"part\":\"text\"").await;
    let submits = (0..8).map(async |n| {
        let body = with(message(&format!("load-{n}"), "x"), "queue", json!("merge"));
        app.input("s1", &body).await.status
    });
    let (statuses, erased) =
        tokio::join!(futures_util::future::join_all(submits), async { app.ask("DELETE", "/v1/sessions/s1", None).await.status });
    assert_eq!(erased, 204);
    assert!(statuses.iter().all(|status| matches!(status, 202 | 410 | 429)), "{statuses:?}");
    for stream in [turn, waiting, events] {
        let body = stream.whole().await.text();
        let last = told(&body).last().cloned().expect("its last words");
        assert_eq!((last.name.as_str(), &last.data["error"]), ("refusal", &json!("session_deleted")), "{:?}", kinds(&told(&body)));
    }
    let late = http::within(async {
        loop {
            let answer = app.get("/v1/sessions/s1").await;
            if answer.status == 410 {
                return answer;
            }
        }
    });
    assert_eq!(late.await.refusal(), (410, "session_deleted".to_owned()));
    assert_eq!(app.get("/v1/sessions?archived=all").await.json(), json!({"sessions": []}), "the driver of its turn made nothing again");
}
