//! What `[store]` says. May not know what is stored.

use std::path::PathBuf;

use serde::Deserialize;

/// `[store]`: where session logs are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Options {
    /// In memory: everything is gone when the process ends.
    Memory {},
    /// In a directory of this machine.
    Sqlite(SqliteOptions),
}

/// `kind = "sqlite"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqliteOptions {
    /// The directory of the database.
    pub path: PathBuf,
}
