//! What a script sees of a call: texts and counts. May not know rules.

use std::sync::Arc;

use crate::protocol::{CallRequest, Message, Role, Size};

/// What was read for one call.
#[derive(Debug)]
pub(super) struct Reading {
    /// The last message's role; nothing in an empty view.
    pub role: Option<Role>,
    /// The last message's text.
    pub last: String,
    /// The last user message's text.
    pub last_user: String,
    /// All user messages' texts.
    pub users: Vec<String>,
    /// The tool results after the last user message, the newest last: the tool's name and what it gave.
    pub results: Vec<(String, String)>,
    /// The names of the tools that may be called.
    pub offered: Vec<String>,
    /// Every message.
    messages: Vec<Arc<Message>>,
    /// The system prompt.
    pub system: String,
    /// How much it all is, as the engine counts it.
    pub size: Size,
    /// The model that is asked for.
    pub model: Option<String>,
    /// Which call of its turn, from 0.
    pub call: u32,
    /// Whether no UI may see it.
    pub hidden: bool,
}

impl Reading {
    /// What `request` lets a model read.
    pub fn of(request: &CallRequest) -> Self {
        let messages = &request.messages;
        let users: Vec<String> =
            messages.iter().filter(|message| message.role == Role::User).map(|message| message.joined_text()).collect();
        let asked = messages.iter().rposition(|message| message.role == Role::User).map_or(0, |place| place + 1);
        let results = messages[asked..].iter().filter(|message| message.role == Role::Tool);
        Self {
            role: messages.last().map(|message| message.role),
            last: messages.last().map(|message| said(message)).unwrap_or_default(),
            last_user: users.last().cloned().unwrap_or_default(),
            users,
            results: results.map(|message| (tool_name(request, message), said(message))).collect(),
            offered: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            messages: messages.clone(),
            system: request.system.clone().unwrap_or_default(),
            size: Size::of_request(request),
            model: request.model.clone(),
            call: request.index,
            hidden: request.hidden,
        }
    }

    /// Number of messages.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Every message: whose it is, and what it says.
    pub fn history(&self) -> impl Iterator<Item = (Role, String)> {
        self.messages.iter().map(|message| (message.role, said(message)))
    }
}

/// A message's text; of a tool that failed without a text, what went wrong.
fn said(message: &Message) -> String {
    let text = message.joined_text();
    match &message.error {
        Some(error) if text.is_empty() => error.clone(),
        Some(_) | None => text,
    }
}

/// The name of the tool that gave `result`: the assistant that called it knows.
fn tool_name(request: &CallRequest, result: &Message) -> String {
    let calls = request.messages.iter().rev().flat_map(|message| &message.tool_calls);
    let call = calls.into_iter().find(|call| Some(&call.id) == result.tool_call_id.as_ref());
    call.map(|call| call.function.name.clone()).unwrap_or_default()
}
