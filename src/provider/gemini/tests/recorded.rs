//! Recorded streams: `tests/fixtures/gemini/*.sse`.

use super::super::Translator;
use crate::provider::http::recorded::{self, lines, replied};

#[tokio::test]
async fn each_recording_gives_its_chunks() {
    recorded::each_gives_its_chunks::<Translator>().await;
}

#[tokio::test]
async fn splits_change_nothing() {
    recorded::splits_change_nothing::<Translator>().await;
}

#[tokio::test]
async fn a_cut_anywhere_is_a_cut_or_a_finish() {
    recorded::a_cut_anywhere_is_a_cut_or_a_finish::<Translator>(|stream| stream.contains("\"finishReason\": \"")).await;
}

#[tokio::test]
async fn what_is_too_large_is_nonsense() {
    let text = "x".repeat(1 << 20);
    let event = format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}}}]}}\r\n\r\n");
    let items = replied::<Translator>(std::iter::repeat_n(event.as_bytes(), 17)).await;
    assert_eq!(items.len(), 17);
    assert_eq!(lines(&items[16..]), "Nonsense: the reply is longer than 16777216 bytes\n");

    let signature = format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"thoughtSignature\":\"{text}\"}}]}}}}]}}\r\n\r\n");
    let items = replied::<Translator>(std::iter::repeat_n(signature.as_bytes(), 17)).await;
    assert_eq!(lines(&items[16..]), "Nonsense: the reply is longer than 16777216 bytes\n");

    let call = r#"{"functionCall":{"name":"f"}}"#;
    let calls = format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{}]}}}}]}}\n\n", vec![call; 257].join(","));
    let items = replied::<Translator>([calls.as_bytes()]).await;
    assert_eq!((items.len(), lines(&items[512..])), (513, "Nonsense: the reply has more than 256 tool calls\n".to_owned()));
}

/// A pause stands in the explanation.
#[tokio::test]
async fn a_limit_in_mid_stream_names_its_pause() {
    let stream = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gemini/error_rate_limited.sse")).unwrap();
    let items = replied::<Translator>([stream.as_slice()]).await;
    assert_eq!(items[0].as_ref().unwrap_err().retry_after_ms, Some(28_500));
}
