//! Sessions, health, and routes that aren't there.

use serde_json::json;

use crate::app::{TestApp, said};
use crate::http::Exchange;

#[tokio::test]
async fn the_process_tells_how_it_is() {
    let app = TestApp::start();
    let alive = app.get("/healthz").await;
    assert_eq!((alive.status, alive.json()), (200, json!({"status": "ok", "server": "headwater"})));
    let ready = app.get("/readyz").await;
    assert_eq!((ready.status, ready.json()), (200, json!({"status": "ready"})));
    for path in ["/healthz", "/readyz"] {
        let head = format!("HEAD {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", app.address);
        let mut exchange = Exchange::raw(app.address, head.as_bytes()).await;
        while exchange.read().await {}
        assert!(exchange.got.starts_with(b"HTTP/1.1 200 "), "{path}: {}", String::from_utf8_lossy(&exchange.got));
    }
    app.draining.cancel();
    assert_eq!(app.get("/readyz").await.refusal(), (503, "shutting_down".to_owned()));
    assert_eq!(app.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_session_has_a_page_and_a_tree() {
    let app = TestApp::start();
    app.run(&said("s 1/ä", "r1", "hello")).await;
    let page = app.get("/v1/sessions/s%201%2F%C3%A4").await;
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.json();
    assert_eq!((&page["session_id"], &page["agent_id"], &page["status"]), (&json!("s 1/ä"), &json!("demo"), &json!("idle")));
    assert_eq!(page["messages"].as_array().unwrap().len(), 2);

    let tree = app.get("/v1/sessions/s%201%2F%C3%A4/tree?limit=1").await.json();
    assert_eq!(tree["nodes"].as_array().unwrap().len(), 1);
    let next = tree["next"].as_str().unwrap();
    let rest = app.get(&format!("/v1/sessions/s%201%2F%C3%A4/tree?limit=1&after={next}&view=reader")).await.json();
    assert_eq!(rest["nodes"][0]["parent_id"], tree["nodes"][0]["id"]);
    assert_eq!(rest["head_id"], rest["nodes"][0]["id"]);
    assert!(rest.get("next").is_none(), "{rest}");
}

#[tokio::test]
async fn what_is_not_there_says_so() {
    let app = TestApp::start();
    app.run(&said("s1", "r1", "hello")).await;
    for (path, status, code) in [
        ("/nowhere", 404, "not_found"),
        ("/v1/sessions/nowhere", 404, "session_not_found"),
        ("/v1/sessions/nowhere/tree", 404, "session_not_found"),
        ("/v1/sessions/s1/tree?after=nowhere", 404, "node_not_found"),
        ("/v1/sessions/s1/tree?view=other", 400, "bad_request"),
        ("/v1/sessions/s1/tree?limit=0", 400, "bad_request"),
        ("/v1/sessions/s1/tree?limit=many", 400, "bad_request"),
        ("/agents/nobody", 404, "unknown_agent"),
        ("/agents/demo", 400, "not_available"),
        ("/agents/demo/connect", 405, "method_not_allowed"),
    ] {
        assert_eq!(app.get(path).await.refusal(), (status, code.to_owned()), "{path}");
    }
    for (path, status, code) in [
        ("/agents/nobody", 404, "unknown_agent"),
        ("/agents/nobody/connect", 404, "unknown_agent"),
        ("/agents/nobody/stop/s1", 404, "unknown_agent"),
        ("/v1/sessions/s1", 405, "method_not_allowed"),
        ("/healthz", 405, "method_not_allowed"),
    ] {
        assert_eq!(app.post(path, &said("s1", "r2", "x")).await.refusal(), (status, code.to_owned()), "{path}");
    }
    let deleted = Exchange::send(app.address, "DELETE", "/agents/demo", &[], None).await.whole().await;
    assert_eq!(deleted.refusal(), (405, "method_not_allowed".to_owned()));
    let unknown = app.get("/agents/nobody").await.json();
    assert_eq!(unknown["agents"], json!(["demo", "fleeting", "steady"]));
}
