//! Neutral events, told in AG-UI: `render` gives the same bytes to every reader of a dialect; what differs from reader to reader
//! (a run's start and end, snapshots for one who joins) are functions of their own. Hides what no UI may see. Without state, so
//! batches may be cut anywhere. May not know who reads.

mod hydration;
mod interrupt;
mod message;
mod run;
mod translate;

pub use hydration::ui_messages;
pub use interrupt::interrupts;
pub use message::Path;
pub(super) use message::{Content, Messages};
pub use run::{Outcome, custom, run_error, run_finished, run_finished_at, run_started, run_started_with, snapshot, state};
pub use translate::render;
