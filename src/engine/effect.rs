//! What still has to be done, derived from the state. The runtime starts what is missing and aborts what is gone; after a crash
//! the fold gives the same set.

use super::job::Job;
use super::session::Session;
use super::tools::Execution;
use super::turn::{Call, Turn};
use crate::ids::{CallId, DecisionId, Millis, ToolCallId};

/// One thing to do. Equal effects are the same effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Ask the model: this attempt of this call.
    Call {
        /// Which call.
        id: CallId,
        /// From 1.
        attempt: u32,
    },
    /// Ask a model for the summary that is written while turns go on: this attempt of this job.
    Job {
        /// Which job.
        id: CallId,
        /// From 1.
        attempt: u32,
    },
    /// Make room for a call that is held: [`make_room`](super::context::make_room).
    Room {
        /// The call.
        id: CallId,
    },
    /// Ask the agent's worker: this attempt of this decision.
    Ask {
        /// Which decision.
        id: DecisionId,
        /// From 1.
        attempt: u32,
    },
    /// Wait, then [`wake_decision`](super::wake_decision).
    WakeDecision {
        /// Until when.
        at: Millis,
        /// For which decision.
        id: DecisionId,
        /// Which attempt is over then, or was before.
        attempt: u32,
    },
    /// Have a tool call carried out: this attempt.
    Execute {
        /// Which call.
        id: ToolCallId,
        /// From 1.
        attempt: u32,
    },
    /// Wait, then [`wake_execution`](super::wake_execution).
    WakeExecution {
        /// Until when.
        at: Millis,
        /// For which call.
        id: ToolCallId,
        /// Which attempt is over then, or was before.
        attempt: u32,
    },
    /// Wait, then [`wake`](super::wake()).
    Wake {
        /// Until when.
        at: Millis,
        /// For which call or job.
        id: CallId,
        /// After which attempt.
        attempt: u32,
    },
}

/// What a session wants done now: for its turn, and for what goes on beside it. One that holds what a later version wrote is for
/// that to go on with.
pub fn wanted(session: &Session) -> Vec<Effect> {
    let job = session.job.as_ref().filter(|_| session.newer.is_none()).map(Job::wanted);
    let mut wanted = of_turn(session);
    wanted.extend(job.unwrap_or_default());
    wanted
}

/// Whether a turn goes on by itself.
pub fn is_running(session: &Session) -> bool {
    !of_turn(session).is_empty()
}

fn of_turn(session: &Session) -> Vec<Effect> {
    let Some(turn) = session.turn.as_ref().filter(|_| session.newer.is_none()) else { return Vec::new() };
    let executions = turn.executions.iter().flat_map(Execution::wanted);
    next_of(turn).into_iter().chain(executions).collect()
}

/// What decides how the turn goes on.
fn next_of(turn: &Turn) -> Vec<Effect> {
    if let Some(decision) = &turn.decision {
        return decision.wanted();
    }
    match (&turn.call, &turn.held) {
        (Some(Call { id, attempt, retry_at: None, .. }), _) => vec![Effect::Call { id: id.clone(), attempt: *attempt }],
        (Some(Call { id, attempt, retry_at: Some(at), .. }), _) => vec![Effect::Wake { at: *at, id: id.clone(), attempt: *attempt }],
        (None, Some(held)) => vec![Effect::Room { id: held.id.clone() }],
        (None, None) => Vec::new(),
    }
}
