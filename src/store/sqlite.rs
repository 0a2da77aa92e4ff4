//! A store in a directory of this machine: `SQLite` with a write-ahead log. One thread writes and commits in groups; a few
//! threads read, and never stand in its way. May not know what is stored.

mod connect;
mod erase;
mod failure;
#[cfg(test)]
mod killed;
mod place;
mod reader;
mod schema;
mod snapshots;
#[cfg(test)]
mod tests;
mod threads;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use self::place::Place;
use self::snapshots::Portion;
use self::threads::Threads;
use self::writer::{Job, Work};
use super::{Append, Error, Listed, Outcome, Pending, Position, Save, Snapshot, Store, Tombstone};
use crate::ids::{Millis, SessionId, SessionKey, Tenant};

/// Threads that read, each with a connection.
const READERS: usize = 3;

/// `[store]` with `kind = "sqlite"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The directory that holds the store; made when it doesn't exist. It belongs to one process at a time. A relative one
    /// is taken from the working directory.
    #[serde(default = "default_path")]
    pub path: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self { path: default_path() }
    }
}

fn default_path() -> PathBuf {
    "headwater-data".into()
}

/// Session logs in a directory. Dropping it waits until what was asked is written, closes the database and gives the directory
/// free.
#[derive(Debug)]
pub struct Sqlite {
    // The order matters, fields are dropped from the top: the writer closes last, so that it leaves one file with everything in
    // it; only then may another process come.
    readers: Threads<reader::Query>,
    writer: Threads<Job>,
    place: Arc<Place>,
}

impl Sqlite {
    /// Opens the store, or makes an empty one. Blocks: for start-up.
    pub fn open(options: &Options) -> Result<Self, Error> {
        let place = Arc::new(Place::claim(&options.path)?);
        let connection = connect::to_write(&place)?;
        Self::start(place, connection)
    }

    fn start(place: Arc<Place>, connection: rusqlite::Connection) -> Result<Self, Error> {
        let readers = (0..READERS).map(|_| connect::to_read(&place)).collect::<Result<Vec<_>, _>>()?;
        let writer = writer::start(connection, &place)?;
        Ok(Self { readers: reader::start(readers)?, writer, place })
    }

    async fn write(&self, work: Work) -> Result<Outcome, Error> {
        let doing = work.doing();
        self.writer.ask(|answer| Job { work, answer }, doing).await
    }

    async fn query<T: Send + 'static>(
        &self,
        doing: impl Fn() -> String + Clone + Send + 'static,
        ask: impl FnOnce(&rusqlite::Connection) -> Result<T, reader::Wrong> + Send + 'static,
    ) -> Result<T, Error> {
        reader::query(&self.readers, &self.place, doing, ask).await
    }
}

impl Store for Sqlite {
    fn append<'a>(&'a self, key: &'a SessionKey, append: Append) -> Pending<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            append.check(key)?;
            self.write(Work::Append(key.clone(), append)).await
        })
    }

    fn read<'a>(&'a self, key: &'a SessionKey, from: u64, limit: usize) -> Pending<'a, Result<Vec<Bytes>, Error>> {
        let (named, key) = (key.clone(), key.clone());
        Box::pin(self.query(move || format!("reading session {named}"), move |connection| reader::read(connection, &key, from, limit)))
    }

    fn pick<'a>(&'a self, key: &'a SessionKey, seqs: &'a [u64]) -> Pending<'a, Result<Vec<Bytes>, Error>> {
        let (named, key, seqs) = (key.clone(), key.clone(), seqs.to_vec());
        Box::pin(self.query(move || format!("reading session {named}"), move |connection| reader::pick(connection, &key, &seqs)))
    }

    fn snapshot<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Snapshot>, Error>> {
        let (named, key) = (key.clone(), key.clone());
        let doing = move || format!("reading the snapshot of session {named}");
        Box::pin(self.query(doing, move |connection| snapshots::read(connection, &key)))
    }

    fn save<'a>(&'a self, key: &'a SessionKey, save: Save) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            for portion in Portion::all(save) {
                if self.write(Work::Save(key.clone(), portion)).await? != Outcome::Appended {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn position<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Position, Error>> {
        let (named, key) = (key.clone(), key.clone());
        Box::pin(self.query(move || format!("looking where session {named} ends"), move |connection| reader::position(connection, &key)))
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a Tenant,
        after: Option<&'a SessionId>,
        limit: usize,
        archived: Option<bool>,
    ) -> Pending<'a, Result<Vec<Listed>, Error>> {
        let (named, tenant, after) = (tenant.clone(), tenant.clone(), after.cloned());
        let doing = move || format!("listing the sessions of tenant {named}");
        Box::pin(self.query(doing, move |connection| reader::sessions(connection, &tenant, after.as_ref(), limit, archived)))
    }

    fn outstanding(&self) -> Pending<'_, Result<Vec<SessionKey>, Error>> {
        Box::pin(self.query(|| "listing sessions with something to be done".to_owned(), reader::outstanding))
    }

    fn erase<'a>(&'a self, key: &'a SessionKey, tombstone: Tombstone) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move { self.write(Work::Erase(key.clone(), tombstone)).await.map(|_| ()) })
    }

    fn erased<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Millis>, Error>> {
        let (named, key) = (key.clone(), key.clone());
        let doing = move || format!("looking whether session {named} was erased");
        Box::pin(self.query(doing, move |connection| Ok(erase::erased(connection, &key)?)))
    }

    fn ready(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async move {
            self.query(|| "looking whether it reads".to_owned(), reader::answers).await?;
            self.write(Work::Nothing).await.map(|_| ())
        })
    }
}
