//! Where session logs are kept. A store sees encoded records and a small header, never what they mean. May not know the
//! engine, providers, the web.

#[doc(hidden)]
pub mod conformance;
#[doc(hidden)]
pub mod faulty;
pub mod memory;
mod options;
pub mod sqlite;

pub use options::{Options, open};

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::ids::{Millis, SessionId, SessionKey, Tenant};
use crate::protocol::Digest;

/// A boxed future that may cross threads.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A session log's end: how many records it has, and the chain hash over them. Two logs with the same tip are the same log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Records in the log; the last one has this `seq`. 0: no log.
    pub seq: u64,
    /// Chain hash of all records; zeros for no log.
    pub tip: [u8; 16],
}

impl Position {
    /// The end of the log after `record` follows.
    #[must_use]
    pub fn then(&self, record: &[u8]) -> Self {
        Self { seq: self.seq + 1, tip: Digest(self.tip).then(record).0 }
    }

    /// Whether a log that ends at `end` can have ended here; for certain only when it ends here now.
    pub fn is_on_log(&self, end: Self) -> bool {
        self.seq > 0 && (self.seq < end.seq || *self == end)
    }
}

/// What a store lists about a session without reading its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What the session is about.
    pub title: Option<String>,
    /// Time of the last record.
    pub updated: Millis,
    /// Whether something is still to be done (a call, a timer): such sessions are opened at start.
    pub outstanding: bool,
    /// Whether lists leave it out.
    pub archived: bool,
}

/// Records to add at the end of a log.
#[derive(Clone, Debug)]
pub struct Append {
    /// Where the log must end now.
    pub expected: Position,
    /// Encoded records, at least one, in order.
    pub records: Vec<Bytes>,
    /// Where it ends then: `expected` followed by each record.
    pub end: Position,
    /// The header then.
    pub header: Header,
    /// When it was made: where a log was erased, one that is older than the tombstone's end begins no new log.
    pub at: Millis,
}

impl Append {
    /// Adds `records` after `expected`; folds where the log ends then. Made at the time of the last record.
    pub fn new(expected: Position, records: Vec<Bytes>, header: Header) -> Self {
        let end = records.iter().fold(expected, |position, record| position.then(record));
        let at = header.updated;
        Self { expected, records, end, header, at }
    }

    /// Refuses an append that can't be meant: a store calls it before anything else.
    pub fn check(&self, key: &SessionKey) -> Result<(), Error> {
        let Self { expected, records, end, header: _, at: _ } = self;
        if records.is_empty() {
            return Err(Error::Invalid { what: format!("an append to session {key} brings no records") });
        }
        if expected.seq.checked_add(records.len() as u64) != Some(end.seq) {
            let what = format!("{} records after {} of session {key} don't end at {}", records.len(), expected.seq, end.seq);
            return Err(Error::Invalid { what });
        }
        Ok(())
    }
}

/// How an append ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The records are durable; the log ends at `end`.
    Appended,
    /// This very append is in the log already, as its last records. Once others follow it, it is a conflict like any other:
    /// the caller reads what is there and decides again.
    Duplicate,
    /// The log ends elsewhere; nothing was written.
    Conflict(Position),
    /// There is no log, it was erased, and none may begin before `until`; nothing was written.
    Erased {
        /// The tombstone's end.
        until: Millis,
    },
}

/// Why a store could not do it. `Unavailable` may or may not have been carried out: retry with the same records.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No room; nothing was written.
    #[error("the store is full while {doing}")]
    Full {
        /// What was being done, to what.
        doing: String,
        /// What the backend said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It can't be reached, can't write, or its answer was lost.
    #[error("the store does not answer while {doing}")]
    Unavailable {
        /// What was being done, to what.
        doing: String,
        /// What the backend said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is stored is damaged.
    #[error("the store is damaged: {what}")]
    Corrupt {
        /// What, where.
        what: String,
    },
    /// What was asked can't be meant; nothing was written.
    #[error("the store refuses it: {what}")]
    Invalid {
        /// What, and why not.
        what: String,
    },
    /// It can't be opened.
    #[error("{0}")]
    Open(String),
}

/// A session with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Whose.
    pub tenant: Tenant,
    /// Which.
    pub session: SessionId,
    /// Its header.
    pub header: Header,
}

/// An erasure: when, and how long no new log may begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// When the log was erased. Tombstones whose end has come by then may be forgotten.
    pub at: Millis,
    /// From then on a new log may begin.
    pub until: Millis,
}

/// A fold snapshot: what a session was after the first records of its log, in sheets of bytes by number. A cache: whoever reads it
/// must be able to tell whether it is whole, and can do without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Where the log ended.
    pub at: Position,
    /// In the order of their numbers.
    pub sheets: Vec<(u32, Bytes)>,
}

/// A snapshot to keep.
#[derive(Clone, Debug)]
pub struct Save {
    /// Where the log ended.
    pub at: Position,
    /// The snapshot that is there, whose sheets stay unless they are given again; none: these are all.
    pub onto: Option<Position>,
    /// The sheets, by number.
    pub sheets: Vec<(u32, Bytes)>,
}

/// A store of session logs. Every backend passes [`conformance`].
///
/// - An append is atomic: all of its records become durable, in order and without a gap, or none does.
/// - It happens only where the log ends at `expected`; the same append again is answered `Duplicate`.
/// - What was answered `Appended` is there after the process is killed (a store in memory excepted).
/// - An append whose future is dropped may still be carried out.
/// - A read sees a prefix of the log that holds every append answered before the read began.
/// - Sessions of different tenants never touch, whatever their ids.
/// - Where a log was erased, no append that was made before its tombstone's end begins another.
/// - A snapshot may be lost at any time; one that is there is the last that was kept, and goes with its log.
pub trait Store: Send + Sync + 'static {
    /// Adds records at the end of a session's log.
    fn append<'a>(&'a self, key: &'a SessionKey, append: Append) -> Pending<'a, Result<Outcome, Error>>;

    /// Reads up to `limit` records, the first one with `seq` = `from` (from 1; 0 is read as 1). Fewer than `limit`: the log ends
    /// there.
    fn read<'a>(&'a self, key: &'a SessionKey, from: u64, limit: usize) -> Pending<'a, Result<Vec<Bytes>, Error>>;

    /// Reads single records by their `seq`, in the order asked; one that isn't there is `Corrupt`.
    fn pick<'a>(&'a self, key: &'a SessionKey, seqs: &'a [u64]) -> Pending<'a, Result<Vec<Bytes>, Error>>;

    /// A session's snapshot, when there is one whose position can be on the log.
    fn snapshot<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Snapshot>, Error>>;

    /// Keeps a snapshot in the place of the one before. Whether it did: not when its position can't be on the log, when `onto` isn't
    /// the one that is there, or when there is no room. No append waits long for it.
    fn save<'a>(&'a self, key: &'a SessionKey, save: Save) -> Pending<'a, Result<bool, Error>>;

    /// Where the log ends; the default position for no log.
    fn position<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Position, Error>>;

    /// A tenant's sessions by id (in the order of its bytes), after `after`, at most `limit`; only those that are archived or
    /// aren't, when it is said.
    fn sessions<'a>(
        &'a self,
        tenant: &'a Tenant,
        after: Option<&'a SessionId>,
        limit: usize,
        archived: Option<bool>,
    ) -> Pending<'a, Result<Vec<Listed>, Error>>;

    /// Every session with something still to be done, of all tenants.
    fn outstanding(&self) -> Pending<'_, Result<Vec<SessionKey>, Error>>;

    /// Removes a session's log and header, and leaves a tombstone. One that isn't there gets one too.
    fn erase<'a>(&'a self, key: &'a SessionKey, tombstone: Tombstone) -> Pending<'a, Result<(), Error>>;

    /// Until when no new log may begin, where one was erased and none has begun since.
    fn erased<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Millis>, Error>>;

    /// Whether the store answers now.
    fn ready(&self) -> Pending<'_, Result<(), Error>>;
}
