//! The threads that read, and what they ask the database. Each question sees the database at one moment; none holds up the
//! writer. May not know what records mean.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use super::place::Place;
use super::threads::Threads;
use super::{failure, writer::find};
use crate::ids::{SessionId, SessionKey, Tenant};
use crate::store::{Error, Header, Listed, Position};

/// A question, with the way its answer goes.
pub(super) type Query = Box<dyn FnOnce(&Connection) + Send>;

/// Why a question has no answer.
pub(super) enum Wrong {
    /// `SQLite` could not.
    Sqlite(rusqlite::Error),
    /// What it found can't be.
    Damaged(String),
}

impl From<rusqlite::Error> for Wrong {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Starts a thread for each connection.
pub(super) fn start(connections: Vec<Connection>) -> Result<Threads<Query>, Error> {
    let (mut threads, queue) = Threads::<Query>::new();
    let queue = Arc::new(Mutex::new(queue));
    for connection in connections {
        let queue = Arc::clone(&queue);
        threads.spawn("store-reader", move || {
            // One waits for the next question, the others for their turn to wait; the lock is free while one reads.
            let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            while let Some(query) = next() {
                query(&connection);
            }
        })?;
    }
    Ok(threads)
}

/// Lets one of the threads answer.
pub(super) async fn query<T: Send + 'static>(
    threads: &Threads<Query>,
    place: &Arc<Place>,
    doing: impl Fn() -> String + Clone + Send + 'static,
    ask: impl FnOnce(&Connection) -> Result<T, Wrong> + Send + 'static,
) -> Result<T, Error> {
    let (place, named) = (Arc::clone(place), doing.clone());
    let job = |answer: super::threads::Answer<T>| -> Query {
        Box::new(move |connection| {
            let result = ask(connection).map_err(|wrong| match wrong {
                Wrong::Sqlite(error) => failure::error(&Arc::new(error), &place.database, named()),
                Wrong::Damaged(what) => Error::Corrupt { what: format!("`{}`: {what}", place.database.display()) },
            });
            let _ = answer.send(result);
        })
    };
    threads.ask(job, doing).await
}

/// Up to `limit` records from `from`. That they are all there is checked against where the log ends.
pub(super) fn read(connection: &Connection, key: &SessionKey, from: u64, limit: usize) -> Result<Vec<Bytes>, Wrong> {
    let moment = connection.unchecked_transaction()?;
    let from = from.max(1);
    let Some((id, position)) = find(&moment, key)? else { return Ok(Vec::new()) };
    let count = usize::try_from((position.seq + 1).saturating_sub(from)).unwrap_or(usize::MAX).min(limit);
    let mut records = Vec::with_capacity(count.min(4_096));
    if count > 0 {
        let mut select = moment.prepare_cached("SELECT seq, bytes FROM records WHERE session = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3")?;
        let mut rows = select.query((id, from.cast_signed(), i64::try_from(count).unwrap_or(i64::MAX)))?;
        while let Some(row) = rows.next()? {
            let wanted = from + records.len() as u64;
            if row.get::<_, i64>(0)? != wanted.cast_signed() {
                return Err(missing(key, wanted));
            }
            records.push(Bytes::from(row.get::<_, Vec<u8>>(1)?));
        }
    }
    if records.len() < count {
        return Err(missing(key, from + records.len() as u64));
    }
    Ok(records)
}

fn missing(key: &SessionKey, seq: u64) -> Wrong {
    Wrong::Damaged(format!("session {key} has no record {seq}"))
}

pub(super) fn pick(connection: &Connection, key: &SessionKey, seqs: &[u64]) -> Result<Vec<Bytes>, Wrong> {
    let moment = connection.unchecked_transaction()?;
    let id = find(&moment, key)?.map(|(id, _)| id);
    let mut select = moment.prepare_cached("SELECT bytes FROM records WHERE session = ?1 AND seq = ?2")?;
    let mut records = Vec::with_capacity(seqs.len());
    for &seq in seqs {
        let record: Option<Vec<u8>> = match id {
            Some(id) => select.query_row((id, seq.cast_signed()), |row| row.get(0)).optional()?,
            None => None,
        };
        records.push(Bytes::from(record.ok_or_else(|| missing(key, seq))?));
    }
    Ok(records)
}

pub(super) fn position(connection: &Connection, key: &SessionKey) -> Result<Position, Wrong> {
    Ok(find(connection, key)?.map_or_else(Position::default, |(_, position)| position))
}

/// The sessions after `after`; an index holds them in their order, and those that are archived or aren't in theirs.
pub(super) fn sessions(
    connection: &Connection,
    tenant: &Tenant,
    after: Option<&SessionId>,
    limit: usize,
    archived: Option<bool>,
) -> Result<Vec<Listed>, Wrong> {
    let list = |row: &Row<'_>| {
        let updated = row.get::<_, i64>(2)?.cast_unsigned();
        let header = Header { title: row.get(1)?, updated, outstanding: row.get(3)?, archived: row.get(4)? };
        Ok(Listed { tenant: tenant.clone(), session: row.get::<_, String>(0)?.into(), header })
    };
    let after_is = if after.is_some() { " AND session > :after" } else { "" };
    let archived_is = if archived.is_some() { " AND archived = :archived" } else { "" };
    let mut select = connection.prepare_cached(&format!(
        "SELECT session, title, updated, outstanding, archived FROM sessions \
         WHERE tenant = :tenant{after_is}{archived_is} ORDER BY session LIMIT :limit"
    ))?;
    let (tenant_text, limit) = (tenant.as_str(), i64::try_from(limit).unwrap_or(i64::MAX));
    let mut named: Vec<(&str, &dyn ToSql)> = vec![(":tenant", &tenant_text), (":limit", &limit)];
    let after = after.map(SessionId::as_str);
    named.extend(after.iter().map(|after| (":after", after as &dyn ToSql)));
    named.extend(archived.iter().map(|archived| (":archived", archived as &dyn ToSql)));
    Ok(select.query_map(&named[..], list)?.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn outstanding(connection: &Connection) -> Result<Vec<SessionKey>, Wrong> {
    let mut select = connection.prepare_cached("SELECT tenant, session FROM sessions WHERE outstanding = 1 ORDER BY id")?;
    let keys =
        select.query_map((), |row| Ok(SessionKey { tenant: row.get::<_, String>(0)?.into(), session: row.get::<_, String>(1)?.into() }))?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

/// Touches the database, and nothing more.
pub(super) fn answers(connection: &Connection) -> Result<(), Wrong> {
    connection.prepare_cached("SELECT 1 FROM sessions LIMIT 1")?.exists(())?;
    Ok(())
}
