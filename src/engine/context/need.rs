//! How much a model would read: as its provider reported for the path's last call, and the characters since.

use super::Agent;
use crate::engine::tools::Tools;
use crate::ids::Millis;
use crate::protocol::{Client, Size};

/// What a model call would need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// What the model would read.
    pub tokens: u64,
    /// At a turn's first call: how long no turn ran before it.
    pub idle: Option<Millis>,
}

/// How much of the path a model would read, and whether a provider has reported of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Load {
    pub(in crate::engine) read: Size,
    pub(in crate::engine) reported: bool,
}

impl Load {
    /// In tokens: what a provider reported holds the system prompt and the tools already.
    pub(in crate::engine) fn tokens(self, agent: Option<&Agent>, client: &Client) -> u64 {
        let besides = if self.reported { Size::ZERO } else { besides(agent, client) };
        (self.read + besides).tokens()
    }
}

/// What a model reads besides the messages.
pub(super) fn besides(agent: Option<&Agent>, client: &Client) -> Size {
    match agent {
        Some(agent) => agent.system + agent.tools.size(client),
        None => Tools::default().size(client),
    }
}
