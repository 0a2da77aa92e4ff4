//! The model view of a path: what a model reads. Calls and results are paired here, so that no provider ever sees a call without
//! a result or a result without a call.

use std::collections::HashMap;
use std::sync::Arc;

use super::reading::Ix;
use super::session::Session;
use crate::ids::ToolCallId;
use crate::protocol::{Content, Message, NodeKind, PartKind, Role};

/// What a model reads in the place of a result that never came.
const NO_RESULT: &str = "This call was interrupted and has no result.";

/// The nodes of the active path, root first.
pub fn path(session: &Session) -> Vec<Ix> {
    let mut path: Vec<Ix> = session.tree.up(session.head).collect();
    path.reverse();
    path
}

/// The messages that a model reads at the head, or the first node whose content isn't in memory.
pub fn messages(session: &Session) -> Result<Vec<Arc<Message>>, Ix> {
    let mut read = Vec::new();
    for ix in path(session) {
        match session.tree.node(ix).kind {
            NodeKind::Message => read.push(session.content(ix).ok_or(ix)?.clone()),
            // After a reset the epoch says nothing.
            NodeKind::Epoch => read.extend(Some(session.content(ix).ok_or(ix)?.clone()).filter(|epoch| epoch.content.is_some())),
            NodeKind::Custom => {}
        }
    }
    Ok(pair(&read))
}

/// Puts each call's result right after its reply; makes one up where there is none; drops results without a call.
fn pair(read: &[Arc<Message>]) -> Vec<Arc<Message>> {
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
