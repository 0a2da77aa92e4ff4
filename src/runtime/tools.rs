//! What `[[agent.<id>.tool]]` says, and the tools that come of it.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::agent::AgentOptions;
use crate::engine::{BadTool, Carrier, Tools};
use crate::ids::AgentId;
use crate::protocol::{BadArguments, CarriedOutBy, Json, ServerTool};

/// `[[agent.<id>.tool]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOptions {
    /// What the model calls it.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments, as a table.
    pub parameters: Option<Map<String, Value>>,
    /// Who carries it out.
    #[serde(default)]
    pub by: CarriedOutBy,
    /// Whether a call may be carried out twice.
    #[serde(default)]
    pub idempotent: bool,
    /// Attempts of a call, the first included.
    pub attempts: Option<u32>,
    /// An attempt has failed after so long.
    pub attempt_secs: Option<u64>,
    /// What becomes of a call whose arguments aren't what `parameters` says.
    #[serde(default)]
    pub bad_arguments: BadArguments,
}

impl From<ToolOptions> for ServerTool {
    fn from(options: ToolOptions) -> Self {
        let ToolOptions { name, description, parameters, by, idempotent, attempts, attempt_secs, bad_arguments } = options;
        let usual = Self::new(name);
        Self {
            description,
            parameters: parameters.and_then(|parameters| Json::from_value(&parameters).ok()),
            by,
            idempotent,
            attempts: attempts.unwrap_or(usual.attempts),
            attempt_secs: attempt_secs.unwrap_or(usual.attempt_secs),
            bad_arguments,
            ..usual
        }
    }
}

impl AgentOptions {
    /// Whether its tools can be offered.
    pub fn check_tools(&self) -> Result<(), BadTool> {
        Tools::new(self.own_tools()).map(drop)
    }

    /// The first of its tools that its worker carries out.
    pub fn first_for_worker(&self) -> Option<usize> {
        self.tool.iter().position(|tool| tool.by == CarriedOutBy::Worker)
    }

    /// Its tools, as they are declared.
    fn own_tools(&self) -> impl Iterator<Item = (ServerTool, Carrier)> {
        let tools = self.tool.iter().cloned().map(ServerTool::from);
        tools.map(|tool| {
            let carrier = Carrier::from(tool.by);
            (tool, carrier)
        })
    }

    /// Its tools, made ready. One that can't be offered is left out: whoever reads a configuration has refused it.
    pub(super) fn tools(&self, id: &AgentId) -> Tools {
        let mut tools = Tools::default();
        for (tool, carrier) in self.own_tools() {
            if let Err(error) = tools.add(tool, carrier) {
                tracing::error!(agent.id = %id, %error, "a tool is left out");
            }
        }
        tools
    }
}
