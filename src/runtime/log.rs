//! A session and its log: folded when it is opened, from its snapshot where there is one; appended to before anyone is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::keeper::{self, Keeper};
use super::masked;
use super::pages::{PAGE, Page, Pages, Unfolded};
use crate::clock;
use crate::engine::record::Body;
use crate::engine::{self, InLog, Ix, Record, Session};
use crate::ids::SessionKey;
use crate::meters::names;
use crate::protocol::{Code, Json, Refusal};
use crate::store::{self, Append, Header, Outcome, Position, Store};

/// How often an append whose outcome is unknown is tried again.
const RETRIES: u32 = 3;
/// The pause between.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A session with its log.
pub struct Log {
    /// Which session.
    pub key: SessionKey,
    /// The fold.
    pub session: Session,
    store: Arc<dyn Store>,
    end: Position,
    keeper: Keeper,
}

impl Log {
    /// Folds a session's log; an empty one for a session that isn't there.
    pub async fn open(store: Arc<dyn Store>, key: SessionKey) -> Result<Self, Refusal> {
        let mut log = Self { key, session: Session::default(), store, end: Position::default(), keeper: Keeper::default() };
        let end = log.store.position(&log.key).await.map_err(|error| log.refusal(&error))?;
        if end.seq >= keeper::AT_LEAVING && log.restore().await {
            match log.fold_to(end).await {
                Ok(()) => return Ok(log),
                Err(Unfolded::Unread(refusal)) => return Err(refusal),
                Err(Unfolded::Misfit(why)) => keeper::of_no_use(&log.key, &why),
            }
            log.begin(Session::default(), Position::default());
        }
        match log.fold_to(end).await {
            Ok(()) => Ok(log),
            Err(Unfolded::Unread(refusal)) => Err(refusal),
            Err(Unfolded::Misfit(why)) => Err(log.corrupt(&why)),
        }
    }

    /// Begins with the session's snapshot, when there is one that is of use.
    async fn restore(&mut self) -> bool {
        match self.store.snapshot(&self.key).await {
            Ok(None) => {}
            Ok(Some(snapshot)) => {
                if let Some((session, at)) = keeper::restore(snapshot, &self.key) {
                    (self.session, self.end, self.keeper) = (session, at, Keeper::opened(at));
                    return true;
                }
            }
            Err(error) => keeper::of_no_use(&self.key, &error),
        }
        false
    }

    /// Folds the rest of the log, which ends at `end`.
    async fn fold_to(&mut self, end: Position) -> Result<(), Unfolded> {
        let rest = end.seq.saturating_sub(self.end.seq);
        let pages = Pages { store: self.store.clone(), key: self.key.clone(), after: self.end, end: end.seq };
        if rest <= PAGE as u64 {
            if rest > 0 {
                self.fold(pages.first().await?)?;
            }
        } else {
            let mut pages = pages.ahead();
            while self.end.seq < end.seq {
                let broken = || Unfolded::Unread(Refusal::new(Code::Internal, "reading the log was broken off"));
                let page = pages.recv().await.ok_or_else(broken)??;
                if page.records.is_empty() {
                    break;
                }
                self.fold(page)?;
                tokio::task::yield_now().await;
            }
        }
        if end == self.end {
            return Ok(());
        }
        let text = format!("its log has {} records, {} were read, or their hashes differ", end.seq, self.end.seq);
        Err(Unfolded::Misfit(text))
    }

    fn fold(&mut self, page: Page) -> Result<(), Unfolded> {
        for record in page.records {
            self.session.evolve(record).map_err(|error| Unfolded::Misfit(error.to_string()))?;
        }
        self.end = page.end;
        Ok(())
    }

    /// Begins to keep a snapshot, when at least so many records have come since the last one. All that was evolved is in the log.
    pub fn keep(&mut self, least: u64) {
        self.keeper.keep(least, &mut self.session, self.end, &self.key, &self.store);
    }

    /// Takes `records` into the fold and gives the append that makes them durable.
    pub fn evolve(&mut self, records: &[Record]) -> Result<Append, Refusal> {
        let mut encoded = Vec::with_capacity(records.len());
        for record in records {
            let bytes = Bytes::from(record.encode());
            self.session.evolve(record.clone()).map_err(|error| self.corrupt(&error.to_string()))?;
            #[cfg(debug_assertions)]
            engine::check_step(&self.session).map_err(|broken| Refusal::new(Code::Internal, broken.to_string()))?;
            encoded.push(bytes);
        }
        #[cfg(debug_assertions)]
        engine::check_rest(&self.session).map_err(|broken| Refusal::new(Code::Internal, broken.to_string()))?;
        let append = Append::new(self.end, encoded, header(&self.session));
        self.end = append.end;
        Ok(append)
    }

    /// Makes an append durable. An error leaves the fold ahead of the log: this `Log` must be given up.
    pub async fn append(store: Arc<dyn Store>, key: SessionKey, append: Append, within: Duration) -> Result<(), Refusal> {
        let mut tries = 0;
        loop {
            let answered = counted(timed(store.append(&key, append.clone()), &key, within)).await;
            match answered {
                Ok(Outcome::Appended | Outcome::Duplicate) => return Ok(()),
                Ok(Outcome::Conflict(end)) => {
                    tracing::error!(session.id = %key, expected = append.expected.seq, found = end.seq, "another writer was faster");
                    return Err(Refusal::new(Code::StoreUnavailable, "another writer was faster; send it again"));
                }
                Ok(Outcome::Erased { .. }) => return Err(erased(&key)),
                Err(store::Error::Unavailable { doing, source }) if tries < RETRIES => {
                    tries += 1;
                    tracing::warn!(session.id = %key, tries, %doing, error = %source, "an append is tried again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(error) => return Err(refusal(&key, &error)),
            }
        }
    }

    /// Refuses while the tombstone of an erased log stands.
    pub async fn must_not_be_erased(&self) -> Result<(), Refusal> {
        let until = self.store.erased(&self.key).await.map_err(|error| self.refusal(&error))?;
        if until.is_some_and(|until| clock::now() < until) { Err(erased(&self.key)) } else { Ok(()) }
    }

    /// The log begins with what `session` is the fold of.
    pub fn begin(&mut self, session: Session, end: Position) {
        (self.session, self.end, self.keeper) = (session, end, Keeper::default());
    }

    /// Where the log ends.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Reads up to `limit` records from `from`.
    pub async fn read(&self, from: u64, limit: usize) -> Result<Vec<Bytes>, Refusal> {
        self.store.read(&self.key, from, limit).await.map_err(|error| self.refusal(&error))
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
                Ok(Body::MessageNew(new)) if new.id == self.session.tree.id(ix) => self.session.recall(ix, *new),
                Ok(_) | Err(_) => return Err(self.corrupt(&format!("record {seq} isn't the message it should be"))),
            }
        }
        Ok(())
    }

    /// Takes the state at the head, and what is overridden there, into memory.
    pub async fn recall_state(&mut self) -> Result<(), Refusal> {
        for InLog(seq) in self.session.state_in_log().into_iter().flatten() {
            let record = self.record(seq).await?;
            if !self.session.recall_state(record) {
                return Err(self.corrupt(&format!("record {seq} isn't the version that it should be")));
            }
        }
        Ok(())
    }

    /// The state that was current at a node when the record at `seq` had been written, as people are told of it who may hold another.
    pub async fn state_then(&mut self, at: Option<Ix>, seq: u64) -> Result<Option<Json>, Refusal> {
        let states = &self.session.states;
        if states.first().is_none_or(|first| first > seq) {
            return Ok(None);
        }
        match states.content(states.at_then(at, seq)).map(Option::<&Json>::cloned) {
            Ok(state) => Ok(Some(state.unwrap_or_else(Json::empty_object))),
            Err(InLog(seq)) => match self.record(seq).await?.body {
                Body::StateUpdated(data) => Ok(Some(data.state.unwrap_or_else(Json::empty_object))),
                _ => Err(self.corrupt(&format!("record {seq} isn't the version that it should be"))),
            },
        }
    }

    /// The records at these positions.
    pub async fn bodies(&self, seqs: &[u64]) -> Result<BTreeMap<u64, Body>, Refusal> {
        let found =
            if seqs.is_empty() { Vec::new() } else { self.store.pick(&self.key, seqs).await.map_err(|error| self.refusal(&error))? };
        let decode = |(&seq, bytes): (&u64, &Bytes)| match Record::decode(bytes) {
            Ok(record) => Ok((seq, record.body)),
            Err(error) => Err(self.corrupt(&format!("record {seq} can't be read: {error}"))),
        };
        seqs.iter().zip(&found).map(decode).collect()
    }

    async fn record(&self, seq: u64) -> Result<Record, Refusal> {
        let found = self.store.pick(&self.key, &[seq]).await.map_err(|error| self.refusal(&error))?;
        let record = found.first().and_then(|bytes| Record::decode(bytes).ok());
        record.ok_or_else(|| self.corrupt(&format!("record {seq} can't be read")))
    }

    fn corrupt(&self, why: &str) -> Refusal {
        tracing::error!(session.id = %self.key, why = masked::fault(why), "the session's log is damaged");
        let text = format!("the log of session {} is damaged: {why}. Nothing was changed; restore it from a backup", self.key.session);
        Refusal::new(Code::SessionCorrupt, text)
    }

    fn refusal(&self, error: &store::Error) -> Refusal {
        refusal(&self.key, error)
    }
}

/// An append that must be answered in time: whether it is carried out later isn't known.
async fn timed(
    append: impl Future<Output = Result<Outcome, store::Error>>,
    key: &SessionKey,
    within: Duration,
) -> Result<Outcome, store::Error> {
    tokio::time::timeout(within, append).await.unwrap_or_else(|elapsed| {
        Err(store::Error::Unavailable { doing: format!("appending to session {key} for {} s", within.as_secs()), source: elapsed.into() })
    })
}

/// Counts an append.
async fn counted(append: impl Future<Output = Result<Outcome, store::Error>>) -> Result<Outcome, store::Error> {
    let started = clock::instant();
    let running = InFlight::begin();
    let answered = append.await;
    drop(running);
    let outcome = match &answered {
        Ok(Outcome::Appended) => "appended",
        Ok(Outcome::Duplicate) => "duplicate",
        Ok(Outcome::Conflict(_)) => "conflict",
        Ok(Outcome::Erased { .. }) => "erased",
        Err(store::Error::Full { .. }) => "full",
        Err(store::Error::Unavailable { .. } | store::Error::Corrupt { .. } | store::Error::Invalid { .. } | store::Error::Open(_)) => {
            "failed"
        }
    };
    metrics::histogram!(names::APPEND_SECONDS).record(clock::instant().duration_since(started).as_secs_f64());
    metrics::counter!(names::APPENDS, "outcome" => outcome).increment(1);
    answered
}

/// An append that waits for its answer, also when nobody waits for it any more.
struct InFlight;

impl InFlight {
    fn begin() -> Self {
        metrics::gauge!(names::APPENDS_RUNNING).increment(1.0);
        Self
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!(names::APPENDS_RUNNING).decrement(1.0);
    }
}

/// What lists say of a session.
pub fn header(session: &Session) -> Header {
    Header {
        title: session.title.clone(),
        updated: session.updated,
        outstanding: !engine::wanted(session).is_empty(),
        archived: session.archived,
    }
}

/// Why nothing is told of a session that isn't there.
pub fn not_found(key: &SessionKey) -> Refusal {
    let id = &key.session;
    Refusal::new(Code::SessionNotFound, format!("there is no session {id}")).with("session_id", id.as_str())
}

/// Why a session that was erased is no longer served.
pub fn erased(key: &SessionKey) -> Refusal {
    let id = &key.session;
    let text = format!("session {id} was erased; use another id, or the same a day after the erasure");
    Refusal::new(Code::SessionDeleted, text).with("session_id", id.as_str())
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
