//! The configuration: `config/default.toml` < a file < the environment < flags. Each component owns its options; here they
//! are only laid over each other, checked against each other, and refused in words that say what to write instead. May not
//! know what is made of them.

mod auth;
mod document;
mod error;
mod source;
#[cfg(test)]
mod tests;
mod variables;
mod words;

use std::collections::BTreeMap;
use std::path::Path;

pub use crate::runtime::WorkerOptions;
pub use auth::{AuthMode, AuthOptions};
pub use error::{Error, Wrong};
pub use source::{Place, Written};

use serde::Deserialize;
use toml::de::ValueDeserializer;

use crate::ids::AgentId;
use crate::runtime::{AgentOptions, BadTool, Limits, Misfit, StrategyOptions};
use crate::{provider, store, telemetry, web};
use document::Document;

/// The sections there are.
const SECTIONS: &[&str] = &["server", "auth", "store", "log", "llm", "agent"];

/// The longest name of an agent or an llm, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Everything that is configured.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[server]`, as far as it is about routes and connections.
    pub server: web::Options,
    /// `[server]`, as far as it is about sessions.
    pub sessions: Limits,
    /// `[auth]`.
    pub auth: AuthOptions,
    /// `[store]`.
    pub store: store::Options,
    /// `[log]`.
    pub log: telemetry::Options,
    /// `[llm.<id>]`.
    pub llms: BTreeMap<String, provider::Options>,
    /// `[agent.<id>]`.
    pub agents: BTreeMap<AgentId, AgentOptions>,
}

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--listen`.
    pub listen: Option<String>,
}

/// The environment, for [`Config::load`].
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

impl Config {
    /// Reads all layers. Of `variables`, those that begin with `HEADWATER__` count.
    pub fn load(file: Option<&Path>, variables: impl Iterator<Item = (String, String)>, flags: &Flags) -> Result<Self, Error> {
        let variables: Vec<_> = variables.collect();
        variables::expect_two_underscores(variables.iter().map(|(name, _)| name.as_str()))?;
        let sources = document::sources(file, variables.into_iter(), flags)?;
        let document = Document::new(&sources)?;
        Ok(Self::read(&document)?)
    }

    fn read(document: &Document<'_>) -> Result<Self, Wrong> {
        document.expect_sections(SECTIONS)?;
        let (server, sessions) = server(document)?;
        let config = Self {
            server,
            sessions,
            auth: document.read(&["auth"])?,
            store: kinded(document, "store", &["store"], store::Options::KINDS, store::Options::of_kind)?,
            log: document.read(&["log"])?,
            llms: llms(document)?,
            agents: agents(document)?,
        };
        config.check_llms_exist(document)?;
        config.check_contexts(document)?;
        config.check_tools(document)?;
        config.check_exposure(document)?;
        Ok(config)
    }

    fn check_llms_exist(&self, document: &Document<'_>) -> Result<(), Wrong> {
        for (id, agent) in &self.agents {
            let path = ["agent", id.as_str(), "llm"];
            match (&agent.worker, document.has(&path)) {
                (WorkerOptions::Agui(_), false) => continue,
                (WorkerOptions::Agui(_), true) => {
                    let help = "leave it out; a `summarize` strategy may have an `llm` of its own".to_owned();
                    let what = format!("the worker of the agent `{id}` answers itself, in the place of an llm");
                    return Err(Wrong { help: Some(help), ..document.wrong(&path, what) });
                }
                (WorkerOptions::None | WorkerOptions::Http(_) | WorkerOptions::Socket(_), false) => {
                    return Err(document.wrong(&["agent", id.as_str()], format!("[agent.{id}] needs the key `llm`")));
                }
                (WorkerOptions::None | WorkerOptions::Http(_) | WorkerOptions::Socket(_), true) => {}
            }
            if !self.llms.contains_key(&agent.llm) {
                let what = format!("there is no [llm.{}] for the agent `{id}`", agent.llm);
                return Err(Wrong { help: Some(self.meant_llm(&agent.llm)), ..document.wrong(&path, what) });
            }
        }
        Ok(())
    }

    /// Whether room can be made as each agent says.
    fn check_contexts(&self, document: &Document<'_>) -> Result<(), Wrong> {
        for (id, agent) in &self.agents {
            let context = ["agent", id.as_str(), "context"];
            let list = ["agent", id.as_str(), "context", "strategy"];
            if let Err(Misfit { strategy, key, what, help }) = agent.context.check(agent.system.as_deref()) {
                let wrong = match strategy {
                    Some(index) => document.wrong_in_list(&list, index, key, what),
                    None => document.wrong(&[&context[..], &[key]].concat(), what),
                };
                return Err(Wrong { help: Some(help), ..wrong });
            }
            let summarizes = |strategy: &StrategyOptions| strategy.r#use == "summarize" && strategy.llm.is_none();
            if let (WorkerOptions::Agui(_), Some(index)) = (&agent.worker, agent.context.strategy.iter().position(summarizes)) {
                let what = format!("the agent `{id}` has no llm that could write summaries");
                let help = "give this strategy an `llm`".to_owned();
                return Err(Wrong { help: Some(help), ..document.wrong_in_list(&list, index, "use", what) });
            }
            let mut llms = agent.context.strategy.iter().enumerate().filter_map(|(index, strategy)| Some((index, strategy.llm.as_ref()?)));
            if let Some((index, llm)) = llms.find(|(_, llm)| !self.llms.contains_key(*llm)) {
                let wrong = document.wrong_in_list(&list, index, "llm", format!("there is no [llm.{llm}] to write summaries"));
                return Err(Wrong { help: Some(self.meant_llm(llm)), ..wrong });
            }
        }
        Ok(())
    }

    /// Whether each agent's tools can be offered.
    fn check_tools(&self, document: &Document<'_>) -> Result<(), Wrong> {
        for (id, agent) in &self.agents {
            if let Err(BadTool { index, key, what, help }) = agent.check_tools() {
                let wrong = document.wrong_in_list(&["agent", id.as_str(), "tool"], index, key, what);
                return Err(Wrong { help: Some(help), ..wrong });
            }
            if let (Some(index), WorkerOptions::None | WorkerOptions::Agui(_)) = (agent.first_for_worker(), &agent.worker) {
                let list = ["agent", id.as_str(), "tool"];
                let what = format!("the agent `{id}` has no worker that could carry out this tool");
                let help = format!("write [agent.{id}.worker] with `kind = \"http\"` or `kind = \"socket\"`, or `by = \"outside\"`");
                return Err(Wrong { help: Some(help), ..document.wrong_in_list(&list, index, "by", what) });
            }
        }
        Ok(())
    }

    fn meant_llm(&self, llm: &str) -> String {
        words::meant(llm, &self.llms.keys().map(String::as_str).collect::<Vec<_>>(), "llms")
    }

    fn check_exposure(&self, document: &Document<'_>) -> Result<(), Wrong> {
        match self.auth.mode {
            AuthMode::None if !self.server.listen.ip().is_loopback() && !self.auth.allow_open => {
                let what = format!("{} can be reached from other machines, and `mode = \"none\"` lets everyone in", self.server.listen);
                let help = "listen on 127.0.0.1, or say `allow_open = true` in [auth]".to_owned();
                Err(Wrong { help: Some(help), ..document.wrong(&["server", "listen"], what) })
            }
            AuthMode::None => Ok(()),
        }
    }
}

/// `[server]` has two owners; a key that neither knows is looked for among the keys of both.
fn server(document: &Document<'_>) -> Result<(web::Options, Limits), Wrong> {
    let path = ["server"];
    let is_ours = |key: &str| Limits::KEYS.contains(&key);
    let mut known = document::known_keys::<web::Options>();
    known.extend(Limits::KEYS.iter().map(|&key| key.to_owned()));
    document.expect_keys(&path, &known.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok((
        document.read_some(&path, |key| !is_ours(key), web::Options::deserialize)?,
        document.read_some(&path, is_ours, Limits::deserialize)?,
    ))
}

fn llms(document: &Document<'_>) -> Result<BTreeMap<String, provider::Options>, Wrong> {
    let mut llms = BTreeMap::new();
    for id in document.names("llm")? {
        check_name(document, "llm", &id)?;
        let options = kinded(document, "llm", &["llm", &id], provider::Options::KINDS, provider::Options::of_kind)?;
        llms.insert(id, options);
    }
    Ok(llms)
}

/// Reads a table of something whose `kind` says which other keys it has.
fn kinded<'s, T>(
    document: &Document<'s>,
    of: &str,
    path: &[&str],
    kinds: &[&str],
    read: impl FnOnce(&str, ValueDeserializer<'s>) -> Option<Result<T, toml::de::Error>>,
) -> Result<T, Wrong> {
    /// Says what is wrong with a table without a readable `kind`.
    #[derive(Deserialize)]
    struct Kinded {
        kind: String,
    }
    let kind = document.read::<Kinded>(path)?.kind;
    let options = document.read_some(path, |key| key != "kind", |fields| read(&kind, fields).transpose())?;
    options.ok_or_else(|| {
        let help = words::meant(&kind, kinds, "kinds");
        let key = path.iter().copied().chain(["kind"]).collect::<Vec<_>>();
        Wrong { help: Some(help), ..document.wrong(&key, format!("`{kind}` is not a kind of {of}")) }
    })
}

fn agents(document: &Document<'_>) -> Result<BTreeMap<AgentId, AgentOptions>, Wrong> {
    let mut agents = BTreeMap::new();
    for id in document.names("agent")? {
        check_name(document, "agent", &id)?;
        agents.insert(AgentId::from(id.as_str()), agent(document, &id)?);
    }
    Ok(agents)
}

/// `[agent.<id>]`, and its worker by its kind.
fn agent(document: &Document<'_>, id: &str) -> Result<AgentOptions, Wrong> {
    const WORKER: &str = "worker";
    let (path, worker) = (["agent", id], ["agent", id, WORKER]);
    let mut known = document::known_keys::<AgentOptions>();
    known.push(WORKER.to_owned());
    document.expect_keys(&path, &known.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut agent: AgentOptions = document.read_some(&path, |key| key != WORKER, AgentOptions::deserialize)?;
    if document.has(&worker) {
        agent.worker = kinded(document, WORKER, &worker, WorkerOptions::KINDS, WorkerOptions::of_kind)?;
    }
    if let (WorkerOptions::Agui(_), true) = (&agent.worker, agent.llm.is_empty()) {
        // No llm of the configuration's can be called so.
        agent.llm = format!("agui:{id}");
    }
    Ok(agent)
}

/// Names stand in routes, variables and logs.
fn check_name(document: &Document<'_>, section: &str, id: &str) -> Result<(), Wrong> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if id.is_empty() || id.len() > NAME_BYTES_MAX || !id.chars().all(plain) {
        let what = format!("`{id}` can't be the name of an {section}: at most {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`");
        return Err(document.wrong_name(&[section, id], what));
    }
    Ok(())
}
