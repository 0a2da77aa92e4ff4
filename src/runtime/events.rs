//! A session's events from any position on: first what the log holds, page by page, then what happens. Whoever reads too slowly
//! for what happens is back at the log. May not know the engine's state: a record says itself whether readers may see it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::audience::Hold;
use super::bus::{Batch, ReadEnd, Reader};
use super::command::Command;
use super::log;
use super::shared::Shared;
use super::told::told;
use crate::engine::Record;
use crate::engine::record::Body;
use crate::ids::SessionKey;
use crate::protocol::{Code, Cursor, Event, Refusal};

/// Records read at once.
const PAGE: usize = 64;
/// The pause before a session that has too much to do is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// Why no more events come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The process stops, or the session's task was lost; it may be read again from the last cursor.
    Closed,
    /// The session was given up, or erased, because of this.
    Failed(Code),
}

/// A session's events.
#[derive(Debug)]
pub struct EventStream {
    shared: Arc<Shared>,
    key: SessionKey,
    hold: Arc<Hold>,
    /// What was told.
    at: Cursor,
    /// Whether pieces of an attempt were told that is gone.
    stale: bool,
    from: From,
}

/// Where the next events come from.
#[derive(Debug)]
enum From {
    /// The session's task knows.
    Task,
    /// The log.
    Log,
    /// What happens.
    Live(Reader),
}

/// A place in a session's events, of which the rest is asked.
pub struct Follow {
    /// Of whom.
    pub hold: Weak<Hold>,
    /// After what.
    pub at: Cursor,
    /// Whether pieces of an attempt were told that is gone.
    pub stale: bool,
}

/// What comes after a place.
pub enum Followed {
    /// The log holds more.
    Behind,
    /// These, and from then on what happens.
    Here(Vec<Event>, Reader),
}

impl EventStream {
    /// The events after `at` of the session that `hold` holds.
    pub(super) fn new(shared: Arc<Shared>, key: SessionKey, at: Cursor, hold: Arc<Hold>) -> Self {
        Self { shared, key, hold, at, stale: false, from: From::Task }
    }

    /// The next events, in order, at least one; or why there are none any more. What happens is shared with the session's other
    /// readers. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Result<Arc<Batch>, StreamEnd> {
        loop {
            let batch = self.step().await?;
            if !batch.events.is_empty() {
                return Ok(batch);
            }
        }
    }

    /// One step further; maybe there is nothing to tell. Nothing is lost when the wait is given up.
    pub(super) async fn step(&mut self) -> Result<Arc<Batch>, StreamEnd> {
        let batch = match &mut self.from {
            From::Task => Arc::new(Batch::new(self.ask().await?)),
            From::Log => Arc::new(Batch::new(self.read().await?)),
            From::Live(reader) => match reader.next().await {
                Ok(batch) => batch,
                Err(ReadEnd::Slow) => {
                    self.from = From::Task;
                    return Ok(Arc::new(Batch::new(Vec::new())));
                }
                Err(ReadEnd::Closed) => return Err(self.hold.end().unwrap_or(StreamEnd::Closed)),
                Err(ReadEnd::Failed(code)) => return Err(StreamEnd::Failed(code)),
            },
        };
        self.pass_to(&batch);
        Ok(batch)
    }

    /// What happened and is here already.
    pub(super) fn try_step(&mut self) -> Option<Arc<Batch>> {
        let From::Live(reader) = &mut self.from else { return None };
        let batch = reader.try_next()?;
        self.pass_to(&batch);
        Some(batch)
    }

    /// Whether the log holds more that comes next.
    pub(super) fn is_behind(&self) -> bool {
        matches!(self.from, From::Log)
    }

    /// Whether what comes next is what happens, not what the log holds.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.from, From::Live(_))
    }

    fn pass_to(&mut self, batch: &Batch) {
        if let Some(cursor) = batch.events.iter().rev().find_map(|event| event.cursor) {
            self.at = cursor;
        }
    }

    /// What was told: the place from which it goes on.
    pub fn cursor(&self) -> Cursor {
        self.at
    }

    fn must_go_on(&self) -> Result<(), StreamEnd> {
        self.hold.end().map_or(Ok(()), Err)
    }

    /// Asks the session's task what comes next.
    async fn ask(&mut self) -> Result<Vec<Event>, StreamEnd> {
        self.must_go_on()?;
        let follow = Follow { hold: Arc::downgrade(&self.hold), at: self.at, stale: self.stale };
        match self.shared.ask(&self.key, |answer| Command::Follow(follow, answer)).await.flatten() {
            Ok(Followed::Behind) => {
                self.from = From::Log;
                Ok(Vec::new())
            }
            Ok(Followed::Here(events, reader)) => {
                self.from = From::Live(reader);
                self.stale = false;
                Ok(events)
            }
            Err(refusal) => self.refused(&refusal).await,
        }
    }

    async fn refused(&self, refusal: &Refusal) -> Result<Vec<Event>, StreamEnd> {
        self.must_go_on()?;
        match refusal.code {
            Code::TooManyRequests => {
                tokio::time::sleep(PAUSE).await;
                Ok(Vec::new())
            }
            Code::ShuttingDown => Err(StreamEnd::Closed),
            code => Err(StreamEnd::Failed(code)),
        }
    }

    /// Reads a page of the log.
    async fn read(&mut self) -> Result<Vec<Event>, StreamEnd> {
        let failed = |refusal: Refusal| StreamEnd::Failed(refusal.code);
        let page = self.shared.store.read(&self.key, self.at.seq + 1, PAGE).await;
        // What was read may be another log's.
        self.must_go_on()?;
        let page = page.map_err(|error| failed(log::refusal(&self.key, &error)))?;
        if page.len() < PAGE {
            self.from = From::Task;
        }
        let mut events = Vec::with_capacity(page.len());
        for bytes in &page {
            let Ok(record) = Record::decode(bytes) else {
                tracing::error!(session.id = %self.key, seq = self.at.seq + 1, "a record can't be decoded");
                return Err(StreamEnd::Failed(Code::SessionCorrupt));
            };
            self.pass(&record);
            events.extend(told(&record).map(|body| Event { cursor: Some(self.at), at: record.at, body }));
        }
        Ok(events)
    }

    /// One record further. What was told of a call's reply holds as long as the attempt runs.
    fn pass(&mut self, record: &Record) {
        self.at.seq += 1;
        if ends_attempt(&record.body) && self.at.within.take().is_some() {
            self.stale = true;
        }
    }
}

/// Whether no attempt that ran before goes on.
fn ends_attempt(body: &Body) -> bool {
    match body {
        Body::CallStarted(_) | Body::CallCompleted(_) | Body::CallFailed(_) | Body::CallVoided(_) => true,
        Body::SessionCreated(_)
        | Body::SessionForked(_)
        | Body::SessionUpdated(_)
        | Body::MessageNew(_)
        | Body::HeadMoved(_)
        | Body::TurnQueued(_)
        | Body::TurnStarted(_)
        | Body::TurnJoined(_)
        | Body::TurnWaiting(_)
        | Body::TurnCompleted(_)
        | Body::TurnFailed(_)
        | Body::TurnCancelled(_)
        | Body::TurnRecovered(_)
        | Body::Unknown(_) => false,
    }
}
