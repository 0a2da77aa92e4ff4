//! `headwater check FILE`: reads a configuration without starting, and says what it would be.

use std::fmt::Write as _;

use crate::config::Config;
use crate::{provider, store};

/// What a good configuration holds, for people, one thing a line.
pub fn check(config: &Config) -> String {
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
    }
}
