//! Erasing, in portions: a session is gone at once, the bytes of a long log go while nobody waits for the writer. What is left
//! over is noted in the database, so that a restart goes on with it. May not know what records mean.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::writer::find;
use crate::ids::{Millis, SessionKey};
use crate::store::Tombstone;

/// The most records that are removed in one step.
pub(super) const PORTION: u32 = 500;
/// The most sheets of a snapshot.
const SHEETS: u32 = 20;

/// Removes a session, and the first portion of its records; a tombstone stays, older ones that have ended go.
pub(super) fn erase(transaction: &Transaction<'_>, key: &SessionKey, tombstone: Tombstone) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM tombstones WHERE until <= ?1")?.execute([time(tombstone.at)])?;
    let mut insert = transaction.prepare_cached("INSERT OR REPLACE INTO tombstones (tenant, session, until) VALUES (?1, ?2, ?3)")?;
    insert.execute((key.tenant.as_str(), key.session.as_str(), time(tombstone.until)))?;
    if let Some((id, _)) = find(transaction, key)? {
        transaction.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id])?;
        transaction.prepare_cached("DELETE FROM snapshots WHERE session = ?1")?.execute([id])?;
        transaction.prepare_cached("INSERT INTO leftovers (session) VALUES (?1)")?.execute([id])?;
        remove(transaction, id)?;
    }
    Ok(())
}

/// Compared as a number, so that it must not wrap.
fn time(millis: Millis) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// Until when no new log may begin, where one was erased.
pub(super) fn erased(connection: &Connection, key: &SessionKey) -> rusqlite::Result<Option<Millis>> {
    let mut select = connection.prepare_cached("SELECT until FROM tombstones WHERE tenant = ?1 AND session = ?2")?;
    let until = select.query_row((key.tenant.as_str(), key.session.as_str()), |row| row.get::<_, i64>(0)).optional()?;
    Ok(until.map(i64::cast_unsigned))
}

/// A new log begins where one was erased.
pub(super) fn forget(transaction: &Transaction<'_>, key: &SessionKey) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached("DELETE FROM tombstones WHERE tenant = ?1 AND session = ?2")?;
    delete.execute((key.tenant.as_str(), key.session.as_str())).map(|_| ())
}

/// Removes one more portion of what is left over; whether there may be more.
pub(super) fn sweep(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    let mut select = transaction.prepare_cached("SELECT session FROM leftovers LIMIT 1")?;
    match select.query_row((), |row| row.get(0)).optional()? {
        Some(id) => remove(transaction, id).map(|()| true),
        None => Ok(false),
    }
}

fn remove(transaction: &Transaction<'_>, id: i64) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare_cached("DELETE FROM sheets WHERE id IN (SELECT id FROM sheets WHERE session = ?1 LIMIT ?2)")?;
    if delete.execute((id, SHEETS))? == SHEETS as usize {
        return Ok(());
    }
    let mut delete = transaction.prepare_cached("DELETE FROM records WHERE id IN (SELECT id FROM records WHERE session = ?1 LIMIT ?2)")?;
    if delete.execute((id, PORTION))? < PORTION as usize {
        transaction.prepare_cached("DELETE FROM leftovers WHERE session = ?1")?.execute([id])?;
    }
    Ok(())
}
