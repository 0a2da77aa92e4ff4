//! What a worker is asked: the trigger, the history, and what would be done without it. May not know what it answers.

use std::collections::HashSet;
use std::sync::Arc;

use super::Decision;
use crate::engine::Context;
use crate::engine::arrivals::Arrival;
use crate::engine::call::turn;
use crate::engine::context::{self, Agent, Kept, Plan, Replacement};
use crate::engine::prompt;
use crate::engine::reading::Ix;
use crate::engine::record::{About, CallEnded, HiddenCall, Summary};
use crate::engine::session::Session;
use crate::engine::tools::tools_of;
use crate::engine::turn::{Held, Turn};
use crate::engine::write::Writer;
use crate::ids::{NodeId, SessionId, ToolCallId};
use crate::protocol::{
    Action, ContextReplace, DecisionAnswer, DecisionRequest, Fault, HeldLlmCall, HeldRequest, LimitReason, LlmCall, Message, Role, Trigger,
};

/// What the worker is to be asked now; nothing: no decision is open. Or the first node whose content isn't in memory.
pub fn decision_request(session: &Session, id: &SessionId, context: &Context) -> Result<Option<DecisionRequest>, Ix> {
    let Some((turn, open)) = turn(session).and_then(|turn| Some((turn, turn.decision.as_deref()?))) else { return Ok(None) };
    let asked = Asked { session, turn, open, context };
    let messages = asked.messages()?;
    let last = messages.iter().rfind(|message| message.role == Role::Assistant);
    Ok(Some(DecisionRequest {
        session_id: id.clone(),
        decision_id: open.id.clone(),
        agent_id: turn.agent_id.clone(),
        turn_id: turn.id.clone(),
        trigger: asked.trigger(&messages)?,
        proposed: asked.proposed()?,
        calls: last.map(|reply| reply.tool_calls.clone()).unwrap_or_default(),
        state: session.state().ok().flatten().cloned(),
        agent: session.overrides(&turn.agent_id).cloned(),
        messages,
        pending_calls: session.tree.open_calls().to_vec(),
        attempt: open.attempt,
        deadline: open.deadline,
    }))
}

/// The id that a worker knows a node of the path by: the one it is shown under, else its own.
pub(in crate::engine) fn label(session: &Session, ix: Ix) -> NodeId {
    let tree = &session.tree;
    let node = tree.node(ix);
    tree.shown_id(if node.shown { ix } else { node.original })
}

/// An open decision, with what it is about.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Asked<'a> {
    pub(in crate::engine) session: &'a Session,
    pub(in crate::engine) turn: &'a Turn,
    pub(in crate::engine) open: &'a Decision,
    pub(in crate::engine) context: &'a Context,
}

impl<'a> Asked<'a> {
    pub(in crate::engine) fn agent(&self) -> Option<&'a Agent> {
        self.context.agents.get(&self.turn.agent_id)
    }

    /// The model view of the path, each message as the worker knows it.
    fn messages(&self) -> Result<Vec<Arc<Message>>, Ix> {
        let session = self.session;
        let content = |ix: Ix| session.content(ix).ok_or(ix).map(|message| labelled(message, label(session, ix)));
        let mut messages = prompt::messages_with(session, content)?;
        // A call that is open has no result yet, and gets none made up.
        let open = session.tree.open_calls();
        messages.retain(|message| message.id.is_some() || message.tool_call_id.as_ref().is_none_or(|id| !open.contains(id)));
        Ok(messages)
    }

    fn trigger(&self, messages: &[Arc<Message>]) -> Result<Trigger, Ix> {
        Ok(match &self.open.about {
            About::Messages { .. } => Trigger::ClientMessages { new_from: self.new_from(messages), client: self.turn.client.clone() },
            About::Action(action) => {
                Trigger::ClientAction { name: action.name.clone(), args: action.args.clone(), client: self.turn.client.clone() }
            }
            About::Call(ended) => self.finished(ended)?,
            About::Results { last, .. } => self.result(last)?,
            About::End => Trigger::TurnFinished { usage: self.turn.usage.clone() },
            About::Resumed { .. } => Trigger::InterruptResumed { interrupts: self.turn.resumed.clone() },
            About::Limit => match &self.turn.held {
                Some(held) => Trigger::ContextLimit {
                    reason: held.reason,
                    strategy: held.strategy.as_ref().map(|strategy| strategy.name.clone()),
                    tokens: held.tokens,
                    window: self.agent().and_then(|agent| agent.window),
                    call: self.held(held),
                },
                None => Trigger::ClientMessages { new_from: messages.len(), client: self.turn.client.clone() },
            },
        })
    }

    /// Of the messages, the first one that the worker wasn't asked about yet: that came with the turn, or joined it.
    fn new_from(&self, messages: &[Arc<Message>]) -> usize {
        let tree = &self.session.tree;
        let began = self.session.turns.began(&self.turn.id).filter(|_| self.turn.decisions == 1).unwrap_or(u64::MAX);
        let new = tree.up(self.session.head).take_while(|&ix| tree.node(ix).seq >= began).map(|ix| label(self.session, ix));
        let waiting = self.shown().flat_map(|arrival| &arrival.messages).filter_map(|message| message.id.clone());
        let new: HashSet<NodeId> = new.chain(waiting).collect();
        messages.iter().position(|message| message.id.as_ref().is_some_and(|id| new.contains(id))).unwrap_or(messages.len())
    }

    fn finished(&self, ended: &CallEnded) -> Result<Trigger, Ix> {
        let CallEnded { call_id, reply, truncated, usage, error, hidden } = ended;
        let of_node = |ix: Ix| self.session.content(ix).ok_or(ix).map(|message| labelled(message, label(self.session, ix)));
        let of_text = |text: &String| Arc::new(Message::text(Role::Assistant, text.as_str()));
        let message = match reply.as_ref().and_then(|id| self.session.tree.find(id)) {
            Some(ix) => Some(of_node(ix)?),
            None => hidden.as_ref().and_then(|hidden| hidden.text.as_ref()).map(of_text),
        };
        Ok(Trigger::LlmFinished {
            id: call_id.clone(),
            ok: error.is_none(),
            message,
            usage: usage.clone(),
            truncated: *truncated,
            error: error.as_ref().map(|error| Fault { code: error.kind.code(), message: error.message.clone() }),
            hidden: hidden.is_some(),
            held: self.turn.held.as_ref().map(|held| self.held(held)),
        })
    }

    fn result(&self, id: &ToolCallId) -> Result<Trigger, Ix> {
        let content = |ix: Ix| self.session.content(ix).ok_or(ix);
        let called = self.session.tree.call(id);
        let reply = called.map(|called| content(called.reply)).transpose()?;
        let asked = reply.and_then(|reply| reply.tool_calls.iter().find(|asked| asked.id == *id));
        let result = called.and_then(|called| called.result).map(content).transpose()?;
        let error = result.and_then(|result| result.error.clone());
        Ok(Trigger::ToolFinished {
            id: id.clone(),
            ok: error.is_none(),
            name: asked.map(|asked| asked.function.name.clone()).unwrap_or_default(),
            result: result.and_then(|result| result.content.clone()).filter(|_| error.is_none()),
            error,
        })
    }

    fn held(&self, held: &Held) -> HeldLlmCall {
        let own = || self.agent().and_then(|agent| agent.worker.as_ref()).map(|asking| asking.llm.clone());
        let tools = tools_of(&self.context.agents, &self.turn.agent_id).offered(&self.turn.client);
        HeldLlmCall {
            id: held.id.clone(),
            llm: held.wish.llm.clone().or_else(own).unwrap_or_default(),
            request: HeldRequest { model: held.wish.model.clone(), tools },
            stream: true,
        }
    }

    /// What is done without a worker.
    fn proposed(&self) -> Result<DecisionAnswer, Ix> {
        Ok(match &self.open.about {
            About::Messages { reply } | About::Results { reply, .. } => {
                vec![if *reply { Action::LlmCall(LlmCall::default()) } else { Action::Done }]
            }
            About::Resumed { reply } => match self.session.tree.open_calls() {
                _ if !*reply => vec![Action::Done],
                [] => vec![Action::LlmCall(LlmCall::default())],
                open => open.iter().map(|id| Action::ToolCall { id: id.clone() }).collect(),
            },
            About::Call(ended) => match (&ended.hidden, &self.turn.held) {
                (Some(hidden), Some(held)) => self.after_hidden(hidden, held, ended)?,
                (_, _) if ended.error.is_some() => Vec::new(),
                (_, _) => self.after_reply(),
            },
            About::Action(_) => Vec::new(),
            About::End => vec![Action::Done],
            About::Limit => match &self.turn.held {
                Some(held) => self.for_room(held)?,
                None => Vec::new(),
            },
        }
        .into())
    }

    /// What waits for a call and is shown to the worker.
    pub(in crate::engine) fn shown(&self) -> impl Iterator<Item = &'a Arc<Arrival>> {
        self.session.arrivals.iter().take(self.open.arrivals as usize)
    }

    /// A reply's calls go to whom they are for; without any the turn is over, unless messages joined it meanwhile.
    fn after_reply(&self) -> Vec<Action> {
        let open = self.session.tree.open_calls();
        if !open.is_empty() {
            return open.iter().map(|id| Action::ToolCall { id: id.clone() }).collect();
        }
        let goes_on = self.shown().any(|arrival| !arrival.is_event());
        vec![if goes_on { Action::LlmCall(LlmCall::default()) } else { Action::Done }]
    }

    fn after_hidden(&self, hidden: &HiddenCall, held: &Held, ended: &CallEnded) -> Result<Vec<Action>, Ix> {
        if self.planned().is_some() {
            return self.ready().map(|call| vec![Action::LlmCall(call)]);
        }
        let to = hidden.summary.as_ref().map(|summary| &summary.to);
        let kept = ended.error.is_none().then(|| context::kept_after(self.session, self.turn, held, self.agent(), to)).flatten();
        let text = hidden.text.as_ref().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        match (kept, text) {
            (Some(messages), Some(text)) => self.shorter(held, Replacement { summary: Some(text), messages }),
            (_, _) => Ok(vec![run(held)]),
        }
    }

    fn for_room(&self, held: &Held) -> Result<Vec<Action>, Ix> {
        match context::planned(self.session, self.turn, held, self.agent()) {
            Some(Plan::Replace { messages }) => self.shorter(held, Replacement { summary: None, messages }),
            Some(Plan::Summarize { .. }) => self.ready().map(|call| vec![Action::LlmCall(call)]),
            // It was refused, and would be again.
            None if held.reason == LimitReason::Overflow => Ok(Vec::new()),
            None => Ok(vec![run(held)]),
        }
    }

    /// The history is replaced, unless that makes it no shorter, and the held call runs.
    fn shorter(&self, held: &Held, with: Replacement) -> Result<Vec<Action>, Ix> {
        let writer = Writer::new(self.session, self.context);
        if held.reason != LimitReason::Overflow && !with.gains(&writer, self.turn) {
            return Ok(vec![run(held)]);
        }
        let messages = with.messages.iter().map(|kept| self.kept(kept)).collect::<Result<_, _>>()?;
        Ok(vec![Action::ContextReplace(ContextReplace { summary: with.summary, messages }), run(held)])
    }

    fn kept(&self, kept: &Kept) -> Result<Message, Ix> {
        match kept {
            Kept::Copy(ix) => {
                let message = self.session.content(*ix).ok_or(*ix)?;
                Ok(Message::clone(message).with_id(label(self.session, *ix)))
            }
            Kept::New(message) => Ok(Message::clone(message)),
        }
    }

    /// The summary that a proposed call is to write: a new one, or a shorter one.
    pub(in crate::engine) fn planned(&self) -> Option<(Summary, Option<String>, Option<String>)> {
        let held = self.turn.held.as_ref()?;
        match &self.open.about {
            About::Limit => match context::planned(self.session, self.turn, held, self.agent())? {
                Plan::Summarize { summary, llm, model } => Some((summary, llm, model)),
                Plan::Replace { .. } => None,
            },
            About::Call(ended) => {
                let (hidden, error) = ended.hidden.as_ref().zip(ended.error.as_ref())?;
                let summary = context::shorter(hidden.summary.as_ref()?, error.kind)?;
                Some((summary, hidden.llm.clone(), hidden.model.clone()))
            }
            About::Messages { .. } | About::Results { .. } | About::Action(_) | About::Resumed { .. } | About::End => None,
        }
    }

    /// The call that is proposed to write a summary.
    pub(in crate::engine) fn ready(&self) -> Result<LlmCall, Ix> {
        let Some((summary, llm, model)) = self.planned() else { return Ok(LlmCall::default()) };
        let window = self.agent().and_then(|agent| agent.window);
        let (system, message) = context::request(self.session, &summary, window)?;
        let messages = Some(vec![Message::text(Role::System, system), message]);
        Ok(LlmCall { id: self.open.ready.clone(), llm, model, messages, stream: Some(false) })
    }
}

/// The held call runs.
fn run(held: &Held) -> Action {
    Action::LlmCall(LlmCall { id: Some(held.id.clone()), ..LlmCall::default() })
}

/// A message under another id.
fn labelled(message: &Arc<Message>, id: NodeId) -> Arc<Message> {
    if message.id.as_ref() == Some(&id) { message.clone() } else { Arc::new(Message::clone(message).with_id(id)) }
}
