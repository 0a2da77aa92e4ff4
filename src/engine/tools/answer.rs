//! What a worker answers to `tool.execute`.

use super::Execution;
use super::ended::{Outcome, executed};
use crate::engine::Context;
use crate::engine::call::turn;
use crate::engine::record::Record;
use crate::engine::session::Session;
use crate::ids::{DecisionId, ToolCallId};
use crate::protocol::{Action, Code, DecisionAnswer, Refusal};

/// What is expected.
const EXPECTED: &str = "a tool.execute is answered with one tool.result or tool.error";

/// Takes the answer, when the decision `id` is about a call that is carried out.
pub(in crate::engine) fn answered(
    session: &Session,
    id: &DecisionId,
    answer: &DecisionAnswer,
    context: &Context,
) -> Option<Result<Vec<Record>, Refusal>> {
    let mut executions = turn(session)?.executions.iter();
    let execution = executions.find(|execution| execution.call.decision_id == *id && execution.has_begun())?;
    Some(outcome(execution, answer).and_then(|outcome| {
        let records = executed(session, execution.id(), execution.attempt, outcome, context);
        // An attempt that has failed is over; the next one is asked under the same id.
        let over = || Refusal::new(Code::DecisionClosed, format!("attempt {} of the decision {id} is over", execution.attempt));
        if records.is_empty() { Err(over().with("decision_id", id.as_str())) } else { Ok(records) }
    }))
}

/// What an answer says of a call that is carried out.
pub fn execution_answer(session: &Session, id: &ToolCallId, answer: &DecisionAnswer) -> Result<Outcome, Refusal> {
    let over = || Refusal::new(Code::CallNotOpen, format!("the call {id} isn't carried out any more")).with("tool_call_id", id.as_str());
    outcome(session.execution(id).ok_or_else(over)?, answer)
}

fn outcome(execution: &Execution, answer: &DecisionAnswer) -> Result<Outcome, Refusal> {
    let refuse = |code, at: &str, what: String| Err(Refusal::new(code, format!("{at}: {what}")).with("at", at));
    if !answer.messages.is_empty() {
        return refuse(Code::BadRequest, "messages", format!("{EXPECTED}; leave messages out"));
    }
    let (id, outcome) = match answer.actions.first() {
        Some(Action::ToolResult { id, content }) => (id, Outcome::Result(content.clone())),
        Some(Action::ToolError { id, error, retryable }) => (id, Outcome::Error { error: error.clone(), retryable: *retryable }),
        Some(
            other @ (Action::LlmCall(_)
            | Action::ContextReplace(_)
            | Action::ToolCall { .. }
            | Action::Custom { .. }
            | Action::Activity { .. }
            | Action::Interrupt(_)
            | Action::InterruptResolve { .. }
            | Action::Done),
        ) => {
            return refuse(Code::BadRequest, "actions[0]", format!("{EXPECTED}, not with {}", other.name()));
        }
        None => return refuse(Code::BadRequest, "actions", EXPECTED.to_owned()),
    };
    if let Some(more) = answer.actions.get(1) {
        return refuse(Code::BadRequest, "actions[1]", format!("{EXPECTED}; leave {} out", more.name()));
    }
    match id.as_ref().filter(|id| *id != execution.id()) {
        Some(other) => refuse_other(other, execution.id()),
        None => Ok(outcome),
    }
}

fn refuse_other(other: &ToolCallId, asked: &ToolCallId) -> Result<Outcome, Refusal> {
    let text = format!("actions[0].id: {other} isn't the call that was asked about; that is {asked}");
    Err(Refusal::new(Code::BadRequest, text).with("at", "actions[0].id").with("tool_call_id", other.as_str()))
}
