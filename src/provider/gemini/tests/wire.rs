//! The recordings over real connections, byte by byte.

use super::super::Gemini;
use super::options;
use crate::provider::http::wire::{check_closes, check_pieces};

fn at(base_url: &str) -> Gemini {
    Gemini::new(&options(base_url), None).unwrap()
}

#[tokio::test]
async fn pieces_change_nothing() {
    check_pieces(at).await;
}

#[tokio::test]
async fn a_connection_closed_after_any_byte() {
    let has_end = |stream: &str| stream.contains("\"finishReason\": \"");
    check_closes(at, &["calls"], has_end).await;
}
