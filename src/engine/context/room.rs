//! What becomes of a call that waits for room: a summary is written, the history is replaced, or the call goes on as it was.

use super::cut::History;
use super::replace::{Replacement, replace};
use super::strategy::{Kept, Plan, Strategy};
use super::{Agent, Load, readable, summarize};
use crate::engine::Context;
use crate::engine::call::{self, Finished};
use crate::engine::record::{About, Body, CallStarted, ContextKept, ContextLimited, Reads, Record, Summary};
use crate::engine::session::Session;
use crate::engine::turn::{Call, Held, Turn};
use crate::engine::write::Writer;
use crate::ids::{CallId, NodeId};
use crate::protocol::{CallError, CallErrorKind, Code, Finish, KeptReason, LimitReason, Size};

/// Why a call that was refused as too long can't be made shorter.
pub(in crate::engine) const NOTHING_TO_LEAVE_OUT: &str = "and nothing of it can be left out";

/// Does what the strategy plans that a held call waits for. Nothing: no call is held, or a summary is being written.
pub fn make_room(session: &Session, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    if let Some(turn) = call::turn(session)
        && let (Some(held), None) = (&turn.held, &turn.call)
    {
        carry_out(&mut writer, turn, held);
    }
    writer.records
}

fn carry_out(writer: &mut Writer<'_>, turn: &Turn, held: &Held) {
    match planned(writer.session(), turn, held, writer.agent(&turn.agent_id)) {
        Some(Plan::Replace { messages }) => shorten(writer, turn, held, Replacement { summary: None, messages }),
        Some(Plan::Summarize { summary, llm, model }) => ask(writer, turn, summary, llm, model),
        None => keep(writer, turn, held, KeptReason::NoGain),
    }
}

/// What the strategy would have done that a held call waits for.
pub(in crate::engine) fn planned(session: &Session, turn: &Turn, held: &Held, agent: Option<&Agent>) -> Option<Plan> {
    let configured = held.strategy.as_ref().and_then(|named| agent?.strategy(named));
    let default = summarize::by_default();
    let strategy = match (configured, held.reason) {
        (None, LimitReason::Overflow) => Some(&default as &dyn Strategy),
        (strategy, _) => strategy,
    };
    strategy?.plan(&history(session, turn, held, agent))
}

/// What is kept when a summary stands for everything up to `to`, or up to where the strategy would cut.
pub(in crate::engine) fn kept_after(
    session: &Session,
    turn: &Turn,
    held: &Held,
    agent: Option<&Agent>,
    to: Option<&NodeId>,
) -> Option<Vec<Kept>> {
    let after = |to: &NodeId| {
        let history = history(session, turn, held, agent);
        Some(history.kept(history.after(session.tree.find(to)?)?))
    };
    if let Some(to) = to {
        return after(to);
    }
    match planned(session, turn, held, agent)? {
        Plan::Replace { messages } => Some(messages),
        Plan::Summarize { summary, .. } => after(&summary.to),
    }
}

fn history<'a>(session: &'a Session, turn: &Turn, held: &Held, agent: Option<&Agent>) -> History<'a> {
    let strategy = held.strategy.as_ref().and_then(|named| agent?.strategy(named));
    let most = strategy.and_then(|strategy| strategy.when().most()).or_else(|| agent?.window.map(readable));
    // The oldest of what waits is to fit too.
    let most = most.map(|most| most.saturating_sub(session.arrivals.size(held.arrivals.max(1)).tokens()));
    let most = match held.reason {
        // The provider knows better than the window that is configured.
        LimitReason::Overflow => Some(most.unwrap_or(u64::MAX).min(held.tokens)),
        LimitReason::Idle | LimitReason::Full => most,
    };
    History::of(session, turn, agent, most, held.reason != LimitReason::Idle)
}

/// The call that writes the summary begins. Nothing of it is for people.
fn ask(writer: &mut Writer<'_>, turn: &Turn, summary: Summary, llm: Option<String>, model: Option<String>) {
    let (call_id, reply_id) = (CallId::from(writer.fresh()), NodeId::from(writer.fresh()));
    writer.push(Body::CallStarted(CallStarted {
        turn_id: turn.id.clone(),
        call_id,
        attempt: 1,
        reply_id,
        hidden: true,
        llm,
        model,
        reads: Reads::Summary(summary),
        arrivals: 0,
        goes_on: false,
    }));
}

/// The history is replaced, unless that makes it no shorter, and the held call begins. What is short enough for a provider that
/// refused a call only it can say.
fn shorten(writer: &mut Writer<'_>, turn: &Turn, held: &Held, with: Replacement) {
    if held.reason != LimitReason::Overflow && !with.gains(writer, turn) {
        return keep(writer, turn, held, KeptReason::NoGain);
    }
    replace(writer, turn, Some(held.id.clone()), with, false);
    writer.begin_held(turn, held);
}

/// The history stays as it is, and the held call begins; one that was refused already needn't be sent again.
fn keep(writer: &mut Writer<'_>, turn: &Turn, held: &Held, reason: KeptReason) {
    writer.push(Body::ContextKept(ContextKept { turn_id: turn.id.clone(), call_id: held.id.clone(), reason }));
    match (held.reason, reason) {
        (LimitReason::Overflow, KeptReason::NoGain) => {
            let message = does_not_fit(writer, turn, NOTHING_TO_LEAVE_OUT);
            writer.fail(turn, Code::LlmTooLong, message);
        }
        (LimitReason::Overflow | LimitReason::Idle | LimitReason::Full, _) => writer.begin_held(turn, held),
    }
}

/// A summary was written: the history that it stands for is replaced by it. One that is blank or that a filter stopped is none; one
/// that reached its model's limit is taken as far as it goes.
pub(in crate::engine) fn summary_written(writer: &mut Writer<'_>, turn: &Turn, call: &Call, written: &Finished) {
    let Some(held) = &turn.held else { return };
    let text = written.message.joined_text();
    let text = text.trim();
    let Reads::Summary(summary) = &call.reads else { return keep(writer, turn, held, KeptReason::SummaryFailed) };
    if text.is_empty() || written.finish == Finish::Filtered {
        return keep(writer, turn, held, KeptReason::SummaryFailed);
    }
    let session = writer.session();
    let history = history(session, turn, held, writer.agent(&turn.agent_id));
    let Some(from) = session.tree.find(&summary.to).and_then(|to| history.after(to)) else {
        return keep(writer, turn, held, KeptReason::NoGain);
    };
    let with = Replacement { summary: Some(text.to_owned()), messages: history.kept(from) };
    shorten(writer, turn, held, with);
}

/// A summary of half as much, when what was to be read was too long.
pub(in crate::engine) fn shorter(summary: &Summary, error: CallErrorKind) -> Option<Summary> {
    let again = error == CallErrorKind::TooLong && summary.halved < summarize::HALVINGS_MAX;
    again.then(|| Summary { halved: summary.halved + 1, ..summary.clone() })
}

/// The call that was to write a summary has failed for good. When what it read was too long, it reads half of that.
pub(in crate::engine) fn summary_failed(writer: &mut Writer<'_>, turn: &Turn, call: &Call, error: CallErrorKind) {
    let Some(held) = &turn.held else { return };
    let summary = match &call.reads {
        Reads::Summary(summary) => shorter(summary, error),
        // A worker's own, which isn't there any more.
        Reads::Path | Reads::Messages(_) => None,
    };
    if let Some(summary) = summary {
        return ask(writer, turn, summary, call.llm.clone(), call.model.clone());
    }
    keep(writer, turn, held, KeptReason::SummaryFailed);
}

/// A provider refuses a call as too long. The first time room is made; then the turn fails.
pub(in crate::engine) fn refused(writer: &mut Writer<'_>, turn: &Turn, call: &Call, error: &CallError) {
    if turn.stuck || turn.refused.as_ref() == Some(&call.id) {
        let message = does_not_fit(writer, turn, &error.message);
        return writer.call_failed(turn, call, &CallError::new(CallErrorKind::TooLong, message));
    }
    let agent = writer.agent(&turn.agent_id);
    let load = writer.load();
    writer.push(Body::ContextLimited(ContextLimited {
        turn_id: turn.id.clone(),
        call_id: call.id.clone(),
        reason: LimitReason::Overflow,
        strategy: agent.and_then(Agent::summarizing),
        tokens: (Load { read: load.read + writer.session().arrivals.size(call.arrivals), ..load }).tokens(agent, &turn.client),
        window: agent.and_then(|agent| agent.window),
        llm: call.llm.clone(),
        model: call.model.clone(),
    }));
    writer.ask(&turn.caller(), About::Limit, true);
}

/// What takes the room.
pub(in crate::engine) fn does_not_fit(writer: &Writer<'_>, turn: &Turn, why: &str) -> String {
    let session = writer.session();
    let agent = writer.agent(&turn.agent_id);
    let system = agent.map_or(Size::ZERO, |agent| agent.system).tokens();
    let tools = writer.tools(&turn.agent_id).size(&turn.client).tokens();
    let path = session.tree.up(session.head);
    let (count, size) = path.fold((0, Size::ZERO), |(count, size), ix| (count + 1, size + session.tree.node(ix).size));
    let last = session.head.map_or(Size::ZERO, |head| session.tree.node(head).size).tokens();
    let messages = size.tokens();
    format!(
        "the call is too long for its model ({why}): about {system} tokens of system prompt, {tools} of tools, {messages} of \
         {count} messages, the last of which has {last}"
    )
}
