//! What `[agent.<id>]` says.

use serde::Deserialize;

use crate::protocol::{PartialView, SameIdEdit};

/// `[agent.<id>]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// Which `[llm.<id>]` answers.
    pub llm: String,
    /// The system prompt; never a node.
    pub system: Option<String>,
    /// A view with no known id on a session that has nodes.
    #[serde(default)]
    pub partial_view: PartialView,
    /// A known user id with other content.
    #[serde(default)]
    pub same_id_edit: SameIdEdit,
    /// What happens to a turn whose submitter went away; by transport when absent: `cancel` for a POST, `continue` for a WebSocket.
    pub on_disconnect: Option<OnDisconnect>,
}

/// What happens to a turn whose submitter went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It is stopped; what was said is kept.
    Cancel,
    /// It goes on.
    Continue,
}
