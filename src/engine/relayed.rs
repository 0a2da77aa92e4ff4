//! Replies of an agent that stands in the place of a model. It carries out its own tools and may say several things in one run: each
//! is a call of the turn's, with the results as they came. May not know how it is reached.

use super::call::{Finished, completed};
use super::record::{Body, MessageNew, TurnWaiting};
use super::session::Session;
use super::turn::{Call, Turn, Wish};
use super::write::Writer;
use crate::ids::NodeId;
use crate::protocol::{FunctionCall, Json, Message, Raise, Role, ToolCall};

/// Who made a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A model: others carry out what it calls, and it says something.
    Model,
    /// An agent: it carries out what it calls, but for what it leaves to the client, and may say nothing.
    Agent {
        /// Whether it goes on: with what it says next, in the turn's next call.
        goes_on: bool,
    },
}

/// A call of an agent's has ended: the reply, and the results that came with it. What it left open is the client's.
pub(super) fn finish(writer: &mut Writer<'_>, turn: &Turn, call: &Call, finished: Finished, goes_on: bool) {
    let Finished { message, finish, usage, results, state, interrupts, maker: _ } = finished;
    let calls = message.tool_calls.clone();
    let read = writer.place(call);
    if says_something(&message) {
        let plain = MessageNew::plain(call.reply_id.clone(), writer.parent.clone(), message);
        // A call that waits for a person is the agent's own: nobody else may answer it.
        let asks = |asked: &ToolCall| interrupts.iter().any(|interrupt| interrupt.tool_call_id.as_ref() == Some(&asked.id));
        let sealed = !interrupts.is_empty() && calls.iter().all(|asked| is_answered(asked, &results) || asks(asked));
        // What several models of its own read is no measure of the path.
        writer.reply(MessageNew { call_id: Some(call.id.clone()), sealed, ..plain }, None);
    }
    writer.consumed(read, &call.id);
    writer.push(Body::CallCompleted(completed(call, finish, usage)));
    let (mut open, mut faulty) = (Vec::new(), false);
    for result in &results {
        record(writer, result);
    }
    for asked in calls.iter().filter(|asked| interrupts.is_empty() && !is_answered(asked, &results)) {
        match malformed(&asked.function) {
            Some(text) => {
                faulty = true;
                let result = Message { tool_call_id: Some(asked.id.clone()), error: Some(text.clone()), ..Message::text(Role::Tool, text) };
                record(writer, &result);
            }
            None => open.push(asked.id.clone()),
        }
    }
    if let Some(state) = &state {
        // One that is too large is left out: the agent keeps its own.
        let _ = writer.set_state(state);
    }
    if !interrupts.is_empty() {
        writer.interrupt(turn, interrupts.into_iter().map(Raise::from));
    } else if !open.is_empty() {
        writer.push(Body::TurnWaiting(TurnWaiting { turn_id: turn.id.clone(), calls: open }));
    } else if goes_on {
        go_on(writer, turn);
    } else if faulty {
        writer.proceed(turn);
    } else {
        writer.complete(turn);
    }
}

/// A result becomes a node.
fn record(writer: &mut Writer<'_>, result: &Message) {
    let (id, parent) = (writer.fresh().into(), writer.parent.clone());
    writer.node(MessageNew::plain(id, parent, result.clone()));
}

/// What is wrong with a call that a client is to carry out.
fn malformed(asked: &FunctionCall) -> Option<String> {
    let FunctionCall { name, arguments } = asked;
    let is_object = arguments.trim().is_empty() || serde_json::from_str::<Json>(arguments).is_ok_and(|json| json.is_object());
    (!is_object).then(|| format!("The arguments of {name:?} are not a JSON object."))
}

/// The call in which it goes on. It counts as one with that in which it began, so that it isn't told how many messages it may say; each
/// time it must begin anew it is counted.
fn go_on(writer: &mut Writer<'_>, turn: &Turn) {
    if turn.calls > writer.context.policy.calls_per_turn_max {
        return writer.too_many_calls(turn);
    }
    writer.goes_on = true;
    writer.next_call(&turn.caller(), None, turn.stuck, Wish::default());
    writer.goes_on = false;
}

fn says_something(message: &Message) -> bool {
    message.content.is_some() || !message.tool_calls.is_empty()
}

fn is_answered(asked: &ToolCall, results: &[Message]) -> bool {
    results.iter().any(|result| result.tool_call_id.as_ref() == Some(&asked.id))
}

/// A name for the branch that a call writes on: the last node of the path that isn't the first one below its parent, or the path's
/// root. When the head has been answered before, `reply` begins another branch. Turns that follow each other have the same; an edit,
/// a reply that is made again, a replaced history have another.
pub fn branch(session: &Session, reply: &NodeId) -> NodeId {
    let tree = &session.tree;
    let Some(head) = session.head else { return reply.clone() };
    let has_child = |parent, from: u32, to: u32| (from..to).any(|ix| tree.parent(ix) == parent);
    let all = u32::try_from(tree.len()).unwrap_or(u32::MAX);
    if has_child(Some(head), head + 1, all) {
        return reply.clone();
    }
    let mut root = head;
    for ix in tree.up(Some(head)) {
        let parent = tree.parent(ix);
        if has_child(parent, parent.map_or(0, |parent| parent + 1), ix) {
            return tree.id(ix);
        }
        root = ix;
    }
    tree.id(root)
}
