//! The recordings over real connections, byte by byte.

use super::super::Anthropic;
use super::options;
use crate::provider::http::wire::{check_closes, check_pieces};

fn at(base_url: &str) -> Anthropic {
    Anthropic::new(&options(base_url), None).unwrap()
}

#[tokio::test]
async fn pieces_change_nothing() {
    check_pieces(at).await;
}

#[tokio::test]
async fn a_connection_closed_after_any_byte() {
    check_closes(at, &["parallel_tools"], |stream| stream.contains("data: {\"type\":\"message_stop\"")).await;
}
