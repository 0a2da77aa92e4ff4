//! What `[llm.<id>]` says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

use crate::service::{Given, Secret};

/// `[llm.<id>]`: a provider and a model.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Options {
    /// Rules from a file: no key, no network, always the same.
    Script(ScriptOptions),
    /// Chat completions as `OpenAI` made them, or anything that speaks them.
    Openai(OpenaiOptions),
    /// Anthropic's messages, or anything that speaks them.
    Anthropic(AnthropicOptions),
    /// Gemini, as Google serves it.
    Gemini(GeminiOptions),
}

impl Options {
    /// What `kind` may be.
    pub const KINDS: &[&str] = &["script", "openai", "anthropic", "gemini"];

    /// The options of a `kind`, from the fields beside it; nothing for a kind that there isn't. Unlike the derived
    /// implementation it doesn't buffer, so errors keep their place.
    pub fn of_kind<'de, D: Deserializer<'de>>(kind: &str, fields: D) -> Option<Result<Self, D::Error>> {
        match kind {
            "script" => Some(ScriptOptions::deserialize(fields).map(Self::Script)),
            "openai" => Some(OpenaiOptions::deserialize(fields).map(Self::Openai)),
            "anthropic" => Some(AnthropicOptions::deserialize(fields).map(Self::Anthropic)),
            "gemini" => Some(GeminiOptions::deserialize(fields).map(Self::Gemini)),
            _ => None,
        }
    }
}

/// `kind = "script"`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptOptions {
    /// The rules, relative to the configuration file; without it the built-in demo.
    pub file: Option<PathBuf>,
    /// Attempts of a call, the first included.
    pub attempts: Option<u32>,
}

/// `kind = "openai"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenaiOptions {
    /// The model's name.
    pub model: String,
    /// Up to and with `/v1`.
    #[serde(default = "openai_base_url")]
    pub base_url: String,
    /// Where the key is; a key never stands in the file itself.
    pub api_key: Option<Secret>,
    /// Attempts of a call, the first included.
    pub attempts: Option<u32>,
    /// To connect, in seconds.
    #[serde(default = "ten")]
    pub connect_secs: u64,
    /// Until the first byte, and between two pieces, in seconds.
    #[serde(default = "sixty")]
    pub idle_secs: u64,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens that a reply may have.
    pub max_tokens: Option<u64>,
    /// More fields of the request's body, sent as they are.
    #[serde(default)]
    pub extra: BTreeMap<String, toml::Value>,
}

/// `kind = "anthropic"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnthropicOptions {
    /// The model's name.
    pub model: String,
    /// Up to and with `/v1`.
    #[serde(default = "anthropic_base_url")]
    pub base_url: String,
    /// Where the key is; a key never stands in the file itself.
    pub api_key: Option<Secret>,
    /// Attempts of a call, the first included.
    pub attempts: Option<u32>,
    /// To connect, in seconds.
    #[serde(default = "ten")]
    pub connect_secs: u64,
    /// Until the first byte, and between two pieces, in seconds.
    #[serde(default = "sixty")]
    pub idle_secs: u64,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens that a reply may have; the API wants to be told.
    #[serde(default = "reply_tokens")]
    pub max_tokens: u64,
    /// More headers of the request, or others than the usual.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// More fields of the request's body, sent as they are.
    #[serde(default)]
    pub extra: BTreeMap<String, toml::Value>,
}

/// `kind = "gemini"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeminiOptions {
    /// The model's name.
    pub model: String,
    /// Up to and with the version; `/models/<model>:streamGenerateContent` follows.
    #[serde(default = "gemini_base_url")]
    pub base_url: String,
    /// Where the key is; a key never stands in the file itself.
    pub api_key: Option<Secret>,
    /// Attempts of a call, the first included.
    pub attempts: Option<u32>,
    /// To connect, in seconds.
    #[serde(default = "ten")]
    pub connect_secs: u64,
    /// Until the first byte, and between two pieces, in seconds.
    #[serde(default = "sixty")]
    pub idle_secs: u64,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens that a reply may have, thoughts included.
    pub max_tokens: Option<u64>,
    /// More fields of the request's body. Tables are merged with what stands there, `tools` are added.
    #[serde(default)]
    pub extra: BTreeMap<String, toml::Value>,
}

/// `[agent.<id>.worker]` with `kind = "agui"`: an AG-UI agent in the place of the model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AguiOptions {
    /// Where its runs go by POST.
    pub url: String,
    /// More headers of its requests.
    #[serde(default)]
    pub headers: BTreeMap<String, Given>,
    /// What one of its threads is.
    #[serde(default)]
    pub upstream_thread: UpstreamThread,
    /// To connect, in seconds.
    #[serde(default = "ten")]
    pub connect_secs: u64,
    /// Until the first byte, and between two pieces, in seconds: an agent that carries out a tool says nothing.
    #[serde(default = "five_minutes")]
    pub idle_secs: u64,
    /// Attempts of a run, the first included.
    pub attempts: Option<u32>,
}

impl AguiOptions {
    /// What the agent can do, as far as anybody knows: it is sent whatever there is.
    pub fn abilities(&self) -> Abilities {
        Abilities { image: true, audio: true, video: true, pdf: true, file: true, reasoning: true }
    }
}

/// What a thread of an AG-UI agent upstream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamThread {
    /// One run: it is told everything each time, and what it remembers doesn't matter.
    #[default]
    Run,
    /// One branch of the conversation.
    Branch,
    /// The session.
    Session,
}

fn openai_base_url() -> String {
    "https://api.openai.com/v1".to_owned()
}

fn anthropic_base_url() -> String {
    "https://api.anthropic.com/v1".to_owned()
}

fn gemini_base_url() -> String {
    "https://generativelanguage.googleapis.com/v1beta".to_owned()
}

fn reply_tokens() -> u64 {
    8192
}

fn ten() -> u64 {
    10
}

fn five_minutes() -> u64 {
    300
}

fn sixty() -> u64 {
    60
}

/// What an llm can do, as far as its options say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an ability by itself")]
pub struct Abilities {
    /// Reads images.
    pub image: bool,
    /// Reads sound.
    pub audio: bool,
    /// Reads films.
    pub video: bool,
    /// Reads PDF.
    pub pdf: bool,
    /// Reads files of other kinds.
    pub file: bool,
    /// Shows what it thinks.
    pub reasoning: bool,
}

impl Options {
    /// What the llm can do.
    pub fn abilities(&self) -> Abilities {
        let said = |extra: &BTreeMap<String, toml::Value>, path: &[&str]| {
            let mut at = extra.get(path[0]);
            for name in &path[1..] {
                at = at.and_then(|value| value.get(name));
            }
            at.cloned()
        };
        match self {
            // A script reads words.
            Self::Script(_) => Abilities { reasoning: true, ..Abilities::default() },
            // Services that think say so by themselves.
            Self::Openai(_) => Abilities { image: true, audio: true, video: false, pdf: true, file: true, reasoning: true },
            Self::Anthropic(options) => {
                let thinking = said(&options.extra, &["thinking", "type"]);
                let reasoning = thinking.is_some_and(|thinking| thinking.as_str() != Some("disabled"));
                Abilities { image: true, audio: false, video: false, pdf: true, file: true, reasoning }
            }
            Self::Gemini(options) => {
                let thoughts = said(&options.extra, &["generationConfig", "thinkingConfig", "includeThoughts"]);
                let reasoning = thoughts.and_then(|thoughts| thoughts.as_bool()).unwrap_or(false);
                Abilities { image: true, audio: true, video: true, pdf: true, file: true, reasoning }
            }
        }
    }
}
