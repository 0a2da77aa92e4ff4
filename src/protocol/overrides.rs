//! What an agent's worker sets instead of what is configured, for a branch. May not know how that is kept.

use serde::{Deserialize, Serialize};

use super::ServerTool;

/// What of an agent's configuration is overridden; the rest is as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentOverrides {
    /// The system prompt; an empty one: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Which llm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<String>,
    /// Which of its models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's own tools, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ServerTool>>,
}

impl AgentOverrides {
    /// Whether everything is as it is configured.
    pub fn is_empty(&self) -> bool {
        self.fields().is_empty()
    }

    /// What is overridden, by name.
    pub fn fields(&self) -> Vec<&'static str> {
        let Self { system, llm, model, tools } = self;
        let there = [("system", system.is_some()), ("llm", llm.is_some()), ("model", model.is_some()), ("tools", tools.is_some())];
        there.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    /// The same with these changes.
    #[must_use]
    pub fn with(&self, changes: &AgentChanges) -> Self {
        let AgentChanges { system, llm, model, tools } = changes;
        // Another llm has other models.
        let before = self.model.clone().filter(|_| llm.as_ref().is_none_or(|llm| *llm == self.llm));
        Self {
            system: system.clone().unwrap_or_else(|| self.system.clone()),
            llm: llm.clone().unwrap_or_else(|| self.llm.clone()),
            model: model.clone().unwrap_or(before),
            tools: tools.clone().unwrap_or_else(|| self.tools.clone()),
        }
    }
}

/// What an answer changes of the overrides: what it doesn't say stays, null takes one back.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AgentChanges {
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<Option<String>>,
    /// Which llm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<Option<String>>,
    /// Which of its models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Option<String>>,
    /// The agent's own tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Option<Vec<ServerTool>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_takes_one_back_and_another_llm_has_other_models() {
        let say = |text: &str| Some(Some(text.to_owned()));
        let first = AgentOverrides::default().with(&AgentChanges { llm: say("a"), model: say("a-1"), ..AgentChanges::default() });
        assert_eq!(first.fields(), ["llm", "model"]);
        let same = first.with(&AgentChanges { llm: say("a"), system: say("Be brief."), ..AgentChanges::default() });
        assert_eq!((same.model.as_deref(), same.system.as_deref()), (Some("a-1"), Some("Be brief.")));
        let other = same.with(&AgentChanges { llm: say("b"), ..AgentChanges::default() });
        assert_eq!((other.llm.as_deref(), other.model), (Some("b"), None));
        let back = same.with(&AgentChanges { llm: Some(None), system: Some(None), ..AgentChanges::default() });
        assert!(back.is_empty());
    }
}
