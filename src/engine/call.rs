//! What happens to a turn's model call: it ends, fails and is tried again, is stopped, or its process is lost.

use super::record::{Body, CallCompleted, CallFailed, CallVoided, MessageNew, Reads, Record, TurnRecovered};
use super::relayed::{self, Maker};
use super::session::Session;
use super::tools::{self, Fate, start_calls};
use super::turn::{Call, Turn};
use super::write::{Writer, kept};
use super::{Context, context, decision};
use crate::ids::{CallId, Millis};
use crate::protocol::{CallError, CallErrorKind, Code, Finish, Interrupt, Json, KeptReason, Message, Usage};

/// How often a turn goes on after its process was lost.
pub(super) const RECOVERIES_MAX: u32 = 2;
/// The pause before the second attempt; it doubles with each.
const PAUSE_MS: u64 = 500;
/// The longest pause between attempts. A provider that asks for a longer one isn't asked again.
const PAUSE_MS_MAX: u64 = 60_000;

/// A finished reply.
#[derive(Clone, Debug)]
pub struct Finished {
    /// What the model said; no id.
    pub message: Message,
    /// Why it stopped.
    pub finish: Finish,
    /// As reported.
    pub usage: Option<Usage>,
    /// The results of calls that were carried out where it was made, in the order in which they came; no ids.
    pub results: Vec<Message>,
    /// The state as its agent left it, when it changed it.
    pub state: Option<Json>,
    /// What its agent waits for.
    pub interrupts: Vec<Interrupt>,
    /// Who made it.
    pub maker: Maker,
}

impl Finished {
    /// A model's reply.
    pub fn of_model(message: Message, finish: Finish, usage: Option<Usage>) -> Self {
        Self { message, finish, usage, results: Vec::new(), state: None, interrupts: Vec::new(), maker: Maker::Model }
    }
}

/// An attempt of a call has ended. An attempt that isn't the running one changes nothing.
pub fn call_finished(session: &Session, id: &CallId, attempt: u32, outcome: Result<Finished, CallError>, context: &Context) -> Vec<Record> {
    let Some((turn, call)) = running(session, id, attempt) else { return Vec::new() };
    let mut writer = Writer::new(session, context);
    match outcome.and_then(|finished| if finished.maker == Maker::Model { something(finished) } else { Ok(finished) }) {
        Ok(finished) if call.hidden => finish_hidden(&mut writer, turn, call, &finished),
        Ok(finished) => match finished.maker {
            Maker::Model => finish(&mut writer, turn, call, finished),
            Maker::Agent { goes_on } => relayed::finish(&mut writer, turn, call, finished, goes_on),
        },
        Err(error) => fail(&mut writer, turn, call, &error, context),
    }
    writer.records
}

/// The turn that is there, when this version may go on with it.
pub(super) fn turn(session: &Session) -> Option<&Turn> {
    session.turn.as_ref().filter(|_| session.newer.is_none())
}

fn running<'a>(session: &'a Session, id: &CallId, attempt: u32) -> Option<(&'a Turn, &'a Call)> {
    let turn = turn(session)?;
    let call = turn.call.as_ref().filter(|call| call.id == *id && call.attempt == attempt)?;
    Some((turn, call))
}

/// A reply that says nothing and asks for nothing is no reply.
fn something(finished: Finished) -> Result<Finished, CallError> {
    // What a filter stopped is carried out by nobody.
    let asks = !finished.message.tool_calls.is_empty() && finished.finish != Finish::Filtered;
    let silent = !asks && finished.message.joined_text().is_empty();
    match (silent, finished.finish) {
        (false, _) => Ok(finished),
        (true, Finish::Filtered) => Err(CallError::new(CallErrorKind::Refused, "the provider's filter withheld the whole reply")),
        (true, Finish::Length) => {
            Err(CallError::new(CallErrorKind::Nonsense, "the model reached its output limit before it said anything"))
        }
        (true, Finish::Stop | Finish::ToolCalls) => Err(CallError::new(CallErrorKind::Nonsense, "the model said nothing")),
    }
}

/// Nothing of a hidden call becomes a node.
fn finish_hidden(writer: &mut Writer<'_>, turn: &Turn, call: &Call, finished: &Finished) {
    writer.push(Body::CallCompleted(completed(call, finished.finish, finished.usage.clone())));
    if !writer.ask_about_hidden(turn, call, finished) {
        context::summary_written(writer, turn, call, finished);
    }
}

fn finish(writer: &mut Writer<'_>, turn: &Turn, call: &Call, finished: Finished) {
    if finished.finish == Finish::Filtered {
        return filtered(writer, turn, call, finished);
    }
    let Finished { message, finish, usage, .. } = finished;
    let calls = message.tool_calls.clone();
    let read = writer.place(call);
    let parent = writer.parent.clone();
    let reply =
        MessageNew { call_id: Some(call.id.clone()), hidden: call.hidden, ..MessageNew::plain(call.reply_id.clone(), parent, message) };
    // What it read besides the path is no measure of the path.
    writer.reply(reply, usage.as_ref().filter(|_| call.reads == Reads::Path));
    writer.consumed(read, &call.id);
    writer.push(Body::CallCompleted(completed(call, finish, usage.clone())));
    if writer.ask_about_reply(turn, call, finish, usage, !calls.is_empty()) {
        return;
    }
    if calls.is_empty() {
        return writer.complete(turn);
    }
    start_calls(writer, turn, &calls, |_| Fate::Start);
}

pub(super) fn completed(call: &Call, finish: Finish, usage: Option<Usage>) -> CallCompleted {
    CallCompleted { call_id: call.id.clone(), hidden: call.hidden, finish, usage }
}

/// A filter stopped the reply in the middle. What its reader saw is kept, as with one that was stopped, and the turn fails, so
/// that nobody takes it for the whole.
fn filtered(writer: &mut Writer<'_>, turn: &Turn, call: &Call, finished: Finished) {
    let Finished { message, finish, usage, .. } = finished;
    if let Some(message) = kept(message) {
        let parent = writer.parent.clone();
        let plain = MessageNew::plain(call.reply_id.clone(), parent, message);
        let reply = MessageNew { partial: true, call_id: Some(call.id.clone()), hidden: call.hidden, ..plain };
        writer.reply(reply, usage.as_ref());
    }
    writer.push(Body::CallCompleted(completed(call, finish, usage)));
    writer.call_failed(turn, call, &CallError::new(CallErrorKind::Refused, "the provider's filter stopped the reply"));
}

fn fail(writer: &mut Writer<'_>, turn: &Turn, call: &Call, error: &CallError, given: &Context) {
    let not_before = retry_at(error, call.attempt, given.policy.attempts + turn.recoveries, given);
    let failed = CallFailed { call_id: call.id.clone(), attempt: call.attempt, hidden: call.hidden, error: error.clone(), not_before };
    writer.push(Body::CallFailed(failed));
    if not_before.is_some() {
        return;
    }
    match (&call.reads, error.kind) {
        (Reads::Path, CallErrorKind::TooLong) if !call.hidden => context::refused(writer, turn, call, error),
        _ => writer.call_failed(turn, call, error),
    }
}

/// When the next one of so many attempts starts; nothing: none does.
pub(super) fn retry_at(error: &CallError, attempt: u32, attempts: u32, given: &Context) -> Option<Millis> {
    let soon = error.retry_after_ms.unwrap_or(0) <= PAUSE_MS_MAX;
    let again = soon && error.kind.is_retryable() && attempt < attempts;
    again.then(|| given.stamp.now + pause(attempt, error, given.stamp.nonce))
}

/// Doubling, up to half as long again by chance, never shorter than the provider asks.
fn pause(attempt: u32, error: &CallError, nonce: u128) -> Millis {
    doubled(attempt, nonce).max(error.retry_after_ms.unwrap_or(0))
}

/// The pause after so many attempts.
pub(super) fn doubled(attempt: u32, nonce: u128) -> Millis {
    let base = PAUSE_MS.saturating_mul(1 << attempt.saturating_sub(1).min(16));
    let chance = u64::try_from(nonce % 1000).unwrap_or(0);
    (base + base * chance / 2000).min(PAUSE_MS_MAX)
}

/// The pause before the next attempt of a call or of a background job is over, or a job is past its deadline.
pub fn wake(session: &Session, id: &CallId, attempt: u32, given: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, given);
    if let Some((turn, call)) = running(session, id, attempt)
        && call.retry_at.is_some_and(|at| at <= given.stamp.now)
    {
        writer.next_attempt(turn, call);
    }
    context::job_woken(&mut writer, id, attempt);
    writer.records
}

/// The process that ran the session's turn was lost: another attempt begins, or, after two, the turn fails. A turn that waits,
/// for a pause or for results, lost nothing. A background job is tried again too.
pub fn recover(session: &Session, given: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, given);
    context::job_lost(&mut writer);
    let Some(turn) = turn(session) else { return writer.records };
    tools::recover(&mut writer, turn);
    if let Some(open) = &turn.decision {
        decision::recover(&mut writer, turn, open);
        return writer.records;
    }
    match &turn.call {
        Some(call) if call.retry_at.is_some() => {}
        None if turn.held.is_some() || !turn.executions.is_empty() || session.is_waiting() => {}
        Some(call) if turn.recoveries < RECOVERIES_MAX => {
            writer.push(Body::TurnRecovered(TurnRecovered { turn_id: turn.id.clone(), attempt: turn.recoveries + 1 }));
            writer.next_attempt(turn, call);
        }
        call => {
            if let Some(call) = call {
                writer.push(Body::CallVoided(CallVoided { call_id: call.id.clone(), hidden: call.hidden }));
            }
            writer.keep_history(turn, KeptReason::Cancelled);
            let message = format!("the process that ran this turn was lost {} times", turn.recoveries + 1);
            writer.fail(turn, Code::OwnerLost, message);
        }
    }
    writer.records
}
