//! Translates between AG-UI and the protocol: what front ends send becomes inputs, neutral events become AG-UI's events, in the
//! dialect that the reader speaks. Pure and without state. May not know engine internals, sockets, or who reads.

mod dialect;
mod encode;
mod event;
mod inbound;
mod outbound;

pub use dialect::Dialect;
pub use inbound::{Forwarded, Frame, Limits, RunInput, SharedFrame, SharedRefused};
pub use outbound::{
    Outcome, Path, custom, interrupts, render, run_error, run_finished, run_finished_at, run_started, run_started_with, snapshot, state,
    ui_messages,
};
