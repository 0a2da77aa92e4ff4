//! What clients of the native API send, read strictly: a field that nobody knows is refused, with those that are allowed. May not
//! know how it came, agents' defaults, or what a session holds.

mod bodies;
mod client;
mod decision;
mod event;
pub(crate) mod frame;
mod input;
mod interrupt;
mod message;
mod outside;
mod part;
mod place;
#[cfg(test)]
mod tests;
mod worker;

pub use bodies::{TITLE_BYTES_MAX, fork, head_move, update};
pub use frame::{Ask, FrameRefused, SocketFrame};
pub use input::{Asked, NativeBody, NativeInput, Submission};
pub use outside::OutsideAnswer;
pub use place::own_place;
pub use worker::{Hello, Token, WorkerFrame, WorkerSays};
