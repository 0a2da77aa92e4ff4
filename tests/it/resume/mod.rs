//! Coming to a run, and back to it, at every place.

mod joins;
mod law;
pub mod model;
mod room;
mod stream;
