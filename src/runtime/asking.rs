//! Calling models: what the running turn asks, and of which model. May not know how an attempt goes, or how it is told to readers.

use std::rc::Rc;
use std::sync::Arc;

use super::counts::Timing;
use super::reply::Reply;
use super::running::Running;
use super::session_task::Task;
use crate::engine::context::Agents;
use crate::engine::record::Reads;
use crate::engine::{self, Call, Effect, Turn};
use crate::ids::AgentId;
use crate::protocol::{CallRequest, Code, Interrupt, Message, Occasion, Refusal, Resume, Resumed, Role};
use crate::provider::Attempt;
use crate::worker::Worker;

impl Task {
    /// Starts the call that is wanted and doesn't run. When an agent goes on in it, `rest` is what it says next.
    pub(super) async fn start_call(&mut self, rest: Option<Attempt>) -> Result<(), Refusal> {
        let wanted = engine::wanted(&self.log.session).into_iter().find(|effect| matches!(effect, Effect::Call { .. }));
        let Some(effect) = wanted.filter(|_| self.running.is_none()) else { return Ok(()) };
        if let Some(rest) = rest.filter(|_| self.may_go_on()) {
            self.go_on(effect, rest);
            return Ok(());
        }
        self.recall_path().await?;
        let session = &self.log.session;
        let turn = session.turn.as_ref().and_then(|turn| turn.call.as_ref().map(|call| (turn, call)));
        let request = turn.and_then(|(turn, call)| Some((call, self.request(turn, call)?)));
        // A turn whose call can't be asked for would run for ever.
        let Some((call, (llm, mut request))) = request else {
            return Err(Refusal::new(Code::Internal, "the model's part of the conversation isn't in memory"));
        };
        let provider = self.worker.provider(&llm);
        if let Some(provider) = provider.as_ref().filter(|provider| provider.is_agent()) {
            request.occasion = self.occasion(provider.asks_for_branch());
        }
        let timing = Timing::start(llm, call.attempt == 1);
        let reply = Reply::new(call.reply_id.clone(), call.attempt, call.hidden, session.seq);
        let limits = &self.worker.shared.options.limits;
        self.running = Some(Running::start(effect, provider.as_deref(), request, reply, limits, timing));
        Ok(())
    }

    /// Whether an agent goes on in the call that is wanted. It can't read what waited, and not what it has left behind.
    fn may_go_on(&self) -> bool {
        let call = self.log.session.turn.as_ref().and_then(|turn| turn.call.as_ref());
        call.is_some_and(|call| call.goes_on && call.attempt == 1 && call.arrivals == 0)
    }

    fn go_on(&mut self, effect: Effect, rest: Attempt) {
        let session = &self.log.session;
        let turn = session.turn.as_ref().and_then(|turn| Some((turn, turn.call.as_ref()?)));
        let Some((turn, call)) = turn else { return };
        let timing = Timing::start(self.llm(turn, Some(call)).unwrap_or_default().to_owned(), true);
        let reply = Reply::new(call.reply_id.clone(), call.attempt, call.hidden, session.seq);
        self.running = Some(Running::over(effect, rest, reply, &self.worker.shared.options.limits, timing));
    }

    /// On what occasion an agent is asked.
    fn occasion(&self, with_branch: bool) -> Option<Box<Occasion>> {
        let session = &self.log.session;
        let turn = session.turn.as_ref()?;
        let call = turn.call.as_ref()?;
        Some(Box::new(Occasion {
            session: self.log.key.clone(),
            turn: turn.id.clone(),
            call: call.id.clone(),
            attempt: call.attempt,
            branch: with_branch.then(|| engine::branch(session, &call.reply_id)),
            client: turn.client.clone(),
            state: session.state().ok().flatten().cloned().or_else(|| turn.client.state.clone()),
            resumed: turn.resumed.iter().map(answered).collect(),
        }))
    }

    /// Takes into memory what the path says, and what waits and is read besides.
    pub(super) async fn recall_path(&mut self) -> Result<(), Refusal> {
        let needed = engine::needed(&self.log.session);
        self.log.recall(needed).await
    }

    /// The llm that a turn's call goes to.
    pub(super) fn llm<'a>(&'a self, turn: &Turn, call: Option<&'a Call>) -> Option<&'a str> {
        let own = || self.own_llm(&turn.agent_id).map(|(llm, _)| llm);
        call.and_then(|call| call.llm.as_deref()).or_else(own)
    }

    /// What the engine knows of the agents, as they are at the head.
    pub(super) fn agents(&self) -> Arc<Agents> {
        engine::context::overridden(&self.worker.shared.agents, self.log.session.all_overrides())
    }

    /// The llm that answers for an agent at the head, and which of its models.
    pub(super) fn own_llm(&self, agent: &AgentId) -> Option<(&str, Option<&String>)> {
        let options = &self.worker.shared.options;
        let configured = options.agents.get(agent).map(|agent| agent.llm.as_str());
        let overrides = self.log.session.overrides(agent);
        // One that was taken out of the configuration since.
        let there = |llm: &&String| options.llms.contains_key(*llm);
        let llm = overrides.and_then(|overrides| overrides.llm.as_ref());
        match llm.filter(there) {
            None if llm.is_some() => Some((configured?, None)),
            own => Some((own.map(String::as_str).or(configured)?, overrides.and_then(|overrides| overrides.model.as_ref()))),
        }
    }

    /// An agent's system prompt at the head.
    fn system(&self, agent: &AgentId) -> Option<String> {
        let overridden = self.log.session.overrides(agent).and_then(|overrides| overrides.system.clone());
        let configured = || self.worker.shared.options.agents.get(agent).and_then(|agent| agent.system.clone());
        overridden.or_else(configured).filter(|system| !system.is_empty())
    }

    /// An agent's worker.
    pub(super) fn agent_worker(&self, agent: &AgentId) -> Option<Rc<dyn Worker>> {
        self.worker.agent_worker(agent)
    }

    /// What the running turn asks its model.
    pub(super) fn request(&self, turn: &Turn, call: &Call) -> Option<(String, CallRequest)> {
        let session = &self.log.session;
        let own = engine::tools_of(&self.agents(), &turn.agent_id);
        let tools = || if call.hidden { Vec::new() } else { own.offered(&turn.client) };
        let (system, messages, tools) = match &call.reads {
            Reads::Path => (self.system(&turn.agent_id), engine::prompt(session).ok()?, tools()),
            Reads::Summary(summary) => {
                let window = self.worker.shared.agents.get(&turn.agent_id).and_then(|agent| agent.window);
                let (system, message) = engine::context::request(session, summary, window).ok()?;
                (Some(system), vec![Arc::new(message)], Vec::new())
            }
            Reads::Messages(given) => {
                let (system, messages) = apart(given);
                (system, engine::pair(&messages), tools())
            }
        };
        let index = turn.calls.saturating_sub(1);
        let own = || self.own_llm(&turn.agent_id).filter(|(llm, _)| call.llm.as_ref().is_none_or(|wish| wish == llm));
        let model = call.model.clone().or_else(|| own().and_then(|(_, model)| model.cloned()));
        let request = CallRequest { model, system, messages, tools, index, hidden: call.hidden, occasion: None };
        Some((self.llm(turn, Some(call)).unwrap_or_default().to_owned(), request))
    }
}

/// An answer, and to what.
fn answered(resumed: &Resumed) -> (Resume, Interrupt) {
    let Resumed { interrupt_id, status, payload, interrupt } = resumed.clone();
    (Resume { interrupt_id, status, payload }, interrupt)
}

/// The instructions among messages, and the others.
fn apart(given: &[Message]) -> (Option<String>, Vec<Arc<Message>>) {
    let is_instruction = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    let (instructions, messages): (Vec<&Message>, Vec<&Message>) = given.iter().partition(is_instruction);
    let system = instructions.iter().map(|message| message.joined_text()).collect::<Vec<_>>().join("\n\n");
    (Some(system).filter(|system| !system.is_empty()), messages.into_iter().cloned().map(Arc::new).collect())
}
