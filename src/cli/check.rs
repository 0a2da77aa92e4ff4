//! `headwater check FILE`: reads a configuration without starting, what it refers to included, and says what it would be.

use std::fmt::Write as _;
use std::path::Path;

use crate::config::Config;
use crate::{provider, store};

/// An llm that can't be used: its script or its secret.
#[derive(Debug, thiserror::Error)]
#[error("[llm.{id}] can't be used")]
pub struct Error {
    /// Which llm.
    id: String,
    /// Why.
    source: provider::Error,
}

/// What a configuration holds, for people, one thing a line, once its scripts and secrets were found good.
pub fn check(config: &Config) -> Result<String, Error> {
    for (id, llm) in &config.llms {
        // The configuration has its paths in full already.
        provider::factory(llm, Path::new("")).map_err(|source| Error { id: id.clone(), source })?;
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
        line("agent", &format!("{id}: answers with {}, at /agents/{id}", agent.llm));
    }
    out
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
