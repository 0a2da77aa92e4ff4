//! A session and its log: folded when it is opened, appended to before anyone is told.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::record::Body;
use crate::engine::{self, Ix, Record, Session};
use crate::ids::SessionKey;
use crate::protocol::{Code, Refusal};
use crate::store::{self, Append, Header, Outcome, Position, Store};

/// Records read at once.
const PAGE: usize = 1000;
/// How often an append whose outcome is unknown is tried again.
const RETRIES: u32 = 3;
/// The pause between.
const RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// A session with its log.
pub struct Log {
    /// Which session.
    pub key: SessionKey,
    /// The fold.
    pub session: Session,
    store: Arc<dyn Store>,
    end: Position,
}

impl Log {
    /// Folds a session's log; an empty one for a session that isn't there.
    pub async fn open(store: Arc<dyn Store>, key: SessionKey) -> Result<Self, Refusal> {
        let mut log = Self { key, session: Session::default(), store, end: Position::default() };
        let end = log.store.position(&log.key).await.map_err(|error| log.refusal(&error))?;
        while log.end.seq < end.seq {
            let limit = usize::try_from(end.seq - log.end.seq).unwrap_or(PAGE).min(PAGE);
            let page = log.store.read(&log.key, log.end.seq + 1, limit).await.map_err(|error| log.refusal(&error))?;
            for bytes in &page {
                log.fold(bytes)?;
            }
            if page.len() < limit {
                break;
            }
        }
        if end != log.end {
            return Err(log.corrupt(&format!("its log has {} records, {} were read, or their hashes differ", end.seq, log.end.seq)));
        }
        Ok(log)
    }

    fn fold(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let record = Record::decode(bytes).map_err(|error| self.corrupt(&format!("record {}: {error}", self.end.seq + 1)))?;
        self.session.evolve(&record).map_err(|error| self.corrupt(&error.to_string()))?;
        self.end = self.end.then(bytes);
        Ok(())
    }

    /// Takes `records` into the fold and gives the append that makes them durable.
    pub fn evolve(&mut self, records: &[Record]) -> Result<Append, Refusal> {
        let mut encoded = Vec::with_capacity(records.len());
        for record in records {
            let bytes = Bytes::from(record.encode());
            self.session.evolve(record).map_err(|error| self.corrupt(&error.to_string()))?;
            #[cfg(debug_assertions)]
            engine::check_step(&self.session).map_err(|broken| Refusal::new(Code::Internal, broken.to_string()))?;
            encoded.push(bytes);
        }
        let header = Header { title: None, updated: self.session.updated, outstanding: !engine::wanted(&self.session).is_empty() };
        let append = Append::new(self.end, encoded, header);
        self.end = append.end;
        Ok(append)
    }

    /// Makes an append durable. An error leaves the fold ahead of the log: this `Log` must be given up.
    pub async fn append(store: Arc<dyn Store>, key: SessionKey, append: Append) -> Result<(), Refusal> {
        let mut tries = 0;
        loop {
            match store.append(&key, append.clone()).await {
                Ok(Outcome::Appended | Outcome::Duplicate) => return Ok(()),
                Ok(Outcome::Conflict(end)) => {
                    tracing::error!(session.id = %key, expected = append.expected.seq, found = end.seq, "another writer was faster");
                    return Err(Refusal::new(Code::StoreUnavailable, "another writer was faster; send it again"));
                }
                Err(store::Error::Unavailable { doing, source }) if tries < RETRIES => {
                    tries += 1;
                    tracing::warn!(session.id = %key, tries, %doing, error = %source, "an append is tried again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(refusal(&key, &error)),
            }
        }
    }

    /// The store, to append with while the session is in use.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Reads the contents of `nodes` that aren't in memory.
    pub async fn recall(&mut self, nodes: impl IntoIterator<Item = Ix>) -> Result<(), Refusal> {
        let missing = self.session.missing(nodes);
        if missing.is_empty() {
            return Ok(());
        }
        let seqs: Vec<u64> = missing.iter().map(|&(_, seq)| seq).collect();
        let found = self.store.pick(&self.key, &seqs).await.map_err(|error| self.refusal(&error))?;
        for (&(ix, seq), bytes) in missing.iter().zip(&found) {
            match Record::decode(bytes).map(|record| record.body) {
                Ok(Body::MessageNew(new)) if new.id == self.session.tree.node(ix).id => self.session.recall(ix, &new),
                Ok(_) | Err(_) => return Err(self.corrupt(&format!("record {seq} isn't the message it should be"))),
            }
        }
        Ok(())
    }

    fn corrupt(&self, why: &str) -> Refusal {
        tracing::error!(session.id = %self.key, why, "the session's log is damaged");
        let text = format!("the log of session {} is damaged: {why}. Nothing was changed; restore it from a backup", self.key.session);
        Refusal::new(Code::SessionCorrupt, text)
    }

    fn refusal(&self, error: &store::Error) -> Refusal {
        refusal(&self.key, error)
    }
}

/// What a client is told of a store's error; the log has the whole.
pub fn refusal(key: &SessionKey, error: &store::Error) -> Refusal {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(session.id = %key, error = %error, source, "the store failed");
    match error {
        store::Error::Full { .. } => Refusal::new(Code::StoreFull, "the store is full; nothing was written"),
        store::Error::Unavailable { .. } | store::Error::Open(_) => Refusal::new(
            Code::StoreUnavailable,
            "the store doesn't answer; whether it was written isn't known. Send it again with the same turn id",
        ),
        store::Error::Invalid { what } => Refusal::new(Code::Internal, what.clone()),
        store::Error::Corrupt { .. } => Refusal::new(Code::SessionCorrupt, "the session's log is damaged; restore it from a backup"),
    }
}

/// Why the store as a whole can't be used.
pub fn unusable(error: &store::Error) -> Refusal {
    match error {
        store::Error::Corrupt { .. } => Refusal::new(Code::SessionCorrupt, format!("{error}; restore it from a backup")),
        store::Error::Full { .. } => Refusal::new(Code::StoreFull, error.to_string()),
        store::Error::Unavailable { .. } | store::Error::Invalid { .. } | store::Error::Open(_) => {
            Refusal::new(Code::StoreUnavailable, format!("the store can't be used now: {error}"))
        }
    }
}
