//! The routes. Turns HTTP requests and sockets into calls of the runtime and what the runtime tells into AG-UI frames. May not know
//! the engine, stores, providers.

mod agents;
mod body;
mod caller;
mod error;
mod health;
mod log;
mod options;
mod origins;
mod paths;
mod presence;
mod run;
mod server;
mod sessions;
mod sse;
mod unread;
mod ws;

pub use options::Options;
pub use server::{Serving, serve};

use actix_web::web::{self, PathConfig, QueryConfig, ServiceConfig};
use tokio_util::sync::CancellationToken;

use crate::agui::Limits;
use crate::ids::AgentId;
use crate::protocol::{Code, Refusal};
use crate::runtime::{AgentOptions, Runtime};

/// What every handler reaches.
pub struct State {
    runtime: Runtime,
    options: Options,
    origins: origins::Origins,
    draining: CancellationToken,
}

impl State {
    /// For a server over `runtime`. Once `draining` is cancelled, sockets close as their runs end.
    pub fn new(runtime: Runtime, options: Options, draining: CancellationToken) -> Self {
        let origins = origins::Origins::new(&options.origins, &options.hosts);
        Self { runtime, options, origins, draining }
    }

    fn limits(&self) -> Limits {
        Limits { view_messages_max: self.options.view_messages_max, content_bytes_max: self.options.content_bytes_max }
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

/// The route table.
pub fn configure(app: &mut ServiceConfig) {
    let route = |path: &str| web::resource(path).default_service(web::to(wrong_method));
    app.app_data(PathConfig::default().error_handler(|error, _| bad("path", &error)))
        .app_data(QueryConfig::default().error_handler(|error, _| bad("query", &error)))
        .service(route("/agents/{agent}").route(web::post().to(agents::run)).route(web::get().to(agents::open)))
        .service(route("/agents/{agent}/ws").route(web::get().to(agents::open)))
        .service(route("/agents/{agent}/connect").route(web::post().to(agents::connect)))
        .service(route("/agents/{agent}/stop/{thread}").route(web::post().to(agents::stop)))
        .service(route("/v1/sessions/{session}").route(web::get().to(sessions::page)))
        .service(route("/v1/sessions/{session}/tree").route(web::get().to(sessions::tree)))
        .service(route("/healthz").route(web::get().to(health::alive)).route(web::head().to(health::alive)))
        .service(route("/readyz").route(web::get().to(health::ready)).route(web::head().to(health::ready)))
        .default_service(web::to(no_route));
}

async fn no_route() -> Result<actix_web::HttpResponse, error::Failure> {
    Err(Refusal::new(Code::NotFound, "there is no such route; an agent answers at /agents/{agent}").into())
}

async fn wrong_method() -> Result<actix_web::HttpResponse, error::Failure> {
    Err(Refusal::new(Code::MethodNotAllowed, "this route is there for other methods").into())
}

fn bad(what: &str, error: &dyn std::fmt::Display) -> actix_web::Error {
    error::Failure(Refusal::new(Code::BadRequest, format!("the {what} can't be read: {error}"))).into()
}
