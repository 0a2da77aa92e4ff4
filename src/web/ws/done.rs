//! How a socket ends. May not know what was said on it.

use actix_ws::{CloseCode, CloseReason};

use super::super::error;
use super::outbox::Full;
use crate::protocol::{Code, Refusal};

/// A socket is done.
#[derive(Debug)]
pub(super) enum Done {
    /// Nobody is there any more.
    Gone,
    /// It is closed after what waits was written.
    Close(Option<CloseReason>),
    /// It is closed without writing what waits.
    CloseNow(Option<CloseReason>),
}

/// What a handled message means for the loop.
pub(super) type Handled = Result<(), Done>;

impl From<Full> for Done {
    fn from(_: Full) -> Self {
        error::slow("websocket");
        Self::CloseNow(error::close_reason(&Refusal::new(Code::TooSlow, "this reader fell too far behind")))
    }
}

impl Done {
    /// A task of the server's own failed.
    pub(super) fn fault() -> Self {
        Self::Close(Some(super::close::reason(CloseCode::Error, "a fault of the server's own")))
    }

    /// The peer sends faster than it may.
    pub(super) fn too_fast() -> Self {
        error::count(Code::RateLimited);
        Self::Close(error::close_reason(&Refusal::new(Code::RateLimited, "this socket sends more frames a second than are allowed")))
    }

    /// The server stops.
    pub(super) fn stopping() -> Self {
        Self::Close(error::close_reason(&Refusal::new(Code::ShuttingDown, "the server stops; connect again")))
    }
}
