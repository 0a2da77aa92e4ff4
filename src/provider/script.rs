//! The `script` model: rules from a file, no key, no network, always the same. The demo's and the tests' model.
//! May not know files other than its own, HTTP, or what its answers are for.
//!
//! `examples/script/rules.toml` shows everything that a file may say; `rules` checks it when it is loaded.

mod answer;
mod condition;
mod reading;
mod rules;
mod template;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Attempt, Provider, ScriptOptions};
use crate::protocol::{CallError, CallErrorKind, CallRequest};
use reading::Reading;
use rules::Rule;

const DEMO: &str = include_str!("script/demo.toml");

/// The most bytes of a file of rules.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a script can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("can't read the script {}", file.display())]
    Read {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is larger than a script may be.
    #[error("the script {} has {bytes} bytes; at most {FILE_BYTES_MAX} are read", file.display())]
    TooLarge {
        /// Which file.
        file: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file says something that isn't allowed.
    #[error("{}:{line}:{column}: {message}", file.display())]
    Rules {
        /// Which file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong, and what is allowed.
        message: String,
    },
}

/// A loaded script. Clones share its rules.
#[derive(Clone, Debug)]
pub struct Script {
    rules: Arc<[Rule]>,
}

impl Script {
    /// Loads the rules that `options` name (relative to `base_dir`), or the built-in demo.
    pub fn load(options: &ScriptOptions, base_dir: &Path) -> Result<Self, Error> {
        match &options.file {
            None => Self::parse(DEMO, Path::new("demo.toml")),
            Some(file) => {
                let file = base_dir.join(file);
                let text = read(&file)?;
                Self::parse(&text, &file)
            }
        }
    }

    /// Takes rules from text; `file` is their name in errors.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Error> {
        let rules = rules::parse(text).map_err(|fault| {
            let (line, column) = position(text, fault.at);
            Error::Rules { file: file.to_owned(), line, column, message: fault.message }
        })?;
        Ok(Self { rules: rules.into() })
    }
}

impl Provider for Script {
    fn start(&self, request: CallRequest) -> Attempt {
        let reading = Reading::of(&request);
        match self.rules.iter().find(|rule| rule.condition.fits(&reading) && rule.takes()) {
            Some(rule) => answer::stream(rule, &reading, request.model),
            None => answer::failed(CallError::new(
                CallErrorKind::Refused,
                "no rule of the script fits this call; a last rule without `when` would answer everything",
            )),
        }
    }
}

fn read(file: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { file: file.to_owned(), source };
    let bytes = std::fs::metadata(file).map_err(failed)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(Error::TooLarge { file: file.to_owned(), bytes });
    }
    std::fs::read_to_string(file).map_err(failed)
}

/// Line and column of a byte offset, both from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
