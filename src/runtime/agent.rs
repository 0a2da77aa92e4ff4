//! What `[agent.<id>]` says.

use serde::de::{IntoDeserializer, value::StrDeserializer};
use serde::{Deserialize, Deserializer};

use crate::engine::context::ContextOptions;
use crate::protocol::{OnBusy, PartialView, SameIdEdit};

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
    /// What becomes of a submit when a turn is there already, for front ends that can't say.
    #[serde(default, deserialize_with = "on_busy")]
    pub on_busy: OnBusy,
    /// What happens to a turn whose submitter went away; when absent: `cancel` for a POST of AG-UI, `continue` for a WebSocket and for
    /// native inputs.
    pub on_disconnect: Option<OnDisconnect>,
    /// `[agent.<id>.context]`: how much the model reads, and how room is made.
    #[serde(default)]
    pub context: ContextOptions,
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

/// Serde says of an enum's value that is no string that it is no table either.
fn on_busy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OnBusy, D::Error> {
    let value = String::deserialize(deserializer)?;
    let value: StrDeserializer<'_, D::Error> = value.as_str().into_deserializer();
    OnBusy::deserialize(value)
}
