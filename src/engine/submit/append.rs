//! `client.message` and `client.append`: messages at the head, wherever that is when they are delivered. They never branch.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{Case, answerable, reply_due_at};
use crate::engine::head::must_be_readable;
use crate::engine::reading::Ix;
use crate::engine::record::HeadMoved;
use crate::ids::{NodeId, ToolCallId, TurnId};
use crate::protocol::{Accepted, Code, Message, NodeKind, Refusal, Role};

/// What a message is already.
enum Met {
    /// Nothing: it is new.
    New,
    /// A node that readers don't see at the head: the original is written as a copy.
    Elsewhere(Ix),
    /// It stands at the head, or waits; and the turn that brought it.
    There(Option<TurnId>),
    /// The result of an open call.
    Answer,
}

/// An input's messages, by what becomes of them.
#[derive(Default)]
struct Sorted<'m> {
    follow: Vec<Cow<'m, Message>>,
    answers: Vec<&'m Message>,
    last: Option<TurnId>,
    originals: HashSet<Ix>,
}

impl Case<'_> {
    pub(super) fn append(&mut self, messages: &[Message]) -> Result<Accepted, Refusal> {
        if messages.is_empty() {
            return Err(Refusal::new(Code::BadRequest, "messages is empty; there is nothing to append").with("field", "messages"));
        }
        self.arrive(messages, false)
    }

    /// Takes messages that come at the head, one alone or several.
    fn arrive(&mut self, messages: &[Message], alone: bool) -> Result<Accepted, Refusal> {
        let Sorted { follow, answers, last, .. } = self.sort(messages, alone)?;
        match (follow.is_empty(), answers.is_empty()) {
            (true, true) => Ok(self.known(last)),
            (true, false) => self.results(&answers),
            (false, _) => self.follow(&follow, &answers),
        }
    }

    /// One message of a user's. Whose id is the head asks for a reply; whose id is elsewhere was sent before.
    pub(super) fn message(&mut self, message: &Message) -> Result<Accepted, Refusal> {
        if message.role != Role::User {
            let text = format!("client.message takes a message of the user's, not of role {}", role_name(message.role));
            return Err(Refusal::new(Code::BadRequest, text).with("field", "message.role"));
        }
        let session = self.session;
        let Some(id) = &message.id else { return self.arrive(std::slice::from_ref(message), true) };
        if let Some(turn) = session.waiting_in(id) {
            let arrival = session.arrivals.bringing(id).is_some();
            return Ok(Accepted { arrival, ..self.known(Some(turn)) });
        }
        let tree = &session.tree;
        let Some(ix) = tree.find(id) else { return self.arrive(std::slice::from_ref(message), true) };
        must_be_readable(tree, tree.node(ix).original, id)?;
        let is_head = tree.node(ix).kind == NodeKind::Message && tree.node(ix).vertex == tree.vertex(session.head);
        if !is_head {
            return Ok(self.known(session.recorded_by(ix)));
        }
        if let Some(turn) = &session.turn {
            return Err(self.busy(turn));
        }
        let reply = self.submit.run.unwrap_or_else(|| reply_due_at(tree, session.head));
        if reply {
            let at = answerable(tree, session.head);
            if at != session.head {
                self.writer.go_to(at);
                self.writer.head_moved(HeadMoved::default());
            }
            let started = self.started();
            self.writer.begin(started, reply);
        }
        Ok(Accepted { reply, ..self.plain() })
    }

    fn sort<'m>(&self, messages: &'m [Message], alone: bool) -> Result<Sorted<'m>, Refusal> {
        let tree = &self.session.tree;
        let mut sorted = Sorted::default();
        let mut given = Given::default();
        for (index, message) in messages.iter().enumerate() {
            let at = Place(Some(index).filter(|_| !alone));
            must_be_appendable(at, message)?;
            given.must_be_once(at, message)?;
            match self.met(at, message)? {
                Met::New => {
                    self.must_have_new_calls(at, message)?;
                    self.must_answer_a_call(at, message, &given)?;
                    sorted.follow.push(Cow::Borrowed(message));
                }
                Met::Elsewhere(original) => {
                    if sorted.originals.insert(original) {
                        sorted.follow.push(Cow::Owned(Message::empty(tree.node(original).role).with_id(tree.id(original))));
                    }
                }
                Met::Answer => sorted.answers.push(message),
                Met::There(turn) => sorted.last = turn.or(sorted.last),
            }
        }
        Ok(sorted)
    }

    /// What a message is, a result by its call before its id.
    fn met(&self, at: Place, message: &Message) -> Result<Met, Refusal> {
        let (session, tree) = (self.session, &self.session.tree);
        let called = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool).and_then(|id| Some((id, tree.call(id)?)));
        if let Some((call_id, called)) = called {
            return match called.result {
                Some(ix) => Ok(self.recorded(tree.node(ix).original)),
                None if called.open => Ok(Met::Answer),
                None => {
                    let why = format_args!("answers the call {call_id}, which waits for no result any more");
                    Err(at.refuse(Code::CallNotOpen, why).with("tool_call_id", call_id.as_str()))
                }
            };
        }
        if let Some(queued) = session.queue.answering(message) {
            return Ok(Met::There(Some(queued.id.clone())));
        }
        let Some(id) = &message.id else { return Ok(Met::New) };
        if let Some(turn) = session.waiting_in(id) {
            return Ok(Met::There(Some(turn)));
        }
        let refuse = |code: Code, why: &str| Err(at.refuse(code, format_args!("has the id {id}, {why}")));
        match (tree.find(id), tree.known(id)) {
            (Some(ix), _) => {
                let original = tree.node(ix).original;
                must_be_readable(tree, original, id).map_err(|refusal| at.add_to(refusal))?;
                Ok(self.recorded(original))
            }
            (None, Some(_)) => refuse(Code::BadRequest, "which is that of a reply; give it an id of its own or none"),
            (None, None) if id.is_reserved() => refuse(
                Code::ReservedId,
                "which begins with Headwater's own prefix and names nothing in this session; send the message with an id of your own or without one",
            ),
            (None, None) => Ok(Met::New),
        }
    }

    fn recorded(&self, original: Ix) -> Met {
        let session = self.session;
        if session.sees(original) {
            return Met::There(session.recorded_by(original));
        }
        match session.waiting_in(&session.tree.id(original)) {
            Some(turn) => Met::There(Some(turn)),
            None => Met::Elsewhere(original),
        }
    }

    /// Calls of an imported reply are new: an id names one call of a session.
    fn must_have_new_calls(&self, at: Place, message: &Message) -> Result<(), Refusal> {
        let session = self.session;
        let is_taken = |id: &ToolCallId| session.tree.call(id).is_some() || session.queue.calls(id);
        let taken = message.tool_calls.iter().map(|asked| &asked.id).find(|&id| is_taken(id));
        taken.map_or(Ok(()), |id| Err(call_twice(at, id)))
    }

    /// An imported result follows the reply that asks for it.
    fn must_answer_a_call(&self, at: Place, message: &Message, given: &Given<'_>) -> Result<(), Refusal> {
        match message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool) {
            Some(id) if !given.calls.contains(id) && !self.session.queue.calls(id) => {
                let why = format_args!("answers the call {id}, which no reply before it makes");
                Err(at.refuse(Code::CallNotOpen, why).with("tool_call_id", id.as_str()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn call_twice(at: Place, id: &ToolCallId) -> Refusal {
    let why = format_args!("calls {id}, and so does another reply of this session; give each call its own id");
    at.refuse(Code::BadRequest, why).with("tool_call_id", id.as_str())
}

/// Which of the input's messages; none: it is the only one.
#[derive(Clone, Copy)]
struct Place(Option<usize>);

impl Place {
    fn refuse(self, code: Code, why: impl std::fmt::Display) -> Refusal {
        let text = self.0.map_or_else(|| format!("message {why}"), |index| format!("messages[{index}] {why}"));
        self.add_to(Refusal::new(code, text))
    }

    fn add_to(self, refusal: Refusal) -> Refusal {
        match self.0 {
            Some(index) => refusal.with("index", index),
            None => refusal.with("field", "message"),
        }
    }
}

/// What the messages before have: ids, calls, results.
#[derive(Default)]
struct Given<'m> {
    ids: HashSet<&'m NodeId>,
    calls: HashSet<&'m ToolCallId>,
    results: HashSet<&'m ToolCallId>,
}

impl<'m> Given<'m> {
    fn must_be_once(&mut self, at: Place, message: &'m Message) -> Result<(), Refusal> {
        if let Some(id) = message.id.as_ref()
            && !self.ids.insert(id)
        {
            let why = format_args!("has the id {id}, which stands earlier in the same input; give each message its own id");
            return Err(at.refuse(Code::DuplicateMessageId, why).with("id", id.as_str()));
        }
        if let Some(id) = message.tool_call_id.as_ref()
            && !self.results.insert(id)
        {
            let why = format_args!("answers the call {id}, and so does an earlier message of the same input");
            return Err(at.refuse(Code::BadRequest, why).with("tool_call_id", id.as_str()));
        }
        match message.tool_calls.iter().find(|asked| !self.calls.insert(&asked.id)) {
            Some(asked) => Err(call_twice(at, &asked.id)),
            None => Ok(()),
        }
    }
}

fn must_be_appendable(at: Place, message: &Message) -> Result<(), Refusal> {
    let why = match message.role {
        Role::Tool if message.tool_call_id.is_none() => "a result needs tool_call_id, the call that it answers",
        Role::Activity if message.activity_type.is_none() => "an activity needs activity_type",
        Role::User | Role::Assistant | Role::Tool | Role::Activity => return Ok(()),
        Role::System | Role::Developer => "instructions belong to the agent's configuration; they are never part of a conversation",
        Role::Reasoning => "reasoning is part of the reply that it belongs to: a part of type reasoning in its content",
    };
    Err(at.refuse(Code::BadRequest, format_args!("has the role {}: {why}", role_name(message.role))))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
        Role::Developer => "developer",
        Role::Reasoning => "reasoning",
        Role::Activity => "activity",
    }
}
