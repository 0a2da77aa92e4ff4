//! Streams that no service should send: each ends, with a reply that is whole or with one error.

use super::super::Translator;
use crate::protocol::{CallErrorKind, Finish};
use crate::provider::Chunk;
use crate::provider::http::recorded::{Items, lines, replied};

fn event(data: &str) -> String {
    format!("data: {data}\r\n\r\n")
}

fn parts(parts: &str) -> String {
    event(&format!(r#"{{"candidates": [{{"content": {{"parts": [{parts}]}}}}]}}"#))
}

fn finish(reason: &str) -> String {
    event(&format!(r#"{{"candidates": [{{"finishReason": "{reason}"}}]}}"#))
}

async fn read(stream: &str) -> Items {
    replied::<Translator>([stream.as_bytes()]).await
}

#[tokio::test]
async fn an_event_of_50_megabytes_isnt_held() {
    let text = "x".repeat(50 << 20);
    let stream = parts(&format!(r#"{{"text": "{text}"}}"#));
    let items = replied::<Translator>(stream.as_bytes().chunks(64 << 10)).await;
    assert_eq!(lines(&items), "Nonsense: an event is larger than 4194304 bytes\n");
}

/// Nobody can tell a text that was sent twice from one that the model said twice; calls stay apart, and there is one end.
#[tokio::test]
async fn what_comes_twice_is_said_twice_and_ends_once() {
    let call = parts(r#"{"functionCall": {"id": "a", "name": "look"}}"#);
    let items = read(&[&*call, &*call, &finish("STOP"), &finish("STOP")].concat()).await;
    let calls = items.iter().filter(|item| matches!(item, Ok(Chunk::ToolCall { .. }))).count();
    assert_eq!((calls, items.last()), (2, Some(&Ok(Chunk::Finished(Finish::ToolCalls)))));
    assert_eq!(items.iter().filter(|item| matches!(item, Ok(Chunk::Finished(_)) | Err(_))).count(), 1);
}

/// The end may come before what it ends.
#[tokio::test]
async fn what_follows_the_end_still_belongs_to_the_reply() {
    let items = read(&(finish("STOP") + &parts(r#"{"text": "late"}"#))).await;
    assert_eq!(lines(&items), "Text(\"late\")\nFinished(Stop)\n");
    let items = read(&(finish("STOP") + &event(r#"{"error": {"code": 500, "message": "sorry"}}"#))).await;
    assert_eq!(lines(&items), "Unavailable: the provider reported an error: sorry\n");
}

#[tokio::test]
async fn whatever_stands_in_an_event_is_read_or_refused() {
    let deep = "[".repeat(10_000);
    for data in [
        "",
        "null",
        "7",
        "\"text\"",
        "{",
        "[]",
        "[{}]",
        "{\"candidates\": 1}",
        "{\"candidates\": [[]]}",
        &deep,
        "<html>",
        "\u{0}",
        "[DONE]",
    ] {
        let items = read(&(parts(r#"{"text": "a"}"#) + &event(data))).await;
        let error = items.last().unwrap().as_ref().unwrap_err();
        let is_empty = data.is_empty() || data == "null";
        assert!(matches!(error.kind, CallErrorKind::Nonsense) || is_empty, "{data}: {error:?}");
    }
    for fine in [r#"{"functionCall": {"name": "f", "args": null}}"#, r#"{"functionCall": {"name": "f", "args": []}}"#] {
        assert_eq!(read(&(parts(fine) + &finish("STOP"))).await.last(), Some(&Ok(Chunk::Finished(Finish::ToolCalls))), "{fine}");
    }
}

/// Signs that nobody knows yet end a reply as "STOP" does.
#[tokio::test]
async fn reasons_to_end_that_are_new() {
    for (reason, end) in [("NEW_REASON", "Finished(Stop)\n"), ("SPII", "Finished(Filtered)\n"), ("MAX_TOKENS", "Finished(Length)\n")] {
        assert_eq!(lines(&read(&finish(reason)).await), end, "{reason}");
    }
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "TOO_MANY_TOOL_CALLS"] {
        let items = read(&finish(reason)).await;
        assert!(items[0].as_ref().unwrap_err().message.contains(reason), "{items:?}");
    }
}
