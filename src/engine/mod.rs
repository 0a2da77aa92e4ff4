//! The pure engine. A session is the fold of its log ([`Session`]); inputs are decided against it ([`submit()`], [`cancel()`],
//! [`move_head`], [`call_finished`], [`wake`], [`recover`]) and give records; what is still to be done is derived from it ([`wanted`]).
//! Same log and same input, same records: no clock, no randomness, no IO, no AG-UI.

mod answer;
mod arrivals;
mod asked;
mod branched;
mod call;
mod cancel;
mod chain;
mod contents;
pub mod context;
mod decision;
mod directory;
mod effect;
mod fork;
mod head;
mod interrupt;
mod invariants;
mod job;
mod json;
mod meaning;
mod names;
mod news;
mod node;
mod pages;
mod places;
mod prompt;
mod queue;
mod reading;
pub mod record;
mod relayed;
mod rows;
mod session;
mod sheets;
pub mod snapshot;
mod state;
mod submit;
mod text;
mod tools;
mod tree;
mod turn;
mod turns;
mod view;
mod walk;
mod write;

pub use answer::answer;
pub use arrivals::{Arrival, Arrivals};
pub use branched::{Branched, InLog, Which, Written};
pub use call::{Finished, call_finished, recover, wake};
pub use cancel::{cancel, end_imported, leave};
pub use decision::{Asking, Decision, Patience, Unanswered, decision_failed, decision_request, wake_decision};
pub use effect::{Effect, is_running, wanted};
pub use fork::{fork, fork_nodes, fork_versions};
pub use head::{move_head, update};
pub use interrupt::{Interrupts, SUSPENDED_MAX, Suspended};
pub use invariants::{Broken, check, check_rest, check_step};
pub use job::Job;
pub use node::Node;
pub use pages::{messages_of, page, reader_nodes, reader_nodes_at, snapshot_messages, tree_nodes, tree_page};
pub use prompt::{messages as prompt, needed, pair, path};
pub use queue::{Queue, Queued};
pub use reading::{Ix, Vertex};
pub use record::{MessageNew, Record};
pub use relayed::{Maker, branch};
pub use session::{Corrupt, Session};
pub use state::{Overrides, is_same};
pub use submit::{Submit, submit};
pub use tools::{
    BadTool, Carrier, Execution, Outcome, OwnTool, Tools, executed, execution_answer, execution_request, server_request, tools_of,
    wake_execution,
};
pub use tree::{Misfit, Tree};
pub use turn::{Call, End, Known, Turn, Wish};
pub use turns::Turns;
pub use view::{News, Reconciled, View, reconcile};

use std::sync::Arc;

use self::context::Agents;
use self::submit::refuse_newer;
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
    /// What is configured of the agents.
    pub agents: Arc<Agents>,
}

/// Bounds that the configuration sets.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Attempts of a model call, the first included.
    pub attempts: u32,
    /// Model calls of one turn.
    pub calls_per_turn_max: u32,
    /// Turns that wait in a session.
    pub queue_turns_max: usize,
    /// Messages that wait in a session.
    pub queue_messages_max: usize,
    /// Bytes that wait for a model call.
    pub arrivals_bytes_max: usize,
    /// Tool calls of a session that are carried out at a time.
    pub executions_max: usize,
    /// Bytes of an agent's state, and of what is overridden of agents.
    pub state_bytes_max: usize,
}
