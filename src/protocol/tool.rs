//! Tools of an agent's own: declared in the configuration, or by the agent's worker for a branch. May not know who carries them out, or how.

use serde::{Deserialize, Serialize};

use super::{Json, Tool};

/// Attempts of a call, the first included, when nothing is said.
const ATTEMPTS: u32 = 3;
/// How long an attempt may take when nothing is said, in seconds.
const ATTEMPT_SECS: u64 = 60;

/// A tool that the agent's worker, or a system outside, carries out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTool {
    /// What the model calls it.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments; absent: any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Json>,
    /// Who carries it out.
    #[serde(default)]
    pub by: CarriedOutBy,
    /// Whether a call may be carried out twice. Only such a one runs again when it isn't known what became of an attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// Attempts of a call, the first included.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// An attempt has failed after so long.
    #[serde(default = "attempt_secs")]
    pub attempt_secs: u64,
    /// What becomes of a call whose arguments aren't what `parameters` says.
    #[serde(default, skip_serializing_if = "BadArguments::is_default")]
    pub bad_arguments: BadArguments,
}

/// What becomes of a call whose arguments aren't as they should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadArguments {
    /// The model reads what is wrong with them; nobody is asked.
    #[default]
    Refuse,
    /// The worker is asked nevertheless, and told what is wrong.
    Ask,
}

impl BadArguments {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Who carries out the calls of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CarriedOutBy {
    /// The agent's worker: it is asked `tool.execute`.
    #[default]
    Worker,
    /// Somebody outside: the call is open until `tool.result` or `tool.error` comes for it.
    Outside,
}

impl ServerTool {
    /// A tool of this name that the agent's worker carries out, and about which nothing else is said.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            parameters: None,
            by: CarriedOutBy::Worker,
            idempotent: false,
            attempts: ATTEMPTS,
            attempt_secs: ATTEMPT_SECS,
            bad_arguments: BadArguments::Refuse,
        }
    }

    /// As a model is told of it.
    pub fn offered(&self) -> Tool {
        let Self { name, description, parameters, .. } = self;
        Tool { name: name.clone(), description: description.clone(), parameters: parameters.clone(), metadata: None }
    }
}

/// The arguments of a call, as far as they are what the tool's `parameters` say. As JSON `{"valid": …}`, `{"invalid": …}` or
/// `{"malformed": …}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolInput {
    /// They are.
    Valid(Json),
    /// They are JSON, and something is wrong with it.
    Invalid {
        /// As the model wrote them.
        value: Json,
        /// What is wrong; at most a few things.
        errors: Vec<String>,
    },
    /// They aren't JSON: why.
    Malformed(String),
}

fn attempts() -> u32 {
    ATTEMPTS
}

fn attempt_secs() -> u64 {
    ATTEMPT_SECS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_needs_a_name_and_nothing_else() {
        let tool: ServerTool = serde_json::from_str(r#"{"name": "look_up"}"#).unwrap();
        assert_eq!(tool, ServerTool::new("look_up"));
        assert_eq!((tool.attempts, tool.attempt_secs), (3, 60));
        let written = serde_json::to_string(&tool).unwrap();
        assert_eq!(written, r#"{"name":"look_up","description":"","by":"worker","attempts":3,"attempt_secs":60}"#);
        assert!(serde_json::from_str::<ServerTool>(r#"{"description": "x"}"#).is_err());
        assert!(serde_json::from_str::<ServerTool>(r#"{"name": "x", "idempotant": true}"#).is_err());
    }
}
