//! The command line, and the commands other than `serve`.

mod arguments;
mod check;

pub use arguments::{Arguments, Command, Serve};
pub use check::{Error, check};
