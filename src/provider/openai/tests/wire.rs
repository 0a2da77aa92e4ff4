//! The recordings over real connections, byte by byte.

use super::super::Openai;
use super::options;
use crate::provider::http::wire::{check_closes, check_pieces};

fn at(base_url: &str) -> Openai {
    Openai::new(&options(base_url), None).unwrap()
}

#[tokio::test]
async fn pieces_change_nothing() {
    check_pieces(at).await;
}

#[tokio::test]
async fn a_connection_closed_after_any_byte() {
    let has_end = |stream: &str| stream.contains("\"finish_reason\":\"") || stream.contains("[DONE]");
    check_closes(at, &["tool_calls"], has_end).await;
}
