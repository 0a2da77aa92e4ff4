//! What `[agent.<id>]` says.

use serde::de::{IntoDeserializer, value::StrDeserializer};
use serde::{Deserialize, Deserializer};

use super::tools::ToolOptions;
use crate::engine::context::ContextOptions;
use crate::protocol::{ClientState, OnBusy, PartialView, SameIdEdit};
use crate::provider::AguiOptions;
use crate::worker::{HttpOptions, SocketOptions};

/// `[agent.<id>]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// Which `[llm.<id>]` answers; nothing where the worker stands in its place.
    #[serde(default)]
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
    /// What becomes of the state that a client sends along.
    #[serde(default, deserialize_with = "client_state")]
    pub client_state: ClientState,
    /// `[agent.<id>.context]`: how much the model reads, and how room is made.
    #[serde(default)]
    pub context: ContextOptions,
    /// `[[agent.<id>.tool]]`: the tools of its own.
    #[serde(default)]
    pub tool: Vec<ToolOptions>,
    /// `[agent.<id>.worker]`: who decides; nobody: what is proposed is done. Its `kind` says which keys it has, so that it is read by
    /// itself.
    #[serde(skip)]
    pub worker: WorkerOptions,
}

/// `[agent.<id>.worker]`.
#[derive(Clone, Debug, Default)]
pub enum WorkerOptions {
    /// Nobody: what the engine proposes is done.
    #[default]
    None,
    /// A program that gets decisions by POST.
    Http(HttpOptions),
    /// A program that dials in.
    Socket(SocketOptions),
    /// An AG-UI agent, in the place of the model.
    Agui(AguiOptions),
}

impl WorkerOptions {
    /// What `kind` may be.
    pub const KINDS: &[&str] = &["none", "http", "socket", "agui"];

    /// The options of a `kind`, from the fields beside it; nothing for a kind that there isn't.
    pub fn of_kind<'de, D: Deserializer<'de>>(kind: &str, fields: D) -> Option<Result<Self, D::Error>> {
        /// There is nothing more to say.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        match kind {
            "none" => Some(Nothing::deserialize(fields).map(|Nothing {}| Self::None)),
            "http" => Some(HttpOptions::deserialize(fields).map(Self::Http)),
            "socket" => Some(SocketOptions::deserialize(fields).map(Self::Socket)),
            "agui" => Some(AguiOptions::deserialize(fields).map(Self::Agui)),
            _ => None,
        }
    }
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
fn client_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ClientState, D::Error> {
    let value = String::deserialize(deserializer)?;
    let value: StrDeserializer<'_, D::Error> = value.as_str().into_deserializer();
    ClientState::deserialize(value)
}

fn on_busy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OnBusy, D::Error> {
    let value = String::deserialize(deserializer)?;
    let value: StrDeserializer<'_, D::Error> = value.as_str().into_deserializer();
    OnBusy::deserialize(value)
}
