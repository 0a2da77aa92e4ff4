//! Answers that no honest service gives: a clear end, bounded memory, never a panic.

use serde_json::{Value, json};

use super::super::translate::Translator;
use crate::protocol::Finish;
use crate::provider::Chunk;
use crate::provider::http::recorded::{Items, lines, replied};

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

fn begin(index: u64, block: &Value) -> String {
    event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn text(index: u64) -> String {
    begin(index, &json!({"type": "text", "text": ""}))
}

fn call(index: u64) -> String {
    begin(index, &json!({"type": "tool_use", "id": format!("toolu_{index}"), "name": "look", "input": {}}))
}

fn delta(index: u64, delta: &Value) -> String {
    event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn says(index: u64, text: &str) -> String {
    delta(index, &json!({"type": "text_delta", "text": text}))
}

fn stop(index: u64) -> String {
    event(&json!({"type": "content_block_stop", "index": index}))
}

fn end(reason: &str) -> String {
    event(&json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}}))
        + &event(&json!({"type": "message_stop"}))
}

async fn of(events: &[String]) -> Items {
    replied::<Translator>([events.concat().as_bytes()]).await
}

async fn told(events: &[String]) -> String {
    lines(&of(events).await)
}

/// The last line.
async fn ends(events: &[String]) -> String {
    told(events).await.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn doubled_and_misplaced_events() {
    let finished = |items: Items| matches!(items.last(), Some(Ok(Chunk::Finished(Finish::Stop))));
    // An end that comes twice, or of a block that there isn't, changes nothing.
    assert!(finished(of(&[text(0), says(0, "a"), stop(0), stop(0), stop(7), end("end_turn")]).await));
    // An index that is used again after its block's end is another block.
    assert_eq!(
        told(&[text(0), says(0, "a"), stop(0), call(0), stop(0), end("tool_use")]).await.lines().take(3).collect::<Vec<_>>(),
        ["Text(\"a\")", "ToolCall { index: 0, id: Some(\"toolu_0\"), name: \"look\" }", "ToolArguments { index: 0, delta: \"{}\" }"]
    );
    assert_eq!(ends(&[text(0), says(0, "a"), text(0)]).await, "Nonsense: the block 0 begins twice");
    assert_eq!(ends(&[text(0), says(1, "a")]).await, "Nonsense: a piece of the block 1 comes while it isn't open");
    assert_eq!(ends(&[text(0), stop(0), says(0, "a")]).await, "Nonsense: a piece of the block 0 comes while it isn't open");
    assert_eq!(ends(&[says(0, "a")]).await, "Nonsense: a piece of the block 0 comes while it isn't open");
    // Nothing counts after the end.
    let after = [text(0), says(0, "a"), stop(0), end("end_turn"), text(1), says(1, "more"), end("tool_use")];
    assert_eq!(of(&after).await, of(&after[..4]).await);
    // An end without anything is none.
    assert_eq!(ends(&[event(&json!({"type": "message_stop"}))]).await, "Cut: the stream ended before the model was done");
    // One without a reason, of which everything came, is one.
    assert!(finished(of(&[text(0), says(0, "a"), event(&json!({"type": "message_stop"}))]).await));
}

#[tokio::test]
async fn strangers_are_passed_over() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let strangers = format!(
        "event: later\ndata: {{\"type\":\"later\",\"index\":\"x\",\"delta\":{deep}}}\n\nevent: ping\ndata: {{\"type\":\"ping\",\"error\":null}}\n\n"
    );
    let known = [text(0), says(0, "a"), stop(0), end("end_turn")];
    let with = [
        strangers.clone(),
        begin(9, &json!({"type": "later", "text": "no", "index": 1})),
        delta(9, &json!({"type": "text_delta", "text": "no"})),
        stop(9),
        text(0),
        strangers,
        delta(0, &json!({"type": "citations_delta", "citation": {"a": [1]}})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "no"})),
        says(0, "a"),
        stop(0),
        end("end_turn"),
    ];
    assert_eq!(of(&with).await, of(&known).await);
}

#[tokio::test]
async fn wrong_shapes_are_nonsense() {
    let deep = format!("{}{}", "{\"a\":".repeat(10_000), "1".to_owned() + &"}".repeat(10_000));
    for data in [
        "<html><body>Hello</body></html>".to_owned(),
        "{\"type\":\"content_block_delta\"}".to_owned(),
        "{\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{\"type\":\"text_delta\"}}".to_owned(),
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":\"text\"}".to_owned(),
        format!("{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{deep}}}"),
        format!("{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{deep}}}}}"),
        "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"\"}}".to_owned(),
        format!("{{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}},\"usage\":{deep}}}"),
        "{\"type\":\"message_start\"}".to_owned(),
        "{}".to_owned(),
    ] {
        let items = replied::<Translator>([format!("data: {data}\n\n").as_bytes()]).await;
        assert!(lines(&items).starts_with("Nonsense: "), "{data:.80}: {items:?}");
        assert_eq!(items.len(), 1);
    }
}

#[tokio::test]
async fn what_is_too_large_is_nonsense() {
    // 50 MB in one event: never held.
    let event = says(0, &"x".repeat(50 << 20));
    let items = replied::<Translator>(event.as_bytes().chunks(64 << 10)).await;
    assert_eq!(lines(&items), "Nonsense: an event is larger than 4194304 bytes\n");

    // 16 MB in all, of whatever kind, also while it is held back.
    let long = "x".repeat(1 << 20);
    let thinking = begin(0, &json!({"type": "thinking", "thinking": "", "signature": ""}));
    let server = begin(0, &json!({"type": "server_tool_use", "id": "s", "name": "search", "input": {}}));
    for (first, piece) in [
        (text(0), says(0, &long)),
        (thinking.clone(), delta(0, &json!({"type": "thinking_delta", "thinking": long}))),
        (thinking.clone(), delta(0, &json!({"type": "signature_delta", "signature": long}))),
        (call(0), delta(0, &json!({"type": "input_json_delta", "partial_json": long}))),
        (server, delta(0, &json!({"type": "input_json_delta", "partial_json": long}))),
        (thinking + &text(1), says(1, &long)),
    ] {
        let pieces = std::iter::once(first.as_bytes()).chain(std::iter::repeat_n(piece.as_bytes(), 17));
        let items = replied::<Translator>(pieces).await;
        assert!(lines(&items[items.len() - 1..]).starts_with("Nonsense: the reply is longer than 16777216 bytes"), "{first}");
    }

    let blocks: Vec<String> = (0..1025).map(|n| text(n) + &stop(n)).collect();
    assert_eq!(ends(&blocks).await, "Nonsense: the reply has more than 1024 blocks");
    let calls: Vec<String> = (0..257).map(call).collect();
    assert_eq!(ends(&calls).await, "Nonsense: the reply has more than 256 tool calls");
}

#[tokio::test]
async fn bytes_that_are_no_text() {
    let mut stream = (text(0) + &says(0, "aXb") + &stop(0) + &end("end_turn")).into_bytes();
    let at = stream.windows(3).position(|window| window == b"aXb").unwrap();
    stream[at + 1] = 0xFF;
    let items = replied::<Translator>([stream.as_slice()]).await;
    assert_eq!(items[0], Ok(Chunk::Text("a\u{FFFD}b".to_owned())));
    assert_eq!(items.last(), Some(&Ok(Chunk::Finished(Finish::Stop))));
}

/// Halves of one text are joined over its own pieces, never with those of another.
#[tokio::test]
async fn halves_in_two_pieces() {
    let half = |index: u64, kind: &str, field: &str, half: &str| {
        format!("data: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"{kind}\",\"{field}\":\"{half}\"}}}}\n\n")
    };
    let events = [
        begin(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        half(0, "thinking_delta", "thinking", "a\\ud83c"),
        half(0, "thinking_delta", "thinking", "\\udf0a"),
        half(0, "thinking_delta", "thinking", "\\ud83c"),
        stop(0),
        text(1),
        half(1, "text_delta", "text", "\\udf0ab"),
        half(1, "text_delta", "text", "\\ud83c"),
        call(2),
        half(2, "input_json_delta", "partial_json", "{\\\"a\\\":\\\"\\ud83c"),
        half(1, "text_delta", "text", "\\udf0a"),
        half(2, "input_json_delta", "partial_json", "\\udf0a\\\"}"),
        stop(1),
        stop(2),
        end("tool_use"),
    ];
    let said: String = of(&events)
        .await
        .into_iter()
        .map(|item| match item.unwrap() {
            Chunk::Reasoning(text) | Chunk::Text(text) | Chunk::ToolArguments { delta: text, .. } => text,
            Chunk::ToolCall { .. } => "|".to_owned(),
            Chunk::Usage(_) | Chunk::Finished(_) | Chunk::Encrypted { .. } => String::new(),
            other @ (Chunk::ToolResult { .. } | Chunk::State(_) | Chunk::Interrupt { .. } | Chunk::Next) => {
                panic!("no model says {other:?}")
            }
        })
        .collect();
    assert_eq!(said, "a🌊\u{FFFD}b🌊|{\"a\":\"🌊\"}");
}
