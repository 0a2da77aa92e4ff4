//! What the records of arrivals hold, as `data` has those of the others.

use serde::{Deserialize, Serialize};

use super::data::{is_default, is_false};
use crate::ids::{AgentId, CallId, TurnId};
use crate::protocol::{Client, Digest, Message};

/// `arrival.queued`: something waits for a model call. What it brings is safe from here on, and becomes nodes when a call has read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrivalQueued {
    /// The input's id.
    pub turn_id: TurnId,
    /// Whose.
    pub agent_id: AgentId,
    /// What its input held.
    pub digest: Digest,
    /// Of messages: the turn that they join. Absent: it is something that happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<TurnId>,
    /// What it brings, each with an id; one that is recorded elsewhere without content.
    pub messages: Vec<Message>,
    /// Of what happened: whether readers see it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub show: bool,
    /// Whether a turn begins for it when none is there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub run: bool,
    /// What the client offers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Client,
}

/// `arrival.consumed`: the oldest arrivals are nodes, and leave the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrivalConsumed {
    /// Their inputs' ids, in order.
    pub turn_ids: Vec<TurnId>,
    /// The call that read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// No call did: they become this turn, which follows in the same append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<TurnId>,
}
