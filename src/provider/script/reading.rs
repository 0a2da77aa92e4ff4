//! What a script sees of a call: texts and counts. May not know rules.

use crate::protocol::{CallRequest, Message, Role};

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
    /// Number of messages.
    pub count: usize,
    /// Characters of all texts, the system prompt's and the calls' included.
    pub characters: usize,
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
        let characters = messages.iter().map(|message| characters(message)).sum::<usize>();
        Self {
            role: messages.last().map(|message| message.role),
            last: messages.last().map(|message| said(message)).unwrap_or_default(),
            last_user: users.last().cloned().unwrap_or_default(),
            users,
            results: results.map(|message| (tool_name(request, message), said(message))).collect(),
            offered: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            count: messages.len(),
            characters: characters + request.system.as_deref().map_or(0, |system| system.chars().count()),
            call: request.index,
            hidden: request.hidden,
        }
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

fn characters(message: &Message) -> usize {
    let calls = message.tool_calls.iter().map(|call| call.function.name.chars().count() + call.function.arguments.chars().count());
    said(message).chars().count() + calls.sum::<usize>()
}

/// The name of the tool that gave `result`: the assistant that called it knows.
fn tool_name(request: &CallRequest, result: &Message) -> String {
    let calls = request.messages.iter().rev().flat_map(|message| &message.tool_calls);
    let call = calls.into_iter().find(|call| Some(&call.id) == result.tool_call_id.as_ref());
    call.map(|call| call.function.name.clone()).unwrap_or_default()
}
