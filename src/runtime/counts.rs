//! What is counted and logged of sessions, turns and attempts: once for each of them, never for a piece of a reply. May not know who
//! reads it.

use std::sync::Arc;
use std::time::Instant;

use super::shared::Shared;
use crate::clock;
use crate::engine::record::Body;
use crate::engine::{Record, Session};
use crate::ids::{AgentId, Millis, SessionKey, TurnId};
use crate::meters::names;
use crate::protocol::{CallErrorKind, Code, Usage};

/// Why a session leaves memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Nobody used it.
    Idle,
    /// Another one needed its room.
    Room,
    /// The process stops.
    Stopped,
    /// It can't be served, or was lost.
    Failed,
}

impl Closing {
    fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Room => "room",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// A session in memory, as it is counted.
#[derive(Debug)]
pub struct Counts {
    shared: Arc<Shared>,
    /// The turn that is there, and those that pause elsewhere.
    turns: Vec<Begun>,
    running: bool,
    waiting: bool,
    queued: usize,
    closing: Closing,
}

/// A turn that has begun.
#[derive(Debug)]
struct Begun {
    id: TurnId,
    agent: AgentId,
    at: Millis,
}

impl Counts {
    /// Of a session that came into memory.
    pub fn opened(shared: Arc<Shared>, session: &Session) -> Self {
        metrics::counter!(names::SESSIONS_OPENED).increment(1);
        metrics::gauge!(names::SESSIONS).increment(1.0);
        let turns = session.turn.iter().chain(session.suspended().iter().map(|suspended| &suspended.turn));
        let turns = turns.map(|turn| Begun { id: turn.id.clone(), agent: turn.agent_id.clone(), at: turn.started_at }).collect();
        let mut counts = Self { shared, turns, running: false, waiting: false, queued: 0, closing: Closing::Failed };
        counts.hold(session, false);
        counts
    }

    /// Why it will leave memory. Unless it is said, it failed.
    pub fn closes(&mut self, why: Closing) {
        self.closing = why;
    }

    /// What holds now.
    pub fn hold(&mut self, session: &Session, running: bool) {
        self.set(running, session.is_waiting(), session.queue.len());
    }

    fn set(&mut self, running: bool, waiting: bool, queued: usize) {
        change(names::TURNS_RUNNING, usize::from(self.running), usize::from(running));
        change(names::TURNS_WAITING, usize::from(self.waiting), usize::from(waiting));
        change(names::TURNS_QUEUED, self.queued, queued);
        (self.running, self.waiting, self.queued) = (running, waiting, queued);
    }

    /// Records that are in the log now.
    pub fn appended(&mut self, key: &SessionKey, records: &[Record]) {
        for record in records {
            match &record.body {
                Body::TurnStarted(started) => {
                    let begun = Begun { id: started.turn_id.clone(), agent: started.agent_id.clone(), at: record.at };
                    metrics::counter!(names::TURNS_STARTED, "agent" => self.label(&begun.agent)).increment(1);
                    self.turns.push(begun);
                }
                Body::TurnCompleted(ended) => self.ended(key, &ended.turn_id, record.at, "completed", None),
                Body::TurnFailed(ended) => self.ended(key, &ended.turn_id, record.at, "failed", Some(ended.code)),
                Body::TurnCancelled(ended) => self.ended(key, &ended.turn_id, record.at, "cancelled", None),
                Body::SessionCreated(_)
                | Body::SessionForked(_)
                | Body::SessionUpdated(_)
                | Body::MessageNew(_)
                | Body::HeadMoved(_)
                | Body::TurnQueued(_)
                | Body::TurnJoined(_)
                | Body::TurnWaiting(_)
                | Body::TurnRecovered(_)
                | Body::SessionInterrupted(_)
                | Body::InterruptResumed(_)
                | Body::TurnSuspended(_)
                | Body::CallStarted(_)
                | Body::CallCompleted(_)
                | Body::CallFailed(_)
                | Body::CallVoided(_)
                | Body::ContextLimited(_)
                | Body::ContextReplaced(_)
                | Body::ContextKept(_)
                | Body::JobStarted(_)
                | Body::JobFinished(_)
                | Body::JobFailed(_)
                | Body::JobDropped(_)
                | Body::ArrivalQueued(_)
                | Body::ArrivalConsumed(_)
                | Body::DecisionAsked(_)
                | Body::DecisionAnswered(_)
                | Body::DecisionFailed(_)
                | Body::ToolCallsTaken(_)
                | Body::ToolCallStarted(_)
                | Body::ToolCallCompleted(_)
                | Body::ToolCallFailed(_)
                | Body::StateUpdated(_)
                | Body::AgentUpdated(_)
                | Body::Custom(_)
                | Body::Unknown(_) => {}
            }
        }
    }

    /// An agent as a label. What isn't configured, such as those of imported logs, has one in common.
    pub(super) fn label(&self, agent: &AgentId) -> String {
        if self.shared.options.agents.contains_key(agent) { agent.to_string() } else { "other".to_owned() }
    }

    /// A turn ended; one that never began to run is told of, and isn't counted.
    fn ended(&mut self, key: &SessionKey, id: &TurnId, at: Millis, outcome: &'static str, code: Option<Code>) {
        let code = code.map(Code::as_str);
        let Some(place) = self.turns.iter().position(|begun| begun.id == *id) else {
            tracing::info!(session.id = %key, turn.id = %id, outcome, "a turn that waited ended");
            return;
        };
        let Begun { id, agent, at: began } = self.turns.remove(place);
        let duration_ms = at.saturating_sub(began);
        tracing::info!(session.id = %key, turn.id = %id, agent.id = %agent, outcome, error = code, duration_ms, "turn ended");
        metrics::counter!(names::TURNS_ENDED, "agent" => self.label(&agent), "outcome" => outcome).increment(1);
        #[expect(clippy::cast_precision_loss, reason = "what is told is a float")]
        let seconds = duration_ms as f64 / 1000.0;
        metrics::histogram!(names::TURN_SECONDS, "agent" => self.label(&agent), "outcome" => outcome).record(seconds);
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        self.set(false, false, 0);
        metrics::gauge!(names::SESSIONS).decrement(1.0);
        metrics::counter!(names::SESSIONS_CLOSED, "reason" => self.closing.as_str()).increment(1);
    }
}

#[expect(clippy::cast_precision_loss, reason = "what is told is a float")]
fn change(name: &'static str, from: usize, to: usize) {
    if from != to {
        metrics::gauge!(name).increment(to as f64 - from as f64);
    }
}

/// An attempt of a model call, as it is timed. Dropped before it [ended](Self::ended), it was given up.
#[derive(Debug)]
pub struct Timing {
    llm: String,
    started: Instant,
    spoke: bool,
    ended: bool,
}

impl Timing {
    /// Of an attempt that starts now; the `first` one of its call, or a later one.
    pub fn start(llm: String, first: bool) -> Self {
        if first {
            metrics::counter!(names::LLM_CALLS, "llm" => llm.clone()).increment(1);
        }
        Self { llm, started: clock::instant(), spoke: false, ended: false }
    }

    /// Which model.
    pub fn llm(&self) -> &str {
        &self.llm
    }

    /// How long it has been.
    pub fn millis(&self) -> u128 {
        clock::instant().duration_since(self.started).as_millis()
    }

    /// The model said something. Only the first time costs more than a look.
    pub fn spoke(&mut self) {
        if !std::mem::replace(&mut self.spoke, true) {
            let seconds = clock::instant().duration_since(self.started).as_secs_f64();
            metrics::histogram!(names::LLM_FIRST_SECONDS, "llm" => self.llm.clone()).record(seconds);
        }
    }

    /// It ended, with these tokens.
    pub fn ended(&mut self, failure: Option<CallErrorKind>, usage: Option<&Usage>) {
        self.end(failure.map_or("completed", word));
        let Some(usage) = usage else { return };
        let tokens = |kind: &'static str, count: Option<u64>| {
            if let Some(count) = count {
                metrics::counter!(names::LLM_TOKENS, "llm" => self.llm.clone(), "kind" => kind).increment(count);
            }
        };
        tokens("input", usage.input_tokens);
        tokens("output", usage.output_tokens);
        tokens("cached", usage.cached_input_tokens);
        tokens("cache_write", usage.cache_write_input_tokens);
        tokens("reasoning", usage.reasoning_tokens);
    }

    fn end(&mut self, outcome: &'static str) {
        self.ended = true;
        let seconds = clock::instant().duration_since(self.started).as_secs_f64();
        metrics::counter!(names::LLM_ATTEMPTS, "llm" => self.llm.clone(), "outcome" => outcome).increment(1);
        metrics::histogram!(names::LLM_ATTEMPT_SECONDS, "llm" => self.llm.clone(), "outcome" => outcome).record(seconds);
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        if !self.ended {
            self.end("voided");
        }
    }
}

/// An attempt to ask an agent's worker, as it is timed. Dropped before it [ended](Self::ended), it was given up.
#[derive(Debug)]
pub struct AskTiming {
    agent: String,
    started: Instant,
    deadline: Millis,
    ended: bool,
}

impl AskTiming {
    /// Of an attempt that starts now; `agent` as a label.
    pub fn start(agent: String, deadline: Millis) -> Self {
        Self { agent, started: clock::instant(), deadline, ended: false }
    }

    /// How long it has been.
    pub fn millis(&self) -> u128 {
        clock::instant().duration_since(self.started).as_millis()
    }

    /// It ended: with an answer, or not.
    pub fn ended(&mut self, failure: Option<Code>) {
        self.end(match failure {
            None => "answered",
            Some(Code::WorkerTimedOut) => "timed_out",
            Some(Code::WorkerBadAnswer) => "bad_answer",
            Some(_) => "failed",
        });
    }

    fn end(&mut self, outcome: &'static str) {
        self.ended = true;
        let seconds = clock::instant().duration_since(self.started).as_secs_f64();
        metrics::counter!(names::DECISION_ATTEMPTS, "agent" => self.agent.clone(), "outcome" => outcome).increment(1);
        metrics::histogram!(names::DECISION_ATTEMPT_SECONDS, "agent" => self.agent.clone(), "outcome" => outcome).record(seconds);
    }
}

impl Drop for AskTiming {
    fn drop(&mut self) {
        if !self.ended {
            self.end(if clock::now() >= self.deadline { "timed_out" } else { "voided" });
        }
    }
}

/// One word a kind of failure.
pub fn word(kind: CallErrorKind) -> &'static str {
    match kind {
        CallErrorKind::TooLong => "too_long",
        CallErrorKind::RateLimited => "rate_limited",
        CallErrorKind::Unavailable => "unavailable",
        CallErrorKind::Cut => "cut",
        CallErrorKind::TimedOut => "timed_out",
        CallErrorKind::Refused => "refused",
        CallErrorKind::Nonsense => "nonsense",
    }
}
