//! What `[store]` says, and opening what it names. May not know what is stored.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::{Error, Store, memory, sqlite};

/// `[store]`: where session logs are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Options {
    /// In memory: everything is gone when the process ends.
    Memory {},
    /// In a directory of this machine.
    Sqlite(sqlite::Options),
}

impl Options {
    /// What `kind` may be.
    pub const KINDS: &[&str] = &["memory", "sqlite"];

    /// The options of a `kind`, from the fields beside it; nothing for a kind that there isn't. Unlike the derived
    /// implementation it doesn't buffer, so errors keep their place.
    pub fn of_kind<'de, D: Deserializer<'de>>(kind: &str, fields: D) -> Option<Result<Self, D::Error>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        match kind {
            "memory" => Some(Nothing::deserialize(fields).map(|Nothing {}| Self::Memory {})),
            "sqlite" => Some(sqlite::Options::deserialize(fields).map(Self::Sqlite)),
            _ => None,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::Sqlite(sqlite::Options::default())
    }
}

/// Opens the store that `options` name. Blocks: for start-up.
pub fn open(options: &Options) -> Result<Arc<dyn Store>, Error> {
    Ok(match options {
        Options::Memory {} => Arc::new(memory::Memory::new()),
        Options::Sqlite(options) => Arc::new(sqlite::Sqlite::open(options)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn says_where_sessions_are_kept() {
        assert_eq!(parse("kind = 'memory'").unwrap(), Options::Memory {});
        let sqlite = sqlite::Options { path: "/somewhere".into() };
        assert_eq!(parse("kind = 'sqlite'\npath = '/somewhere'").unwrap(), Options::Sqlite(sqlite));
        assert_eq!(parse("kind = 'sqlite'").unwrap(), Options::default());
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in ["kind = 'memory'\npath = 'x'", "kind = 'sqlite'\npaht = 'x'"] {
            assert!(parse(text).unwrap_err().contains("unknown field"), "{text}");
        }
        assert!(parse("kind = 'clay'").unwrap_err().contains("unknown variant"));
        assert!(parse("path = 'x'").unwrap_err().contains("kind"));
    }
}
