//! Where log lines go, and what `[log]` says. May not know who logs.

use std::io::IsTerminal;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::EnvFilter;

/// `[log]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// How lines look.
    pub format: Format,
    /// What is logged.
    pub level: Level,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// A level, or several by module: `info,headwater::web=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level(String);

impl Level {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What passes. The web server's own account of its start and stop is only for those who ask for more than `info`.
    fn filter(&self) -> EnvFilter {
        match self.as_str().trim() {
            "info" => EnvFilter::new("info,actix_server=warn"),
            levels => EnvFilter::new(levels),
        }
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_level = |name: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&name);
        let is_good = |piece: &str| is_level(piece.rsplit_once('=').map_or(piece, |(_, level)| level));
        if text.split(',').map(str::trim).all(is_good) && EnvFilter::try_new(&text).is_ok() {
            Ok(Self(text))
        } else {
            Err(D::Error::custom(format!(
                "`{text}` is not a level; write \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", or by module \"info,headwater::web=debug\""
            )))
        }
    }
}

/// Log lines could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("log lines go somewhere else already")]
pub struct Error(#[from] tracing_subscriber::util::TryInitError);

/// Sends log lines to standard error from now on.
pub fn init(options: &Options) -> Result<(), Error> {
    use tracing_subscriber::util::SubscriberInitExt;
    let lines = tracing_subscriber::fmt().with_env_filter(options.level.filter()).with_writer(std::io::stderr);
    match options.format {
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).finish().try_init()?,
        Format::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}
