//! What a worker's answer comes to. It is checked as a whole before anything is recorded; then the answer and the records of all its
//! actions are one append. May not know how the answer came.

mod check;

use super::call::{start_calls, turn};
use super::context::{self, Replacement, replace};
use super::decision::{Asked, open};
use super::record::{About, Body, CallStarted, DecisionAnswered, Reads, Record};
use super::session::Session;
use super::turn::{Held, Turn, Wish};
use super::write::Writer;
use super::{Context, refuse_newer};
use crate::ids::{CallId, DecisionId, NodeId, ToolCallId};
use crate::protocol::{Action, Code, DecisionAnswer, KeptReason, LimitReason, Refusal};

/// A turn's worker may be asked so many times a model call that the turn may make.
const DECISIONS_A_CALL: u32 = 16;

/// What an answer comes to.
#[derive(Debug)]
struct Course {
    /// The history is replaced first.
    replacement: Option<Replacement>,
    next: Next,
}

/// What a turn does next.
#[derive(Debug)]
enum Next {
    /// Nothing: it ends, as it stands.
    Nothing,
    /// It ends well.
    Done,
    /// These calls of its reply go to whom they are for.
    Tools(Vec<ToolCallId>),
    /// The held call runs.
    Held(Wish, Reads),
    /// A call runs that reads the path, or is held first.
    Call(Wish),
    /// A call runs that reads what the answer gives.
    Given(Wish, Reads),
    /// A call runs that nobody sees.
    Hidden(Option<CallId>, Wish, Reads),
}

/// Takes a worker's answer to a decision. No records: it was answered before. A refusal leaves the decision open.
pub fn answer(session: &Session, id: &DecisionId, answer: &DecisionAnswer, context: &Context) -> Result<Vec<Record>, Refusal> {
    refuse_newer(session)?;
    let Some((turn, open)) = open(session, id) else { return closed(session, id) };
    let asked = Asked { session, turn, open, context };
    let course = check::check(&asked, answer)?;
    let mut writer = Writer::new(session, context);
    let actions = answer.actions.iter().map(|action| action.name().to_owned()).collect();
    writer.push(Body::DecisionAnswered(DecisionAnswered { turn_id: turn.id.clone(), decision_id: id.clone(), actions }));
    carry_out(&mut writer, &asked, course);
    Ok(writer.records)
}

/// The answer came before, or too late.
fn closed(session: &Session, id: &DecisionId) -> Result<Vec<Record>, Refusal> {
    if session.answered.contains(id) {
        return Ok(Vec::new());
    }
    let goes_on = turn(session).and_then(|turn| turn.decision.as_ref()).map(|open| &open.id);
    let text = match goes_on {
        Some(open) => format!("the decision {id} isn't open; {open} is"),
        None => format!("the decision {id} isn't open: it was given up, answered long ago, or never asked"),
    };
    Err(Refusal::new(Code::DecisionClosed, text).with("decision_id", id.as_str()))
}

fn carry_out(writer: &mut Writer<'_>, asked: &Asked<'_>, course: Course) {
    let turn = asked.turn;
    let (was_replaced, stuck) = match course.replacement {
        None => (false, turn.stuck),
        Some(with) => {
            let no_gain = !with.gains(writer, turn);
            replace(writer, turn, turn.held.as_ref().map(|held| held.id.clone()), with, false);
            (true, turn.stuck || no_gain)
        }
    };
    let keeps = |writer: &mut Writer<'_>| {
        if !was_replaced {
            writer.keep_history(turn, kept_reason(asked));
        }
    };
    let is_over = turn.decisions >= writer.context.policy.calls_per_turn_max.saturating_mul(DECISIONS_A_CALL);
    match course.next {
        Next::Held(..) | Next::Call(_) | Next::Given(..) | Next::Hidden(..) if is_over => {
            keeps(writer);
            writer.too_many_calls(turn);
        }
        Next::Call(_) | Next::Given(..) if !writer.may_call(turn) => writer.too_many_calls(turn),
        Next::Nothing => {
            keeps(writer);
            end(writer, asked);
        }
        Next::Done => {
            keeps(writer);
            complete(writer, asked);
        }
        Next::Tools(started) => start(writer, asked, &started),
        Next::Held(wish, reads) => {
            keeps(writer);
            if let Some(held) = &turn.held {
                run_held(writer, turn, held, wish, reads);
            }
        }
        Next::Call(wish) => {
            // The turn's first call may come after a long pause.
            let idle = || asked.session.rested.map(|rested| turn.started_at.saturating_sub(rested));
            let idle = if turn.calls == 0 { idle() } else { None };
            writer.next_call(&turn.caller(), idle, stuck, wish);
        }
        Next::Given(wish, reads) => writer.begin_given(turn, wish, reads),
        Next::Hidden(id, wish, reads) => run_hidden(writer, turn, id, wish, reads),
    }
}

/// Why the history stays as it is.
fn kept_reason(asked: &Asked<'_>) -> KeptReason {
    match &asked.open.about {
        About::Call(ended) if ended.error.is_some() => KeptReason::SummaryFailed,
        About::Call(_) | About::Messages { .. } | About::Results { .. } | About::Limit => KeptReason::Declined,
    }
}

/// Nothing is done: the turn ends, badly when its last call did.
fn end(writer: &mut Writer<'_>, asked: &Asked<'_>) {
    let turn = asked.turn;
    let too_long = turn.held.as_ref().filter(|held| held.reason == LimitReason::Overflow);
    let error = match &asked.open.about {
        About::Call(ended) if ended.hidden.is_none() => ended.error.as_ref(),
        About::Call(_) | About::Messages { .. } | About::Results { .. } | About::Limit => None,
    };
    match (error, too_long) {
        (Some(error), _) => writer.fail(turn, error.kind.code(), error.message.clone()),
        (None, Some(_)) => {
            let message = context::does_not_fit(writer, turn, context::NOTHING_TO_LEAVE_OUT);
            writer.fail(turn, Code::LlmTooLong, message);
        }
        (None, None) => complete(writer, asked),
    }
}

/// The turn ends well; the worker is asked once more about messages that joined it since. One whose call, or whose reply's calls, are
/// given up makes no other one.
fn complete(writer: &mut Writer<'_>, asked: &Asked<'_>) {
    let joined = asked.session.arrivals.iter().skip(asked.open.arrivals as usize).any(|arrival| !arrival.is_event());
    let gives_up = asked.turn.held.is_some() || !asked.session.tree.open_calls().is_empty();
    if joined && !gives_up { writer.complete(asked.turn) } else { writer.end(asked.turn) }
}

fn start(writer: &mut Writer<'_>, asked: &Asked<'_>, started: &[ToolCallId]) {
    let calls = asked.reply().map(|reply| reply.tool_calls.clone()).unwrap_or_default();
    start_calls(writer, asked.turn, &calls, |id| started.contains(id));
}

fn run_held(writer: &mut Writer<'_>, turn: &Turn, held: &Held, wish: Wish, reads: Reads) {
    let Wish { llm, model } = held.wish.clone();
    // Another llm has other models.
    let model = if wish.llm.is_some() { wish.model } else { wish.model.or(model) };
    let wish = Wish { llm: wish.llm.or(llm), model };
    writer.begin_held_as(turn, held, wish, reads);
}

fn run_hidden(writer: &mut Writer<'_>, turn: &Turn, id: Option<CallId>, wish: Wish, reads: Reads) {
    let call_id = id.unwrap_or_else(|| writer.fresh().into());
    let (reply_id, Wish { llm, model }) = (NodeId::from(writer.fresh()), wish);
    let started = CallStarted::of_path(turn.id.clone(), call_id, 1, reply_id);
    writer.push(Body::CallStarted(CallStarted { hidden: true, llm, model, reads, ..started }));
}

impl Action {
    /// Whether a model is called.
    fn calls(&self) -> bool {
        match self {
            Self::LlmCall(_) => true,
            Self::ContextReplace(_) | Self::ToolCall { .. } | Self::Done => false,
        }
    }
}
