//! The pure engine. A session is the fold of its log ([`Session`]); inputs are decided against it ([`submit()`], [`cancel`],
//! [`call_finished`], [`wake`], [`recover`]) and give records; what is still to be done is derived from it ([`wanted`]).
//! Same log and same input, same records: no clock, no randomness, no IO, no AG-UI.

mod call;
mod chain;
mod effect;
mod invariants;
mod meaning;
mod names;
mod news;
mod pages;
mod prompt;
mod reading;
pub mod record;
mod session;
mod submit;
mod tree;
mod turn;
mod view;
mod walk;
mod write;

pub use call::{Finished, call_finished, cancel, recover, wake};
pub use effect::{Effect, wanted};
pub use invariants::{Broken, check, check_step};
pub use pages::{page, reader_nodes, snapshot_messages, tree_page};
pub use prompt::{messages as prompt, path};
pub use reading::{Ix, Vertex};
pub use record::{MessageNew, Record};
pub use session::{Corrupt, Session};
pub use submit::{Submit, submit};
pub use tree::{Misfit, Node, Tree};
pub use turn::{Call, End, Known, Turn};
pub use view::{News, Reconciled, View, reconcile};

use crate::ids::Stamp;
use crate::protocol::Message;

/// What comes with every input.
#[derive(Clone, Debug)]
pub struct Context {
    /// The time, and a number that nobody else has.
    pub stamp: Stamp,
    /// What readers have seen of the reply in the making, when there is one.
    pub written: Option<Message>,
    /// What is allowed.
    pub policy: Policy,
}

/// Bounds that the configuration sets.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Attempts of a model call, the first included.
    pub attempts: u32,
    /// Model calls of one turn.
    pub calls_per_turn_max: u32,
}
