//! Random conversations as neutral events, with what a client must hold at each place.

use std::collections::BTreeMap;
use std::sync::Arc;

use headwater::agui::Dialect;
use headwater::ids::{NodeId, ToolCallId};
use headwater::protocol::{
    Code, Content, Cursor, Event, EventBody, Json, Live, Message, NodeKind, OpenCall, Part, PartKind, Role, Snapshot, ToolCall, Writing,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What may happen next; what isn't possible then is passed over.
#[derive(Clone, Debug)]
pub enum Step {
    Say(String),
    Think(String),
    StopThinking,
    Call,
    Arguments(usize, String),
    EndReply,
    GiveUp,
    Result(usize, bool),
    Resync,
    Noise,
}

/// Any step.
pub fn step() -> impl Strategy<Value = Step> {
    let text = || "[a-z\"\\\\\n\r é😀]{0,6}";
    prop_oneof![
        6 => text().prop_map(Step::Say),
        4 => text().prop_map(Step::Think),
        2 => Just(Step::StopThinking),
        2 => Just(Step::Call),
        4 => (0..3usize, text()).prop_map(|(n, text)| Step::Arguments(n, text)),
        2 => Just(Step::EndReply),
        1 => Just(Step::GiveUp),
        2 => (0..4usize, any::<bool>()).prop_map(|(n, parts)| Step::Result(n, parts)),
        1 => Just(Step::Resync),
        1 => Just(Step::Noise),
    ]
}

/// A reply in the making.
#[derive(Default)]
struct Reply {
    id: String,
    parts: Vec<Part>,
    text: bool,
    thoughts: u32,
    thinking: bool,
    calls: Vec<ToolCall>,
    n: u64,
}

impl Reply {
    fn node(&self) -> NodeId {
        self.id.as_str().into()
    }

    fn message(&self) -> Message {
        let content = if self.parts.is_empty() { None } else { Some(Content::Parts(self.parts.clone())) };
        Message { content, tool_calls: self.calls.clone(), ..Message::empty(Role::Assistant) }.with_id(self.node())
    }

    fn writing(&self) -> Writing {
        Writing {
            reply_id: self.node(),
            text: self.text,
            reasoning: self.thinking.then_some(self.thoughts),
            calls: self.calls.iter().map(|call| OpenCall { id: call.id.clone(), name: call.function.name.clone() }).collect(),
        }
    }

    fn ended(&self) -> Live {
        let Writing { reply_id, text, reasoning, calls } = self.writing();
        Live::ReplyEnded { reply_id, text, reasoning, calls: calls.into_iter().map(|call| call.id).collect() }
    }
}

/// A conversation: its events, and where one can join, the snapshot there.
#[derive(Default)]
pub struct Conversation {
    pub events: Vec<Event>,
    pub joins: Vec<Option<Snapshot>>,
    done: Vec<Arc<Message>>,
    reply: Option<Reply>,
    seq: u64,
    replies: u32,
    calls: Vec<ToolCallId>,
}

impl Conversation {
    pub fn of(steps: &[Step]) -> Self {
        let mut conversation = Self::default();
        for step in steps {
            conversation.step(step);
        }
        conversation.end_reply();
        conversation
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Say(text) => self.say(text),
            Step::Think(text) => self.think(text),
            Step::StopThinking => self.stop_thinking(),
            Step::Call => self.call(),
            Step::Arguments(n, text) => self.arguments(*n, text),
            Step::EndReply => self.end_reply(),
            Step::GiveUp => self.give_up(),
            Step::Result(n, parts) => self.result(*n, *parts),
            Step::Resync => self.resync(),
            Step::Noise => self.noise(),
        }
    }

    fn push(&mut self, cursor: Option<Cursor>, body: EventBody) {
        let at = 1_700_000_000_000 + self.events.len() as u64;
        self.events.push(Event { cursor, at, body });
        self.joins.push(cursor.map(|_| self.snapshot()));
    }

    fn live(&mut self, marks: u64, live: Live) {
        let seq = self.seq;
        let cursor = self.reply.as_mut().map(|reply| {
            reply.n += marks;
            Cursor { seq, within: Some((1, reply.n)) }
        });
        self.push(cursor, EventBody::Live(live));
    }

    fn record(&mut self, body: EventBody) {
        self.seq += 1;
        self.push(Some(Cursor::after(self.seq)), body);
    }

    /// The conversation as it is.
    pub fn snapshot(&self) -> Snapshot {
        let writing = self.reply.as_ref().map(|reply| Arc::new(reply.message()));
        let messages = self.done.iter().cloned().chain(writing).collect();
        let state = (self.seq % 2 == 1).then(|| Json::from_value(&json!({"seq": self.seq})).unwrap());
        Snapshot { messages, state, interrupts: Vec::new(), writing: self.reply.as_ref().map(Reply::writing) }
    }

    fn reply(&mut self) -> &mut Reply {
        if self.reply.is_none() {
            self.replies += 1;
            let id = format!("hw_r{}", self.replies);
            self.reply = Some(Reply { id: id.clone(), ..Reply::default() });
            self.seq += 1;
            let cursor = Some(Cursor::after(self.seq));
            let (turn_id, call_id, reply_id) = ("t".into(), "c".into(), id.as_str().into());
            self.push(cursor, EventBody::CallStarted { turn_id, call_id, attempt: 1, reply_id, hidden: false, arrivals: 0 });
        }
        self.reply.as_mut().expect("it was made")
    }

    fn say(&mut self, text: &str) {
        let reply = self.reply();
        let (reply_id, first) = (reply.node(), !reply.text);
        if first {
            reply.text = true;
            reply.parts.push(Part::text(PartKind::Text, ""));
            self.live(1, Live::TextStarted { reply_id: reply_id.clone() });
        }
        let parts = &mut self.reply().parts;
        let last = parts.iter_mut().rev().find(|part| part.kind == PartKind::Text).and_then(|part| part.text.as_mut());
        last.expect("text was begun").push_str(text);
        self.live(text.chars().count() as u64, Live::Text { reply_id, delta: text.to_owned() });
    }

    fn think(&mut self, text: &str) {
        let reply = self.reply();
        let reply_id = reply.node();
        if !reply.thinking {
            reply.thinking = true;
            reply.thoughts += 1;
            reply.parts.push(Part::text(PartKind::Reasoning, ""));
            let index = reply.thoughts;
            self.live(2, Live::ReasoningStarted { reply_id: reply_id.clone(), index });
        }
        let reply = self.reply();
        let index = reply.thoughts;
        let last = reply.parts.iter_mut().rev().find(|part| part.kind == PartKind::Reasoning).and_then(|part| part.text.as_mut());
        last.expect("it thinks").push_str(text);
        self.live(text.chars().count() as u64, Live::Reasoning { reply_id, index, delta: text.to_owned() });
    }

    fn stop_thinking(&mut self) {
        if let Some(reply) = self.reply.as_mut().filter(|reply| reply.thinking) {
            reply.thinking = false;
            let (reply_id, index) = (reply.node(), reply.thoughts);
            self.live(2, Live::ReasoningEnded { reply_id, index });
        }
    }

    fn call(&mut self) {
        let id = ToolCallId::from(format!("call_{}", self.calls.len()));
        self.calls.push(id.clone());
        let reply = self.reply();
        reply.calls.push(ToolCall::new(id.clone(), "weather", ""));
        let reply_id = reply.node();
        self.live(1, Live::ToolCallStarted { reply_id, id, name: "weather".to_owned() });
    }

    fn arguments(&mut self, n: usize, text: &str) {
        let Some(call) = self.reply.as_mut().and_then(|reply| reply.calls.get_mut(n)) else { return };
        call.function.arguments.push_str(text);
        let id = call.id.clone();
        self.live(text.chars().count() as u64, Live::ToolCallArguments { id, delta: text.to_owned() });
    }

    fn end_reply(&mut self) {
        let Some(reply) = &self.reply else { return };
        let reply_id = reply.node();
        if !reply.text && reply.calls.is_empty() {
            // A reply that said nothing still is a message.
            self.reply().text = true;
            self.live(1, Live::TextStarted { reply_id });
        }
        let Some(reply) = self.reply.take() else { return };
        let message = Arc::new(reply.message());
        self.done.push(message.clone());
        self.push(None, message_new(message));
        self.push(None, EventBody::CallCompleted { call_id: "c".into(), hidden: false, usage: None });
        self.record(EventBody::Live(reply.ended()));
    }

    fn give_up(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        self.push(None, EventBody::CallFailed { call_id: "c".into(), attempt: 1, hidden: false, code: Code::LlmCut, not_before: None });
        self.push(None, EventBody::Live(reply.ended()));
        self.tell_whole();
    }

    fn result(&mut self, n: usize, parts: bool) {
        let open = self.reply.is_none().then(|| self.calls.get(n).cloned()).flatten();
        let Some(id) = open.filter(|id| self.answerable(id)) else { return };
        let content = if parts {
            let source = Some(Json::from_value(&json!({"type": "file", "value": "f"})).unwrap());
            let picture = Part { text: None, source, ..Part::text(PartKind::Image, "") };
            Content::Parts(vec![Part::text(PartKind::Text, "18 "), picture, Part::text(PartKind::Text, "degrees")])
        } else {
            Content::Text("18 degrees".to_owned())
        };
        let message = Message { content: Some(content), tool_call_id: Some(id.clone()), ..Message::empty(Role::Tool) };
        let message = Arc::new(message.with_id(format!("hw_x_{id}").into()));
        self.done.push(message.clone());
        self.record(message_new(message));
    }

    /// Whether the call is a finished reply's and has no result yet.
    fn answerable(&self, id: &ToolCallId) -> bool {
        let asked = self.done.iter().any(|message| message.tool_calls.iter().any(|call| call.id == *id));
        asked && !self.done.iter().any(|message| message.tool_call_id.as_ref() == Some(id))
    }

    /// What is open is closed first: a client refuses what is opened twice.
    fn resync(&mut self) {
        if let Some(reply) = &self.reply {
            let ended = reply.ended();
            self.push(None, EventBody::Live(ended));
        }
        self.tell_whole();
    }

    fn tell_whole(&mut self) {
        self.seq += 1;
        let snapshot = Arc::new(self.snapshot());
        self.push(Some(Cursor::after(self.seq)), EventBody::Resync(snapshot));
    }

    fn noise(&mut self) {
        self.record(EventBody::TurnStarted { turn_id: "t".into(), agent_id: "a".into() });
        self.record(EventBody::HeadMoved { head_id: None, label: None, reads_as: None });
        let hidden = Message::text(Role::Assistant, "hidden").with_id("hw_hidden".into());
        self.record(EventBody::MessageNew {
            node_id: "hw_hidden".into(),
            parent_id: None,
            kind: NodeKind::Message,
            shown_id: None,
            message: Some(Arc::new(Message { role: Role::Tool, tool_call_id: Some("x".into()), ..hidden })),
            copied_from: None,
            reads_as: None,
            partial: false,
            call_id: None,
            source: None,
        });
    }

    /// What a client holds at the end, by id.
    pub fn held(&self, dialect: Dialect) -> BTreeMap<String, Value> {
        let mut held = BTreeMap::new();
        for message in &self.done {
            let id = message.id.as_ref().unwrap().to_string();
            if message.role == Role::Assistant {
                let calls: Vec<_> = message.tool_calls.iter().map(|call| (call.id.to_string(), call.function.arguments.clone())).collect();
                held.insert(id.clone(), json!({"says": message.joined_text(), "calls": calls}));
            } else {
                let parts = matches!(message.content, Some(Content::Parts(_)));
                let says = match (parts, dialect) {
                    (true, Dialect::V1) => {
                        let text = |text: &str| json!({"type": "text", "text": text});
                        json!([text("18 "), {"type": "image", "source": {"type": "file", "value": "f"}}, text("degrees")])
                    }
                    (true, Dialect::Legacy) | (false, _) => json!("18 degrees"),
                };
                held.insert(id.clone(), json!({"says": says, "calls": []}));
            }
            let Some(Content::Parts(parts)) = &message.content else { continue };
            for (part, n) in parts.iter().filter(|part| part.kind == PartKind::Reasoning).zip(1..) {
                held.insert(format!("{id}:reasoning-{n}"), json!({"says": part.text, "calls": []}));
            }
        }
        held
    }
}

fn message_new(message: Arc<Message>) -> EventBody {
    let id = message.id.clone().unwrap();
    EventBody::MessageNew {
        node_id: id.clone(),
        parent_id: None,
        kind: NodeKind::Message,
        shown_id: Some(id),
        message: Some(message),
        copied_from: None,
        reads_as: None,
        partial: false,
        call_id: None,
        source: None,
    }
}
