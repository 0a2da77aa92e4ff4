//! The reference file and the code hold together; layers; bad input.

mod contexts;
mod refused;
mod tools;
mod variables;
mod workers;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;

use super::document::known_keys;
use super::*;
use crate::protocol::{OnBusy, ServerTool};
use crate::provider::{AguiOptions, AnthropicOptions, GeminiOptions, OpenaiOptions, ScriptOptions};
use crate::runtime::{ContextOptions, KEEP_TURNS, StrategyOptions, ToolOptions};
use crate::service::Secret;
use crate::worker::{HttpOptions, SocketOptions};

const REFERENCE: &str = include_str!("../../config/default.toml");

/// A configuration file in a folder of its own.
struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bot.toml"), text).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("bot.toml")
    }

    fn load(&self, variables: &[(&str, &str)]) -> Result<Config, Error> {
        Config::load(Some(&self.path()), owned(variables), &Flags::default())
    }
}

fn owned(variables: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>().into_iter()
}

fn file(text: &str) -> Config {
    File::new(text).load(&[]).unwrap_or_else(|error| panic!("{error}"))
}

fn variables(variables: &[(&str, &str)]) -> Result<Config, Error> {
    Config::load(None, owned(variables), &Flags::default())
}

#[test]
fn the_default_is_a_server_with_a_demo_agent() {
    let config = variables(&[]).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.store, store::Options::Sqlite(store::sqlite::Options { path: "headwater-data".into() }));
    assert_eq!(config.agents.keys().map(AgentId::as_str).collect::<Vec<_>>(), ["demo"]);
    assert!(matches!(config.llms["demo"], provider::Options::Script(ScriptOptions { file: None, .. })));
}

/// Keys of the reference, section by section: those that are set and those that are commented out.
fn documented() -> Vec<(String, String, String)> {
    let mut keys = Vec::new();
    let (mut section, mut comment) = (String::new(), String::new());
    for line in REFERENCE.lines() {
        let bare = line.trim_start_matches("# ");
        let is_header = |line: &str| line.starts_with('[') && line.ends_with(']');
        match bare.split_once(" = ") {
            _ if is_header(bare) => section = bare.trim_matches(['[', ']']).to_owned(),
            Some((key, _)) if key.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
                assert!(!comment.is_empty(), "`{key}` of [{section}] has no comment");
                keys.push((section.clone(), bare.to_owned(), std::mem::take(&mut comment)));
            }
            _ if line.starts_with('#') => comment.push_str(bare),
            _ => comment.clear(),
        }
    }
    keys
}

/// Sections of which there may be several.
const LISTS: [&str; 2] = [".strategy", ".tool"];

/// What the reference documents about a section, as TOML; without the keys that only have an example.
fn documented_defaults(name: &str) -> String {
    documented()
        .iter()
        .filter(|(section, _, comment)| section == name && !comment.contains("Unset"))
        .fold(String::new(), |text, (_, line, _)| text + line + "\n")
}

#[track_caller]
fn assert_documented(section: &str, known: Vec<String>) {
    let keys = documented().into_iter().filter(|(documented, ..)| documented == section);
    let keys = keys.map(|(_, line, _)| line.split_once(" = ").unwrap().0.to_owned()).filter(|key| key != "kind");
    assert_eq!(keys.collect::<BTreeSet<_>>(), known.into_iter().collect(), "[{section}]");
}

#[test]
fn the_reference_names_each_key_that_the_code_knows() {
    assert_eq!(known_keys::<Limits>(), Limits::KEYS);
    assert_documented("server", [known_keys::<web::Options>(), known_keys::<Limits>()].concat());
    assert_documented("auth", known_keys::<AuthOptions>());
    assert_documented("store", known_keys::<store::sqlite::Options>());
    assert_documented("log", known_keys::<telemetry::Options>());
    assert_documented("llm.demo", known_keys::<ScriptOptions>());
    assert_documented("llm.main", known_keys::<OpenaiOptions>());
    assert_documented("llm.claude", known_keys::<AnthropicOptions>());
    assert_documented("llm.gemini", known_keys::<GeminiOptions>());
    let agent = known_keys::<AgentOptions>().into_iter().filter(|key| key != "context" && key != "tool");
    assert_documented("agent.demo", agent.collect());
    let context = known_keys::<ContextOptions>().into_iter().filter(|key| key != "strategy");
    assert_documented("agent.demo.context", context.collect());
    assert_documented("agent.demo.worker", Vec::new());
    assert_documented("agent.hooked.worker", known_keys::<HttpOptions>());
    assert_documented("agent.dialing.worker", known_keys::<SocketOptions>());
    assert_documented("agent.relayed.worker", known_keys::<AguiOptions>());
    assert_documented("agent.demo.context.strategy", known_keys::<StrategyOptions>());
    assert_documented("agent.hooked.tool", known_keys::<ToolOptions>());
}

#[test]
fn the_reference_names_each_default_of_the_code() {
    let openai = |text: &str| format!("{:?}", toml::from_str::<OpenaiOptions>(text).unwrap());
    let documented = documented_defaults("llm.main").replace("kind = \"openai\"\n", "");
    assert_eq!(openai(&documented), openai("model = \"gpt-4.1-mini\""));
    let anthropic = |text: &str| format!("{:?}", toml::from_str::<AnthropicOptions>(text).unwrap());
    let documented = documented_defaults("llm.claude").replace("kind = \"anthropic\"\n", "");
    assert_eq!(anthropic(&documented), anthropic("model = \"claude-sonnet-4-5\""));
    let gemini = |text: &str| format!("{:?}", toml::from_str::<GeminiOptions>(text).unwrap());
    let documented = documented_defaults("llm.gemini").replace("kind = \"gemini\"\n", "");
    assert_eq!(gemini(&documented), gemini("model = \"gemini-2.5-flash\""));
    let agent = |text: &str| format!("{:?}", toml::from_str::<AgentOptions>(text).unwrap());
    assert_eq!(agent(&documented_defaults("agent.demo")), agent("llm = \"demo\""));
    let strategy: StrategyOptions = toml::from_str(&documented_defaults("agent.demo.context.strategy")).unwrap();
    assert_eq!((strategy.keep_turns, strategy.background), (Some(KEEP_TURNS), Some(false)));
    let tool = |text: &str| ServerTool::from(toml::from_str::<ToolOptions>(text).unwrap());
    assert_eq!(tool(&documented_defaults("agent.hooked.tool")), ServerTool::new("look_up"));
    let http = |text: &str| format!("{:?}", toml::from_str::<HttpOptions>(text).unwrap());
    let documented = documented_defaults("agent.hooked.worker").replace("kind = \"http\"\n", "");
    assert_eq!(http(&documented), http("url = \"http://127.0.0.1:8100/decide\""));
    let socket = |text: &str| format!("{:?}", toml::from_str::<SocketOptions>(text).unwrap());
    let documented = documented_defaults("agent.dialing.worker").replace("kind = \"socket\"\n", "");
    assert_eq!(socket(&documented), socket(""));
    let agui = |text: &str| format!("{:?}", toml::from_str::<AguiOptions>(text).unwrap());
    let documented = documented_defaults("agent.relayed.worker").replace("kind = \"agui\"\n", "");
    assert_eq!(agui(&documented), agui("url = \"http://127.0.0.1:8200/agent\""));
    let config = variables(&[]).unwrap();
    assert_eq!(format!("{:?}", config.server), format!("{:?}", web::Options::default()));
    assert_eq!(config.store, store::Options::default());
}

#[test]
fn every_line_of_the_reference_is_good() {
    let uncommented = documented().into_iter().fold((String::new(), String::new()), |(mut text, last), (section, line, _)| {
        if section != last {
            let (open, close) = if LISTS.iter().any(|list| section.ends_with(list)) { ("[[", "]]\n") } else { ("[", "]\n") };
            text = text + open + &section + close;
        }
        // The two that don't go together.
        let line = if line.starts_with("idle_secs") && section.ends_with(".strategy") { String::new() } else { line + "\n" };
        (text + &line, section)
    });
    let config = file(&uncommented.0);
    assert!(matches!(config.llms["main"], provider::Options::Openai(_)));
    assert!(matches!(config.llms["claude"], provider::Options::Anthropic(_)));
    assert!(matches!(config.llms["gemini"], provider::Options::Gemini(_)));
    let worker = |id: &str| &config.agents[&AgentId::from(id)].worker;
    assert!(matches!(worker("demo"), WorkerOptions::None));
    assert!(matches!(worker("hooked"), WorkerOptions::Http(_)));
    assert!(matches!(worker("dialing"), WorkerOptions::Socket(_)));
    assert!(matches!(worker("relayed"), WorkerOptions::Agui(_)));
    assert_eq!(config.agents.len(), 4);
}

#[test]
fn later_layers_win() {
    let file = File::new("[server]\nlisten = \"127.0.0.1:1\"\nworkers = 3\n[store]\nkind = \"memory\"\n");
    let config = file.load(&[]).unwrap();
    assert_eq!(config.server.listen.port(), 1);
    assert_eq!(config.store, store::Options::Memory {});
    assert_eq!(config.server.view_messages_max, 20_000, "keys that the file leaves out keep their default");
    let config = file.load(&[("HEADWATER__SERVER__LISTEN", "127.0.0.1:2"), ("HEADWATER_OTHER", "x"), ("PATH", "x")]).unwrap();
    assert_eq!((config.server.listen.port(), config.server.workers), (2, Some(3)));
    let flags = Flags { listen: Some("127.0.0.1:3".to_owned()) };
    let config = Config::load(Some(&file.path()), owned(&[("HEADWATER__SERVER__LISTEN", "127.0.0.1:2")]), &flags).unwrap();
    assert_eq!(config.server.listen.port(), 3);
}

#[test]
fn variables_are_toml_or_else_text() {
    let config = variables(&[
        ("HEADWATER__SERVER__WORKERS", "2"),
        ("HEADWATER__SERVER__ORIGINS", "[\"https://chat.example.com\"]"),
        ("HEADWATER__STORE__KIND", "memory"),
        ("HEADWATER__LLM__BIG_ONE__KIND", "openai"),
        ("HEADWATER__LLM__BIG_ONE__MODEL", "\"7\""),
        ("HEADWATER__LLM__BIG_ONE__API_KEY__ENV", "BIG_KEY"),
        ("HEADWATER__AGENT__DEMO__LLM", "big_one"),
    ])
    .unwrap();
    assert_eq!(config.server.workers, Some(2));
    assert_eq!(config.server.origins[0], "https://chat.example.com");
    let provider::Options::Openai(openai) = &config.llms["big_one"] else { panic!("{:?}", config.llms) };
    assert_eq!((openai.model.as_str(), &openai.api_key), ("7", &Some(Secret::Env("BIG_KEY".to_owned()))));
    assert_eq!(config.agents[&AgentId::from("demo")].llm, "big_one", "the demo agent stays, since no file names agents");
}

#[test]
fn variables_find_names_that_they_cannot_spell() {
    let file = File::new("[llm.Big-One]\nkind = \"script\"\n[agent.bot]\nllm = \"Big-One\"\n");
    let config = file.load(&[("HEADWATER__LLM__BIG_ONE__ATTEMPTS", "5")]).unwrap();
    assert!(matches!(config.llms["Big-One"], provider::Options::Script(ScriptOptions { attempts: Some(5), .. })));
}

#[test]
fn an_agent_says_what_becomes_of_a_submit_while_a_turn_is_there() {
    let all = [OnBusy::Refuse, OnBusy::Queue, OnBusy::Merge, OnBusy::Steer, OnBusy::Cancel];
    for (value, on_busy) in ["refuse", "queue", "merge", "steer", "cancel"].into_iter().zip(all) {
        let config = file(&format!("[agent.bot]\nllm = \"demo\"\non_busy = \"{value}\"\n"));
        assert_eq!(config.agents[&AgentId::from("bot")].on_busy, on_busy);
    }
}

#[test]
fn the_demo_agent_gives_way_to_the_files_own() {
    let config = file("[agent.bot]\nllm = \"demo\"\n");
    assert_eq!(config.agents.keys().map(AgentId::as_str).collect::<Vec<_>>(), ["bot"]);
    let config = file("[server]\nworkers = 1\n");
    assert_eq!(config.agents.keys().map(AgentId::as_str).collect::<Vec<_>>(), ["demo"]);
}

#[test]
fn another_kind_does_not_inherit() {
    let config = file("[llm.demo]\nkind = \"openai\"\nmodel = \"m\"\n[store]\nkind = \"memory\"\n");
    assert!(matches!(config.llms["demo"], provider::Options::Openai(_)));
    assert_eq!(config.store, store::Options::Memory {});
}

#[test]
fn paths_of_a_file_are_relative_to_it() {
    let text = "[store]\npath = \"data\"\n[llm.a]\nkind = \"script\"\nfile = \"rules.toml\"\n[llm.b]\nkind = \"openai\"\nmodel = \"m\"\n\
                api_key = { file = \"/run/key\" }\nextra = { file = \"as-it-is\" }\n";
    let file = File::new(text);
    let folder = file.folder.path();
    let config = file.load(&[]).unwrap();
    assert_eq!(config.store, store::Options::Sqlite(store::sqlite::Options { path: folder.join("data") }));
    let provider::Options::Script(script) = &config.llms["a"] else { panic!("{:?}", config.llms) };
    assert_eq!(script.file, Some(folder.join("rules.toml")));
    let provider::Options::Openai(openai) = &config.llms["b"] else { panic!("{:?}", config.llms) };
    assert_eq!(openai.api_key, Some(Secret::File("/run/key".into())));
    assert_eq!(openai.extra["file"].as_str(), Some("as-it-is"));
    let config = file.load(&[("HEADWATER__STORE__PATH", "here")]).unwrap();
    assert_eq!(config.store, store::Options::Sqlite(store::sqlite::Options { path: "here".into() }));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Some(Path::new("no/such.toml")), owned(&[]), &Flags::default()).unwrap_err();
    assert_eq!(error.to_string(), "can't read the configuration file no/such.toml");
    assert!(std::error::Error::source(&error).is_some());
    let error = File::new(b"x = \"\xff\"").load(&[]).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("UTF-8"));
}

#[test]
fn open_to_others_only_in_so_many_words() {
    let config = file("[server]\nlisten = \"0.0.0.0:8080\"\n[auth]\nallow_open = true\n");
    assert_eq!(config.server.listen.port(), 8080);
    assert_eq!(file("[server]\nlisten = \"[::1]:0\"\n").server.listen.to_string(), "[::1]:0");
}
