//! What the records of decisions hold. What a hidden call said is in them, and in no event.

use serde::{Deserialize, Serialize};

use super::data::{Summary, is_false, is_zero};
use crate::ids::{CallId, DecisionId, Millis, NodeId, ToolCallId, TurnId};
use crate::protocol::{CallError, ClientAction, Code, Json, TriggerKind, Usage};

/// `decision.asked`: an attempt to ask the agent's worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionAsked {
    /// In which turn.
    pub turn_id: TurnId,
    /// Which decision.
    pub decision_id: DecisionId,
    /// From 1.
    pub attempt: u32,
    /// What it is about; an attempt of before says it, when this one doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// The kind of trigger.
    pub trigger: TriggerKind,
    /// So many of what waits for a call it is shown, the oldest ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub arrivals: u32,
    /// The id that a call has which is proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<CallId>,
    /// This attempt has failed then.
    pub deadline: Millis,
    /// No attempt begins after that.
    pub until: Millis,
}

/// What a decision is about: what the session alone doesn't say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Messages came.
    Messages {
        /// Whether a reply is due.
        reply: bool,
    },
    /// A model call ended.
    Call(Box<CallEnded>),
    /// The results of a reply's calls are complete.
    Results {
        /// The call whose result came last.
        last: ToolCallId,
        /// Whether a reply is due.
        reply: bool,
    },
    /// The turn's call is held.
    Limit,
    /// A person did something.
    Action(Box<ClientAction>),
    /// The turn is about to end well.
    End,
    /// The turn's interrupts were answered.
    Resumed {
        /// Whether a reply is due.
        reply: bool,
    },
}

impl About {
    /// The kind of trigger.
    pub fn kind(&self) -> TriggerKind {
        match self {
            Self::Messages { .. } => TriggerKind::ClientMessages,
            Self::Call(_) => TriggerKind::LlmFinished,
            Self::Results { .. } => TriggerKind::ToolFinished,
            Self::Limit => TriggerKind::ContextLimit,
            Self::Action(_) => TriggerKind::ClientAction,
            Self::End => TriggerKind::TurnFinished,
            Self::Resumed { .. } => TriggerKind::InterruptResumed,
        }
    }
}

/// A model call that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallEnded {
    /// Which.
    pub call_id: CallId,
    /// The node of what it said, when that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<NodeId>,
    /// Whether the model reached its output limit.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// As reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// Of a call that no UI may see: what it was for, and what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenCall>,
}

/// A hidden call that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HiddenCall {
    /// What the model said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it was to summarize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Instead of the agent's llm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<String>,
    /// Instead of the llm's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// `decision.answered`: the worker has decided. The records of what it has done follow in the same append.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionAnswered {
    /// In which turn.
    pub turn_id: TurnId,
    /// Which decision.
    pub decision_id: DecisionId,
    /// The types of its actions, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

/// `custom`: a worker tells the application something, which no model reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Custom {
    /// In which turn.
    pub turn_id: TurnId,
    /// What the application calls it.
    pub name: String,
    /// Anything.
    pub value: Json,
}

/// `decision.failed`: an attempt to ask gave no answer, or none that can be carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionFailed {
    /// In which turn.
    pub turn_id: TurnId,
    /// Which decision.
    pub decision_id: DecisionId,
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub code: Code,
    /// In words.
    pub message: String,
    /// When the next attempt starts; none: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Millis>,
}
