//! What front ends send: a `RunAgentInput`, or a WebSocket frame. Read in one pass into native messages; lenient about what is
//! absent, `null` or unknown, strict about what is wrong. May not know the tree: what a view means is the engine's business.

mod forwarded;
mod frame;
mod message;
mod part;
mod resume;
mod run;
mod shared;
mod tool;

pub use forwarded::Forwarded;
pub use frame::Frame;
pub use run::RunInput;
pub use shared::{SharedFrame, SharedRefused};

pub use crate::protocol::Limits;

use crate::protocol::reading;
