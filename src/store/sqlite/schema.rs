//! The format of the database, its version, and the steps from older ones. May not know what records mean.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::failure;
use crate::store::Error;

/// Marks a file as a store of Headwater: "HWDR".
pub(super) const APPLICATION_ID: i32 = 0x4857_4452;

/// The step at index `n` leads from format `n` to `n + 1`; format 0 is an empty database. Steps are never changed once
/// released, only added.
///
/// Records are shaped for appending: they lie in the order in which they came, and the index over them has small numbers. With
/// a session's name in the key, appends were 17 times slower. A session's number is never given again: leftovers are the numbers
/// of erased sessions whose records are still to be removed. Tombstones keep the names of erased sessions for a while.
/// Snapshots are a cache: without them, all is there.
const STEPS: [&str; 3] = [
    "
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        session TEXT NOT NULL,
        seq INTEGER NOT NULL,
        tip BLOB NOT NULL,
        title TEXT,
        updated INTEGER NOT NULL,
        outstanding INTEGER NOT NULL,
        UNIQUE (tenant, session)
    ) STRICT;
    CREATE INDEX sessions_outstanding ON sessions (id) WHERE outstanding = 1;
    CREATE TABLE records (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (session, seq)
    ) STRICT;
    CREATE TABLE leftovers (
        session INTEGER PRIMARY KEY
    ) STRICT;
    ",
    "
    ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX sessions_archived ON sessions (tenant, archived, session);
    CREATE TABLE tombstones (
        tenant TEXT NOT NULL,
        session TEXT NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (tenant, session)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tombstones_until ON tombstones (until);
    ",
    "
    CREATE TABLE snapshots (
        session INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        tip BLOB NOT NULL
    ) STRICT;
    CREATE TABLE sheets (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        sheet INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (session, sheet)
    ) STRICT;
    ",
];

/// The format that this version of Headwater writes.
pub(super) const FORMAT: i32 = 3;

const _: () = assert!(STEPS.len() == FORMAT as usize);

/// The format of an open database. Changes nothing; refuses what isn't ours or is newer.
pub(super) fn format(connection: &Connection, database: &Path) -> Result<i32, Error> {
    let ask = || -> rusqlite::Result<(i32, i32, u32)> {
        let application = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let format = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let objects = connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        Ok((application, format, objects))
    };
    let (application, format, objects) = ask().map_err(|error| failure::open(error, database, "looking at its format"))?;
    let name = database.display();
    match (application, format) {
        (0, 0) if objects == 0 => Ok(0),
        (APPLICATION_ID, 1..=FORMAT) => Ok(format),
        (APPLICATION_ID, _) => Err(Error::Open(format!(
            "`{name}` has format {format}, this Headwater knows formats up to {FORMAT}: use the version that wrote it, or a newer one"
        ))),
        (_, _) => Err(Error::Open(format!(
            "`{name}` is another program's database (application id {application}, Headwater's is {APPLICATION_ID}): give the store a \
             `path` of its own"
        ))),
    }
}

/// Brings a database from `format` to ours, wholly or not at all.
pub(super) fn migrate(connection: &mut Connection, format: i32) -> rusqlite::Result<()> {
    if format == FORMAT {
        return Ok(());
    }
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    for step in &STEPS[usize::try_from(format).unwrap_or_default()..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}
