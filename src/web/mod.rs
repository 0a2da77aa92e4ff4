//! The routes. Turns HTTP requests and sockets into calls of the runtime and what the runtime tells into AG-UI frames. May not know
//! the engine, stores, providers.

mod agents;
mod body;
mod caller;
mod decisions;
mod doors;
mod error;
mod events;
mod flow;
mod health;
mod inputs;
mod log;
mod native;
mod openapi;
mod options;
mod origins;
mod paths;
mod presence;
mod records;
mod resume;
mod routes;
mod run;
mod server;
mod sessions;
mod source;
mod sse;
mod streaming;
mod unread;
mod ws;

pub use options::Options;
pub use routes::configure;
pub use server::{Serving, serve};

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::agui::Limits;
use crate::ids::AgentId;
use crate::meters::{self, Readout};
use crate::protocol::{Code, Refusal};
use crate::runtime::{AgentOptions, Runtime};

/// What every handler reaches.
pub struct State {
    runtime: Runtime,
    options: Options,
    origins: origins::Origins,
    doors: Arc<doors::Doors>,
    draining: CancellationToken,
    /// Absent when nothing is counted.
    readout: Option<Readout>,
}

impl State {
    /// For a server over `runtime`. Once `draining` is cancelled, sockets close as their runs end.
    pub fn new(runtime: Runtime, options: Options, draining: CancellationToken) -> Self {
        let origins = origins::Origins::new(&options.origins, &options.hosts);
        let readout = if options.metrics { meters::begin() } else { None };
        let doors = Arc::new(doors::Doors::new(&options));
        Self { runtime, options, origins, doors, draining, readout }
    }

    fn limits(&self) -> Limits {
        self.options.limits()
    }

    fn agent(&self, id: &AgentId) -> Result<&AgentOptions, Refusal> {
        self.runtime.agent(id).ok_or_else(|| {
            let known: Vec<&str> = self.runtime.agents().take(10).map(AgentId::as_str).collect();
            let asked: String = id.as_str().chars().take(64).collect();
            Refusal::new(Code::UnknownAgent, format!("no agent {asked:?} is configured; there is {}", known.join(", ")))
                .with("agents", known)
        })
    }
}
