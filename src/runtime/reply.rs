//! A reply in the making: pieces of a model's answer become live events for readers and, in the end, the message that is
//! recorded. What was put in here has been shown.

use crate::ids::{Millis, NodeId, ToolCallId};
use crate::protocol::{Content, Cursor, Event, EventBody, Finish, Live, Message, OpenCall, Part, PartKind, Role, ToolCall, Usage, Writing};
use crate::provider::Chunk;

/// A reply in the making.
#[derive(Debug)]
pub struct Reply {
    id: NodeId,
    /// Position of the record that began the attempt, and which attempt it is.
    base: (u64, u32),
    /// Characters and marks told so far.
    told: u64,
    parts: Vec<Part>,
    calls: Vec<Asked>,
    text: bool,
    reasoning: Option<u32>,
    reasonings: u32,
    usage: Option<Usage>,
    finish: Option<Finish>,
}

#[derive(Debug)]
struct Asked {
    index: u32,
    call: ToolCall,
}

impl Reply {
    /// Nothing yet.
    pub fn new(id: NodeId, seq: u64, attempt: u32) -> Self {
        Self {
            id,
            base: (seq, attempt),
            told: 0,
            parts: Vec::new(),
            calls: Vec::new(),
            text: false,
            reasoning: None,
            reasonings: 0,
            usage: None,
            finish: None,
        }
    }

    /// Takes a piece; what readers are told of it is added to `events`. `fresh` makes a name for a tool call, given the
    /// provider's.
    pub fn take(
        &mut self,
        chunk: Chunk,
        at: Millis,
        fresh: impl FnOnce(Option<ToolCallId>, &[ToolCallId]) -> ToolCallId,
        events: &mut Vec<Event>,
    ) {
        let mut told = Told { reply: self, at, events };
        match chunk {
            Chunk::Text(delta) => told.text(delta),
            Chunk::Reasoning(delta) => told.reason(delta),
            Chunk::ToolCall { index, id, name } => {
                let taken: Vec<ToolCallId> = told.reply.calls.iter().map(|asked| asked.call.id.clone()).collect();
                let id = fresh(id, &taken);
                told.ask(index, id, name);
            }
            Chunk::ToolArguments { index, delta } => told.argue(index, delta),
            Chunk::Usage(usage) => self.usage = Some(usage),
            Chunk::Finished(finish) => self.finish = Some(finish),
        }
    }

    /// Why the model stopped, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Tokens, as reported.
    pub fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    /// The reply as far as it is, without an id.
    pub fn message(&self) -> Message {
        let mut parts = self.parts.clone();
        while parts.last().is_some_and(|part| part.kind == PartKind::ToolCall) {
            parts.pop();
        }
        let content = match parts.as_mut_slice() {
            [] => None,
            [Part { kind: PartKind::Text, text: Some(text), .. }] => Some(Content::Text(std::mem::take(text))),
            _ => Some(Content::Parts(parts)),
        };
        Message { content, tool_calls: self.calls.iter().map(|asked| asked.call.clone()).collect(), ..Message::empty(Role::Assistant) }
    }

    /// Whether readers have been told anything of it.
    pub fn was_shown(&self) -> bool {
        self.told > 0
    }

    /// How a reader joins in the middle: the message so far, and what of it is open.
    pub fn joined(&self) -> Option<(Message, Writing)> {
        self.was_shown().then(|| {
            let calls = self.calls.iter().map(|asked| OpenCall { id: asked.call.id.clone(), name: asked.call.function.name.clone() });
            let calls = calls.collect();
            let writing = Writing { reply_id: self.id.clone(), text: self.text, reasoning: self.reasoning, calls };
            (self.message().with_id(self.id.clone()), writing)
        })
    }

    /// Where a reader is that has been told everything so far.
    pub fn cursor(&self) -> Cursor {
        let (seq, attempt) = self.base;
        Cursor { seq, within: self.was_shown().then_some((attempt, self.told)) }
    }

    /// Everything that is open ends.
    pub fn ended(&self, at: Millis) -> Option<Event> {
        self.was_shown().then(|| {
            let calls = self.calls.iter().map(|asked| asked.call.id.clone()).collect();
            let live = Live::ReplyEnded { reply_id: self.id.clone(), text: self.text, reasoning: self.reasoning, calls };
            Event { cursor: None, at, body: EventBody::Live(live) }
        })
    }
}

/// Telling readers what a reply gains.
struct Told<'a> {
    reply: &'a mut Reply,
    at: Millis,
    events: &'a mut Vec<Event>,
}

impl Told<'_> {
    fn tell(&mut self, live: Live, size: u64) {
        self.reply.told += size;
        let cursor = Some(self.reply.cursor());
        self.events.push(Event { cursor, at: self.at, body: EventBody::Live(live) });
    }

    /// Adds `delta` to the last event when that is the same piece still going on.
    fn merged(&mut self, delta: &str, same: impl FnOnce(&mut Live) -> Option<&mut String>) -> bool {
        let Some(Event { body: EventBody::Live(live), cursor, .. }) = self.events.last_mut() else { return false };
        let Some(text) = same(live) else { return false };
        text.push_str(delta);
        self.reply.told += size(delta);
        *cursor = Some(self.reply.cursor());
        true
    }

    /// Adds to the last part when it is of this kind, else begins one.
    fn add(&mut self, kind: PartKind, delta: &str) {
        match self.reply.parts.last_mut() {
            Some(Part { kind: last, text: Some(text), .. }) if *last == kind => text.push_str(delta),
            Some(_) | None => self.reply.parts.push(Part::text(kind, delta)),
        }
    }

    fn text(&mut self, delta: String) {
        if delta.is_empty() {
            return;
        }
        self.close_reasoning();
        self.add(PartKind::Text, &delta);
        let reply_id = self.reply.id.clone();
        if !self.reply.text {
            self.reply.text = true;
            self.tell(Live::TextStarted { reply_id: reply_id.clone() }, 1);
        }
        let merged = self.merged(&delta, |live| if let Live::Text { delta, .. } = live { Some(delta) } else { None });
        if !merged {
            let told = size(&delta);
            self.tell(Live::Text { reply_id, delta }, told);
        }
    }

    fn reason(&mut self, delta: String) {
        if delta.is_empty() {
            return;
        }
        let reply_id = self.reply.id.clone();
        let index = match self.reply.reasoning {
            Some(index) => index,
            None => self.open_reasoning(),
        };
        self.add(PartKind::Reasoning, &delta);
        let merged = self.merged(&delta, |live| if let Live::Reasoning { delta, .. } = live { Some(delta) } else { None });
        if !merged {
            let told = size(&delta);
            self.tell(Live::Reasoning { reply_id, index, delta }, told);
        }
    }

    fn open_reasoning(&mut self) -> u32 {
        self.reply.reasonings += 1;
        let index = self.reply.reasonings;
        self.reply.reasoning = Some(index);
        // A part of its own, also right after another one.
        self.reply.parts.push(Part::text(PartKind::Reasoning, ""));
        self.tell(Live::ReasoningStarted { reply_id: self.reply.id.clone(), index }, 1);
        index
    }

    fn close_reasoning(&mut self) {
        if let Some(index) = self.reply.reasoning.take() {
            self.tell(Live::ReasoningEnded { reply_id: self.reply.id.clone(), index }, 1);
        }
    }

    fn ask(&mut self, index: u32, id: ToolCallId, name: String) {
        self.close_reasoning();
        let mark = Part { tool_call_id: Some(id.clone()), text: None, ..Part::text(PartKind::ToolCall, "") };
        self.reply.parts.push(mark);
        self.reply.calls.push(Asked { index, call: ToolCall::new(id.clone(), name.clone(), "") });
        self.tell(Live::ToolCallStarted { reply_id: self.reply.id.clone(), id, name }, 1);
    }

    fn argue(&mut self, index: u32, delta: String) {
        let Some(asked) = self.reply.calls.iter_mut().rev().find(|asked| asked.index == index) else { return };
        if delta.is_empty() {
            return;
        }
        asked.call.function.arguments.push_str(&delta);
        let id = asked.call.id.clone();
        let merged = self.merged(&delta, |live| match live {
            Live::ToolCallArguments { id: open, delta } if *open == id => Some(delta),
            Live::ToolCallArguments { .. }
            | Live::TextStarted { .. }
            | Live::Text { .. }
            | Live::ReasoningStarted { .. }
            | Live::Reasoning { .. }
            | Live::ReasoningEnded { .. }
            | Live::ToolCallStarted { .. }
            | Live::ReplyEnded { .. } => None,
        });
        if !merged {
            let told = size(&delta);
            self.tell(Live::ToolCallArguments { id, delta }, told);
        }
    }
}

fn size(delta: &str) -> u64 {
    delta.chars().count() as u64
}
