//! Calling models: what the running turn asks, and of which model. May not know how an attempt goes, or how it is told to readers.

use std::sync::Arc;

use super::counts::Timing;
use super::reply::Reply;
use super::running::Running;
use super::session_task::Task;
use crate::engine::record::Reads;
use crate::engine::{self, Call, Effect, Turn};
use crate::ids::AgentId;
use crate::protocol::{CallRequest, Code, Message, Refusal, Role};
use crate::worker::Worker;

impl Task {
    /// Starts the call that is wanted and doesn't run.
    pub(super) async fn start_call(&mut self) -> Result<(), Refusal> {
        let wanted = engine::wanted(&self.log.session).into_iter().find(|effect| matches!(effect, Effect::Call { .. }));
        let Some(effect) = wanted.filter(|_| self.running.is_none()) else { return Ok(()) };
        self.recall_path().await?;
        let session = &self.log.session;
        let turn = session.turn.as_ref().and_then(|turn| turn.call.as_ref().map(|call| (turn, call)));
        let request = turn.and_then(|(turn, call)| Some((call, self.request(turn, call)?)));
        // A turn whose call can't be asked for would run for ever.
        let Some((call, (llm, request))) = request else {
            return Err(Refusal::new(Code::Internal, "the model's part of the conversation isn't in memory"));
        };
        let provider = self.worker.provider(&llm);
        let timing = Timing::start(llm, call.attempt == 1);
        let reply = Reply::new(call.reply_id.clone(), call.attempt, call.hidden, session.seq);
        let limits = &self.worker.shared.options.limits;
        self.running = Some(Running::start(effect, provider.as_deref(), request, reply, limits, timing));
        Ok(())
    }

    /// Takes into memory what the path says, and what waits and is read besides.
    pub(super) async fn recall_path(&mut self) -> Result<(), Refusal> {
        let needed = engine::needed(&self.log.session);
        self.log.recall(needed).await
    }

    /// The llm that a turn's call goes to.
    pub(super) fn llm<'a>(&'a self, turn: &Turn, call: Option<&'a Call>) -> Option<&'a str> {
        let own = || self.worker.shared.options.agents.get(&turn.agent_id).map(|agent| agent.llm.as_str());
        call.and_then(|call| call.llm.as_deref()).or_else(own)
    }

    /// An agent's worker.
    pub(super) fn agent_worker(&self, agent: &AgentId) -> Option<&dyn Worker> {
        self.worker.shared.options.workers.get(agent).map(AsRef::as_ref)
    }

    /// What the running turn asks its model.
    pub(super) fn request(&self, turn: &Turn, call: &Call) -> Option<(String, CallRequest)> {
        let session = &self.log.session;
        let tools = || turn.client.tools.clone().filter(|_| !call.hidden).unwrap_or_default();
        let (system, messages, tools) = match &call.reads {
            Reads::Path => {
                let agent = self.worker.shared.options.agents.get(&turn.agent_id);
                (agent.and_then(|agent| agent.system.clone()), engine::prompt(session).ok()?, tools())
            }
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
        let request = CallRequest { model: call.model.clone(), system, messages, tools, index, hidden: call.hidden };
        Some((self.llm(turn, Some(call)).unwrap_or_default().to_owned(), request))
    }
}

/// The instructions among messages, and the others.
fn apart(given: &[Message]) -> (Option<String>, Vec<Arc<Message>>) {
    let is_instruction = |message: &&Message| matches!(message.role, Role::System | Role::Developer);
    let (instructions, messages): (Vec<&Message>, Vec<&Message>) = given.iter().partition(is_instruction);
    let system = instructions.iter().map(|message| message.joined_text()).collect::<Vec<_>>().join("\n\n");
    (Some(system).filter(|system| !system.is_empty()), messages.into_iter().cloned().map(Arc::new).collect())
}
