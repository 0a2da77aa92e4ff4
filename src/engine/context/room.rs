//! What becomes of a call that waits for room: a summary is written, the history is replaced, or the call goes on as it was.

use super::cut::History;
use super::replace::{Replacement, replace};
use super::strategy::{Plan, Strategy};
use super::{Agent, Load, readable, summarize};
use crate::engine::Context;
use crate::engine::call::{self, Finished};
use crate::engine::record::{Body, CallStarted, ContextKept, ContextLimited, Reads, Record, Summary};
use crate::engine::session::Session;
use crate::engine::turn::{Call, Held, Turn};
use crate::engine::write::Writer;
use crate::ids::{CallId, NodeId};
use crate::protocol::{CallError, CallErrorKind, Code, Finish, KeptReason, LimitReason, Size};

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
    let agent = writer.agent(&turn.agent_id);
    let configured = held.strategy.as_ref().and_then(|named| agent?.strategy(named));
    let default = summarize::by_default();
    let strategy = match (configured, held.reason) {
        (None, LimitReason::Overflow) => Some(&default as &dyn Strategy),
        (strategy, _) => strategy,
    };
    let history = history(writer.session(), turn, held, agent);
    match strategy.and_then(|strategy| strategy.plan(&history)) {
        Some(Plan::Replace { messages }) => shorten(writer, turn, held, Replacement { summary: None, messages }),
        Some(Plan::Summarize { summary, llm, model }) => ask(writer, turn, summary, llm, model),
        None => keep(writer, turn, held, KeptReason::NoGain),
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
        (LimitReason::Overflow, KeptReason::NoGain) => does_not_fit(writer, turn, "and nothing of it can be left out"),
        (LimitReason::Overflow | LimitReason::Idle | LimitReason::Full, _) => writer.begin_held(turn, held),
    }
}

/// A summary was written: the history that it stands for is replaced by it. One that is blank or that a filter stopped is none; one
/// that reached its model's limit is taken as far as it goes.
pub(in crate::engine) fn summary_written(writer: &mut Writer<'_>, turn: &Turn, summary: &Summary, written: &Finished) {
    let Some(held) = &turn.held else { return };
    let text = written.message.joined_text();
    let text = text.trim();
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

/// The call that was to write a summary has failed for good. When what it read was too long, it reads half of that.
pub(in crate::engine) fn summary_failed(writer: &mut Writer<'_>, turn: &Turn, call: &Call, summary: &Summary, error: CallErrorKind) {
    let Some(held) = &turn.held else { return };
    if error == CallErrorKind::TooLong && summary.halved < summarize::HALVINGS_MAX {
        let summary = Summary { halved: summary.halved + 1, ..summary.clone() };
        return ask(writer, turn, summary, call.llm.clone(), call.model.clone());
    }
    keep(writer, turn, held, KeptReason::SummaryFailed);
}

/// A provider refuses a call as too long. The first time room is made; then the turn fails.
pub(in crate::engine) fn refused(writer: &mut Writer<'_>, turn: &Turn, call: &Call, error: &CallError) {
    if turn.stuck || turn.refused.as_ref() == Some(&call.id) {
        return does_not_fit(writer, turn, &error.message);
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
    }));
}

/// The turn fails, and says what takes the room.
fn does_not_fit(writer: &mut Writer<'_>, turn: &Turn, why: &str) {
    let session = writer.session();
    let agent = writer.agent(&turn.agent_id);
    let system = agent.map_or(Size::ZERO, |agent| agent.system).tokens();
    let tools = turn.client.tools.iter().flatten().map(Size::of_tool).sum::<Size>().tokens();
    let path = session.tree.up(session.head);
    let (count, size) = path.fold((0, Size::ZERO), |(count, size), ix| (count + 1, size + session.tree.node(ix).size));
    let last = session.head.map_or(Size::ZERO, |head| session.tree.node(head).size).tokens();
    let messages = size.tokens();
    let text = format!(
        "the call is too long for its model ({why}): about {system} tokens of system prompt, {tools} of tools, {messages} of \
         {count} messages, the last of which has {last}"
    );
    writer.fail(turn, Code::LlmTooLong, text);
}
