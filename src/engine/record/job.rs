//! What records of a background job hold. Nobody but the session's own log is told of them.

use serde::{Deserialize, Serialize};

use super::data::is_zero;
use super::{StrategyNamed, Summary};
use crate::ids::{AgentId, CallId, Millis, TurnId};
use crate::protocol::{CallError, Usage};

/// `context.job.started`: an attempt of a summary that is written while turns go on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobStarted {
    /// Which job.
    pub job_id: CallId,
    /// From 1.
    pub attempt: u32,
    /// The turn in which it began.
    pub turn_id: TurnId,
    /// That turn's agent.
    pub agent_id: AgentId,
    /// Which of the agent's strategies applies.
    pub strategy: StrategyNamed,
    /// What is summarized, and how.
    pub summary: Summary,
    /// Instead of the agent's llm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<String>,
    /// Instead of the llm's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// After that the attempt counts as lost.
    pub deadline: Millis,
    /// So many attempts before were lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u32,
}

/// `context.job.finished`: the summary. It is adopted before the next call that a turn begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFinished {
    /// Which job.
    pub job_id: CallId,
    /// Which attempt.
    pub attempt: u32,
    /// The summary.
    pub text: String,
    /// As reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// `context.job.failed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFailed {
    /// Which job.
    pub job_id: CallId,
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub error: CallError,
    /// When the next attempt starts; none: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Millis>,
}

/// `context.job.dropped`: its summary is of no use, or isn't waited for any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobDropped {
    /// Which job.
    pub job_id: CallId,
    /// Why.
    pub reason: DropReason,
}

/// Why a job is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// What it sums up isn't what the head's path begins with any more.
    Left,
    /// The model would read no less.
    NoGain,
    /// The log was imported: what was unfinished in it goes on nowhere.
    Imported,
}
