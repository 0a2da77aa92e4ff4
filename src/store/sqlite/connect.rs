//! Connections to the database with the settings that the store's promises need. May not know what is asked over them.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::place::Place;
use super::{failure, schema};
use crate::store::Error;

/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 32;

/// The writing connection; the database is made, or brought to our format.
pub(super) fn to_write(place: &Place) -> Result<Connection, Error> {
    let database = &place.database;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = open(database, flags)?;
    let named = |doing: &'static str| move |error| failure::open(error, database, doing);
    if connection.is_readonly("main").map_err(named("looking whether it can be written"))? {
        return Err(Error::Open(format!("can't write the store `{}`: its file and directory must be writable", database.display())));
    }
    let format = schema::format(&connection, database)?;
    keep_a_log(&connection, database)?;
    settings(&connection, true).map_err(named("setting it up"))?;
    schema::migrate(&mut connection, format).map_err(named("bringing it to this version's format"))?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn to_read(place: &Place) -> Result<Connection, Error> {
    let connection = open(&place.database, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    settings(&connection, false).map_err(|error| failure::open(error, &place.database, "setting up a reader"))?;
    Ok(connection)
}

fn open(database: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let named = |error| failure::open(error, database, "opening its file");
    let connection = Connection::open_with_flags(database, flags).map_err(named)?;
    // Only its own threads use the database, and only recovery and closing exclude them.
    connection.busy_timeout(Duration::from_secs(5)).map_err(named)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// With a write-ahead log, readers and the writer don't wait for each other.
fn keep_a_log(connection: &Connection, database: &Path) -> Result<(), Error> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(|error| failure::open(error, database, "beginning its write-ahead log"))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    let name = database.display();
    Err(Error::Open(format!("the file system of `{name}` can't hold a write-ahead log (SQLite stays in mode {mode}): use a local disk")))
}

fn settings(connection: &Connection, writes: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "mmap_size", 1_i64 << 30)?;
    if writes {
        // A commit is on the disk before it is answered.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // In pages: the log is moved into the database in portions of 16 MB.
        connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        connection.pragma_update(None, "journal_size_limit", 64_i64 << 20)?;
        // In KiB.
        connection.pragma_update(None, "cache_size", -65_536)?;
        // What is erased is overwritten.
        connection.pragma_update(None, "secure_delete", true)?;
    }
    Ok(())
}
