//! A store that keeps everything in memory: for tests, and for servers that may forget. May not know what is stored.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Append, Error, Header, Listed, Outcome, Pending, Position, Save, Snapshot, Store, Tombstone};
use crate::ids::{Millis, SessionId, SessionKey, Tenant};

/// The most bytes of records that [`Memory::new`] holds.
pub const BYTES_MAX: usize = 1 << 30;

/// Session logs in memory.
#[derive(Debug)]
pub struct Memory {
    logs: Mutex<Logs>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Logs {
    sessions: BTreeMap<SessionKey, Log>,
    /// Until when no new log may begin.
    tombstones: BTreeMap<SessionKey, Millis>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Log {
    records: Vec<Bytes>,
    position: Position,
    header: Header,
    snapshot: Option<Kept>,
    /// Of all records and sheets.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    at: Position,
    sheets: BTreeMap<u32, Bytes>,
}

impl Log {
    /// Puts sheets in place of those with their numbers, or of all.
    fn keep(&mut self, at: Position, onto: bool, sheets: Vec<(u32, Bytes)>) {
        if !onto {
            self.drop_snapshot();
        }
        let kept = self.snapshot.get_or_insert_default();
        kept.at = at;
        for (number, bytes) in sheets {
            self.bytes += bytes.len();
            self.bytes -= kept.sheets.insert(number, bytes).map_or(0, |before| before.len());
        }
    }

    fn drop_snapshot(&mut self) {
        let kept = self.snapshot.take().unwrap_or_default();
        self.bytes -= kept.sheets.values().map(Bytes::len).sum::<usize>();
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store of at most [`BYTES_MAX`].
    pub fn new() -> Self {
        Self::bounded(BYTES_MAX)
    }

    /// An empty store whose records and snapshots have at most `bytes_max` bytes together; it answers `Full` beyond.
    pub fn bounded(bytes_max: usize) -> Self {
        Self { logs: Mutex::default(), bytes_max }
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Logs {
    fn append(&mut self, key: &SessionKey, append: Append, bytes_max: usize) -> Result<Outcome, Error> {
        append.check(key)?;
        let position = self.position(key);
        if position == append.end {
            return Ok(Outcome::Duplicate);
        }
        if position != append.expected {
            return Ok(Outcome::Conflict(position));
        }
        if let Some(&until) = self.tombstones.get(key)
            && append.at < until
        {
            return Ok(Outcome::Erased { until });
        }
        let added = append.records.iter().map(Bytes::len).sum::<usize>();
        let bytes = self.bytes.saturating_add(added);
        if bytes > bytes_max {
            let source = format!("{bytes} bytes where {bytes_max} are allowed").into();
            return Err(Error::Full { doing: format!("appending to session {key}"), source });
        }
        self.bytes = bytes;
        self.tombstones.remove(key);
        let log = self.sessions.entry(key.clone()).or_default();
        log.records.extend(append.records);
        log.bytes += added;
        log.position = append.end;
        log.header = append.header;
        Ok(Outcome::Appended)
    }

    fn snapshot(&self, key: &SessionKey) -> Option<Snapshot> {
        let log = self.sessions.get(key)?;
        let kept = log.snapshot.as_ref().filter(|kept| kept.at.is_on_log(log.position))?;
        Some(Snapshot { at: kept.at, sheets: kept.sheets.iter().map(|(&number, bytes)| (number, bytes.clone())).collect() })
    }

    fn save(&mut self, key: &SessionKey, save: Save, bytes_max: usize) -> bool {
        let Some(log) = self.sessions.get_mut(key).filter(|log| save.at.is_on_log(log.position)) else { return false };
        if save.onto.is_some() && log.snapshot.as_ref().map(|kept| kept.at) != save.onto {
            return false;
        }
        let others = self.bytes - log.bytes;
        log.keep(save.at, save.onto.is_some(), save.sheets);
        if others + log.bytes > bytes_max {
            log.drop_snapshot();
        }
        self.bytes = others + log.bytes;
        log.snapshot.is_some()
    }

    fn position(&self, key: &SessionKey) -> Position {
        self.sessions.get(key).map_or_else(Position::default, |log| log.position)
    }

    fn records(&self, key: &SessionKey) -> &[Bytes] {
        self.sessions.get(key).map_or(&[], |log| &log.records)
    }

    fn read(&self, key: &SessionKey, from: u64, limit: usize) -> Vec<Bytes> {
        let skip = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
        self.records(key).iter().skip(skip).take(limit).cloned().collect()
    }

    fn pick(&self, key: &SessionKey, seqs: &[u64]) -> Result<Vec<Bytes>, Error> {
        let records = self.records(key);
        let find = |seq: &u64| seq.checked_sub(1).and_then(|index| records.get(usize::try_from(index).ok()?));
        let missing = |seq: &u64| Error::Corrupt { what: format!("session {key} has no record {seq}") };
        seqs.iter().map(|seq| find(seq).cloned().ok_or_else(|| missing(seq))).collect()
    }

    fn sessions(&self, tenant: &Tenant, after: Option<&SessionId>, limit: usize, archived: Option<bool>) -> Vec<Listed> {
        let start = |session: SessionId| SessionKey { tenant: tenant.clone(), session };
        let from = after.map_or_else(|| Bound::Included(start("".into())), |after| Bound::Excluded(start(after.clone())));
        let list = |(key, log): (&SessionKey, &Log)| Listed {
            tenant: key.tenant.clone(),
            session: key.session.clone(),
            header: log.header.clone(),
        };
        let own = self.sessions.range((from, Bound::Unbounded)).take_while(|(key, _)| key.tenant == *tenant);
        let asked = own.filter(|(_, log)| archived.is_none_or(|archived| log.header.archived == archived));
        asked.take(limit).map(list).collect()
    }

    fn outstanding(&self) -> Vec<SessionKey> {
        self.sessions.iter().filter(|(_, log)| log.header.outstanding).map(|(key, _)| key.clone()).collect()
    }

    fn erase(&mut self, key: &SessionKey, tombstone: Tombstone) {
        if let Some(log) = self.sessions.remove(key) {
            self.bytes -= log.bytes;
        }
        self.tombstones.retain(|_, until| *until > tombstone.at);
        self.tombstones.insert(key.clone(), tombstone.until);
    }
}

impl Store for Memory {
    fn append<'a>(&'a self, key: &'a SessionKey, append: Append) -> Pending<'a, Result<Outcome, Error>> {
        Box::pin(async move { self.logs().append(key, append, self.bytes_max) })
    }

    fn read<'a>(&'a self, key: &'a SessionKey, from: u64, limit: usize) -> Pending<'a, Result<Vec<Bytes>, Error>> {
        Box::pin(async move { Ok(self.logs().read(key, from, limit)) })
    }

    fn pick<'a>(&'a self, key: &'a SessionKey, seqs: &'a [u64]) -> Pending<'a, Result<Vec<Bytes>, Error>> {
        Box::pin(async move { self.logs().pick(key, seqs) })
    }

    fn snapshot<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Snapshot>, Error>> {
        Box::pin(async move { Ok(self.logs().snapshot(key)) })
    }

    fn save<'a>(&'a self, key: &'a SessionKey, save: Save) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move { Ok(self.logs().save(key, save, self.bytes_max)) })
    }

    fn position<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Position, Error>> {
        Box::pin(async move { Ok(self.logs().position(key)) })
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a Tenant,
        after: Option<&'a SessionId>,
        limit: usize,
        archived: Option<bool>,
    ) -> Pending<'a, Result<Vec<Listed>, Error>> {
        Box::pin(async move { Ok(self.logs().sessions(tenant, after, limit, archived)) })
    }

    fn outstanding(&self) -> Pending<'_, Result<Vec<SessionKey>, Error>> {
        Box::pin(async move { Ok(self.logs().outstanding()) })
    }

    fn erase<'a>(&'a self, key: &'a SessionKey, tombstone: Tombstone) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            self.logs().erase(key, tombstone);
            Ok(())
        })
    }

    fn erased<'a>(&'a self, key: &'a SessionKey) -> Pending<'a, Result<Option<Millis>, Error>> {
        Box::pin(async move { Ok(self.logs().tombstones.get(key).copied()) })
    }

    fn ready(&self) -> Pending<'_, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::conformance;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn keeps_the_promises_of_a_store() {
        conformance::run_all(|| Arc::new(Memory::new())).await;
    }

    #[tokio::test]
    async fn a_full_store_refuses_whole_appends_and_serves_reads() {
        let store = Memory::bounded(10);
        let key = SessionKey { tenant: "tenant".into(), session: "session".into() };
        let first = Append::new(Position::default(), vec![Bytes::from_static(b"12345")], Header::default());
        assert_eq!(store.append(&key, first.clone()).await.unwrap(), Outcome::Appended);
        let more = Append::new(first.end, vec![Bytes::from_static(b"12345"), Bytes::from_static(b"6")], Header::default());
        assert!(matches!(store.append(&key, more).await, Err(Error::Full { .. })));
        assert_eq!(store.read(&key, 1, 10).await.unwrap(), first.records);
        store.erase(&key, Tombstone { at: 0, until: 0 }).await.unwrap();
        let again = Append::new(Position::default(), vec![Bytes::from_static(b"1234567890")], Header::default());
        assert_eq!(store.append(&key, again).await.unwrap(), Outcome::Appended);
    }
    #[tokio::test]
    async fn a_snapshot_without_room_is_not_kept() {
        let store = Memory::bounded(10);
        let key = SessionKey { tenant: "tenant".into(), session: "session".into() };
        let first = Append::new(Position::default(), vec![Bytes::from_static(b"12345")], Header::default());
        store.append(&key, first.clone()).await.unwrap();
        let save = |onto, bytes| Save { at: first.end, onto, sheets: vec![(1, Bytes::from_static(bytes))] };
        assert!(store.save(&key, save(None, b"1234")).await.unwrap());
        assert!(!store.save(&key, save(Some(first.end), b"123456")).await.unwrap());
        assert_eq!(store.snapshot(&key).await.unwrap(), None, "the one before is gone");
        let more = Append::new(first.end, vec![Bytes::from_static(b"67890")], Header::default());
        assert_eq!(store.append(&key, more).await.unwrap(), Outcome::Appended);
        store.erase(&key, Tombstone { at: 0, until: 0 }).await.unwrap();
        store.append(&key, first.clone()).await.unwrap();
        assert!(store.save(&key, save(None, b"12345")).await.unwrap());
    }
}
