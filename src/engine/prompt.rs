//! The model view of a path: what a model reads. Calls and results are paired here, so that no provider ever sees a call without
//! a result or a result without a call.

use std::collections::HashMap;
use std::sync::Arc;

use super::arrivals::Arrival;
use super::reading::Ix;
use super::session::Session;
use crate::ids::ToolCallId;
use crate::protocol::{Content, Message, NodeKind, Part, PartKind, Role, Size};

/// What a model reads in the place of a result that never came.
const NO_RESULT: &str = "This call was interrupted and has no result.";

/// What a model reads before a summary.
const SUMMARIZED: &str = "The earlier conversation was summarized:\n\n";

/// The nodes of the active path, root first.
pub fn path(session: &Session) -> Vec<Ix> {
    let mut path: Vec<Ix> = session.tree.up(session.head).collect();
    path.reverse();
    path
}

/// The messages that a model reads at the head, and those that wait and that are read besides; or the first node whose content isn't in
/// memory.
pub fn messages(session: &Session) -> Result<Vec<Arc<Message>>, Ix> {
    messages_with(session, |ix| session.content(ix).ok_or(ix).cloned())
}

/// The same, of what `content` says that each node of the path says.
pub(super) fn messages_with(session: &Session, content: impl Fn(Ix) -> Result<Arc<Message>, Ix>) -> Result<Vec<Arc<Message>>, Ix> {
    let mut read = Vec::new();
    for ix in path(session) {
        let node = session.tree.node(ix);
        match node.kind {
            NodeKind::Message if node.is_event => read.push(Arc::new(happened(&*content(ix)?))),
            NodeKind::Message => read.push(content(ix)?),
            // After a reset the epoch says nothing.
            NodeKind::Epoch => read.extend(summarized(&content(ix)?)),
            NodeKind::Custom => {}
        }
    }
    for arrival in reading(session) {
        for message in &arrival.messages {
            read.push(match original(session, message) {
                _ if arrival.is_event() => Arc::new(happened(message)),
                Some(ix) => content(ix)?,
                None => message.clone(),
            });
        }
    }
    Ok(pair(&read))
}

/// The nodes whose contents [`messages`] needs.
pub fn needed(session: &Session) -> Vec<Ix> {
    let waiting = reading(session).flat_map(|arrival| &arrival.messages);
    let originals = waiting.filter_map(|message| original(session, message));
    path(session).into_iter().chain(originals).collect()
}

/// The arrivals that the running call reads, or that the worker is shown.
fn reading(session: &Session) -> impl Iterator<Item = &Arc<Arrival>> {
    let turn = session.turn.as_ref();
    let of_call = turn.and_then(|turn| turn.call.as_ref()).map(|call| call.arrivals);
    let shown = turn.and_then(|turn| turn.decision.as_ref()).map(|decision| decision.arrivals);
    session.arrivals.iter().take(of_call.or(shown).unwrap_or(0) as usize)
}

/// Of a message that waits and is recorded elsewhere: that node.
fn original(session: &Session, message: &Message) -> Option<Ix> {
    message.id.as_ref().filter(|_| message.content.is_none()).and_then(|id| session.tree.find(id))
}

/// How a model reads something that happened: behind a label, so that it isn't taken for what a person says.
fn happened(event: &Message) -> Message {
    let label = label(event);
    let content = match &event.content {
        None | Some(Content::Object(_)) => Content::Text(label),
        Some(Content::Text(text)) => Content::Text(format!("{label}\n{text}")),
        Some(Content::Parts(parts)) => {
            let first = Part::text(PartKind::Text, format!("{label}\n"));
            Content::Parts(std::iter::once(first).chain(parts.iter().cloned()).collect())
        }
    };
    Message { content: Some(content), name: None, ..event.clone() }
}

fn label(event: &Message) -> String {
    event.name.as_ref().map_or_else(|| "[Event]".to_owned(), |name| format!("[Event: {name}]"))
}

/// How much a model reads of something that happened.
pub(super) fn size_of_event(event: &Message) -> Size {
    Size::of_text(&label(event)) + Size::of_text("\n") + Size::of_message(event)
}

/// How a model reads an epoch: as a user's message that says what the summary is.
pub(super) fn summarized(epoch: &Arc<Message>) -> Option<Arc<Message>> {
    let text = epoch.joined_text();
    (!text.is_empty()).then(|| Arc::new(Message { id: epoch.id.clone(), ..Message::text(Role::User, format!("{SUMMARIZED}{text}")) }))
}

/// How much a model reads of an epoch that says this.
pub(super) fn size_of_summary(epoch: &Message) -> Size {
    if epoch.content.is_some() { Size::of_text(SUMMARIZED) + Size::of_message(epoch) } else { Size::ZERO }
}

/// Puts each call's result right after its reply; makes one up where there is none; drops results without a call.
pub fn pair(read: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut results: HashMap<&ToolCallId, &Arc<Message>> = HashMap::new();
    for message in read.iter().filter(|message| message.role == Role::Tool) {
        if let Some(id) = &message.tool_call_id {
            results.entry(id).or_insert(message);
        }
    }
    let mut paired = Vec::with_capacity(read.len());
    for message in read.iter().filter(|message| message.role != Role::Tool && says_something(message)) {
        paired.push(message.clone());
        for call in &message.tool_calls {
            paired.push(results.get(&call.id).map_or_else(|| no_result(&call.id), |&result| result.clone()));
        }
    }
    paired
}

fn no_result(id: &ToolCallId) -> Arc<Message> {
    Arc::new(Message { tool_call_id: Some(id.clone()), error: Some(NO_RESULT.to_owned()), ..Message::text(Role::Tool, NO_RESULT) })
}

/// A partial reply may hold nothing that a model can read.
fn says_something(message: &Message) -> bool {
    message.role != Role::Assistant
        || !message.tool_calls.is_empty()
        || match &message.content {
            None => false,
            Some(Content::Text(text)) => !text.is_empty(),
            Some(Content::Parts(parts)) => parts.iter().any(|part| part.kind != PartKind::Reasoning),
            Some(Content::Object(_)) => true,
        }
}
