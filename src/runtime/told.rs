//! Records as readers are told of them: what only models read is left out. May not know who reads.

use crate::engine::Record;
use crate::engine::record::Body;
use crate::ids::TurnId;
use crate::protocol::{EventBody, Live};

/// A record as readers are told of it; nothing, when it is nobody's business.
pub fn told(record: &Record) -> Option<EventBody> {
    match record.body.event()? {
        // Its place in the tree is no secret, what it says is.
        EventBody::MessageNew { node_id, parent_id, kind, shown_id: None, copied_from, reads_as, partial, .. } => {
            let (message, call_id, source) = (None, None, None);
            Some(EventBody::MessageNew {
                node_id,
                parent_id,
                kind,
                shown_id: None,
                message,
                copied_from,
                reads_as,
                partial,
                call_id,
                source,
            })
        }
        // Whoever counts a turn's tokens counts all of its calls.
        EventBody::CallCompleted { call_id, hidden: true, usage: Some(usage) } => {
            Some(EventBody::CallCompleted { call_id, hidden: true, usage: Some(usage) })
        }
        EventBody::CallStarted { hidden: true, .. }
        | EventBody::CallCompleted { hidden: true, usage: None, .. }
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
        | EventBody::SessionInterrupted { .. }
        | EventBody::InterruptResumed { .. }
        | EventBody::TurnSuspended { .. }
        | EventBody::CallStarted { .. }
        | EventBody::CallCompleted { .. }
        | EventBody::CallFailed { .. }
        | EventBody::CallVoided { .. }
        | EventBody::ContextLimited { .. }
        | EventBody::ContextReplaced { .. }
        | EventBody::ContextKept { .. }
        | EventBody::DecisionAsked { .. }
        | EventBody::DecisionAnswered { .. }
        | EventBody::DecisionFailed { .. }
        | EventBody::ToolCallStarted { .. }
        | EventBody::ToolCallCompleted { .. }
        | EventBody::ToolCallFailed { .. }
        | EventBody::StateUpdated { .. }
        | EventBody::AgentUpdated { .. }
        | EventBody::Custom { .. }
        | EventBody::ArrivalQueued { .. }
        | EventBody::ArrivalConsumed { .. }
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
    /// A call begins that reads what waited.
    Reads,
    /// What waited with these inputs becomes a turn of its own.
    Becomes(Vec<TurnId>, TurnId),
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
        | EventBody::SessionInterrupted { turn_id, .. }
        | EventBody::TurnWaiting { turn_id, .. } => Bound::Ends(turn_id.clone()),
        EventBody::CallFailed { .. } | EventBody::CallVoided { .. } => Bound::Fails,
        EventBody::CallStarted { arrivals: 1.., .. } => Bound::Reads,
        EventBody::ArrivalConsumed { turn_ids, into: Some(into), .. } => Bound::Becomes(turn_ids.clone(), into.clone()),
        EventBody::SessionCreated { .. }
        | EventBody::SessionForked { .. }
        | EventBody::SessionUpdated { .. }
        | EventBody::MessageNew { .. }
        | EventBody::HeadMoved { .. }
        | EventBody::TurnQueued { .. }
        | EventBody::TurnJoined { .. }
        | EventBody::TurnRecovered { .. }
        | EventBody::InterruptResumed { .. }
        | EventBody::TurnSuspended { .. }
        | EventBody::CallStarted { .. }
        | EventBody::CallCompleted { .. }
        | EventBody::ContextLimited { .. }
        | EventBody::ContextReplaced { .. }
        | EventBody::ContextKept { .. }
        | EventBody::DecisionAsked { .. }
        | EventBody::DecisionAnswered { .. }
        | EventBody::DecisionFailed { .. }
        | EventBody::ToolCallStarted { .. }
        | EventBody::ToolCallCompleted { .. }
        | EventBody::ToolCallFailed { .. }
        | EventBody::StateUpdated { .. }
        | EventBody::AgentUpdated { .. }
        | EventBody::Custom { .. }
        | EventBody::ArrivalQueued { .. }
        | EventBody::ArrivalConsumed { .. }
        | EventBody::Live(_)
        | EventBody::Resync(_) => Bound::Goes,
    }
}

/// Whether readers saw something of a reply, which `closing` closes, that `records` don't keep: all of an attempt that failed; of one
/// that was stopped its calls, or all.
pub fn lets_go(closing: &EventBody, records: &[Record]) -> bool {
    let EventBody::Live(Live::ReplyEnded { calls, .. }) = closing else { return false };
    let failed = records.iter().any(|record| matches!(record.body, Body::CallFailed(_)));
    let stopped = records.iter().any(|record| matches!(record.body, Body::CallVoided(_)));
    let kept = |record: &Record| if let Body::MessageNew(new) = &record.body { new.partial } else { false };
    failed || (stopped && (!calls.is_empty() || !records.iter().any(kept)))
}
