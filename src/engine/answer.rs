//! What a worker's answer comes to. It is checked as a whole before anything is recorded; then the answer and the records of all its
//! actions are one append. May not know how the answer came.

mod check;
mod raised;
mod said;

use super::call::turn;
use super::context::{self, Replacement, replace};
use super::decision::{Asked, open};
use super::record::{About, Body, CallStarted, DecisionAnswered, Reads, Record};
use super::session::Session;
use super::tools::{self, Fate, refuse_calls, start_calls};
use super::turn::{Held, Turn, Wish};
use super::write::Writer;
use super::{Context, refuse_newer};
use crate::ids::{CallId, DecisionId, NodeId, ToolCallId};
use crate::protocol::{Action, AgentChanges, Code, DecisionAnswer, Json, KeptReason, LimitReason, Message, Raise, Refusal, ToolCall};
use said::Said;

/// A turn's worker may be asked so many times a model call that the turn may make.
const DECISIONS_A_CALL: u32 = 16;

/// What an answer comes to.
#[derive(Debug)]
struct Course {
    /// The history is replaced first.
    replacement: Option<Replacement>,
    /// Then the worker says something itself.
    said: Said,
    next: Next,
}

/// What a turn does next.
#[derive(Debug)]
enum Next {
    /// Nothing: it ends, as it stands.
    Nothing,
    /// It ends well.
    Done,
    /// Of its reply's calls, these go to whom they are for, and those have results.
    Tools(Vec<ToolCallId>, Vec<Message>),
    /// The held call runs.
    Held(Wish, Reads),
    /// A call runs that reads the path, or is held first.
    Call(Wish),
    /// A call runs that reads what the answer gives.
    Given(Wish, Reads),
    /// A call runs that nobody sees.
    Hidden(Option<CallId>, Wish, Reads),
    /// It pauses until these are answered.
    Pause(Vec<Raise>),
}

/// Takes a worker's answer to a decision. No records: it was answered before. A refusal leaves the decision open.
pub fn answer(session: &Session, id: &DecisionId, answer: &DecisionAnswer, context: &Context) -> Result<Vec<Record>, Refusal> {
    refuse_newer(session)?;
    if let Some(answered) = tools::answered(session, id, answer, context) {
        return answered;
    }
    let Some((turn, open)) = open(session, id) else { return closed(session, id) };
    let asked = Asked { session, turn, open, context };
    let course = check::check(&asked, answer)?;
    let mut writer = Writer::new(session, context);
    let patched = answer.state_patch.as_ref().map(|patch| writer.patched_state(patch)).transpose()?;
    let actions = answer.actions.iter().map(|action| action.name().to_owned()).collect();
    writer.push(Body::DecisionAnswered(DecisionAnswered { turn_id: turn.id.clone(), decision_id: id.clone(), actions }));
    let becomes = Becomes { state: patched.as_ref().or(answer.state.as_ref()), agent: answer.agent.as_ref() };
    carry_out(&mut writer, &asked, course, &becomes)?;
    Ok(writer.records)
}

/// What becomes of the branch by an answer.
struct Becomes<'a> {
    state: Option<&'a Json>,
    agent: Option<&'a AgentChanges>,
}

impl Becomes<'_> {
    /// It belongs to what the answer says, and to what the next call reads.
    fn write(&self, writer: &mut Writer<'_>, turn: &Turn) -> Result<(), Refusal> {
        if let Some(state) = self.state {
            writer.set_state(state)?;
        }
        self.agent.map_or(Ok(()), |changes| writer.override_agent(&turn.agent_id, changes))
    }
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

fn carry_out(writer: &mut Writer<'_>, asked: &Asked<'_>, course: Course, becomes: &Becomes<'_>) -> Result<(), Refusal> {
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
    let calls = course.said.calls.clone();
    say(writer, asked, course.said);
    becomes.write(writer, turn)?;
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
        Next::Tools(started, results) => start(writer, asked, &calls, &started, &results),
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
        Next::Pause(raised) => {
            keeps(writer);
            writer.interrupt(turn, raised);
        }
    }
    Ok(())
}

/// Why the history stays as it is.
fn kept_reason(asked: &Asked<'_>) -> KeptReason {
    match &asked.open.about {
        About::Call(ended) if ended.error.is_some() => KeptReason::SummaryFailed,
        About::Call(_)
        | About::Messages { .. }
        | About::Action(_)
        | About::Results { .. }
        | About::Limit
        | About::Resumed { .. }
        | About::End => KeptReason::Declined,
    }
}

/// Nothing is done: the turn ends, badly when its last call did.
fn end(writer: &mut Writer<'_>, asked: &Asked<'_>) {
    let turn = asked.turn;
    let too_long = turn.held.as_ref().filter(|held| held.reason == LimitReason::Overflow);
    let error = match &asked.open.about {
        About::Call(ended) if ended.hidden.is_none() => ended.error.as_ref(),
        About::Call(_)
        | About::Messages { .. }
        | About::Action(_)
        | About::Results { .. }
        | About::Limit
        | About::Resumed { .. }
        | About::End => None,
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
    let was_asked = matches!(asked.open.about, About::End);
    if joined && !gives_up {
        writer.complete(asked.turn);
    } else if was_asked {
        writer.close(asked.turn);
    } else {
        writer.end(asked.turn);
    }
}

/// The calls of the worker's own message, or of the reply that it was asked about, go to whom they are for, or have results already.
fn start(writer: &mut Writer<'_>, asked: &Asked<'_>, own: &[ToolCall], started: &[ToolCallId], results: &[Message]) {
    // While the turn paused some may have got their results.
    let open = |call: &&ToolCall| asked.session.tree.open_calls().contains(&call.id);
    let reply: Vec<ToolCall> = asked.reply().into_iter().flat_map(|reply| &reply.tool_calls).filter(open).cloned().collect();
    let result_of = |id: &ToolCallId| results.iter().find(|result| result.tool_call_id.as_ref() == Some(id));
    start_calls(writer, asked.turn, if own.is_empty() { &reply } else { own }, |id| match result_of(id) {
        Some(result) => Fate::Result(Box::new(result.clone())),
        None if started.contains(id) => Fate::Start,
        None => Fate::Leave,
    });
}

/// Writes what the worker says itself. A reply's calls that nobody carries out get their results first.
fn say(writer: &mut Writer<'_>, asked: &Asked<'_>, said: Said) {
    if said.has_messages() && !asked.session.tree.open_calls().is_empty() {
        let open = |call: &&ToolCall| asked.session.tree.open_calls().contains(&call.id);
        let calls: Vec<ToolCall> = asked.reply().into_iter().flat_map(|reply| &reply.tool_calls).filter(open).cloned().collect();
        refuse_calls(writer, &calls);
    }
    said.write(writer, asked);
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
            Self::ContextReplace(_)
            | Self::ToolCall { .. }
            | Self::ToolResult { .. }
            | Self::ToolError { .. }
            | Self::Interrupt(_)
            | Self::InterruptResolve { .. }
            | Self::Custom { .. }
            | Self::Activity { .. }
            | Self::Done => false,
        }
    }
}
