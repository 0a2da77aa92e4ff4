//! A reply's calls go to whom they are for, and what follows when one of them has ended.

use super::offered::{Carrier, OwnTool, Tools};
use super::{Execution, arguments};
use crate::engine::record::{Body, MessageNew, ToolCallStarted, ToolCallTaken, ToolCallsTaken, TurnWaiting};
use crate::engine::turn::Turn;
use crate::engine::write::Writer;
use crate::ids::{DecisionId, ToolCallId};
use crate::protocol::{BadArguments, Client, Message, Role, ToolCall};

/// What a model reads of a call that nobody was to carry out.
const NOT_CARRIED_OUT: &str = "This call was not carried out.";

/// What is to become of a reply's call.
pub(in crate::engine) enum Fate {
    /// It goes to whom it is for.
    Start,
    /// Nothing.
    Leave,
    /// This is its result.
    Result(Box<Message>),
}

/// Whom a call is for.
enum For<'t> {
    /// Headwater has it carried out.
    Us(&'t OwnTool),
    /// A client, or somebody outside.
    Others,
    /// Nobody: what the model reads instead.
    Nobody(String),
}

/// A reply's calls go to whom they are for. Those that aren't to start, and those that nobody can carry out, get a result that says so.
pub(in crate::engine) fn start_calls(writer: &mut Writer<'_>, turn: &Turn, calls: &[ToolCall], said: impl Fn(&ToolCallId) -> Fate) {
    let tools = writer.tools(&turn.agent_id);
    let (mut taken, mut awaited) = (Vec::new(), Vec::new());
    for asked in calls {
        match said(&asked.id) {
            Fate::Leave => refuse(writer, asked, NOT_CARRIED_OUT.to_owned()),
            Fate::Result(message) => writer.result(*message),
            Fate::Start => match for_whom(&tools, &turn.client, asked) {
                For::Nobody(text) => refuse(writer, asked, text),
                For::Others => awaited.push(asked.id.clone()),
                For::Us(own) => taken.push(take(asked, own, writer.fresh().into())),
            },
        }
    }
    if !taken.is_empty() {
        writer.push(Body::ToolCallsTaken(Box::new(ToolCallsTaken { turn_id: turn.id.clone(), calls: taken.clone() })));
        let most = writer.context.policy.executions_max;
        taken.iter().take(most).for_each(|call| writer.execute(turn, call, 1));
    } else if awaited.is_empty() {
        writer.proceed(turn);
    } else {
        writer.push(Body::TurnWaiting(TurnWaiting { turn_id: turn.id.clone(), calls: awaited }));
    }
}

/// The model reads what is wrong with a call, and goes on.
fn refuse(writer: &mut Writer<'_>, asked: &ToolCall, text: String) {
    writer.result(error(asked.id.clone(), text));
}

/// Nobody carries these calls out.
pub(in crate::engine) fn refuse_calls(writer: &mut Writer<'_>, calls: &[ToolCall]) {
    for asked in calls {
        refuse(writer, asked, NOT_CARRIED_OUT.to_owned());
    }
}

fn for_whom<'t>(tools: &'t Tools, client: &Client, asked: &ToolCall) -> For<'t> {
    let (name, written) = (&asked.function.name, &asked.function.arguments);
    let own = tools.get(name);
    if own.is_none() && !client.has_tool(name) {
        return For::Nobody(format!("There is no tool named {name:?}."));
    }
    let input = own.map_or_else(|| arguments::read(None, written), |own| own.read(written));
    let asks = own.is_some_and(|own| own.carrier == Carrier::Worker && own.tool.bad_arguments == BadArguments::Ask);
    match (arguments::fault(name, &input).filter(|_| !asks), own) {
        (Some(text), _) => For::Nobody(text),
        (None, None) => For::Others,
        (None, Some(own)) => match own.carrier {
            Carrier::Outside => For::Others,
            Carrier::Worker | Carrier::Server(_) => For::Us(own),
        },
    }
}

fn take(asked: &ToolCall, own: &OwnTool, decision_id: DecisionId) -> ToolCallTaken {
    let server = match &own.carrier {
        Carrier::Server(server) => Some(server.clone()),
        Carrier::Worker | Carrier::Outside => None,
    };
    ToolCallTaken {
        tool_call_id: asked.id.clone(),
        name: own.tool.name.clone(),
        decision_id,
        server,
        idempotent: own.tool.idempotent,
        attempts: own.tool.attempts,
        attempt_ms: own.tool.attempt_secs.saturating_mul(1000),
    }
}

/// What a model reads of a call that failed.
pub(super) fn error(id: ToolCallId, text: String) -> Message {
    Message { tool_call_id: Some(id), error: Some(text.clone()), ..Message::text(Role::Tool, text) }
}

impl Writer<'_> {
    /// A result becomes a node.
    pub(super) fn result(&mut self, message: Message) {
        let (id, parent) = (self.fresh().into(), self.parent.clone());
        self.node(MessageNew::plain(id, parent, message));
    }

    /// Begins an attempt to carry out a call.
    pub(super) fn execute(&mut self, turn: &Turn, call: &ToolCallTaken, attempt: u32) {
        let deadline = self.now().saturating_add(call.attempt_ms);
        let (turn_id, tool_call_id) = (turn.id.clone(), call.tool_call_id.clone());
        self.push(Body::ToolCallStarted(ToolCallStarted { turn_id, tool_call_id, attempt, deadline }));
    }

    /// The executions of these calls have ended: others begin, or the turn goes on, or it waits for those that others carry out.
    pub(super) fn after_executions(&mut self, turn: &Turn, ended: &[&ToolCallId]) {
        let left: Vec<&Execution> = turn.executions.iter().filter(|execution| !ended.contains(&execution.id())).collect();
        let begun = left.iter().filter(|execution| execution.has_begun()).count();
        let free = self.context.policy.executions_max.saturating_sub(begun);
        for execution in left.iter().filter(|execution| !execution.has_begun()).take(free) {
            self.execute(turn, &execution.call, 1);
        }
        if !left.is_empty() || turn.decision.is_some() || !turn.interrupts.is_empty() {
            return;
        }
        let calls = self.session().tree.awaited_calls();
        if calls.is_empty() {
            return self.proceed(turn);
        }
        self.push(Body::TurnWaiting(TurnWaiting { turn_id: turn.id.clone(), calls }));
    }
}
