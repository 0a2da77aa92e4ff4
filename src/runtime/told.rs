//! Records as readers are told of them: what only models read is left out. May not know who reads.

use crate::engine::Record;
use crate::ids::TurnId;
use crate::protocol::EventBody;

/// A record as readers are told of it; nothing, when it is nobody's business.
pub fn told(record: &Record) -> Option<EventBody> {
    match record.body.event()? {
        // Its place in the tree is no secret, what it says is.
        EventBody::MessageNew { node_id, parent_id, kind, shown_id: None, copied_from, partial, .. } => {
            let (message, call_id) = (None, None);
            Some(EventBody::MessageNew { node_id, parent_id, kind, shown_id: None, message, copied_from, partial, call_id })
        }
        EventBody::CallStarted { hidden: true, .. }
        | EventBody::CallCompleted { hidden: true, .. }
        | EventBody::CallFailed { hidden: true, .. }
        | EventBody::CallVoided { hidden: true, .. } => None,
        shown @ (EventBody::SessionCreated { .. }
        | EventBody::SessionForked { .. }
        | EventBody::SessionUpdated { .. }
        | EventBody::MessageNew { .. }
        | EventBody::HeadMoved { .. }
        | EventBody::TurnQueued { .. }
        | EventBody::TurnJoined { .. }
        | EventBody::TurnWaiting { .. }
        | EventBody::TurnStarted { .. }
        | EventBody::TurnCompleted { .. }
        | EventBody::TurnFailed { .. }
        | EventBody::TurnCancelled { .. }
        | EventBody::TurnRecovered { .. }
        | EventBody::CallStarted { .. }
        | EventBody::CallCompleted { .. }
        | EventBody::CallFailed { .. }
        | EventBody::CallVoided { .. }
        | EventBody::Live(_)
        | EventBody::Resync(_)) => Some(shown),
    }
}

/// What an event changes for those who read a turn.
pub enum Bound {
    /// A turn begins.
    Begins(TurnId),
    /// Its readers get no more.
    Ends(TurnId),
    /// What was told of an attempt may hold no more.
    Fails,
    /// Nothing.
    Goes,
}

/// What `event` changes for those who read a turn.
pub fn bound(event: &EventBody) -> Bound {
    match event {
        EventBody::TurnStarted { turn_id, .. } => Bound::Begins(turn_id.clone()),
        EventBody::TurnCompleted { turn_id }
        | EventBody::TurnFailed { turn_id, .. }
        | EventBody::TurnCancelled { turn_id, .. }
        | EventBody::TurnWaiting { turn_id, .. } => Bound::Ends(turn_id.clone()),
        EventBody::CallFailed { .. } | EventBody::CallVoided { .. } => Bound::Fails,
        EventBody::SessionCreated { .. }
        | EventBody::SessionForked { .. }
        | EventBody::SessionUpdated { .. }
        | EventBody::MessageNew { .. }
        | EventBody::HeadMoved { .. }
        | EventBody::TurnQueued { .. }
        | EventBody::TurnJoined { .. }
        | EventBody::TurnRecovered { .. }
        | EventBody::CallStarted { .. }
        | EventBody::CallCompleted { .. }
        | EventBody::Live(_)
        | EventBody::Resync(_) => Bound::Goes,
    }
}
