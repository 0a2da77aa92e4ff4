//! Erasing, in portions: a session is gone at once, the bytes of a long log go while nobody waits for the writer. What is left
//! over is noted in the database, so that a restart goes on with it. May not know what records mean.

use rusqlite::{OptionalExtension, Transaction};

use super::writer::find;
use crate::ids::SessionKey;

/// The most records that are removed in one step.
pub(super) const PORTION: u32 = 500;

/// Removes a session, and the first portion of its records.
pub(super) fn erase(transaction: &Transaction<'_>, key: &SessionKey) -> rusqlite::Result<()> {
    if let Some((id, _)) = find(transaction, key)? {
        transaction.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id])?;
        transaction.prepare_cached("INSERT INTO leftovers (session) VALUES (?1)")?.execute([id])?;
        remove(transaction, id)?;
    }
    Ok(())
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
    let mut delete = transaction.prepare_cached("DELETE FROM records WHERE id IN (SELECT id FROM records WHERE session = ?1 LIMIT ?2)")?;
    if delete.execute((id, PORTION))? < PORTION as usize {
        transaction.prepare_cached("DELETE FROM leftovers WHERE session = ?1")?.execute([id])?;
    }
    Ok(())
}
