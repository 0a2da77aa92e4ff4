//! Over real connections: the key, refusals and their pauses.

use std::sync::Arc;

use futures_util::StreamExt;

use super::super::Gemini;
use super::{options, request};
use crate::protocol::{CallError, CallErrorKind, Finish};
use crate::provider::http::upstream::{PATIENCE, Step, Upstream, plain};
use crate::provider::http::{Api, Http};
use crate::provider::{Chunk, Provider};

const KEY: &str = "AIza-canary-0123456789";
const HELLO: &str =
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"hello\"}],\"role\": \"model\"},\"finishReason\": \"STOP\"}]}\r\n\r\n";

fn provider(base_url: &str) -> Http<Gemini> {
    let gemini = Gemini::new(&options(base_url), Some(KEY.to_owned())).unwrap();
    let client = gemini.connection().client().unwrap();
    Http::new(Arc::new(gemini), client)
}

async fn replied(upstream: &Upstream) -> Vec<Result<Chunk, CallError>> {
    tokio::time::timeout(PATIENCE, provider(&upstream.base_url).start(request("q")).collect()).await.expect("an end")
}

async fn failure_of(answer: Vec<Step>) -> CallError {
    match replied(&Upstream::start(vec![answer]).await).await.as_slice() {
        [Err(error)] => error.clone(),
        items => panic!("{items:?}"),
    }
}

#[tokio::test]
async fn the_request_carries_the_key_in_a_header_alone() {
    let mut upstream = Upstream::streaming([HELLO.as_bytes()]).await;
    assert_eq!(replied(&upstream).await, [Ok(Chunk::Text("hello".to_owned())), Ok(Chunk::Finished(Finish::Stop))]);
    let sent = upstream.request().await;
    assert!(sent.head.starts_with("POST /v1/models/gemini-2.5-flash:streamGenerateContent?alt=sse HTTP/1.1"), "{}", sent.head);
    assert!(sent.head.contains(&format!("x-goog-api-key: {KEY}")) && !sent.head.contains("authorization"), "{}", sent.head);
    assert_eq!(sent.head.matches(KEY).count(), 1);
    assert_eq!(sent.body["contents"][0]["parts"][0]["text"], "q");
}

#[tokio::test]
async fn refusals_are_typed_and_explained() {
    let json = "content-type: application/json; charset=UTF-8\r\n";
    for (status, body, kind, message) in [
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}"#,
            CallErrorKind::TooLong,
            "The input token count (1196265) exceeds",
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid: AIza-canary-0123456789.","status":"INVALID_ARGUMENT"}}]"#,
            CallErrorKind::Refused,
            "API key not valid: [key].",
        ),
        (404, r#"{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}"#, CallErrorKind::Refused, "models/x"),
        (500, r#"{"error":{"code":500,"message":"An internal error","status":"INTERNAL"}}"#, CallErrorKind::Unavailable, "An internal"),
        (
            503,
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            CallErrorKind::Unavailable,
            "The model",
        ),
        (504, r#"{"error":{"code":504,"message":"Deadline","status":"DEADLINE_EXCEEDED"}}"#, CallErrorKind::Unavailable, "Deadline"),
    ] {
        let error = failure_of(plain(status, json, body)).await;
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.starts_with(&format!("the provider answered {status}: {message}")), "{}", error.message);
    }
}

#[tokio::test]
async fn a_pause_is_read_from_the_explanation() {
    let json = "content-type: application/json; charset=UTF-8\r\n";
    let refused = |headers: &str, delay: &str| {
        let details = format!(
            r#"[{{"@type":"type.googleapis.com/google.rpc.Help"}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}]"#
        );
        let body = format!(r#"{{"error":{{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":{details}}}}}"#);
        failure_of(plain(429, &format!("{json}{headers}"), &body))
    };
    let error = refused("", "28.5s").await;
    assert_eq!((error.kind, error.retry_after_ms), (CallErrorKind::RateLimited, Some(28_500)));
    assert_eq!(refused("retry-after: 2\r\n", "28s").await.retry_after_ms, Some(2000), "a header goes first");
    for nothing in ["", "s", "soon", "-1s", "1e99s", "NaNs"] {
        assert_eq!(refused("", nothing).await.retry_after_ms, None, "{nothing}");
    }
}
