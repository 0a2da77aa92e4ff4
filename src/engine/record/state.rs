//! What the records of an agent's state hold, and of what its configuration is overridden by.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::AgentId;
use crate::protocol::{AgentOverrides, Digest, EventBody, Json};

/// `state.updated`: from here on the branch has this state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateUpdated {
    /// The state; absent: there is none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Json>,
    /// Of the state: equal values have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// How it comes of the version before, which is the one that was written last, when that takes fewer bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Json>,
}

impl StateUpdated {
    /// As observers are told who have the version before.
    pub fn event(&self) -> EventBody {
        match &self.patch {
            Some(patch) => EventBody::StateUpdated { state: None, patch: Some(patch.clone()) },
            None => self.whole(),
        }
    }

    /// As observers are told who may have any.
    pub fn whole(&self) -> EventBody {
        EventBody::StateUpdated { state: Some(self.state.clone().unwrap_or_else(Json::empty_object)), patch: None }
    }
}

/// `agent.updated`: from here on the branch overrides the configuration of agents so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentUpdated {
    /// Whose worker said so.
    pub agent_id: AgentId,
    /// What is overridden of it.
    #[serde(default, skip_serializing_if = "AgentOverrides::is_empty")]
    pub agent: AgentOverrides,
    /// What stays overridden of others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<AgentId, AgentOverrides>,
}

impl AgentUpdated {
    /// As observers are told: what it says is the agent's business.
    pub fn event(&self) -> EventBody {
        EventBody::AgentUpdated { agent_id: self.agent_id.clone(), overridden: self.agent.fields() }
    }

    /// What is overridden of all agents.
    pub fn all(self) -> BTreeMap<AgentId, AgentOverrides> {
        let Self { agent_id, agent, mut others } = self;
        others.remove(&agent_id);
        if !agent.is_empty() {
            others.insert(agent_id, agent);
        }
        others
    }
}
