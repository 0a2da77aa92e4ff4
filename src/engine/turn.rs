//! Turns: the one that runs, and what is kept of those that ended.

use serde::{Deserialize, Serialize};

use super::context::Caller;
use super::decision::Decision;
use super::reading::Vertex;
use super::record::{Reads, StrategyNamed};
use super::tools::Execution;
use crate::ids::{AgentId, CallId, Millis, NodeId, TurnId};
use crate::protocol::{Client, Code, Digest, Interrupt, LimitReason, Resumed, Usage};

/// The turn that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Which.
    pub id: TurnId,
    /// Whose.
    pub agent_id: AgentId,
    /// Since when.
    pub started_at: Millis,
    /// The reader view that it answers: what stands between that and the head's is its own.
    pub began: Vertex,
    /// What the client offers.
    pub client: Client,
    /// Whether several submits were merged into it: it isn't one submitter's.
    pub merged: bool,
    /// Its model call.
    pub call: Option<Call>,
    /// Model calls that it has begun.
    pub calls: u32,
    /// How often its process was lost.
    pub recoveries: u32,
    /// The call that waits for room in the context window.
    pub held: Option<Held>,
    /// What the agent's worker is asked.
    pub decision: Option<Box<Decision>>,
    /// How many decisions it was asked.
    pub decisions: u32,
    /// The tool calls that are carried out, in the order in which they begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<Execution>,
    /// What its calls read and wrote, by provider and model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<Usage>,
    /// The call that has failed for good. The same append says what becomes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Call>,
    /// The call that a provider has refused as too long: it gets one more try.
    pub refused: Option<CallId>,
    /// Whether making room was of no use: it isn't tried again in this turn.
    pub stuck: bool,
    /// Whether a background summary failed or was of no use: none is begun any more in this turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub job_in_vain: bool,
    /// What pauses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Interrupt>,
    /// How that was answered with which it goes on, until a model has answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumed>,
}

impl Turn {
    /// Whose call is to begin.
    pub(super) fn caller(&self) -> Caller<'_> {
        Caller { turn_id: &self.id, agent_id: &self.agent_id, client: &self.client }
    }
}

/// A call that waits for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Which.
    pub id: CallId,
    /// Why.
    pub reason: LimitReason,
    /// Which of the agent's strategies applies.
    pub strategy: Option<StrategyNamed>,
    /// What the model would read, in tokens.
    pub tokens: u64,
    /// Of one that was begun before: attempts so far, and the reply's id of the last one.
    pub begun: Option<(u32, NodeId)>,
    /// So many arrivals were read by the last attempt; the next one reads no fewer.
    pub arrivals: u32,
    /// How it is made.
    pub wish: Wish,
}

/// How a call is made, where that isn't as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Instead of the agent's llm.
    pub llm: Option<String>,
    /// Instead of the llm's model.
    pub model: Option<String>,
}

/// A turn's model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Which.
    pub id: CallId,
    /// From 1.
    pub attempt: u32,
    /// The id that the reply of this attempt will have.
    pub reply_id: NodeId,
    /// Whether no UI may see it.
    pub hidden: bool,
    /// When the next attempt starts, when this one has failed.
    pub retry_at: Option<Millis>,
    /// Instead of the agent's llm.
    pub llm: Option<String>,
    /// Instead of the llm's model.
    pub model: Option<String>,
    /// What the model reads.
    pub reads: Reads,
    /// So many arrivals it reads besides.
    pub arrivals: u32,
    /// Whether an agent goes on in it with what it began in the call before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

/// What is kept of a turn id.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// What its input held.
    pub digest: Digest,
    /// The turn that this is another name of.
    pub of: Option<TurnId>,
    /// Whether it asked a model.
    pub replied: bool,
    /// How it ended; none: it runs, or waits for another.
    pub end: Option<End>,
}

impl Known {
    /// A turn that has done nothing yet, or another name of one.
    pub(super) fn new(digest: Digest, of: Option<TurnId>) -> Self {
        Self { digest, of, replied: false, end: None }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Well.
    Completed,
    /// With an error.
    Failed {
        /// Its code.
        code: Code,
        /// In words.
        message: String,
    },
    /// Stopped.
    Cancelled,
}
