//! Commands other than `serve`.

mod check;

pub use check::{Error, check};
