//! Tools of an agent's own, and their calls: which ones a model is offered, whether arguments are as they should be, and how calls are
//! carried out. An *execution* is a call that Headwater has carried out, by the agent's worker or by a server of tools, in attempts, several
//! calls at once. Its result is a node. May not know how anybody is asked.

mod answer;
mod arguments;
mod carry;
mod ended;
mod execution;
mod offered;
mod request;

pub use answer::execution_answer;
pub use ended::{Outcome, executed, wake_execution};
pub use execution::Execution;
pub use offered::{BadTool, Carrier, OwnTool, Tools};
pub use request::{execution_request, server_request};

pub(super) use answer::answered;
pub(super) use carry::{Fate, refuse_calls, start_calls};
pub(super) use ended::recover;

use std::sync::Arc;

use super::context::Agents;
use super::write::Writer;
use crate::ids::AgentId;

/// The tools of an agent's own that hold at the session's head.
pub fn tools_of(agents: &Agents, agent_id: &AgentId) -> Arc<Tools> {
    agents.get(agent_id).map(|agent| agent.tools.clone()).unwrap_or_default()
}

impl Writer<'_> {
    /// The tools of an agent's own.
    pub(super) fn tools(&self, agent_id: &AgentId) -> Arc<Tools> {
        tools_of(&self.context.agents, agent_id)
    }
}
