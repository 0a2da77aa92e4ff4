//! How executions end: with a result, with an error, after several attempts, or with a process that was lost.

use super::Execution;
use super::carry::error;
use crate::engine::Context;
use crate::engine::call::{RECOVERIES_MAX, doubled, turn};
use crate::engine::record::{Body, Record, ToolCallCompleted, ToolCallFailed, TurnRecovered};
use crate::engine::session::Session;
use crate::engine::turn::Turn;
use crate::engine::write::Writer;
use crate::ids::ToolCallId;
use crate::protocol::{Code, Content, Message, Role};

/// So much of what is wrong is recorded.
const MESSAGE_CHARS_MAX: usize = 500;

/// How an attempt to carry out a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The tool gave this.
    Result(Content),
    /// The tool says that it failed.
    Error {
        /// What the model reads.
        error: String,
        /// Whether it may be tried again, whatever the tool: nothing was done.
        retryable: bool,
    },
    /// Nothing came that can be understood.
    Lost {
        /// Why.
        code: Code,
        /// In words.
        message: String,
        /// Whether it may have been carried out.
        reached: bool,
    },
}

/// An attempt to carry out a call has ended. One that isn't the running one changes nothing.
pub fn executed(session: &Session, id: &ToolCallId, attempt: u32, outcome: Outcome, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    if let Some((turn, execution)) = running(session, id, attempt) {
        end_attempt(&mut writer, turn, execution, outcome);
    }
    writer.records
}

fn running<'s>(session: &'s Session, id: &ToolCallId, attempt: u32) -> Option<(&'s Turn, &'s Execution)> {
    let turn = turn(session)?;
    let execution = session.execution(id).filter(|execution| execution.runs() && execution.attempt == attempt)?;
    Some((turn, execution))
}

/// The pause before the next attempt is over, or an attempt has taken too long.
pub fn wake_execution(session: &Session, id: &ToolCallId, attempt: u32, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    let now = context.stamp.now;
    let Some((turn, execution)) = turn(session).zip(session.execution(id)).filter(|(_, execution)| execution.attempt == attempt) else {
        return writer.records;
    };
    match execution.retry_at {
        Some(at) if at <= now => writer.execute(turn, &execution.call, attempt + 1),
        None if execution.has_begun() && execution.deadline <= now => {
            let message = format!("it took longer than {} s", execution.call.attempt_ms / 1000);
            end_attempt(&mut writer, turn, execution, Outcome::Lost { code: Code::ToolTimedOut, message, reached: true });
        }
        Some(_) | None => {}
    }
    writer.records
}

/// What an attempt comes to.
enum End {
    Result(Content),
    /// Another one is made.
    Again(Code, String),
    /// None is: what the model reads.
    Failed(Code, String),
}

fn end_attempt(writer: &mut Writer<'_>, turn: &Turn, execution: &Execution, outcome: Outcome) {
    let call = &execution.call;
    let more = execution.attempt < call.attempts;
    let end = match outcome {
        Outcome::Result(content) => End::Result(content),
        Outcome::Error { error, retryable: true } if more => End::Again(Code::ToolFailed, error),
        Outcome::Error { error, .. } => End::Failed(Code::ToolFailed, error),
        Outcome::Lost { reached: true, message, .. } if !call.idempotent => End::Failed(Code::OutcomeUnknown, unknown(&message)),
        Outcome::Lost { code, message, .. } if more => End::Again(code, message),
        Outcome::Lost { code, message, .. } => End::Failed(code, format!("The tool {:?} failed: {message}.", call.name)),
    };
    match end {
        End::Again(code, message) => {
            let at = writer.now() + doubled(execution.attempt, writer.context.stamp.nonce);
            writer.push(failed(turn, execution, code, &message, Some(at)));
        }
        End::Result(content) => {
            let result = Message { tool_call_id: Some(execution.id().clone()), content: Some(content), ..Message::empty(Role::Tool) };
            writer.result(result);
            let (turn_id, tool_call_id) = (turn.id.clone(), execution.id().clone());
            writer.push(Body::ToolCallCompleted(ToolCallCompleted { turn_id, tool_call_id }));
            writer.after_executions(turn, &[execution.id()]);
        }
        End::Failed(code, text) => {
            fail(writer, turn, execution, code, text);
            writer.after_executions(turn, &[execution.id()]);
        }
    }
}

/// The call has failed for good: the model reads `text`.
fn fail(writer: &mut Writer<'_>, turn: &Turn, execution: &Execution, code: Code, text: String) {
    writer.push(failed(turn, execution, code, &text, None));
    writer.result(error(execution.id().clone(), text));
}

fn failed(turn: &Turn, execution: &Execution, code: Code, message: &str, not_before: Option<u64>) -> Body {
    Body::ToolCallFailed(ToolCallFailed {
        turn_id: turn.id.clone(),
        tool_call_id: execution.id().clone(),
        attempt: execution.attempt,
        code,
        message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
        not_before,
    })
}

/// What a model reads of a call that may have been carried out.
fn unknown(why: &str) -> String {
    format!(
        "{}: it isn't known whether this call was carried out ({why}). Find out before you make it again.",
        Code::OutcomeUnknown.as_str()
    )
}

/// The process that carried them out was lost: those that may be carried out twice are, twice at most in a turn; of the others nobody knows.
pub(in crate::engine) fn recover(writer: &mut Writer<'_>, turn: &Turn) {
    let lost: Vec<&Execution> = turn.executions.iter().filter(|execution| execution.runs()).collect();
    if lost.is_empty() {
        return;
    }
    let again = turn.recoveries < RECOVERIES_MAX;
    if again && turn.decision.is_none() {
        writer.push(Body::TurnRecovered(TurnRecovered { turn_id: turn.id.clone(), attempt: turn.recoveries + 1 }));
    }
    let mut ended = Vec::new();
    for execution in lost {
        if again && execution.call.idempotent {
            writer.execute(turn, &execution.call, execution.attempt + 1);
        } else {
            fail(writer, turn, execution, Code::OutcomeUnknown, unknown("the process that carried it out was lost"));
            ended.push(execution.id());
        }
    }
    if !ended.is_empty() {
        writer.after_executions(turn, &ended);
    }
}
