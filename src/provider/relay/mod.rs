//! An AG-UI agent in the place of a model, as it is: it is sent what a client would send it, the path as its messages, and what it
//! answers becomes replies. The one place that speaks AG-UI towards agents. May not know the engine, or front ends.

mod event;
mod interrupt;
mod making;
mod request;
mod snapshot;
mod state;
mod talk;
#[cfg(test)]
mod tests;
mod translate;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::http::{Api, Connection, Outgoing};
use super::{AguiOptions, Error, UpstreamThread};
use crate::protocol::{CallError, CallErrorKind, CallRequest};
use translate::Translator;

/// An agent behind an address: checked options.
#[derive(Debug)]
pub struct Relay {
    connection: Connection,
    thread: UpstreamThread,
}

impl Relay {
    /// Checks `options`. Paths of secrets are relative to `base_dir`.
    pub fn new(options: &AguiOptions, base_dir: &Path) -> Result<Self, Error> {
        let mut headers = BTreeMap::new();
        for (name, value) in &options.headers {
            headers.insert(name.clone(), value.resolve(&format!("headers.{name}"), base_dir)?);
        }
        let connection = Connection::at("url", &options.url, "http://127.0.0.1:8000/agent", options.connect_secs, options.idle_secs)?
            .with_headers(&headers, &[])?;
        Ok(Self { connection, thread: options.upstream_thread })
    }
}

impl Api for Relay {
    type Translator = Translator;

    const IS_AGENT: bool = true;

    fn asks_for_branch(&self) -> bool {
        self.thread == UpstreamThread::Branch
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn outgoing(&self, request: &CallRequest) -> Result<Outgoing, CallError> {
        if request.hidden {
            let message = "this agent writes no summaries; give its `summarize` strategy an `llm`";
            return Err(CallError::new(CallErrorKind::Refused, message));
        }
        Ok(Outgoing { url: self.connection.base().clone(), body: request::body(self.thread, request)? })
    }

    fn translator(&self, request: &CallRequest) -> Translator {
        let ids: HashSet<String> = request.messages.iter().filter_map(|message| Some(message.id.as_ref()?.to_string())).collect();
        let tools = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let state = request.occasion.as_ref().and_then(|occasion| occasion.state.as_ref());
        let translator = Translator::new(ids, tools, state);
        let Some(occasion) = request.occasion.as_deref() else { return translator };
        let waiting = request::waiting(occasion).map(ToString::to_string).collect();
        translator.on(request::thread(self.thread, occasion), waiting)
    }
}
