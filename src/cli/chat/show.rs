//! What a person is shown of a session's events: replies as they grow, thoughts, tool calls, and what became of turns. A stream may be
//! joined in the middle, or told again from a cursor: nothing is shown twice, and what was missed is shown with the finished message.
//! May not know the terminal.

use std::collections::HashMap;

use crate::cli::told::{Ended, Node, Told};
use crate::draw::in_one_line;
use crate::ids::{NodeId, ToolCallId};
use crate::protocol::{CancelReason, Content, Interrupt, Live, Message, NodeKind, PartKind, Role, Snapshot};

/// So many characters of a tool's arguments or result are shown.
const TOOL_TEXT_MAX: usize = 200;

/// Something to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// More of a reply.
    Say(String),
    /// Thoughts begin.
    ThinkStart,
    /// More of a thought.
    Think(String),
    /// A remark of this program's, on lines of its own.
    Aside(String),
    /// What went wrong.
    Alarm(String),
    /// What the person wrote.
    Typed(String),
    /// What the person asked to see.
    Paragraph(String),
    /// What follows begins on a new line.
    Fresh,
}

/// How far a reply is shown. A part whose beginning wasn't told is shown when the reply is whole.
#[derive(Debug, Default)]
struct Reply {
    id: Option<NodeId>,
    /// Bytes of each reasoning part that was begun, by its index from 1.
    thoughts: HashMap<u32, usize>,
    /// Bytes of its text, once that was begun.
    text: Option<usize>,
}

/// What was shown so far.
#[derive(Debug, Default)]
pub struct Show {
    reply: Reply,
    /// Names of the tools that were called.
    tools: HashMap<ToolCallId, String>,
    /// Of the running turn a part is kept, so that stopping it lost nothing.
    kept: bool,
    /// The person's own messages that aren't nodes yet, and whether they stand on the screen already.
    own: HashMap<NodeId, bool>,
}

impl Show {
    /// The person sent a message under this id; `seen`: it stands on the screen right now.
    pub fn sent(&mut self, id: NodeId, seen: bool) {
        self.own.insert(id, seen);
    }

    /// What an event adds.
    pub fn told(&mut self, told: &Told) -> Vec<Piece> {
        match told {
            Told::Writing { reply_id, attempt } => self.begin(reply_id, *attempt),
            Told::Live(live) => self.live(live),
            Told::Whole(snapshot) => self.resumed(snapshot),
            Told::Node(node) => self.node(node),
            Told::Failed { code, retried: true } => vec![Piece::Aside(format!("(the model failed: {code}; trying again)"))],
            Told::Ended { end, .. } => self.ended(end),
            Told::Waiting { calls, .. } => vec![Piece::Aside(self.waits(calls))],
            Told::Interrupted { interrupts, .. } => vec![Piece::Aside(pauses(interrupts))],
            Told::Limited => {
                vec![Piece::Aside("(the conversation is long: room is made for the reply; nothing of what you see is lost)".to_owned())]
            }
            Told::Recovered { .. } => vec![Piece::Aside("(the server was lost and is back; the reply goes on)".to_owned())],
            Told::Failed { retried: false, .. }
            | Told::Started { .. }
            | Told::Queued { .. }
            | Told::Suspended { .. }
            | Told::HeadMoved
            | Told::Other => Vec::new(),
        }
    }

    fn begin(&mut self, id: &NodeId, attempt: u32) -> Vec<Piece> {
        let given_up = self.reply.id.as_ref().is_some_and(|old| old != id) && self.reply.text > Some(0);
        self.of(id);
        if given_up && attempt > 1 {
            vec![Piece::Aside("(what was written is given up; the reply begins again)".to_owned())]
        } else {
            vec![Piece::Fresh]
        }
    }

    fn live(&mut self, live: &Live) -> Vec<Piece> {
        match live {
            Live::TextStarted { reply_id } => {
                self.of(reply_id).text.get_or_insert(0);
                Vec::new()
            }
            Live::Text { reply_id, delta } => match &mut self.of(reply_id).text {
                Some(shown) => {
                    *shown += delta.len();
                    vec![Piece::Say(delta.clone())]
                }
                None => Vec::new(),
            },
            Live::ReasoningStarted { reply_id, index } => {
                self.of(reply_id).thoughts.entry(*index).or_insert(0);
                vec![Piece::ThinkStart]
            }
            Live::Reasoning { reply_id, index, delta } => match self.of(reply_id).thoughts.get_mut(index) {
                Some(shown) => {
                    *shown += delta.len();
                    vec![Piece::Think(delta.clone())]
                }
                None => Vec::new(),
            },
            Live::ReasoningEnded { .. } => vec![Piece::Fresh],
            // Calls are shown whole, once the reply is a node.
            Live::ToolCallStarted { .. } | Live::ToolCallArguments { .. } | Live::ReplyEnded { .. } => Vec::new(),
        }
    }

    /// The reply with this id, of which nothing is shown when it is another than before.
    fn of(&mut self, id: &NodeId) -> &mut Reply {
        if self.reply.id.as_ref() != Some(id) {
            self.reply = Reply { id: Some(id.clone()), ..Reply::default() };
        }
        &mut self.reply
    }

    /// The stream was joined, or jumped: what is missing of the reply in the making.
    fn resumed(&mut self, snapshot: &Snapshot) -> Vec<Piece> {
        let Some(writing) = &snapshot.writing else { return Vec::new() };
        let mut pieces = self.begin(&writing.reply_id, 1);
        if writing.text {
            self.reply.text.get_or_insert(0);
        }
        if let Some(message) = snapshot.messages.iter().rfind(|message| message.id.as_ref() == Some(&writing.reply_id)) {
            pieces.extend(self.rest(message));
        }
        pieces
    }

    fn node(&mut self, node: &Node) -> Vec<Piece> {
        let (Some(message), Some(id)) = (&node.message, &node.shown_id) else { return Vec::new() };
        match (node.kind, message.role) {
            (NodeKind::Message, Role::Assistant) => self.reply(id, message, node.partial),
            (NodeKind::Message, Role::User) => self.user(id, message),
            (NodeKind::Message, Role::Tool) => vec![Piece::Aside(self.result(message))],
            (NodeKind::Custom, _) => {
                let what = message.activity_type.as_deref().unwrap_or("something that only apps show");
                vec![Piece::Aside(format!("({})", in_one_line(what)))]
            }
            (NodeKind::Epoch, _) | (NodeKind::Message, Role::System | Role::Developer | Role::Reasoning | Role::Activity) => Vec::new(),
        }
    }

    /// A finished reply: what was not shown of it while it was written.
    fn reply(&mut self, id: &NodeId, message: &Message, partial: bool) -> Vec<Piece> {
        self.of(id);
        let mut pieces = self.rest(message);
        for call in &message.tool_calls {
            let name = in_one_line(&call.function.name).into_owned();
            pieces.push(Piece::Aside(format!("[calls {name} {}]", clipped(&call.function.arguments))));
            self.tools.insert(call.id.clone(), name);
        }
        pieces.push(Piece::Fresh);
        self.kept |= partial;
        self.reply = Reply::default();
        pieces
    }

    /// What `message` says beyond what is shown already.
    fn rest(&mut self, message: &Message) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(Content::Parts(parts)) = &message.content {
            let thoughts = parts.iter().filter(|part| part.kind == PartKind::Reasoning).filter_map(|part| part.text.as_deref());
            for (index, thought) in (1..).zip(thoughts) {
                let shown = self.reply.thoughts.entry(index).or_default();
                if let Some(rest) = thought.get(*shown..).filter(|rest| !rest.is_empty()) {
                    pieces.extend((*shown == 0).then_some(Piece::ThinkStart));
                    pieces.extend([Piece::Think(rest.to_owned()), Piece::Fresh]);
                    *shown = thought.len();
                }
            }
        }
        let text = message.joined_text();
        if let Some(rest) = text.get(self.reply.text.unwrap_or(0)..).filter(|rest| !rest.is_empty()) {
            pieces.push(Piece::Say(rest.to_owned()));
            self.reply.text = Some(text.len());
        }
        pieces
    }

    fn user(&mut self, id: &NodeId, message: &Message) -> Vec<Piece> {
        match self.own.remove(id) {
            Some(true) => Vec::new(),
            Some(false) => vec![Piece::Typed(message.joined_text())],
            None => vec![Piece::Aside("(from somewhere else)".to_owned()), Piece::Typed(message.joined_text())],
        }
    }

    fn result(&self, message: &Message) -> String {
        let name = message.tool_call_id.as_ref().and_then(|call| self.tools.get(call)).map_or("a tool", String::as_str);
        match &message.error {
            Some(error) => format!("[{name} failed: {}]", clipped(error)),
            None => format!("[{name} answers {}]", clipped(&message.joined_text())),
        }
    }

    fn waits(&self, calls: &[ToolCallId]) -> String {
        let names: Vec<&str> = calls.iter().map(|call| self.tools.get(call).map_or("a tool", String::as_str)).collect();
        format!("(the reply waits for {}, which another app carries out; /cancel gives it up, and so does a message)", names.join(", "))
    }

    fn ended(&mut self, end: &Ended) -> Vec<Piece> {
        self.reply = Reply::default();
        let kept = if std::mem::take(&mut self.kept) { "; what was said is kept" } else { "" };
        match end {
            Ended::Completed => vec![Piece::Fresh],
            Ended::Failed { code, message } => vec![Piece::Alarm(format!("the reply failed ({code}): {message}"))],
            Ended::Cancelled { messages, .. } if !messages.is_empty() => {
                self.own.retain(|id, _| !messages.contains(id));
                vec![Piece::Aside("(a waiting message is dropped; nobody answers it)".to_owned())]
            }
            Ended::Cancelled { reason, .. } => {
                let why = match reason {
                    None | Some(CancelReason::Imported) => "",
                    Some(CancelReason::BranchLeft) => ": the conversation went to another branch",
                    Some(CancelReason::Superseded) => ": the conversation goes on without it",
                };
                vec![Piece::Aside(format!("(stopped{why}{kept})"))]
            }
        }
    }
}

/// One line, not too long.
fn clipped(text: &str) -> String {
    let line = in_one_line(text.trim());
    match line.char_indices().nth(TOOL_TEXT_MAX) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line.into_owned(),
    }
}

#[cfg(test)]
#[path = "show_tests.rs"]
mod tests;

/// What a turn waits for that pauses.
fn pauses(interrupts: &[Interrupt]) -> String {
    let asks: Vec<_> = interrupts.iter().map(|open| in_one_line(open.message.as_deref().unwrap_or(&open.reason))).collect();
    format!("(the reply pauses: {}; another app answers it, and /cancel gives it up)", asks.join("; "))
}
