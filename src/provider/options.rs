//! What `[llm.<id>]` says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// `[llm.<id>]`: a provider and a model.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Options {
    /// Rules from a file: no key, no network, always the same.
    Script(ScriptOptions),
    /// Chat completions as `OpenAI` made them, or anything that speaks them.
    Openai(OpenaiOptions),
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

/// A reference to a secret.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Secret {
    /// `{ env = "NAME" }`: an environment variable.
    Env(String),
    /// `{ file = "PATH" }`: a file that holds it, white space trimmed.
    File(PathBuf),
}

fn openai_base_url() -> String {
    "https://api.openai.com/v1".to_owned()
}

fn ten() -> u64 {
    10
}

fn sixty() -> u64 {
    60
}
