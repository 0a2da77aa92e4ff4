//! `headwater check FILE`: reads a configuration without starting, what it refers to included, and says what it would be.

use std::fmt::Write as _;
use std::path::Path;

use crate::config::{Config, WorkerOptions};
use crate::ids::AgentId;
use crate::{provider, store, worker};

/// What a configuration refers to and can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An llm: its script or its secret.
    #[error("[llm.{id}] can't be used")]
    Llm {
        /// Which.
        id: String,
        /// Why.
        source: provider::Error,
    },
    /// An agent's worker: its secret or its address.
    #[error("[agent.{agent}.worker] can't be used")]
    Worker {
        /// Whose.
        agent: AgentId,
        /// Why.
        source: worker::SetupError,
    },
    /// An agent's worker that answers itself: a secret or its address.
    #[error("[agent.{agent}.worker] can't be used")]
    Relay {
        /// Whose.
        agent: AgentId,
        /// Why.
        source: provider::Error,
    },
}

/// What a configuration holds, for people, one thing a line, once its scripts and secrets were found good.
pub fn check(config: &Config) -> Result<String, Error> {
    for (id, llm) in &config.llms {
        // The configuration has its paths in full already.
        provider::factory(llm, Path::new("")).map_err(|source| Error::Llm { id: id.clone(), source })?;
    }
    for (id, agent) in &config.agents {
        let asked: Result<(), _> = match &agent.worker {
            WorkerOptions::Http(options) => worker::http(options, id, config.server.limits(), Path::new("")).map(drop),
            WorkerOptions::Socket(options) => worker::dials_in(options, Path::new("")).map(drop),
            WorkerOptions::Agui(options) => {
                let made = provider::relay_factory(options, Path::new(""));
                made.map(drop).map_err(|source| Error::Relay { agent: id.clone(), source })?;
                Ok(())
            }
            WorkerOptions::None => Ok(()),
        };
        asked.map_err(|source| Error::Worker { agent: id.clone(), source })?;
    }
    Ok(summary(config))
}

fn summary(config: &Config) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name:<7} {value}");
    };
    line("listen", &config.server.listen.to_string());
    line("store", &store_line(&config.store));
    for (id, llm) in &config.llms {
        line("llm", &format!("{id}: {}", llm_line(llm)));
    }
    for (id, agent) in &config.agents {
        let worker = worker_words(&agent.worker);
        let answers = match &agent.worker {
            WorkerOptions::Agui(_) => String::new(),
            WorkerOptions::None | WorkerOptions::Http(_) | WorkerOptions::Socket(_) => format!("answers with {}", agent.llm),
        };
        line("agent", &format!("{id}: {answers}{worker}, at /agents/{id}"));
    }
    out
}

/// Who decides; without the query of an address, which may hold a key.
fn worker_words(options: &WorkerOptions) -> String {
    let bare = |url: &str| url.split(['?', '#']).next().unwrap_or_default().to_owned();
    match options {
        WorkerOptions::None => String::new(),
        WorkerOptions::Http(http) => format!(", decides at {}", bare(&http.url)),
        WorkerOptions::Socket(_) => ", decides by a worker that dials in".to_owned(),
        WorkerOptions::Agui(relay) => format!("relays {}", bare(&relay.url)),
    }
}

fn store_line(options: &store::Options) -> String {
    match options {
        store::Options::Memory {} => "memory".to_owned(),
        store::Options::Sqlite(sqlite) => format!("sqlite in {}", sqlite.path.display()),
    }
}

fn llm_line(options: &provider::Options) -> String {
    match options {
        provider::Options::Script(script) => match &script.file {
            None => "script, built in".to_owned(),
            Some(file) => format!("script {}", file.display()),
        },
        provider::Options::Openai(openai) => format!("openai, {} at {}", openai.model, openai.base_url),
        provider::Options::Anthropic(anthropic) => format!("anthropic, {} at {}", anthropic.model, anthropic.base_url),
        provider::Options::Gemini(gemini) => format!("gemini, {} at {}", gemini.model, gemini.base_url),
    }
}
