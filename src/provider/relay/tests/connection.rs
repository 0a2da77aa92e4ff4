//! Over real connections: what is sent, splits, cuts, refusals, answers that are no run, closing.

use std::time::Duration;

use futures_util::StreamExt;

use super::{options, provider, relay, request};
use crate::protocol::{CallError, CallErrorKind, Finish};
use crate::provider::http::recorded::Items;
use crate::provider::http::upstream::{HEAD, PATIENCE, Step, Upstream, chunk, plain, streamed};
use crate::provider::relay::Relay;
use crate::provider::{AguiOptions, Chunk, Provider, UpstreamThread};

const STARTED: &str = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";
const HELLO: &str = "data: {\"type\":\"TEXT_MESSAGE_CHUNK\",\"messageId\":\"m\",\"delta\":\"hello\"}\n\n";
const FINISHED: &str = "data: {\"type\":\"RUN_FINISHED\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n";

async fn reply(upstream: &Upstream) -> Items {
    let attempt = provider(&upstream.base_url).start(request("q"));
    tokio::time::timeout(PATIENCE, attempt.collect()).await.expect("an end")
}

async fn failure_of(answer: Vec<Step>) -> CallError {
    let items = reply(&Upstream::start(vec![answer]).await).await;
    items.last().unwrap().clone().unwrap_err()
}

#[tokio::test]
async fn a_run_over_a_connection() {
    let mut upstream = Upstream::streaming([STARTED, HELLO, FINISHED].map(str::as_bytes)).await;
    assert_eq!(reply(&upstream).await, [Ok(Chunk::Text("hello".to_owned())), Ok(Chunk::Finished(Finish::Stop))]);
    let sent = upstream.request().await;
    assert!(sent.head.starts_with("POST /v1 HTTP/1.1"), "the address is asked as it is: {}", sent.head);
    for header in ["accept: text/event-stream", "content-type: application/json", "x-agent-key: sk-canary-0123456789"] {
        assert!(sent.head.contains(header), "{}", sent.head);
    }
    assert_eq!(sent.body["messages"][0]["content"], "q");
}

#[tokio::test]
async fn answers_that_are_no_run() {
    let json = "content-type: application/json\r\n";
    for (answer, kind, message) in [
        (plain(500, "", ""), CallErrorKind::Unavailable, "the provider answered 500: without an explanation"),
        (plain(422, json, r#"{"detail":"no messages"}"#), CallErrorKind::Refused, "the provider answered 422: no messages"),
        (
            plain(200, "content-type: application/vnd.ag-ui.event+proto\r\n", "\0\0\0\u{1}x"),
            CallErrorKind::Nonsense,
            "the provider answered 200 with application/vnd.ag-ui.event+proto instead of a stream of events",
        ),
        (
            plain(200, json, r#"{"ok":true}"#),
            CallErrorKind::Nonsense,
            "the provider answered 200 with application/json instead of a stream of events",
        ),
        (vec![Step::Write(streamed(std::iter::empty()))], CallErrorKind::Cut, "the stream ended before the model was done"),
    ] {
        let error = failure_of(answer).await;
        assert_eq!((error.kind, error.message.as_str()), (kind, message));
    }
    let upstream = Upstream::start(vec![plain(401, json, r#"{"detail":"no query-canary-1"}"#)]).await;
    let attempt = provider(&format!("{}?key=query-canary-1", upstream.base_url)).start(request("q"));
    let items: Items = attempt.collect().await;
    assert_eq!(items[0].as_ref().unwrap_err().message, "the provider answered 401: no [key]");
    let error = failure_of(plain(401, json, r#"{"detail":"bad key sk-canary-0123456789"}"#)).await;
    assert_eq!(error.message, "the provider answered 401: bad key [key]");
}

#[tokio::test]
async fn dropping_closes_also_between_two_replies() {
    let call = "data: {\"type\":\"TOOL_CALL_START\",\"toolCallId\":\"c\",\"toolCallName\":\"f\"}\n\ndata: {\"type\":\"TOOL_CALL_END\",\"toolCallId\":\"c\"}\n\ndata: {\"type\":\"TOOL_CALL_RESULT\",\"toolCallId\":\"c\",\"content\":\"x\"}\n\n";
    let answer = [HEAD.as_bytes(), &chunk(STARTED.as_bytes()), &chunk(call.as_bytes())].concat();
    let mut upstream = Upstream::start(vec![vec![Step::Write(answer), Step::Hang]]).await;
    let mut attempt = provider(&upstream.base_url).start(request("q"));
    while attempt.next().await.unwrap().unwrap() != Chunk::Next {}
    drop(attempt);
    assert_eq!(upstream.close().await, 0);
}

#[tokio::test]
async fn a_silent_agent_is_not_waited_for() {
    let mut upstream = Upstream::start(vec![vec![Step::Write([HEAD.as_bytes(), &chunk(STARTED.as_bytes())].concat()), Step::Hang]]).await;
    let made = relay(&options(&upstream.base_url, UpstreamThread::Run)).unwrap();
    let relay = Relay { connection: made.connection.waiting(Duration::from_millis(60)), ..made };
    let client = crate::provider::http::Api::connection(&relay).client().unwrap();
    let attempt = crate::provider::http::Http::new(std::sync::Arc::new(relay), client).start(request("q"));
    let items: Items = attempt.collect().await;
    assert_eq!(items.last().unwrap().as_ref().unwrap_err().kind, CallErrorKind::TimedOut);
    assert_eq!(upstream.close().await, 0);
}

#[test]
fn options_are_checked() {
    let fault = |url: &str| relay(&options(url, UpstreamThread::Run)).unwrap_err().to_string();
    assert!(fault("ftp://x.y").starts_with("url: begins with http:// or https://"));
    assert!(relay(&options("https://x.y/agent/?team=a", UpstreamThread::Branch)).is_ok());
    let late = AguiOptions { idle_secs: 0, ..options("http://x.y", UpstreamThread::Run) };
    assert_eq!(relay(&late).unwrap_err().to_string(), "idle_secs: is 0; 1 to 86400 are allowed");
}
