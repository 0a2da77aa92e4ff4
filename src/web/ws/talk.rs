//! What is spoken on a socket: one loop serves them all, and asks here what a frame means and what comes next. May not know sockets.

use actix_web::web::Bytes;
use actix_ws::CloseCode;

use super::close;
use super::done::{Done, Handled};
#[cfg(feature = "echo")]
use super::echo::Echo;
use super::native::Native;
use super::plain::Plain;
use super::shared::Shared;
use super::worker::Worker;

/// What is spoken on a socket.
pub(super) enum Talk {
    /// AG-UI's bare frames.
    Plain(Box<Plain>),
    /// The native frames of `/v1/ws`.
    Native(Box<Native>),
    /// AG-UI's frames, each with its thread.
    Shared(Box<Shared>),
    /// A worker's frames.
    Worker(Box<Worker>),
    /// Whatever comes.
    #[cfg(feature = "echo")]
    Echo(Echo),
}

impl Talk {
    /// A text frame came.
    pub(super) fn text(&mut self, text: &str) -> Handled {
        match self {
            Self::Plain(plain) => plain.text(text),
            Self::Native(native) => native.text(text),
            Self::Shared(shared) => shared.text(text),
            Self::Worker(worker) => worker.text(text),
            #[cfg(feature = "echo")]
            Self::Echo(echo) => echo.text(text),
        }
    }

    /// A binary frame came.
    #[cfg_attr(not(feature = "echo"), expect(unused_variables, clippy::needless_pass_by_value, reason = "only an echo takes it"))]
    pub(super) fn binary(&mut self, content: Bytes) -> Handled {
        match self {
            Self::Plain(_) | Self::Native(_) | Self::Shared(_) | Self::Worker(_) => {
                Err(Done::Close(Some(close::reason(CloseCode::Unsupported, "frames are text"))))
            }
            #[cfg(feature = "echo")]
            Self::Echo(echo) => echo.binary(content),
        }
    }

    /// Whether frames keep a pace that the socket watches.
    pub(super) fn is_paced(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Native(_) | Self::Shared(_) => true,
            // Its answers come as fast as it is asked.
            Self::Worker(_) => false,
            #[cfg(feature = "echo")]
            Self::Echo(_) => true,
        }
    }

    /// Waits until something is to be done without a frame, and does it. Nothing is lost when the wait is given up.
    pub(super) async fn go_on(&mut self) -> Handled {
        match self {
            Self::Plain(plain) => plain.go_on().await,
            Self::Native(native) => native.go_on().await,
            Self::Shared(shared) => shared.go_on().await,
            Self::Worker(worker) => worker.go_on().await,
            #[cfg(feature = "echo")]
            Self::Echo(_) => std::future::pending().await,
        }
    }

    /// Whether nothing is left to be told.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.is_over(),
            Self::Native(native) => native.is_over(),
            Self::Shared(shared) => shared.is_over(),
            Self::Worker(worker) => worker.is_over(),
            #[cfg(feature = "echo")]
            Self::Echo(_) => true,
        }
    }

    /// The socket goes away; what was asked is still done.
    pub(super) fn leave(&mut self) {
        match self {
            Self::Plain(plain) => plain.leave(),
            Self::Native(native) => native.leave(),
            Self::Shared(shared) => shared.leave(),
            Self::Worker(worker) => worker.leave(),
            #[cfg(feature = "echo")]
            Self::Echo(_) => {}
        }
    }
}
