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

    /// What passes: of our own lines what is asked for. Those of libraries may hold headers and bodies, and what is asked of a model;
    /// they pass as warnings and errors only, whatever is asked for.
    fn filter(&self) -> EnvFilter {
        EnvFilter::new(self.directives())
    }

    fn directives(&self) -> String {
        let directives = self.as_str().split(',').map(str::trim).map(|piece| match (piece.contains('='), piece) {
            (true, _) | (false, "off") => piece.to_owned(),
            (false, "error") => "error".to_owned(),
            (false, level) => format!("warn,{OURS}={level}"),
        });
        directives.collect::<Vec<_>>().join(",")
    }
}

/// The beginning of our own modules' names.
const OURS: &str = "headwater";

/// What is wrong with one piece of a level.
fn fault(piece: &str) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let (module, level) = piece.rsplit_once('=').map_or((None, piece), |(module, level)| (Some(module), level));
    if !LEVELS.contains(&level) || module.is_some_and(|module| module.is_empty() || !module.chars().all(in_module)) {
        return Some(format!(
            "`{piece}` is not a level; write \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", or by module \"info,headwater::web=debug\""
        ));
    }
    let module = module.filter(|module| *module != OURS && !module.starts_with("headwater::"))?;
    (!LEVELS[..3].contains(&level)).then(|| {
        format!("`{piece}`: lines of {module} may hold what people say, or a key, below warn; write `{module}=warn`, \"error\" or \"off\"")
    })
}

fn in_module(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let text = text.split(',').map(str::trim).collect::<Vec<_>>().join(",");
        match text.split(',').find_map(fault) {
            Some(fault) => Err(D::Error::custom(fault)),
            None if EnvFilter::try_new(&text).is_ok() => Ok(Self(text)),
            None => Err(D::Error::custom(format!("`{text}` is not a level"))),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(level: &str) -> Result<Options, String> {
        toml::from_str(&format!("format = \"text\"\nlevel = \"{level}\"")).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn libraries_tell_no_more_than_warnings() {
        for (asked, passes) in [
            ("info", "warn,headwater=info"),
            ("trace", "warn,headwater=trace"),
            ("error", "error"),
            ("off", "off"),
            ("info, headwater::web=debug", "warn,headwater=info,headwater::web=debug"),
            ("info,actix_server=off", "warn,headwater=info,actix_server=off"),
        ] {
            assert_eq!(read(asked).unwrap().level.directives(), passes, "{asked}");
        }
    }

    #[test]
    fn more_of_a_library_is_refused() {
        let refused = read("info,hyper=trace").unwrap_err();
        assert!(refused.contains("`hyper=trace`: lines of hyper may hold what people say"), "{refused}");
        for bad in ["loud", "headwaters=debug", "info,[span]=trace", "=debug", "info,"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
