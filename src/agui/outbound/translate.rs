//! From neutral events to AG-UI's. May not know runs: a turn's start and end are not told here.

use std::borrow::Cow;

use super::message::{self, Messages};
use crate::agui::Dialect;
use crate::agui::encode::Writer;
use crate::agui::event::{AguiEvent, ContextNews, CustomValue, ReasoningId};
use crate::ids::{Millis, NodeId, ToolCallId};
use crate::protocol::{
    Content as Said, Cursor, Event, EventBody, Frames, Live, Message, OpenCall, PartKind, Role, Snapshot, Source, ToolCall, Writing,
};

/// What the events say in AG-UI. Pieces of one part that follow each other become one.
pub fn render(dialect: Dialect, events: &[Event]) -> Frames {
    let mut pieces = Pieces { dialect, list: Vec::with_capacity(events.len() + 4), at: None };
    for event in events {
        pieces.event(event);
    }
    pieces.write()
}

/// The whole conversation: the state, the messages, and what the reply in the making has open, so that what follows goes on
/// with it.
pub(super) fn snapshot(dialect: Dialect, snapshot: &Snapshot, cursor: Option<Cursor>) -> Frames {
    let mut pieces = Pieces { dialect, list: Vec::with_capacity(4), at: None };
    pieces.snapshot(snapshot);
    pieces.cursor(0, cursor);
    pieces.write()
}

/// One AG-UI event, and where a reader that got it resumes.
struct Piece<'a> {
    event: AguiEvent<'a>,
    cursor: Option<Cursor>,
    at: Option<Millis>,
}

/// AG-UI events in the making.
struct Pieces<'a> {
    dialect: Dialect,
    list: Vec<Piece<'a>>,
    at: Option<Millis>,
}

impl<'a> Pieces<'a> {
    fn write(self) -> Frames {
        let mut writer = Writer::with_room(self.list.len());
        for piece in &self.list {
            writer.event(&piece.event, piece.cursor, piece.at);
        }
        writer.finish()
    }

    /// Of the pieces from `first` on only the last says where to resume.
    fn cursor(&mut self, first: usize, cursor: Option<Cursor>) {
        if let Some(piece) = self.list[first..].last_mut() {
            piece.cursor = cursor;
        }
    }

    /// Of marks that are told together each has a place of its own.
    fn marks(&mut self, first: usize, cursor: Option<Cursor>) {
        let Some(Cursor { seq, within: Some((attempt, told)) }) = cursor else { return self.cursor(first, cursor) };
        for (after, piece) in (0..).zip(self.list[first..].iter_mut().rev()) {
            piece.cursor = Some(Cursor { seq, within: Some((attempt, told.saturating_sub(after))) });
        }
    }

    fn push(&mut self, event: AguiEvent<'a>) {
        self.list.push(Piece { event, cursor: None, at: self.at });
    }

    fn event(&mut self, event: &'a Event) {
        self.at = Some(event.at);
        let first = self.list.len();
        match &event.body {
            EventBody::Live(live) if self.merge(live) => self.cursor(first - 1, event.cursor),
            body @ EventBody::Live(_) => {
                self.body(body);
                self.marks(first, event.cursor);
            }
            body => {
                self.body(body);
                self.cursor(first, event.cursor);
            }
        }
    }

    /// Adds to the last piece, when this goes on with it.
    fn merge(&mut self, live: &Live) -> bool {
        let Some(piece) = self.list.last_mut() else {
            return false;
        };
        let same = match live {
            Live::Text { reply_id, delta } => match &mut piece.event {
                AguiEvent::TextMessageContent { message_id, delta: had } if *message_id == reply_id.as_str() => Some((had, delta)),
                _ => None,
            },
            Live::Reasoning { reply_id, index, delta } => match &mut piece.event {
                AguiEvent::ReasoningMessageContent { message_id, delta: had } if message_id.is(reply_id, *index) => Some((had, delta)),
                _ => None,
            },
            Live::ToolCallArguments { id, delta } => match &mut piece.event {
                AguiEvent::ToolCallArgs { tool_call_id, delta: had } if *tool_call_id == id.as_str() => Some((had, delta)),
                _ => None,
            },
            Live::TextStarted { .. }
            | Live::ReasoningStarted { .. }
            | Live::ReasoningEnded { .. }
            | Live::ToolCallStarted { .. }
            | Live::ReplyEnded { .. } => None,
        };
        let Some((had, delta)) = same else {
            return false;
        };
        had.to_mut().push_str(delta);
        piece.at = self.at;
        true
    }

    fn body(&mut self, body: &'a EventBody) {
        match body {
            EventBody::MessageNew { shown_id: Some(id), message: Some(message), source, .. } => self.message(id, message, *source),
            EventBody::Live(live) => self.live(live),
            EventBody::Resync(snapshot) => self.snapshot(snapshot),
            EventBody::StateUpdated { patch: Some(delta), .. } => self.push(AguiEvent::StateDelta { delta }),
            EventBody::StateUpdated { state: Some(snapshot), .. } => self.push(AguiEvent::StateSnapshot { snapshot }),
            EventBody::ContextLimited { turn_id, call_id, reason, strategy, tokens, window } => {
                let strategy = strategy.as_deref();
                let value = ContextNews::Limited { turn_id, call_id, reason: *reason, strategy, tokens: *tokens, window: *window };
                self.push(AguiEvent::Custom { name: "context.limited", value: CustomValue::Context(value) });
            }
            EventBody::ContextReplaced { turn_id, call_id, epoch, tokens, background } => {
                let call_id = call_id.as_ref();
                let value = ContextNews::Replaced { turn_id, call_id, epoch: *epoch, tokens: *tokens, background: *background };
                self.push(AguiEvent::Custom { name: "context.replaced", value: CustomValue::Context(value) });
            }
            EventBody::ContextKept { turn_id, call_id, reason } => {
                let value = ContextNews::Kept { turn_id, call_id, reason: *reason };
                self.push(AguiEvent::Custom { name: "context.kept", value: CustomValue::Context(value) });
            }
            EventBody::Custom { name, value, .. } => self.push(AguiEvent::Custom { name, value: CustomValue::OfWorker(value) }),
            EventBody::MessageNew { .. }
            | EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::SessionUpdated { .. }
            | EventBody::TurnQueued { .. }
            | EventBody::TurnJoined { .. }
            | EventBody::TurnWaiting { .. }
            | EventBody::HeadMoved { .. }
            | EventBody::TurnStarted { .. }
            | EventBody::TurnCompleted { .. }
            | EventBody::TurnFailed { .. }
            | EventBody::TurnCancelled { .. }
            | EventBody::TurnRecovered { .. }
            | EventBody::SessionInterrupted { .. }
            | EventBody::InterruptResumed { .. }
            | EventBody::TurnSuspended { .. }
            | EventBody::CallStarted { .. }
            | EventBody::CallCompleted { .. }
            | EventBody::CallFailed { .. }
            | EventBody::CallVoided { .. }
            | EventBody::DecisionAsked { .. }
            | EventBody::DecisionAnswered { .. }
            | EventBody::DecisionFailed { .. }
            | EventBody::ToolCallStarted { .. }
            | EventBody::ToolCallCompleted { .. }
            | EventBody::ToolCallFailed { .. }
            | EventBody::StateUpdated { state: None, patch: None }
            | EventBody::AgentUpdated { .. }
            | EventBody::ArrivalQueued { .. }
            | EventBody::ArrivalConsumed { .. } => {}
        }
    }

    /// A new node. Replies were streamed, and what a client wrote it has: sent again, its text would stand there twice. What a worker
    /// wrote comes whole.
    fn message(&mut self, id: &'a NodeId, message: &'a Message, source: Option<Source>) {
        match message.role {
            Role::Tool => {
                if let Some(tool_call_id) = &message.tool_call_id {
                    let content = message::result(self.dialect, message);
                    self.push(AguiEvent::ToolCallResult {
                        message_id: id.as_str(),
                        tool_call_id: tool_call_id.as_str(),
                        content,
                        role: "tool",
                    });
                }
            }
            Role::Activity => {
                if let (Some(activity_type), Some(Said::Object(content))) = (&message.activity_type, &message.content) {
                    self.push(AguiEvent::ActivitySnapshot { message_id: id.as_str(), activity_type, content });
                }
            }
            Role::Assistant if source == Some(Source::Worker) => self.whole(id, message),
            Role::User | Role::Assistant | Role::System | Role::Developer | Role::Reasoning => {}
        }
    }

    /// A reply that nobody streamed.
    fn whole(&mut self, id: &'a NodeId, message: &'a Message) {
        let (text, parts) = match &message.content {
            Some(Said::Text(text)) => (Some(text.as_str()), &[][..]),
            Some(Said::Parts(parts)) => (None, parts.as_slice()),
            Some(Said::Object(_)) | None => (None, &[][..]),
        };
        let said = |kind| parts.iter().filter(move |part| part.kind == kind).filter_map(|part| part.text.as_deref());
        for (index, thought) in (1..).zip(said(PartKind::Reasoning)) {
            self.reasoning_start(id, index);
            let message_id = ReasoningId { reply_id: id.as_str(), index };
            if !thought.is_empty() {
                self.push(AguiEvent::ReasoningMessageContent { message_id, delta: Cow::Borrowed(thought) });
            }
            self.reasoning_end(id, index);
        }
        let mut texts = text.into_iter().chain(said(PartKind::Text)).filter(|text| !text.is_empty()).peekable();
        if texts.peek().is_some() {
            self.text_start(id);
            for text in texts {
                self.push(AguiEvent::TextMessageContent { message_id: id.as_str(), delta: Cow::Borrowed(text) });
            }
            self.push(AguiEvent::TextMessageEnd { message_id: id.as_str() });
        }
        for ToolCall { id: call, function, .. } in &message.tool_calls {
            self.call_start(id, call, &function.name);
            self.push(AguiEvent::ToolCallArgs { tool_call_id: call.as_str(), delta: Cow::Borrowed(&function.arguments) });
            self.push(AguiEvent::ToolCallEnd { tool_call_id: call.as_str() });
        }
    }

    fn snapshot(&mut self, snapshot: &'a Snapshot) {
        if let Some(state) = &snapshot.state {
            self.push(AguiEvent::StateSnapshot { snapshot: state });
        }
        self.push(AguiEvent::MessagesSnapshot { messages: Messages { dialect: self.dialect, snapshot } });
        if let Some(writing) = &snapshot.writing {
            self.reopen(writing);
        }
    }

    /// Opens again, under the same ids, what the reply in the making has open.
    fn reopen(&mut self, writing: &'a Writing) {
        let reply_id = &writing.reply_id;
        if writing.text {
            self.text_start(reply_id);
        }
        if let Some(index) = writing.reasoning {
            self.reasoning_start(reply_id, index);
        }
        for OpenCall { id, name } in &writing.calls {
            self.call_start(reply_id, id, name);
        }
    }

    fn live(&mut self, live: &'a Live) {
        match live {
            Live::TextStarted { reply_id } => self.text_start(reply_id),
            Live::ReasoningStarted { reply_id, index } => self.reasoning_start(reply_id, *index),
            Live::ReasoningEnded { reply_id, index } => self.reasoning_end(reply_id, *index),
            Live::ToolCallStarted { reply_id, id, name } => self.call_start(reply_id, id, name),
            Live::ReplyEnded { reply_id, text, reasoning, calls } => {
                if let Some(index) = reasoning {
                    self.reasoning_end(reply_id, *index);
                }
                for id in calls {
                    self.push(AguiEvent::ToolCallEnd { tool_call_id: id.as_str() });
                }
                if *text {
                    self.push(AguiEvent::TextMessageEnd { message_id: reply_id.as_str() });
                }
            }
            Live::Text { delta, .. } | Live::Reasoning { delta, .. } | Live::ToolCallArguments { delta, .. } if delta.is_empty() => {}
            Live::Text { reply_id, delta } => {
                self.push(AguiEvent::TextMessageContent { message_id: reply_id.as_str(), delta: Cow::Borrowed(delta) });
            }
            Live::Reasoning { reply_id, index, delta } => {
                let message_id = ReasoningId { reply_id: reply_id.as_str(), index: *index };
                self.push(AguiEvent::ReasoningMessageContent { message_id, delta: Cow::Borrowed(delta) });
            }
            Live::ToolCallArguments { id, delta } => {
                self.push(AguiEvent::ToolCallArgs { tool_call_id: id.as_str(), delta: Cow::Borrowed(delta) });
            }
        }
    }

    fn text_start(&mut self, reply_id: &'a NodeId) {
        self.push(AguiEvent::TextMessageStart { message_id: reply_id.as_str(), role: "assistant" });
    }

    fn reasoning_start(&mut self, reply_id: &'a NodeId, index: u32) {
        let message_id = ReasoningId { reply_id: reply_id.as_str(), index };
        self.push(AguiEvent::ReasoningStart { message_id });
        self.push(AguiEvent::ReasoningMessageStart { message_id, role: "reasoning" });
    }

    fn reasoning_end(&mut self, reply_id: &'a NodeId, index: u32) {
        let message_id = ReasoningId { reply_id: reply_id.as_str(), index };
        self.push(AguiEvent::ReasoningMessageEnd { message_id });
        self.push(AguiEvent::ReasoningEnd { message_id });
    }

    /// Always with its parent: without one a client makes up a message of its own.
    fn call_start(&mut self, reply_id: &'a NodeId, id: &'a ToolCallId, name: &'a str) {
        self.push(AguiEvent::ToolCallStart { tool_call_id: id.as_str(), tool_call_name: name, parent_message_id: reply_id.as_str() });
    }
}
