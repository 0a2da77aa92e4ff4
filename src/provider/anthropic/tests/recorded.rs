//! Recorded streams: `tests/fixtures/anthropic/*.sse`, and beside each the chunks that it gives, one a line.

use super::super::translate::Translator;
use crate::provider::http::recorded;

#[tokio::test]
async fn each_recording_gives_its_chunks() {
    recorded::each_gives_its_chunks::<Translator>().await;
}

#[tokio::test]
async fn splits_change_nothing() {
    recorded::splits_change_nothing::<Translator>().await;
}

/// Also one that lacks nothing but the last event.
#[tokio::test]
async fn a_cut_anywhere_is_a_cut_or_a_finish() {
    let has_end =
        |text: &str| text.contains("data: {\"type\":\"message_stop\"}") || text.contains("data: {\"type\":\"message_stop\",\"x\":1}");
    recorded::a_cut_anywhere_is_a_cut_or_a_finish::<Translator>(has_end).await;
}
