//! What front ends send: a `RunAgentInput`, or a WebSocket frame. Read in one pass into native messages; lenient about what is
//! absent, `null` or unknown, strict about what is wrong. May not know the tree: what a view means is the engine's business.

mod forwarded;
mod frame;
mod message;
mod part;
mod reading;
mod run;
mod tool;

use std::str;

pub use forwarded::Forwarded;
pub use frame::Frame;
pub use run::RunInput;

use crate::protocol::Refusal;

/// What is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most messages of a view.
    pub view_messages_max: usize,
    /// The most bytes of one message's content. Replies are exempt: they are Headwater's own, sent back.
    pub content_bytes_max: usize,
}

/// JSON is UTF-8.
fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    str::from_utf8(bytes).map_err(|error| {
        let good = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let last = good.rsplit('\n').next().unwrap_or_default();
        reading::bad_json("a byte that is not UTF-8", good.split('\n').count(), last.len() + 1)
    })
}
