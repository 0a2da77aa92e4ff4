//! Over real connections: splits, cuts, silence, refusals, closing, and using a connection again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::super::Openai;
use super::{options, request};
use crate::protocol::{CallError, CallErrorKind, Finish};
use crate::provider::http::Http;
use crate::provider::http::upstream::{HEAD, PATIENCE, Step, Upstream, chunk, plain, streamed};
use crate::provider::{Chunk, Provider};

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";
const KEY: &str = "sk-canary-0123456789";

/// A provider at `base_url` that waits for `wait` at most.
fn impatient(base_url: &str, wait: Duration) -> Http<Openai> {
    let openai = Openai::new(&options(base_url), Some(KEY.to_owned())).unwrap();
    let openai = Openai { connection: openai.connection.waiting(wait), ..openai };
    let client = openai.connection.client().unwrap();
    Http::new(Arc::new(openai), client)
}

fn provider(base_url: &str) -> Http<Openai> {
    impatient(base_url, PATIENCE)
}

async fn reply(provider: &Http<Openai>) -> Vec<Result<Chunk, CallError>> {
    tokio::time::timeout(PATIENCE, provider.start(request("q")).collect()).await.expect("an end")
}

/// The only item, which is an error.
async fn failure(provider: &Http<Openai>) -> CallError {
    let items = reply(provider).await;
    match items.as_slice() {
        [Err(error)] => error.clone(),
        items => panic!("{items:?}"),
    }
}

async fn failure_of(answer: Vec<Step>) -> CallError {
    let upstream = Upstream::start(vec![answer]).await;
    failure(&provider(&upstream.base_url)).await
}

fn hello() -> Chunk {
    Chunk::Text("hello".to_owned())
}

#[tokio::test]
async fn an_answer_in_single_bytes() {
    let text = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openai/text.sse")).unwrap();
    let whole = Upstream::streaming([text.as_slice()]).await;
    let bytes = Upstream::streaming(text.chunks(1)).await;
    let expected = reply(&provider(&whole.base_url)).await;
    assert_eq!(expected.len(), 6);
    assert_eq!(reply(&provider(&bytes.base_url)).await, expected);

    // Also with the packets themselves cut.
    let cut: Vec<Step> = streamed(text.chunks(7)).chunks(1).map(|byte| Step::Write(byte.to_vec())).collect();
    let packets = Upstream::start(vec![cut]).await;
    assert_eq!(reply(&provider(&packets.base_url)).await, expected);
}

#[tokio::test]
async fn a_connection_that_is_cut_at_each_chunk() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openai/tool_calls.sse")).unwrap();
    let events: Vec<&str> = text.split_inclusive("\n\n").collect();
    let whole = reply(&provider(&Upstream::streaming([text.as_bytes()]).await.base_url)).await;
    for count in 0..=events.len() {
        let mut answer = HEAD.as_bytes().to_vec();
        answer.extend(events[..count].iter().flat_map(|event| chunk(event.as_bytes())));
        let upstream = Upstream::start(vec![vec![Step::Write(answer), Step::Close]]).await;
        let items = reply(&provider(&upstream.base_url)).await;
        let is_done = events[..count].iter().any(|event| event.contains("\"finish_reason\":\"tool_calls\""));
        match items.last().unwrap() {
            Ok(chunk) => assert!(is_done && *chunk == Chunk::Finished(Finish::ToolCalls), "{count}: {items:?}"),
            Err(error) => assert!(!is_done && error.kind == CallErrorKind::Cut, "{count}: {items:?}"),
        }
        assert_eq!(items[..items.len() - 1], whole[..items.len() - 1], "{count}");
    }
}

#[tokio::test]
async fn the_request_carries_the_key_and_nothing_goes_out_early() {
    let mut upstream = Upstream::streaming([HELLO, STOP, DONE].map(str::as_bytes)).await;
    let provider = provider(&upstream.base_url);
    let attempt = provider.start(request("q"));
    tokio::task::yield_now().await;
    assert!(!upstream.has_request());
    assert_eq!(attempt.collect::<Vec<_>>().await, [Ok(hello()), Ok(Chunk::Finished(Finish::Stop))]);
    let sent = upstream.request().await;
    assert!(sent.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", sent.head);
    for header in
        [&format!("authorization: Bearer {KEY}"), "content-type: application/json", "accept: text/event-stream", "user-agent: headwater/"]
    {
        assert!(sent.head.contains(header), "{}", sent.head);
    }
    assert_eq!(sent.body["messages"][0]["content"], "q");
    assert!(!format!("{provider:?}").contains(KEY));
}

#[tokio::test]
async fn connections_are_used_again() {
    let late_end = streamed([HELLO, STOP, DONE].map(str::as_bytes));
    let (most, end) = late_end.split_at(late_end.len() - 5);
    let answers = vec![
        vec![Step::Write(late_end.clone())],
        plain(429, "retry-after: 1\r\n", "{}"),
        vec![Step::Write(most.to_vec()), Step::Write(end.to_vec())],
        vec![Step::Write(late_end.clone())],
    ];
    let mut upstream = Upstream::start(answers).await;
    let provider = provider(&upstream.base_url);
    for number in 0..4 {
        // As the runtime does: what follows the end isn't asked for.
        let mut attempt = provider.start(request("q"));
        loop {
            match attempt.next().await.unwrap() {
                Ok(Chunk::Finished(_)) | Err(_) => break,
                Ok(_) => {}
            }
        }
        drop(attempt);
        // The connection goes back when the client's own task has seen the end of the body.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(upstream.request().await.connection, 0, "call {number}");
    }
}

#[tokio::test]
async fn names_count_for_the_size_of_a_reply() {
    let long = "x".repeat(3 << 20);
    let call = |index: u32| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},\"id\":\"{index}{long}\",\"function\":{{\"name\":\"f\"}}}}]}}}}]}}\n\n"
        )
    };
    let calls: Vec<String> = (0..6).map(call).collect();
    let items = reply(&provider(&Upstream::streaming(calls.iter().map(String::as_bytes)).await.base_url)).await;
    assert_eq!(items.last().unwrap().as_ref().unwrap_err().kind, CallErrorKind::Nonsense, "{}", items.len());
}

#[tokio::test]
async fn dropping_closes_while_the_upstream_is_streaming() {
    let repeat = vec![Step::Write(HEAD.as_bytes().to_vec()), Step::Repeat(chunk(HELLO.as_bytes()))];
    let mut upstream = Upstream::start(vec![repeat]).await;
    let provider = provider(&upstream.base_url);
    let mut attempt = provider.start(request("q"));
    assert_eq!(attempt.next().await, Some(Ok(hello())));
    drop(attempt);
    assert_eq!(upstream.close().await, 0);
}

#[tokio::test]
async fn dropping_closes_a_silent_upstream() {
    let silent = vec![Step::Write([HEAD.as_bytes(), &chunk(HELLO.as_bytes())].concat()), Step::Hang];
    let mut upstream = Upstream::start(vec![silent, vec![Step::Hang]]).await;
    let provider = provider(&upstream.base_url);
    let mut attempt = provider.start(request("q"));
    assert_eq!(attempt.next().await, Some(Ok(hello())));
    drop(attempt);
    assert_eq!(upstream.close().await, 0);
    upstream.request().await;

    // Also one that hasn't answered yet.
    let mut attempt = provider.start(request("q"));
    tokio::select! {
        item = attempt.next() => panic!("{item:?}"),
        _ = upstream.request() => {}
    }
    drop(attempt);
    assert_eq!(upstream.close().await, 1);
}

#[tokio::test]
async fn an_upstream_that_is_down() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let error = failure(&provider(&base_url)).await;
    assert_eq!(error.kind, CallErrorKind::Unavailable);
    assert!(error.message.starts_with("the provider can't be reached: ") && error.message.contains("refused"), "{}", error.message);

    let error = failure_of(vec![Step::Close]).await;
    assert_eq!(error.kind, CallErrorKind::Unavailable);
    assert!(error.message.starts_with("the provider closed the connection before it answered"), "{}", error.message);
}

#[tokio::test]
async fn an_upstream_that_is_silent() {
    let wait = Duration::from_millis(60);
    let upstream = Upstream::start(vec![vec![Step::Hang]]).await;
    let error = failure(&impatient(&upstream.base_url, wait)).await;
    assert_eq!((error.kind, error.message.as_str()), (CallErrorKind::TimedOut, "the provider was silent for 0.06 s"));

    let mut upstream = Upstream::start(vec![vec![Step::Write([HEAD.as_bytes(), &chunk(HELLO.as_bytes())].concat()), Step::Hang]]).await;
    let items = reply(&impatient(&upstream.base_url, wait)).await;
    assert_eq!(items[0], Ok(hello()));
    assert_eq!(items[1].as_ref().unwrap_err().kind, CallErrorKind::TimedOut);
    assert_eq!(upstream.close().await, 0);

    // An explanation that never ends is no reason to wait either.
    let half = b"HTTP/1.1 500 Fault\r\ncontent-length: 100\r\n\r\nhalf of".to_vec();
    let upstream = Upstream::start(vec![vec![Step::Write(half), Step::Hang]]).await;
    let error = failure(&impatient(&upstream.base_url, wait)).await;
    assert_eq!((error.kind, error.message.as_str()), (CallErrorKind::Unavailable, "the provider answered 500: half of"));
}

#[tokio::test]
async fn an_upstream_that_only_keeps_the_connection_open() {
    let comments = vec![Step::Write(HEAD.as_bytes().to_vec()), Step::Repeat(chunk(b": still there\n\n"))];
    let upstream = Upstream::start(vec![comments]).await;
    let error = failure(&impatient(&upstream.base_url, Duration::from_millis(100))).await;
    // On a machine that stands still for so long the comments aren't seen either.
    let ends = ["the provider said nothing for 1 s", "the provider was silent for 0.1 s"];
    assert!(error.kind == CallErrorKind::TimedOut && ends.contains(&error.message.as_str()), "{error:?}");
}

#[tokio::test]
async fn refusals_are_typed_and_explained() {
    let json = "content-type: application/json\r\n";
    let error = failure_of(plain(429, &format!("{json}retry-after: 3\r\n"), r#"{"error":{"message":"Slow down"}}"#)).await;
    let expected = CallError {
        kind: CallErrorKind::RateLimited,
        message: "the provider answered 429: Slow down".to_owned(),
        retry_after_ms: Some(3000),
    };
    assert_eq!(error, expected);
    for (status, body, kind, message) in [
        (500, "", CallErrorKind::Unavailable, "the provider answered 500: without an explanation"),
        (
            404,
            r#"{"error":{"message":"No such model","code":"model_not_found"}}"#,
            CallErrorKind::Refused,
            "the provider answered 404: No such model",
        ),
        (400, r#"{"error":{"message":"no","code":"context_length_exceeded"}}"#, CallErrorKind::TooLong, "the provider answered 400: no"),
        (413, "", CallErrorKind::TooLong, "the provider answered 413: without an explanation"),
        (
            200,
            r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#,
            CallErrorKind::Unavailable,
            "the provider answered 200: Overloaded",
        ),
        (
            200,
            r#"{"choices":[{"message":{"content":"all at once"}}]}"#,
            CallErrorKind::Nonsense,
            "the provider answered 200 with application/json instead of a stream of events",
        ),
    ] {
        let error = failure_of(plain(status, json, body)).await;
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let mut upstream = Upstream::start(vec![plain(307, "location: /v1/elsewhere\r\n", "")]).await;
    let error = failure(&provider(&upstream.base_url)).await;
    assert_eq!(error.kind, CallErrorKind::Refused);
    assert!(error.message.starts_with("the provider answered 307: redirects are not followed"), "{}", error.message);
    upstream.request().await;
    assert!(!upstream.has_request());
}

#[tokio::test]
async fn nonsense_is_called_nonsense() {
    let page = "<!doctype html><html><body>Welcome</body></html>";
    let error = failure_of(plain(200, "content-type: text/html\r\n", page)).await;
    assert_eq!(
        (error.kind, error.message.as_str()),
        (CallErrorKind::Nonsense, "the provider answered 200 with text/html instead of a stream of events")
    );
    let error = failure_of(vec![Step::Write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()), Step::Close]).await;
    assert_eq!(error.kind, CallErrorKind::Nonsense, "{}", error.message);
    let error = failure_of(vec![Step::Write(streamed([page.as_bytes(), b"\n\ndata: ", page.as_bytes(), b"\n\n"]))]).await;
    assert_eq!(error.kind, CallErrorKind::Nonsense);
}

#[tokio::test]
async fn the_key_is_never_in_an_error() {
    let said = serde_json::json!({"error": {"message": format!("{}Incorrect API key: {KEY}", "x".repeat(460))}}).to_string();
    let error = failure_of(plain(401, "", &said)).await;
    assert_eq!(error.kind, CallErrorKind::Refused);
    assert!(!error.message.contains("canary") && error.message.chars().count() <= 500, "{}", error.message);
    let inside = format!("data: {{\"error\":{{\"message\":\"bad key {KEY}\"}}}}\n\n");
    let error = failure_of(vec![Step::Write(streamed([inside.as_bytes()]))]).await;
    assert_eq!(error.message, "the provider reported an error: bad key [key]");
    let endless = [b"HTTP/1.1 403 No\r\n\r\n".to_vec(), KEY.repeat(10_000).into_bytes()].concat();
    let error = failure_of(vec![Step::Write(endless), Step::Close]).await;
    assert!(!error.message.contains("canary"), "{}", error.message);
}
