//! Whether an answer can be carried out, all of it. A refusal says which action and which field is wrong. May not write records.

use std::collections::HashSet;

use super::raised::raised;
use super::said::Said;
use super::{Course, Next};
use crate::engine::context::{Kept, Replacement};
use crate::engine::decision::{Asked, label};
use crate::engine::prompt;
use crate::engine::reading::Ix;
use crate::engine::record::{About, Reads};
use crate::engine::turn::{Held, Wish};
use crate::ids::{InterruptId, NodeId, ToolCallId};
use crate::protocol::{Action, Code, ContextReplace, DecisionAnswer, LlmCall, Message, NodeKind, Raise, Refusal, Role};

/// The longest name of a model, in bytes.
const MODEL_BYTES_MAX: usize = 256;

/// Where something is wrong in an answer.
#[derive(Clone, Debug)]
pub(super) struct Place(pub(super) String);

impl Place {
    pub(super) fn field(&self, field: &str) -> Self {
        Self(format!("{}.{field}", self.0))
    }

    pub(super) fn refuse(&self, code: Code, what: impl std::fmt::Display) -> Refusal {
        Refusal::new(code, format!("{}: {what}", self.0)).with("at", self.0.as_str())
    }

    pub(super) fn bad(&self, what: impl std::fmt::Display) -> Refusal {
        self.refuse(Code::BadRequest, what)
    }
}

/// The actions of an answer, one of each kind.
#[derive(Default)]
struct Actions<'a> {
    call: Option<(Place, &'a LlmCall)>,
    replace: Option<(Place, &'a ContextReplace)>,
    tools: Vec<(Place, &'a ToolCallId)>,
    results: Vec<(Place, Message)>,
    raises: Vec<(Place, &'a Raise)>,
    resolve: Option<(Place, &'a InterruptId)>,
    done: Option<Place>,
}

/// What an answer comes to.
pub(super) fn check(asked: &Asked<'_>, answer: &DecisionAnswer) -> Result<Course, Refusal> {
    if let Some(changes) = &answer.agent {
        asked.must_be_known(
            &Place("agent".to_owned()),
            changes.llm.as_ref().and_then(Option::as_ref),
            changes.model.as_ref().and_then(Option::as_ref),
        )?;
    }
    let said = Said::of(asked, answer)?;
    let actions = sorted(&answer.actions)?;
    let replacement = actions.replace.as_ref().map(|(place, with)| asked.replacement(place, with)).transpose()?;
    let next = asked.next(&actions, &said)?;
    if let (Some(held), Some((place, _)), Next::Hidden(..)) = (&asked.turn.held, &actions.call, &next)
        && replacement.is_some()
    {
        let what = format_args!("the history is replaced, so the call {} waits no longer: run it by its id", held.id);
        return Err(place.field("id").bad(what));
    }
    Ok(Course { replacement, said, next })
}

/// Refuses actions that don't go together.
fn sorted(actions: &[Action]) -> Result<Actions<'_>, Refusal> {
    let mut sorted = Actions::default();
    for (index, action) in actions.iter().enumerate() {
        let place = Place(format!("actions[{index}]"));
        let twice = |is: bool| if is { Err(place.bad(format_args!("a second {}; an answer has one", action.name()))) } else { Ok(()) };
        match action {
            Action::LlmCall(call) => {
                twice(sorted.call.is_some())?;
                sorted.call = Some((place, call));
            }
            Action::ContextReplace(with) => {
                twice(sorted.replace.is_some())?;
                if sorted.call.is_some() {
                    return Err(place.bad("context.replace comes before the llm.call that reads the new history"));
                }
                sorted.replace = Some((place, with));
            }
            Action::ToolCall { id } => {
                twice(sorted.tools.iter().any(|(_, before)| *before == id))?;
                sorted.tools.push((place, id));
            }
            Action::ToolResult { .. } | Action::ToolError { .. } => {
                let result = result(&place, action)?;
                twice(sorted.results.iter().any(|(_, before)| before.tool_call_id == result.tool_call_id))?;
                sorted.results.push((place, result));
            }
            Action::Interrupt(raise) => sorted.raises.push((place, raise)),
            Action::InterruptResolve { interrupt_id, .. } => {
                sorted.resolve.get_or_insert((place, interrupt_id));
            }
            Action::Custom { .. } | Action::Activity { .. } => {}
            Action::Done => {
                twice(sorted.done.is_some())?;
                sorted.done = Some(place);
            }
        }
    }
    if let Some((place, _)) = sorted.raises.first() {
        let goes_on = |action: &&Action| match action {
            Action::LlmCall(_)
            | Action::ToolCall { .. }
            | Action::ToolResult { .. }
            | Action::ToolError { .. }
            | Action::InterruptResolve { .. }
            | Action::Done => true,
            Action::ContextReplace(_) | Action::Interrupt(_) | Action::Custom { .. } | Action::Activity { .. } => false,
        };
        if let Some(other) = actions.iter().find(goes_on) {
            let what = format_args!("interrupt pauses the turn, and {} goes on with it; answer with one of them", other.name());
            return Err(place.bad(what));
        }
    }
    let calls = actions.iter().any(Action::calls);
    let result = sorted.results.first().map(|(place, _)| (place, "tool.result"));
    let first = sorted.tools.first().map(|(place, _)| (place, "tool.call")).or(result);
    match (&sorted.done, first) {
        (Some(place), _) if calls => Err(place.bad("done ends the turn, and llm.call goes on with it; answer with one of them")),
        (Some(place), Some((_, name))) => {
            Err(place.bad(format_args!("done ends the turn, and {name} goes on with it; answer with one of them")))
        }
        (None, Some((place, "tool.call"))) if calls => {
            Err(place.bad("tool.call waits for a result, and llm.call doesn't; answer with one of them"))
        }
        (None, Some((place, name))) if calls => {
            Err(place.bad(format_args!("after {name} the turn goes on by itself, when all results are there; leave llm.call out")))
        }
        (Some(_) | None, _) => Ok(sorted),
    }
}

impl<'a> Asked<'a> {
    /// The reply that a call has just ended with, or whose calls were open while the turn paused.
    pub(super) fn reply(&self) -> Option<&'a Message> {
        let tree = &self.session.tree;
        let ix = match &self.open.about {
            About::Call(ended) => tree.find(ended.reply.as_ref()?)?,
            About::Resumed { .. } => tree.call(tree.open_calls().first()?)?.reply,
            About::Messages { .. } | About::Action(_) | About::Results { .. } | About::Limit | About::End => return None,
        };
        self.session.content(ix).map(AsRef::as_ref)
    }

    fn next(&self, actions: &Actions<'_>, said: &Said) -> Result<Next, Refusal> {
        if let Some((place, id)) = &actions.resolve {
            // Nobody is asked what to do next while the turn pauses.
            let what = format_args!("{id} pauses nothing here: a turn whose worker is asked has no open interrupt");
            return Err(place.field("interrupt_id").refuse(Code::InterruptNotFound, what).with("interrupt_id", id.as_str()));
        }
        if !actions.raises.is_empty() {
            return raised(self, &actions.raises, said).map(Next::Pause);
        }
        if let Some((place, call)) = &actions.call {
            must_be_closed(place, said.calls.first().map(|call| &call.id))?;
            return self.call(place, call);
        }
        let open = self.session.tree.open_calls();
        let of_results = actions.results.iter().filter_map(|(place, result)| Some((place, result.tool_call_id.as_ref()?)));
        for (place, id) in actions.tools.iter().map(|(place, id)| (place, *id)).chain(of_results) {
            if said.has_messages() && open.contains(id) {
                return Err(place.bad("the answer's messages would stand between this call and its result; leave them out"));
            }
            if !open.contains(id) && !said.calls.iter().any(|call| call.id == *id) {
                let refusal = place.field("id").refuse(Code::CallNotOpen, format_args!("{id} isn't an open call of the last reply"));
                return Err(refusal.with("tool_call_id", id.as_str()));
            }
        }
        if !actions.tools.is_empty() || !actions.results.is_empty() {
            let started = actions.tools.iter().map(|(_, id)| (*id).clone()).collect();
            return Ok(Next::Tools(started, actions.results.iter().map(|(_, result)| result.clone()).collect()));
        }
        Ok(if actions.done.is_some() { Next::Done } else { Next::Nothing })
    }

    fn call(&self, place: &Place, call: &LlmCall) -> Result<Next, Refusal> {
        must_be_closed(place, self.session.tree.open_calls().first())?;
        self.must_be_known(place, call.llm.as_ref(), call.model.as_ref())?;
        let wish = Wish { llm: call.llm.clone(), model: call.model.clone() };
        let given = call.messages.as_ref().map(|messages| given(&place.field("messages"), messages)).transpose()?;
        let held = self.turn.held.as_ref();
        match (&call.id, held) {
            (Some(id), Some(held)) if *id == held.id => {
                must_stream(place, call)?;
                Ok(Next::Held(wish, given.map_or(Reads::Path, Reads::Messages)))
            }
            (Some(id), Some(_)) if self.open.ready.as_ref() == Some(id) && self.planned().is_some() => self.ready_call(call, given),
            (Some(id), _) => {
                let known = self.known_ids(held);
                let what = format_args!("{id} is no call that waits{known}; leave the id out for a new one");
                Err(place.field("id").refuse(Code::BadRequest, what).with("call_id", id.as_str()))
            }
            (None, Some(_)) => Ok(Next::Hidden(None, wish, given.map_or(Reads::Path, Reads::Messages))),
            (None, None) => {
                must_stream(place, call)?;
                Ok(match given {
                    None => Next::Call(wish),
                    Some(messages) => Next::Given(wish, Reads::Messages(messages)),
                })
            }
        }
    }

    fn known_ids(&self, held: Option<&Held>) -> String {
        let ready = self.open.ready.as_ref().filter(|_| self.planned().is_some());
        match (held, ready) {
            (Some(held), Some(ready)) => format!(": {} is held, {ready} is proposed", held.id),
            (Some(held), None) => format!(": {} is held", held.id),
            (None, _) => String::new(),
        }
    }

    /// The call that is proposed, as it is or changed.
    fn ready_call(&self, call: &LlmCall, given: Option<Vec<Message>>) -> Result<Next, Refusal> {
        let missing = |_: Ix| Refusal::new(Code::Internal, "the history isn't in memory");
        let Some((summary, llm, model)) = self.planned() else { return Err(Refusal::new(Code::Internal, "nothing is proposed")) };
        let given = match given {
            Some(given) if call.messages != self.ready().map_err(missing)?.messages => Some(given),
            Some(_) | None => None,
        };
        let model = if call.llm.is_some() && call.llm != llm { call.model.clone() } else { call.model.clone().or(model) };
        let wish = Wish { llm: call.llm.clone().or(llm), model };
        Ok(Next::Hidden(call.id.clone(), wish, given.map_or(Reads::Summary(summary), Reads::Messages)))
    }

    fn must_be_known(&self, place: &Place, llm: Option<&String>, model: Option<&String>) -> Result<(), Refusal> {
        let asking = self.agent().and_then(|agent| agent.worker.as_ref());
        if let (Some(llm), Some(asking)) = (llm, asking)
            && !asking.llms.contains(llm)
        {
            let known = asking.llms.join(", ");
            return Err(place.field("llm").bad(format_args!("no llm of that name is configured; there are: {known}")));
        }
        match model {
            Some(model) if model.is_empty() || model.len() > MODEL_BYTES_MAX => {
                Err(place.field("model").bad(format_args!("a model's name has 1 to {MODEL_BYTES_MAX} bytes")))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// What the history is to be replaced by.
    fn replacement(&self, place: &Place, with: &ContextReplace) -> Result<Replacement, Refusal> {
        if self.session.head.is_none() {
            return Err(place.bad("the path is empty; there is nothing to replace"));
        }
        let summary = with.summary.as_ref().map(|text| text.trim());
        if summary.is_some_and(str::is_empty) {
            return Err(place.field("summary").bad("it says nothing; leave it out to forget what was before"));
        }
        let path = prompt::path(self.session);
        let mut seen = HashSet::new();
        // What waits for a call is read after the history, whatever that is.
        let waits = |message: &&Message| message.id.as_ref().is_some_and(|id| self.shown().any(|arrival| arrival.brings(id)));
        let history = with.messages.iter().enumerate().filter(|(_, message)| !waits(message));
        let kept = history.map(|(index, message)| {
            let place = Place(format!("{}[{index}]", place.field("messages").0));
            let kept = self.recorded(&place, &path, message)?;
            match &kept {
                Kept::Copy(ix) if !seen.insert(*ix) => Err(place.field("id").refuse(Code::DuplicateMessageId, "it stands there twice")),
                Kept::Copy(_) | Kept::New(_) => Ok(kept),
            }
        });
        let messages: Vec<Kept> = kept.collect::<Result<_, _>>()?;
        if summary.is_none() && messages.is_empty() {
            return Err(place.bad("it has neither a summary nor messages: the model would read nothing"));
        }
        Ok(Replacement { summary: summary.map(str::to_owned), messages })
    }

    /// A message of a shorter history: a recorded one of the path, or a new one.
    fn recorded(&self, place: &Place, path: &[Ix], message: &Message) -> Result<Kept, Refusal> {
        let tree = &self.session.tree;
        let Some(id) = &message.id else { return new(place, message) };
        let by_node = tree.find(id).map(|ix| tree.node(ix).original);
        let is_it = |ix: &&Ix| by_node == Some(tree.node(**ix).original) || label(self.session, **ix) == *id;
        match path.iter().rfind(is_it) {
            Some(&ix) => match tree.node(ix).kind {
                NodeKind::Message => Ok(Kept::Copy(ix)),
                NodeKind::Epoch => self.epoch(place, ix),
                NodeKind::Custom => Err(place.field("id").bad(format_args!("{id} is application data, which no model reads"))),
            },
            None if tree.known(id).is_some() => {
                let what = format_args!("{id} is recorded, and isn't on the path that is replaced");
                Err(place.field("id").refuse(Code::NodeNotFound, what).with("node_id", id.as_str()))
            }
            None if id.is_reserved() => Err(never_made(place, id)),
            None => new(place, message),
        }
    }

    /// An earlier summary stays what it was for the model: a message that says what it is.
    fn epoch(&self, place: &Place, ix: Ix) -> Result<Kept, Refusal> {
        let said = self.session.content(ix).and_then(prompt::summarized);
        let message = said.map(|message| Message { id: None, ..Message::clone(&message) });
        message.map(|message| Kept::New(Box::new(message))).ok_or_else(|| place.bad("this epoch says nothing that could be kept"))
    }
}

/// The result that a worker gives of a call of the reply.
fn result(place: &Place, action: &Action) -> Result<Message, Refusal> {
    let (id, message) = match action {
        Action::ToolResult { id, content } => (id, Message { content: Some(content.clone()), ..Message::empty(Role::Tool) }),
        Action::ToolError { id, error, .. } => (id, Message { error: Some(error.clone()), ..Message::text(Role::Tool, error.as_str()) }),
        Action::LlmCall(_)
        | Action::ContextReplace(_)
        | Action::ToolCall { .. }
        | Action::Custom { .. }
        | Action::Activity { .. }
        | Action::Interrupt(_)
        | Action::InterruptResolve { .. }
        | Action::Done => {
            return Err(place.bad("this is no result"));
        }
    };
    match id {
        Some(id) => Ok(Message { tool_call_id: Some(id.clone()), ..message }),
        None => Err(place.field("id").bad("it names a call of the reply")),
    }
}

/// An id that looks like one of ours, and names nothing.
fn never_made(place: &Place, id: &NodeId) -> Refusal {
    let text = format!("{id} begins with Headwater's own prefix and names nothing in this session");
    place.field("id").refuse(Code::ReservedId, text).with("node_id", id.as_str())
}

/// A new message of a shorter history, for the model only.
fn new(place: &Place, message: &Message) -> Result<Kept, Refusal> {
    match message.role {
        Role::User | Role::Assistant if message.tool_calls.is_empty() => {}
        Role::User | Role::Assistant => {
            return Err(place.field("tool_calls").bad("a new message calls nothing; recorded calls are named by their message's id"));
        }
        Role::Tool => return Err(place.field("role").bad("a new message is no result; recorded results are named by their id")),
        Role::System | Role::Developer | Role::Reasoning | Role::Activity => {
            return Err(place.field("role").bad("a new message of a history is of role user or assistant"));
        }
    }
    must_say_something(place, message)?;
    Ok(Kept::New(Box::new(Message { id: None, ..message.clone() })))
}

pub(super) fn must_say_something(place: &Place, message: &Message) -> Result<(), Refusal> {
    if message.content.is_none() && message.tool_calls.is_empty() && message.error.is_none() {
        return Err(place.field("content").bad("it says nothing, and names no recorded message"));
    }
    Ok(())
}

/// Messages that a model reads instead of the path.
fn given(place: &Place, messages: &[Message]) -> Result<Vec<Message>, Refusal> {
    let mut reads = false;
    for (index, message) in messages.iter().enumerate() {
        let place = Place(format!("{}[{index}]", place.0));
        match message.role {
            Role::User | Role::Assistant | Role::Tool => reads = true,
            Role::System | Role::Developer => {}
            Role::Reasoning | Role::Activity => return Err(place.field("role").bad("no model reads a message of this role")),
        }
        must_say_something(&place, message)?;
    }
    if !reads {
        return Err(place.bad("the model would read nothing; leave messages out to have it read the path"));
    }
    Ok(messages.to_vec())
}

/// A model is called when no call of the reply before waits for its result.
fn must_be_closed(place: &Place, open: Option<&ToolCallId>) -> Result<(), Refusal> {
    let Some(open) = open else { return Ok(()) };
    let what = format_args!("the call {open} of the last reply is open; answer with tool.call, or end the turn");
    Err(place.refuse(Code::CallsOpen, what).with("tool_call_id", open.as_str()))
}

/// Whoever sees a reply sees it as it is written.
fn must_stream(place: &Place, call: &LlmCall) -> Result<(), Refusal> {
    if call.stream == Some(false) {
        let what = "a reply that people see is shown as it is written; holding it back isn't available yet";
        return Err(place.field("stream").refuse(Code::NotAvailable, what));
    }
    Ok(())
}
