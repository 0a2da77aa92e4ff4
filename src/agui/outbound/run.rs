//! What is told to one reader: the start and end of its run, custom events, and the conversation when it joins. May not know
//! sessions.

use std::sync::Arc;

use serde::Serialize;

use super::interrupt;
use super::message::Messages;
use super::translate;
use crate::agui::Dialect;
use crate::agui::encode::Writer;
use crate::agui::event::{AguiEvent, AguiOutcome, Brought, Custom, TokenUsage};
use crate::ids::{Millis, SessionId, ToolCallId, TurnId};
use crate::protocol::{Code, Cursor, Frames, Interrupt, Json, Message, Snapshot, Usage};

/// The version that is spoken.
const PROTOCOL_VERSION: &str = "1.0";

/// The largest number that every JSON reader keeps exact.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// How a run ended that didn't fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Well.
    Success,
    /// The client is to carry out these calls. Only the run has ended, the turn goes on with their results.
    Waiting(&'a [ToolCallId]),
    /// It pauses until these are answered. Only the run has ended.
    Interrupted(&'a [Interrupt]),
    /// It was stopped. Legacy readers are told that it ended.
    Cancelled,
}

/// `RUN_STARTED`: the first event of a stream.
pub fn run_started(dialect: Dialect, thread: &SessionId, run: &TurnId, at: Millis) -> Frames {
    run_started_with(dialect, thread, run, &[], at, None)
}

/// `RUN_STARTED` of a run that others asked for: with the messages that it brought, each with its id.
pub fn run_started_with(
    dialect: Dialect,
    thread: &SessionId,
    run: &TurnId,
    brought: &[Arc<Message>],
    at: Millis,
    cursor: Option<Cursor>,
) -> Frames {
    let protocol_version = match dialect {
        Dialect::V1 => Some(PROTOCOL_VERSION),
        Dialect::Legacy => None,
    };
    let (thread_id, run_id) = (thread.as_str(), run.as_str());
    let snapshot = Snapshot { messages: brought.to_vec(), ..Snapshot::default() };
    let messages = Messages { dialect, snapshot: &snapshot };
    let input = (!brought.is_empty()).then_some(Brought { thread_id, run_id, messages, tools: [], context: [] });
    one(&AguiEvent::RunStarted { thread_id, run_id, protocol_version, input }, cursor, Some(at))
}

/// `RUN_FINISHED`: nothing may follow it. `usage` is that of each of the run's calls.
pub fn run_finished(dialect: Dialect, thread: &SessionId, run: &TurnId, outcome: Outcome<'_>, usage: &[Usage], at: Millis) -> Frames {
    run_finished_at(dialect, thread, run, outcome, usage, at, None)
}

/// `RUN_FINISHED`, and where a reader that got it goes on.
pub fn run_finished_at(
    dialect: Dialect,
    thread: &SessionId,
    run: &TurnId,
    outcome: Outcome<'_>,
    usage: &[Usage],
    at: Millis,
    cursor: Option<Cursor>,
) -> Frames {
    let outcome = match (outcome, dialect) {
        (Outcome::Cancelled, Dialect::V1) => Some(AguiOutcome::Cancelled),
        (Outcome::Interrupted(interrupts), Dialect::V1 | Dialect::Legacy) => {
            Some(AguiOutcome::Interrupt { interrupts: interrupts.iter().map(interrupt::shown).collect() })
        }
        (Outcome::Waiting(calls), Dialect::V1) => Some(AguiOutcome::Success { pending_tool_call_ids: calls }),
        (Outcome::Cancelled | Outcome::Waiting(_), Dialect::Legacy) | (Outcome::Success, Dialect::V1 | Dialect::Legacy) => None,
    };
    let usage = by_model(usage);
    one(&AguiEvent::RunFinished { thread_id: thread.as_str(), run_id: run.as_str(), outcome, usage: &usage }, cursor, Some(at))
}

/// `RUN_ERROR`: nothing may follow it.
pub fn run_error(_dialect: Dialect, code: Code, message: &str, cursor: Option<Cursor>) -> Frames {
    let message = if message.is_empty() { code.as_str() } else { message };
    one(&AguiEvent::RunError { message, code: code.as_str() }, cursor, None)
}

/// `CUSTOM`: something of Headwater's own, inside a run.
pub fn custom(_dialect: Dialect, name: &str, value: &impl Serialize, cursor: Option<Cursor>) -> Frames {
    one(&Custom { kind: "CUSTOM", name, value }, cursor, None)
}

/// `STATE_SNAPSHOT`.
pub fn state(_dialect: Dialect, state: &Json) -> Frames {
    one(&AguiEvent::StateSnapshot { snapshot: state }, None, None)
}

/// `STATE_SNAPSHOT` when there is a state, `MESSAGES_SNAPSHOT`, and the starts of what a reply in the making has open.
pub fn snapshot(dialect: Dialect, snapshot: &Snapshot, cursor: Option<Cursor>) -> Frames {
    translate::snapshot(dialect, snapshot, cursor)
}

fn one(event: &impl Serialize, cursor: Option<Cursor>, at: Option<Millis>) -> Frames {
    let mut writer = Writer::with_room(1);
    writer.event(event, cursor, at);
    writer.finish()
}

/// One entry a provider's model.
fn by_model(calls: &[Usage]) -> Vec<TokenUsage> {
    let mut sums: Vec<Usage> = Vec::new();
    for call in calls {
        Usage::add_to(&mut sums, call);
    }
    sums.into_iter().map(token_usage).collect()
}

fn token_usage(usage: Usage) -> TokenUsage {
    let exact = |count: Option<u64>| count.map(|count| count.min(NUMBER_MAX));
    let total_tokens = match (usage.input_tokens, usage.output_tokens) {
        (Some(input), Some(output)) => Some(input.saturating_add(output)),
        (Some(_) | None, Some(_) | None) => None,
    };
    TokenUsage {
        provider: usage.provider,
        model: usage.model,
        input_tokens: exact(usage.input_tokens),
        output_tokens: exact(usage.output_tokens),
        total_tokens: exact(total_tokens),
        reasoning_tokens: exact(usage.reasoning_tokens),
        cached_input_tokens: exact(usage.cached_input_tokens),
        cache_write_input_tokens: exact(usage.cache_write_input_tokens),
    }
}
