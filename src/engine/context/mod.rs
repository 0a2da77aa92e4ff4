//! Room in the context window. Before each model call is counted what it would read (`need`); when a strategy applies the call is
//! held, and [`make_room`] carries out what the strategy plans: a summary, or a shorter history at once. A history is made shorter
//! by a new branch (`replace`) on which the model goes on, while people read the conversation as before. Or nothing is held: a
//! summary is written in the background (`job`) and adopted when a call begins. Knows nothing of who writes a summary.

mod adopt;
mod cut;
mod job;
mod links;
mod need;
mod options;
mod replace;
mod reset;
mod room;
mod strategy;
mod summarize;

pub use cut::History;
pub use job::{begin_job, is_job_due, job_finished};
pub use links::{Link, links, originals};
pub use need::Need;
pub use options::{ContextOptions, Misfit, StrategyOptions};
pub use room::make_room;
pub use strategy::{Agent, Agents, Kept, Plan, Strategy, When, overridden};
pub use summarize::{INSTRUCTIONS, KEEP_TURNS, request};

pub(super) use adopt::{Caller, adopt};
pub(super) use job::{job_lost, job_woken};
pub(super) use need::Load;
pub(super) use replace::{Replacement, replace};
pub(super) use room::{NOTHING_TO_LEAVE_OUT, does_not_fit, kept_after, planned, refused, shorter, summary_failed, summary_written};

/// So many tokens of the window are left for the reply, unless a strategy says when it applies.
pub const RESERVE_TOKENS: u64 = 16_000;

/// How much of a window may be read: all but what is left for the reply. Of one that has no room for both, half.
const fn readable(window: u64) -> u64 {
    if window > RESERVE_TOKENS { window - RESERVE_TOKENS } else { window / 2 }
}
