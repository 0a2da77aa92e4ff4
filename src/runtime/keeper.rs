//! Keeps fold snapshots of a session, so that it is opened from one: now and then, off the turn's path. A snapshot that isn't kept
//! costs time at the next opening, nothing else.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::masked;
use crate::engine::{Session, snapshot};
use crate::ids::SessionKey;
use crate::meters::names;
use crate::store::{Position, Save, Snapshot, Store};

/// So many records after the last snapshot, a turn's end brings another.
pub const AFTER_TURN: u64 = 1000;
/// So many, the session's leaving memory does. A log of fewer is folded as fast.
pub const AT_LEAVING: u64 = 200;

/// What is known of a session's snapshot.
#[derive(Debug, Default)]
pub struct Keeper {
    /// The one that is kept, whose sheets the session shares.
    onto: Option<Position>,
    /// How many records there were when the last one was made.
    seq: u64,
    /// One is being kept: what it is of, and whether it was.
    keeping: Option<(Position, oneshot::Receiver<bool>)>,
}

impl Keeper {
    /// A session that came from the snapshot at `at`.
    pub fn opened(at: Position) -> Self {
        Self { onto: Some(at), seq: at.seq, keeping: None }
    }

    /// Begins to keep a snapshot of a session whose log ends at `end`, when at least so many records have come since the last one.
    pub fn keep(&mut self, least: u64, session: &mut Session, end: Position, key: &SessionKey, store: &Arc<dyn Store>) {
        if end.seq.saturating_sub(self.seq) < least || self.is_keeping() {
            return;
        }
        let onto = self.onto.take();
        let sheets = snapshot::save(session, onto.is_none()).into_iter().map(|sheet| (sheet.number, sheet.bytes)).collect();
        let (tell, told) = oneshot::channel();
        self.seq = end.seq;
        self.keeping = Some((end, told));
        let (store, key) = (store.clone(), key.clone());
        tokio::spawn(async move {
            let kept = store.save(&key, Save { at: end, onto, sheets }).await;
            let outcome = match &kept {
                Ok(true) => "kept",
                Ok(false) => "refused",
                Err(_) => "failed",
            };
            metrics::counter!(names::SNAPSHOTS, "outcome" => outcome).increment(1);
            let kept = kept.unwrap_or_else(|error| {
                let source = std::error::Error::source(&error).map(tracing::field::display);
                tracing::warn!(session.id = %key, error = %error, source, "a snapshot isn't kept");
                false
            });
            // The session may have left memory.
            let _ = tell.send(kept);
        });
    }

    /// Whether one is being kept now. What became of it is remembered.
    fn is_keeping(&mut self) -> bool {
        let Some((at, mut told)) = self.keeping.take() else { return false };
        match told.try_recv() {
            Ok(kept) => self.onto = kept.then_some(at),
            Err(oneshot::error::TryRecvError::Empty) => self.keeping = Some((at, told)),
            Err(oneshot::error::TryRecvError::Closed) => {}
        }
        self.keeping.is_some()
    }
}

/// The session that a snapshot holds, unless it is of no use: then it is told why.
pub fn restore(snapshot: Snapshot, key: &SessionKey) -> Option<(Session, Position)> {
    let at = snapshot.at;
    let sheets = snapshot.sheets.into_iter().map(|(number, bytes)| snapshot::Sheet { number, bytes });
    match snapshot::restore(sheets.collect()) {
        Ok(session) if session.seq == at.seq => return Some((session, at)),
        Ok(_) => of_no_use(key, &"it is of another position"),
        Err(why) => of_no_use(key, &why),
    }
    None
}

/// Tells that a snapshot isn't used.
pub fn of_no_use(key: &SessionKey, why: &dyn std::fmt::Display) {
    tracing::warn!(session.id = %key, why = masked::fault(&why.to_string()), "the session's snapshot is of no use; the whole log is folded");
}
