//! Which pages may ask.

use serde_json::json;

use crate::app::{TestApp, said};
use crate::http::{Answer, Exchange};

const HEADERS: &str = "authorization, content-type, x-run-id, last-event-id";

async fn preflight(app: &TestApp, origin: &str) -> Answer {
    let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", HEADERS)];
    Exchange::send(app.address, "OPTIONS", "/agents/demo", &headers, None).await.whole().await
}

async fn upgrade(app: &TestApp, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    all.extend(headers);
    Exchange::send(app.address, "GET", "/agents/demo/ws", &all, None).await.whole().await
}

#[tokio::test]
async fn pages_on_this_machine_may_ask() {
    let app = TestApp::start();
    let answer = preflight(&app, "http://localhost:5173").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:5173"));
    let allowed = answer.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
    for name in HEADERS.split(", ") {
        assert!(allowed.contains(name), "{name} in {allowed}");
    }
    let body = said("s1", "r1", "hello").to_string();
    let headers = [("Origin", "http://localhost:5173"), ("Content-Type", "application/json")];
    let run = Exchange::send(app.address, "POST", "/agents/demo", &headers, Some(&body)).await.whole().await;
    assert_eq!((run.status, run.header("access-control-allow-origin")), (200, Some("http://localhost:5173")));
    let refused = Exchange::send(app.address, "POST", "/agents/nobody", &headers, Some(&body)).await.whole().await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (404, Some("http://localhost:5173")));
    assert_eq!(upgrade(&app, &[("Origin", "http://127.0.0.1:3000")]).await.status, 101);
    assert_eq!(upgrade(&app, &[]).await.status, 101);
}

#[tokio::test]
async fn pages_use_the_native_api_too() {
    let app = TestApp::start();
    app.run(&said("s1", "r1", "hello")).await;
    for method in ["PATCH", "DELETE", "GET", "POST"] {
        let headers = [("Origin", "http://localhost:5173"), ("Access-Control-Request-Method", method)];
        let answer = Exchange::send(app.address, "OPTIONS", "/v1/sessions/s1", &headers, None).await.whole().await;
        let allowed = answer.header("access-control-allow-methods").unwrap_or_default();
        assert!(answer.status == 200 && allowed.contains(method), "{method}: {}", answer.head);
    }
    let headers = [("Origin", "http://localhost:5173")];
    let forked = Exchange::send(app.address, "POST", "/v1/sessions/s1/fork", &headers, None).await.whole().await;
    let exposed = forked.header("access-control-expose-headers").unwrap_or_default().to_ascii_lowercase();
    assert!(exposed.contains("location") && exposed.contains("retry-after"), "{}", forked.head);
    let evil = Exchange::send(app.address, "DELETE", "/v1/sessions/s1", &[("Origin", "https://evil.example")], None).await.whole().await;
    assert_eq!(evil.refusal(), (403, "origin_refused".to_owned()));
    assert_eq!(app.get("/v1/sessions/s1").await.status, 200, "it is still there");
}

#[tokio::test]
async fn other_pages_may_not() {
    let app = TestApp::start();
    for origin in ["https://evil.example", "null", "http://localhost.evil.example"] {
        assert_eq!(preflight(&app, origin).await.refusal(), (403, "origin_refused".to_owned()), "{origin}");
        assert_eq!(upgrade(&app, &[("Origin", origin)]).await.refusal(), (403, "origin_refused".to_owned()), "{origin}");
        let body = said("s1", "r1", "hello").to_string();
        let run = Exchange::send(app.address, "POST", "/agents/demo", &[("Origin", origin)], Some(&body)).await.whole().await;
        assert_eq!(run.refusal(), (403, "origin_refused".to_owned()), "{origin}");
        assert_eq!(run.header("access-control-allow-origin"), None);
    }
    assert_eq!(app.get("/v1/sessions/s1").await.status, 404, "nothing was written");
}

#[tokio::test]
async fn a_foreign_name_that_points_here_is_refused() {
    let app = TestApp::start();
    for (host, status) in [("rebound.example", 403), ("localhost", 200)] {
        let answer = Exchange::send(app.address, "GET", "/healthz", &[("Host", host)], None).await.whole().await;
        assert_eq!(answer.status, status, "{host}");
    }
}

#[tokio::test]
async fn a_list_of_origins_is_exact() {
    let app = TestApp::with(|options| options.origins = vec!["https://app.example.com".to_owned()]);
    assert_eq!(preflight(&app, "https://app.example.com").await.status, 200);
    for origin in ["https://app.example.com.evil.example", "https://app.example.com:8443", "http://localhost:5173"] {
        assert_eq!(preflight(&app, origin).await.status, 403, "{origin}");
        assert_eq!(upgrade(&app, &[("Origin", origin)]).await.status, 403, "{origin}");
    }
    let answer = upgrade(&app, &[("Origin", "https://app.example.com"), ("Host", "api.example.com")]).await;
    assert_eq!(answer.status, 101, "{}", json!(answer.head));
}
