//! What still has to be done, derived from the state. The runtime starts what is missing and aborts what is gone; after a crash
//! the fold gives the same set.

use super::session::Session;
use crate::ids::{CallId, Millis};

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
    /// Wait, then [`wake`](super::wake()).
    Wake {
        /// Until when.
        at: Millis,
        /// For which call.
        id: CallId,
        /// After which attempt.
        attempt: u32,
    },
}

/// What a session wants done now. One that holds what a later version wrote is for that to go on with.
pub fn wanted(session: &Session) -> Vec<Effect> {
    let turn = session.turn.as_ref().filter(|_| session.newer.is_none());
    let call = turn.and_then(|turn| turn.call.as_ref());
    let effect = call.map(|call| match call.retry_at {
        None => Effect::Call { id: call.id.clone(), attempt: call.attempt },
        Some(at) => Effect::Wake { at, id: call.id.clone(), attempt: call.attempt },
    });
    effect.into_iter().collect()
}
