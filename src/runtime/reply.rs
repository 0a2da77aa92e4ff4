//! A reply in the making: pieces of a model's answer become live events for readers and, in the end, the message that is
//! recorded. What was put in here has been shown.

use super::pieces::{Pieces, Place, size};
use crate::ids::{Millis, NodeId, ToolCallId};
use crate::protocol::{
    Content, Cursor, Event, EventBody, Finish, Interrupt, Json, Live, Message, OpenCall, Part, PartKind, Role, ToolCall, Usage, Writing,
};
use crate::provider::{CallOf, Chunk, EncryptedOf};

/// A reply in the making.
#[derive(Debug)]
pub struct Reply {
    id: NodeId,
    attempt: u32,
    /// Whether no UI may see it.
    hidden: bool,
    /// Position of the last record that was told.
    seq: u64,
    told: Pieces,
    parts: Vec<Part>,
    calls: Vec<Asked>,
    text: bool,
    reasoning: Option<u32>,
    reasonings: u32,
    usage: Option<Usage>,
    results: Vec<Came>,
    state: Option<Json>,
    interrupts: Vec<Interrupt>,
    /// Whether its agent goes on after it.
    goes_on: bool,
    finish: Option<Finish>,
}

/// The result of a call that an agent carried out itself.
#[derive(Debug)]
struct Came {
    /// Of which call.
    of: CallOf,
    content: String,
    error: Option<String>,
}

#[derive(Debug)]
struct Asked {
    index: u32,
    call: ToolCall,
}

impl Reply {
    /// Nothing yet, after the record at `seq`.
    pub fn new(id: NodeId, attempt: u32, hidden: bool, seq: u64) -> Self {
        Self {
            id,
            attempt,
            hidden,
            seq,
            told: Pieces::default(),
            parts: Vec::new(),
            calls: Vec::new(),
            text: false,
            reasoning: None,
            reasonings: 0,
            usage: None,
            results: Vec::new(),
            state: None,
            interrupts: Vec::new(),
            goes_on: false,
            finish: None,
        }
    }

    /// Takes a piece. `fresh` makes a name for a tool call, given the provider's.
    pub fn take(&mut self, chunk: Chunk, at: Millis, fresh: impl FnOnce(Option<ToolCallId>, &[ToolCallId]) -> ToolCallId) {
        match chunk {
            Chunk::Text(delta) => self.text(delta, at),
            Chunk::Reasoning(delta) => self.reason(delta, at),
            Chunk::ToolCall { index, id, name } => {
                let taken: Vec<ToolCallId> = self.calls.iter().map(|asked| asked.call.id.clone()).collect();
                let id = fresh(id, &taken);
                self.ask(index, id, name, at);
            }
            Chunk::ToolArguments { index, delta } => self.argue(index, delta, at),
            Chunk::Encrypted { of, value } => self.encrypted(of, value, at),
            Chunk::Usage(usage) => self.usage = Some(usage),
            Chunk::ToolResult { of, content, error } => self.results.push(Came { of, content, error }),
            Chunk::State(state) => self.state = Some(state),
            Chunk::Interrupt { of, interrupt } => {
                let asked = of.and_then(|index| self.asked(index)).map(|asked| asked.call.id.clone());
                let tool_call_id = asked.or_else(|| interrupt.tool_call_id.clone());
                self.interrupts.push(Interrupt { tool_call_id, ..*interrupt });
            }
            Chunk::Next => (self.goes_on, self.finish) = (true, Some(Finish::ToolCalls)),
            Chunk::Finished(finish) => self.finish = Some(finish),
        }
    }

    /// How many bytes the arguments of a call have so far.
    pub fn arguments_bytes(&self, index: u32) -> usize {
        let asked = self.calls.iter().rev().find(|asked| asked.index == index);
        asked.map_or(0, |asked| asked.call.function.arguments.len())
    }

    /// Why the model stopped, once it has.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Tokens, as reported.
    pub fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    fn asked(&self, index: u32) -> Option<&Asked> {
        self.calls.iter().rev().find(|asked| asked.index == index)
    }

    /// Whether its agent goes on after it, with another one.
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// The results that its agent has of its calls: the first one of each.
    pub fn results(&self) -> Vec<Message> {
        let mut results: Vec<Message> = Vec::with_capacity(self.results.len());
        for Came { of, content, error } in &self.results {
            let tool_call_id = match of {
                CallOf::Reply(index) => self.asked(*index).map(|asked| asked.call.id.clone()),
                CallOf::Before(id) => Some(id.clone()),
            };
            if tool_call_id.is_some() && results.iter().all(|result| result.tool_call_id != tool_call_id) {
                results.push(Message { tool_call_id, error: error.clone(), ..Message::text(Role::Tool, content) });
            }
        }
        results
    }

    /// The state as its agent left it, when it did.
    pub fn state(&self) -> Option<Json> {
        self.state.clone()
    }

    /// What its agent waits for.
    pub fn interrupts(&self) -> Vec<Interrupt> {
        self.interrupts.clone()
    }

    /// The reply as far as it is, without an id.
    pub fn message(&self) -> Message {
        let mut parts = self.parts.clone();
        while parts.last().is_some_and(|part| part.kind == PartKind::ToolCall) {
            parts.pop();
        }
        let content = match parts.as_mut_slice() {
            [] => None,
            [Part { kind: PartKind::Text, text: Some(text), encrypted_value: None, .. }] => Some(Content::Text(std::mem::take(text))),
            _ => Some(Content::Parts(parts)),
        };
        Message { content, tool_calls: self.calls.iter().map(|asked| asked.call.clone()).collect(), ..Message::empty(Role::Assistant) }
    }

    /// Whether readers have been told anything of it.
    pub fn was_shown(&self) -> bool {
        !self.hidden && self.told.told() > 0
    }

    /// A record was told while the reply is made.
    pub fn pass(&mut self, seq: u64) {
        self.seq = seq;
    }

    /// Which attempt it is of.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What readers were told from a place on.
    pub fn since(&self, place: Place) -> Vec<Event> {
        self.events_since(place).collect()
    }

    /// The same, of which about so many bytes.
    pub fn part_since(&self, place: Place, bytes: usize) -> Vec<Event> {
        let mut taken = 0;
        let fits = |event: &Event| {
            let fits = taken < bytes;
            taken += event.weight();
            fits
        };
        self.events_since(place).take_while(fits).collect()
    }

    fn events_since(&self, place: Place) -> impl Iterator<Item = Event> + '_ {
        let event = |told| Some(Cursor { seq: self.seq, within: Some((self.attempt, told)) });
        let said = (!self.hidden).then(|| self.told.since(place)).into_iter().flatten();
        said.map(move |said| Event { cursor: event(said.told), at: said.at, body: EventBody::Live(said.live) })
    }

    /// The place where everything was told so far.
    pub fn end(&self) -> Place {
        self.told.end()
    }

    /// The place where `told` characters and marks were told.
    pub fn place(&self, told: u64) -> Place {
        self.told.place(told)
    }

    /// How a reader joins in the middle: the message so far, and what of it is open.
    pub fn joined(&self) -> Option<(Message, Writing)> {
        self.was_shown().then(|| {
            let calls = self.calls.iter().map(|asked| OpenCall { id: asked.call.id.clone(), name: asked.call.function.name.clone() });
            let calls = calls.collect();
            let writing = Writing { reply_id: self.id.clone(), text: self.text, reasoning: self.reasoning, calls };
            (self.message().without_encrypted().with_id(self.id.clone()), writing)
        })
    }

    /// Where a reader is that has been told everything so far.
    pub fn cursor(&self) -> Cursor {
        Cursor { seq: self.seq, within: self.was_shown().then_some((self.attempt, self.told.told())) }
    }

    /// Everything that is open ends.
    pub fn ended(&self, at: Millis) -> Option<Event> {
        self.was_shown().then(|| {
            let calls = self.calls.iter().map(|asked| asked.call.id.clone()).collect();
            let live = Live::ReplyEnded { reply_id: self.id.clone(), text: self.text, reasoning: self.reasoning, calls };
            let cursor = Cursor { seq: self.seq, within: Some((self.attempt, self.told.told() + size(&live))) };
            Event { cursor: Some(cursor), at, body: EventBody::Live(live) }
        })
    }

    /// Adds to the last part when it is of this kind and goes on, else begins one.
    fn add(&mut self, kind: PartKind, delta: &str) {
        match self.parts.last_mut() {
            Some(Part { kind: last, text: Some(text), encrypted_value: None, .. }) if *last == kind => text.push_str(delta),
            Some(_) | None => self.parts.push(Part::text(kind, delta)),
        }
    }

    fn text(&mut self, delta: String, at: Millis) {
        if delta.is_empty() {
            return;
        }
        self.close_reasoning(at);
        self.add(PartKind::Text, &delta);
        let reply_id = self.id.clone();
        if !std::mem::replace(&mut self.text, true) {
            self.told.tell(Live::TextStarted { reply_id: reply_id.clone() }, at);
        }
        self.told.tell(Live::Text { reply_id, delta }, at);
    }

    fn reason(&mut self, delta: String, at: Millis) {
        if delta.is_empty() {
            return;
        }
        let index = match self.reasoning {
            Some(index) => index,
            None => self.open_reasoning(at),
        };
        self.add(PartKind::Reasoning, &delta);
        self.told.tell(Live::Reasoning { reply_id: self.id.clone(), index, delta }, at);
    }

    fn open_reasoning(&mut self, at: Millis) -> u32 {
        self.reasonings += 1;
        let index = self.reasonings;
        self.reasoning = Some(index);
        // A part of its own, also right after another one.
        self.parts.push(Part::text(PartKind::Reasoning, ""));
        self.told.tell(Live::ReasoningStarted { reply_id: self.id.clone(), index }, at);
        index
    }

    fn close_reasoning(&mut self, at: Millis) {
        if let Some(index) = self.reasoning.take() {
            self.told.tell(Live::ReasoningEnded { reply_id: self.id.clone(), index }, at);
        }
    }

    fn ask(&mut self, index: u32, id: ToolCallId, name: String, at: Millis) {
        self.close_reasoning(at);
        let mark = Part { tool_call_id: Some(id.clone()), text: None, ..Part::text(PartKind::ToolCall, "") };
        self.parts.push(mark);
        self.calls.push(Asked { index, call: ToolCall::new(id.clone(), name.clone(), "") });
        self.told.tell(Live::ToolCallStarted { reply_id: self.id.clone(), id, name }, at);
    }

    fn argue(&mut self, index: u32, delta: String, at: Millis) {
        let Some(asked) = self.calls.iter_mut().rev().find(|asked| asked.index == index) else { return };
        if delta.is_empty() {
            return;
        }
        asked.call.function.arguments.push_str(&delta);
        let id = asked.call.id.clone();
        self.told.tell(Live::ToolCallArguments { id, delta }, at);
    }

    /// Keeps a provider's opaque form with what it is of. Readers are told nothing of it.
    fn encrypted(&mut self, of: EncryptedOf, value: String, at: Millis) {
        let is_open = self.reasoning.is_some();
        self.close_reasoning(at);
        let (kind, text) = match of {
            EncryptedOf::ToolCall(index) => {
                if let Some(asked) = self.calls.iter_mut().rev().find(|asked| asked.index == index) {
                    asked.call.encrypted_value = Some(value);
                }
                return;
            }
            EncryptedOf::Reasoning if is_open => (PartKind::Reasoning, None),
            EncryptedOf::Reasoning => {
                return self.parts.push(Part { text: None, encrypted_value: Some(value), ..Part::text(PartKind::Reasoning, "") });
            }
            EncryptedOf::Text => (PartKind::Text, Some(String::new())),
        };
        match self.parts.last_mut() {
            Some(part) if part.kind == kind && part.encrypted_value.is_none() => part.encrypted_value = Some(value),
            Some(_) | None => self.parts.push(Part { text, encrypted_value: Some(value), ..Part::text(kind, "") }),
        }
    }
}
