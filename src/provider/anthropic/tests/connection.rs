//! Over real connections: what is sent along, refusals, cuts, silence.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::super::Anthropic;
use super::{options, request};
use crate::protocol::{CallError, CallErrorKind, Finish};
use crate::provider::http::Http;
use crate::provider::http::recorded::Items;
use crate::provider::http::upstream::{HEAD, PATIENCE, Step, Upstream, chunk, plain, streamed};
use crate::provider::{AnthropicOptions, Chunk, Provider};

const KEY: &str = "sk-ant-canary-0123456789";

fn recording(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/fixtures/anthropic/{name}.sse", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn provider_of(options: &AnthropicOptions, wait: Duration) -> Http<Anthropic> {
    let anthropic = Anthropic::new(options, Some(KEY.to_owned())).unwrap();
    let anthropic = Anthropic { connection: anthropic.connection.waiting(wait), ..anthropic };
    let client = anthropic.connection.client().unwrap();
    Http::new(Arc::new(anthropic), client)
}

fn provider(base_url: &str) -> Http<Anthropic> {
    provider_of(&options(base_url), PATIENCE)
}

async fn reply(provider: &Http<Anthropic>) -> Items {
    tokio::time::timeout(PATIENCE, provider.start(request("q")).collect()).await.expect("an end")
}

async fn failure_of(answer: Vec<Step>) -> CallError {
    let upstream = Upstream::start(vec![answer]).await;
    match reply(&provider(&upstream.base_url)).await.as_slice() {
        [Err(error)] => error.clone(),
        items => panic!("{items:?}"),
    }
}

#[tokio::test]
async fn what_goes_along_with_a_request() {
    let text = recording("text");
    let mut upstream = Upstream::streaming([text.as_bytes()]).await;
    let mut options = options(&upstream.base_url);
    let first = provider_of(&options, PATIENCE);
    assert_eq!(reply(&first).await.last(), Some(&Ok(Chunk::Finished(Finish::Stop))));
    let sent = upstream.request().await;
    assert!(sent.head.starts_with("POST /v1/messages HTTP/1.1"), "{}", sent.head);
    for header in
        [&format!("x-api-key: {KEY}"), "anthropic-version: 2023-06-01", "content-type: application/json", "accept: text/event-stream"]
    {
        assert!(sent.head.contains(header), "{}", sent.head);
    }
    assert_eq!(sent.body["messages"][0]["content"][0]["text"], "q");
    assert!(!format!("{first:?}").contains(KEY));

    options.headers = toml::from_str("anthropic-beta = 'a,b'\nanthropic-version = '2027-01-01'").unwrap();
    reply(&provider_of(&options, PATIENCE)).await;
    let sent = upstream.request().await;
    assert!(sent.head.contains("anthropic-beta: a,b") && sent.head.contains("anthropic-version: 2027-01-01"), "{}", sent.head);
    assert!(!sent.head.contains("2023-06-01"), "{}", sent.head);
}

#[tokio::test]
async fn connections_are_used_again() {
    let text = recording("text");
    let mut upstream = Upstream::streaming([text.as_bytes()]).await;
    let provider = provider(&upstream.base_url);
    for number in 0..3 {
        reply(&provider).await;
        // The connection goes back when the client's own task has seen the end of the body.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(upstream.request().await.connection, 0, "call {number}");
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_at_each_event() {
    let text = recording("thinking_and_tool");
    let events: Vec<&str> = text.split_inclusive("\n\n").collect();
    for count in 0..=events.len() {
        let mut answer = HEAD.as_bytes().to_vec();
        answer.extend(events[..count].iter().flat_map(|event| chunk(event.as_bytes())));
        let upstream = Upstream::start(vec![vec![Step::Write(answer), Step::Close]]).await;
        let items = reply(&provider(&upstream.base_url)).await;
        match items.last().unwrap() {
            Ok(chunk) => assert!(count == events.len() && *chunk == Chunk::Finished(Finish::ToolCalls), "{count}: {items:?}"),
            Err(error) => assert!(count < events.len() && error.kind == CallErrorKind::Cut, "{count}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn refusals_are_typed_and_explained() {
    let error = |kind: &str, message: &str| {
        format!("{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"{message}\"}},\"request_id\":\"req_01\"}}")
    };
    let json = "content-type: application/json\r\nrequest-id: req_01\r\n";
    for (status, headers, kind, message, expected, pause) in [
        (429, "retry-after: 3\r\n", "rate_limit_error", "Slow down", CallErrorKind::RateLimited, Some(3000)),
        (529, "", "overloaded_error", "Overloaded", CallErrorKind::Unavailable, None),
        (500, "", "api_error", "Internal server error", CallErrorKind::Unavailable, None),
        (504, "", "timeout_error", "Timed out", CallErrorKind::Unavailable, None),
        (413, "", "request_too_large", "Request exceeds the maximum size", CallErrorKind::TooLong, None),
        (400, "", "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum", CallErrorKind::TooLong, None),
        (400, "", "invalid_request_error", "messages.3: `tool_use` ids were found without `tool_result`", CallErrorKind::Refused, None),
        (401, "", "authentication_error", "invalid x-api-key", CallErrorKind::Refused, None),
        (402, "", "billing_error", "No credit", CallErrorKind::Refused, None),
        (403, "", "permission_error", "Not allowed", CallErrorKind::Refused, None),
        (404, "", "not_found_error", "model: river-1", CallErrorKind::Refused, None),
    ] {
        let answered = failure_of(plain(status, &format!("{json}{headers}"), &error(kind, message))).await;
        let expected = CallError { kind: expected, message: format!("the provider answered {status}: {message}"), retry_after_ms: pause };
        assert_eq!(answered, expected);
    }
    let page = "<!doctype html><html><body>Blocked</body></html>";
    let answered = failure_of(plain(403, "content-type: text/html\r\n", page)).await;
    assert_eq!(answered.message, "the provider answered 403: with a page for people, not with an answer of the API's");
    let answered = failure_of(plain(200, "content-type: text/html\r\n", page)).await;
    assert_eq!(
        (answered.kind, answered.message.as_str()),
        (CallErrorKind::Nonsense, "the provider answered 200 with text/html instead of a stream of events")
    );
    let answered = failure_of(plain(200, json, "{\"type\":\"message\",\"content\":[]}")).await;
    assert_eq!(answered.kind, CallErrorKind::Nonsense);
    let said = failure_of(plain(401, json, &error("authentication_error", &format!("{}invalid key {KEY}", "x".repeat(460))))).await;
    assert!(!said.message.contains("canary") && said.message.chars().count() <= 500, "{}", said.message);
}

#[tokio::test]
async fn silence_is_a_time_out() {
    let text = recording("text");
    let begun = text.split_inclusive("\n\n").take(4).collect::<String>();
    let upstream = Upstream::start(vec![vec![Step::Write([HEAD.as_bytes(), &chunk(begun.as_bytes())].concat()), Step::Hang]]).await;
    let items = reply(&provider_of(&options(&upstream.base_url), Duration::from_millis(60))).await;
    assert_eq!(items[0], Ok(Chunk::Text("The river".to_owned())));
    assert_eq!(items.last().unwrap().as_ref().unwrap_err().kind, CallErrorKind::TimedOut);
}

#[tokio::test]
async fn an_answer_whose_packets_are_cut() {
    let text = recording("thinking_and_tool");
    let whole = Upstream::streaming([text.as_bytes()]).await;
    let expected = reply(&provider(&whole.base_url)).await;
    let cut: Vec<Step> = streamed(text.as_bytes().chunks(7)).chunks(3).map(|bytes| Step::Write(bytes.to_vec())).collect();
    let packets = Upstream::start(vec![cut]).await;
    assert_eq!(reply(&provider(&packets.base_url)).await, expected);
}
