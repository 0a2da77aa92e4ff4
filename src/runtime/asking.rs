//! What the model of a call is asked, and which model that is. May not know how it is told to readers.

use std::sync::Arc;

use super::session_task::Task;
use crate::engine::record::Reads;
use crate::engine::{self, Call, Turn};
use crate::protocol::CallRequest;

impl Task {
    /// What the running turn asks its model.
    pub(super) fn request(&self, turn: &Turn, call: &Call) -> Option<(String, CallRequest)> {
        let session = &self.log.session;
        let (system, messages, tools) = match &call.reads {
            Reads::Path => {
                let agent = self.worker.shared.options.agents.get(&turn.agent_id);
                let tools = turn.client.tools.clone().unwrap_or_default();
                (agent.and_then(|agent| agent.system.clone()), engine::prompt(session).ok()?, tools)
            }
            Reads::Summary(summary) => {
                let window = self.worker.shared.agents.get(&turn.agent_id).and_then(|agent| agent.window);
                let (system, message) = engine::context::request(session, summary, window).ok()?;
                (Some(system), vec![Arc::new(message)], Vec::new())
            }
        };
        let index = turn.calls.saturating_sub(1);
        let request = CallRequest { model: call.model.clone(), system, messages, tools, index, hidden: call.hidden };
        Some((self.llm(turn, Some(call)).unwrap_or_default().to_owned(), request))
    }

    /// The llm that a turn's call goes to.
    pub(super) fn llm<'a>(&'a self, turn: &Turn, call: Option<&'a Call>) -> Option<&'a str> {
        let own = || self.worker.shared.options.agents.get(&turn.agent_id).map(|agent| agent.llm.as_str());
        call.and_then(|call| call.llm.as_deref()).or_else(own)
    }
}
