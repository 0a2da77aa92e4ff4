//! Records: what a session's log holds. The fold of them is the session; nothing else is kept. Encoded as JSON,
//! `{"v":1,"type":…,"at":…,"must_understand":…,"data":{…}}`. A record of an unknown type is kept and passed over, unless it must be
//! understood.

mod arrivals;
mod data;
mod decision;
mod interrupt;
mod job;
mod state;
mod told;
mod tools;

pub use arrivals::{ArrivalConsumed, ArrivalQueued};
pub use data::*;
pub use decision::*;
pub use interrupt::*;
pub use job::*;
pub use state::{AgentUpdated, StateUpdated};
pub use tools::*;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::Millis;

/// The version of the encoding that this code writes.
const VERSION: u32 = 1;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When it was written.
    pub at: Millis,
    /// What happened.
    pub body: Body,
}

/// The kinds of record.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `session.created`: the first record.
    SessionCreated(SessionCreated),
    /// `session.forked`: the first record of one that was made from another's path.
    SessionForked(SessionForked),
    /// `session.updated`.
    SessionUpdated(SessionUpdated),
    /// `message.new`: a node.
    MessageNew(Box<MessageNew>),
    /// `head.moved`.
    HeadMoved(HeadMoved),
    /// `turn.queued`.
    TurnQueued(Box<TurnQueued>),
    /// `turn.started`.
    TurnStarted(Box<TurnStarted>),
    /// `turn.joined`.
    TurnJoined(Box<TurnJoined>),
    /// `turn.waiting`.
    TurnWaiting(TurnWaiting),
    /// `turn.completed`.
    TurnCompleted(TurnCompleted),
    /// `turn.failed`.
    TurnFailed(TurnFailed),
    /// `turn.cancelled`.
    TurnCancelled(TurnCancelled),
    /// `turn.recovered`.
    TurnRecovered(TurnRecovered),
    /// `llm.call.started`.
    CallStarted(CallStarted),
    /// `llm.call.completed`.
    CallCompleted(CallCompleted),
    /// `llm.call.failed`.
    CallFailed(CallFailed),
    /// `call.voided`.
    CallVoided(CallVoided),
    /// `context.limited`.
    ContextLimited(ContextLimited),
    /// `context.replaced`.
    ContextReplaced(ContextReplaced),
    /// `context.kept`.
    ContextKept(ContextKept),
    /// `context.job.started`.
    JobStarted(Box<JobStarted>),
    /// `context.job.finished`.
    JobFinished(JobFinished),
    /// `context.job.failed`.
    JobFailed(JobFailed),
    /// `context.job.dropped`.
    JobDropped(JobDropped),
    /// `arrival.queued`.
    ArrivalQueued(Box<ArrivalQueued>),
    /// `arrival.consumed`.
    ArrivalConsumed(ArrivalConsumed),
    /// `decision.asked`.
    DecisionAsked(Box<DecisionAsked>),
    /// `decision.answered`.
    DecisionAnswered(DecisionAnswered),
    /// `decision.failed`.
    DecisionFailed(DecisionFailed),
    /// `tool.calls.taken`.
    ToolCallsTaken(Box<ToolCallsTaken>),
    /// `tool.call.started`.
    ToolCallStarted(ToolCallStarted),
    /// `tool.call.completed`.
    ToolCallCompleted(ToolCallCompleted),
    /// `tool.call.failed`.
    ToolCallFailed(ToolCallFailed),
    /// `state.updated`.
    StateUpdated(Box<StateUpdated>),
    /// `agent.updated`.
    AgentUpdated(Box<AgentUpdated>),
    /// `session.interrupted`.
    SessionInterrupted(Box<SessionInterrupted>),
    /// `session.interrupt_resumed`.
    InterruptResumed(Box<InterruptResumed>),
    /// `turn.suspended`.
    TurnSuspended(TurnSuspended),
    /// A worker tells the application something.
    Custom(Custom),
    /// Of a later version: kept as it is.
    Unknown(Unknown),
}

/// A stored record can't be read.
#[derive(Debug, thiserror::Error)]
#[error("a record can't be decoded: {0}")]
pub struct DecodeError(#[from] serde_json::Error);

#[derive(Serialize)]
struct EnvelopeOut<'a, T> {
    v: u32,
    r#type: &'static str,
    at: Millis,
    must_understand: bool,
    data: &'a T,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    v: u32,
    r#type: std::borrow::Cow<'a, str>,
    at: Millis,
    #[serde(default)]
    must_understand: bool,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Record {
    /// The record as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let at = self.at;
        match &self.body {
            Body::SessionCreated(data) => envelope("session.created", at, data),
            Body::SessionForked(data) => envelope("session.forked", at, data),
            Body::SessionUpdated(data) => envelope("session.updated", at, data),
            Body::MessageNew(data) => envelope("message.new", at, data),
            Body::HeadMoved(data) => envelope("head.moved", at, data),
            Body::TurnQueued(data) => envelope("turn.queued", at, data),
            Body::TurnStarted(data) => envelope("turn.started", at, data),
            Body::TurnJoined(data) => envelope("turn.joined", at, data),
            Body::TurnWaiting(data) => envelope("turn.waiting", at, data),
            Body::TurnCompleted(data) => envelope("turn.completed", at, data),
            Body::TurnFailed(data) => envelope("turn.failed", at, data),
            Body::TurnCancelled(data) => envelope("turn.cancelled", at, data),
            Body::TurnRecovered(data) => envelope("turn.recovered", at, data),
            Body::CallStarted(data) => envelope("llm.call.started", at, data),
            Body::CallCompleted(data) => envelope("llm.call.completed", at, data),
            Body::CallFailed(data) => envelope("llm.call.failed", at, data),
            Body::CallVoided(data) => envelope("call.voided", at, data),
            Body::ContextLimited(data) => envelope("context.limited", at, data),
            Body::ContextReplaced(data) => envelope("context.replaced", at, data),
            Body::ContextKept(data) => envelope("context.kept", at, data),
            Body::JobStarted(data) => envelope("context.job.started", at, data),
            Body::JobFinished(data) => envelope("context.job.finished", at, data),
            Body::JobFailed(data) => envelope("context.job.failed", at, data),
            Body::JobDropped(data) => envelope("context.job.dropped", at, data),
            Body::ArrivalQueued(data) => envelope("arrival.queued", at, data),
            Body::ArrivalConsumed(data) => envelope("arrival.consumed", at, data),
            Body::DecisionAsked(data) => envelope("decision.asked", at, data),
            Body::DecisionAnswered(data) => envelope("decision.answered", at, data),
            Body::DecisionFailed(data) => envelope("decision.failed", at, data),
            Body::ToolCallsTaken(data) => envelope("tool.calls.taken", at, data),
            Body::ToolCallStarted(data) => envelope("tool.call.started", at, data),
            Body::ToolCallCompleted(data) => envelope("tool.call.completed", at, data),
            Body::ToolCallFailed(data) => envelope("tool.call.failed", at, data),
            Body::StateUpdated(data) => envelope("state.updated", at, data),
            Body::AgentUpdated(data) => envelope("agent.updated", at, data),
            Body::SessionInterrupted(data) => envelope("session.interrupted", at, data),
            Body::InterruptResumed(data) => envelope("session.interrupt_resumed", at, data),
            Body::TurnSuspended(data) => envelope("turn.suspended", at, data),
            Body::Custom(data) => envelope("custom", at, data),
            Body::Unknown(data) => data.stored.clone(),
        }
    }

    /// Reads a stored record. One of a later version, or of an unknown type, becomes [`Body::Unknown`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if let Some(record) = Self::as_written(bytes) {
            return Ok(record);
        }
        let envelope: Envelope<'_> = serde_json::from_slice(bytes)?;
        let known = if envelope.v > VERSION { None } else { read(&envelope.r#type, envelope.data.get()) };
        let body = known.unwrap_or_else(|| {
            let kind = envelope.r#type.to_string();
            Ok(Body::Unknown(Unknown { kind, must_understand: envelope.must_understand, stored: bytes.to_vec() }))
        })?;
        Ok(Self { at: envelope.at, body })
    }

    /// Reads a record whose envelope is, byte for byte, as this version writes it: most are. What is inside is read once then.
    fn as_written(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (kind, rest) = text.strip_prefix(r#"{"v":1,"type":""#)?.split_once('"')?;
        let (at, rest) = rest.strip_prefix(r#","at":"#)?.split_once(',')?;
        let data = rest.strip_prefix(r#""must_understand":true,"data":"#)?.strip_suffix('}')?;
        let at = serde_json::from_str(at).ok()?;
        let body = read(kind, data)?.ok()?;
        Some(Self { at, body })
    }
}

/// Reads the inside of a record; nothing when its type isn't known.
fn read(kind: &str, data: &str) -> Option<Result<Body, serde_json::Error>> {
    Some(match kind {
        "session.created" => serde_json::from_str(data).map(Body::SessionCreated),
        "session.forked" => serde_json::from_str(data).map(Body::SessionForked),
        "session.updated" => serde_json::from_str(data).map(Body::SessionUpdated),
        "message.new" => serde_json::from_str(data).map(Body::MessageNew),
        "head.moved" => serde_json::from_str(data).map(Body::HeadMoved),
        "turn.queued" => serde_json::from_str(data).map(Body::TurnQueued),
        "turn.started" => serde_json::from_str(data).map(Body::TurnStarted),
        "turn.joined" => serde_json::from_str(data).map(Body::TurnJoined),
        "turn.waiting" => serde_json::from_str(data).map(Body::TurnWaiting),
        "turn.completed" => serde_json::from_str(data).map(Body::TurnCompleted),
        "turn.failed" => serde_json::from_str(data).map(Body::TurnFailed),
        "turn.cancelled" => serde_json::from_str(data).map(Body::TurnCancelled),
        "turn.recovered" => serde_json::from_str(data).map(Body::TurnRecovered),
        "llm.call.started" => serde_json::from_str(data).map(Body::CallStarted),
        "llm.call.completed" => serde_json::from_str(data).map(Body::CallCompleted),
        "llm.call.failed" => serde_json::from_str(data).map(Body::CallFailed),
        "call.voided" => serde_json::from_str(data).map(Body::CallVoided),
        "context.limited" => serde_json::from_str(data).map(Body::ContextLimited),
        "context.replaced" => serde_json::from_str(data).map(Body::ContextReplaced),
        "context.kept" => serde_json::from_str(data).map(Body::ContextKept),
        "context.job.started" => serde_json::from_str(data).map(Body::JobStarted),
        "context.job.finished" => serde_json::from_str(data).map(Body::JobFinished),
        "context.job.failed" => serde_json::from_str(data).map(Body::JobFailed),
        "context.job.dropped" => serde_json::from_str(data).map(Body::JobDropped),
        "arrival.queued" => serde_json::from_str(data).map(Body::ArrivalQueued),
        "arrival.consumed" => serde_json::from_str(data).map(Body::ArrivalConsumed),
        "decision.asked" => serde_json::from_str(data).map(Body::DecisionAsked),
        "decision.answered" => serde_json::from_str(data).map(Body::DecisionAnswered),
        "decision.failed" => serde_json::from_str(data).map(Body::DecisionFailed),
        "tool.calls.taken" => serde_json::from_str(data).map(Body::ToolCallsTaken),
        "tool.call.started" => serde_json::from_str(data).map(Body::ToolCallStarted),
        "tool.call.completed" => serde_json::from_str(data).map(Body::ToolCallCompleted),
        "tool.call.failed" => serde_json::from_str(data).map(Body::ToolCallFailed),
        "state.updated" => serde_json::from_str(data).map(Body::StateUpdated),
        "agent.updated" => serde_json::from_str(data).map(Body::AgentUpdated),
        "session.interrupted" => serde_json::from_str(data).map(Body::SessionInterrupted),
        "session.interrupt_resumed" => serde_json::from_str(data).map(Body::InterruptResumed),
        "turn.suspended" => serde_json::from_str(data).map(Body::TurnSuspended),
        "custom" => serde_json::from_str(data).map(Body::Custom),
        _ => return None,
    })
}

fn envelope<T: Serialize>(kind: &'static str, at: Millis, data: &T) -> Vec<u8> {
    let envelope = EnvelopeOut { v: VERSION, r#type: kind, at, must_understand: true, data };
    serde_json::to_vec(&envelope).expect("records are plain data")
}
