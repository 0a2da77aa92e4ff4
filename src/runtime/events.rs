//! A session's events from any position on: first what the log holds, page by page, then what happens. Whoever reads too slowly
//! for what happens is back at the log. May not know the engine's state: a record says itself whether readers may see it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::audience::Hold;
use super::bus::{Batch, ReadEnd, Reader};
use super::command::Command;
use super::log;
use super::replay::{Rest, Whole};
use super::shared::Shared;
use super::told::told;
use crate::engine::Record;
use crate::engine::record::Body;
use crate::ids::SessionKey;
use crate::meters::names;
use crate::protocol::{Code, Cursor, Event, EventBody, Refusal, Snapshot};

/// Records read at once, at first and at most.
const PAGE: usize = 8;
const PAGE_MAX: usize = 64;
/// A page is cut to about so many bytes: its reader may take long to read it.
const PAGE_BYTES: usize = 64 << 10;
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
    /// Whether what the log holds of replies is told again piece by piece: then a reply that was finished isn't gone.
    is_replayed: bool,
    from: From,
    /// Records of the next page.
    page: usize,
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

/// A page of the log as it is told to those who were told everything before it, and nothing of a reply in the making.
#[derive(Debug)]
pub struct LogPage {
    /// The record before it.
    after: u64,
    /// So many records were asked for.
    asked: usize,
    told: Arc<Batch>,
    read: Read,
}

/// How far a page goes.
#[derive(Clone, Copy, Debug)]
struct Read {
    records: u64,
    /// So many records are asked for next.
    next: usize,
    /// Whether it is at the log's end.
    is_last: bool,
}

/// What comes after a place.
pub enum Followed {
    /// The log holds more.
    Behind,
    /// These, and more of the reply in the making.
    Part(Vec<Event>),
    /// These, and from then on what happens.
    Here(Vec<Event>, Reader),
}

impl EventStream {
    /// The events after `at` of the session that `hold` holds.
    pub(super) fn new(shared: Arc<Shared>, key: SessionKey, at: Cursor, hold: Arc<Hold>) -> Self {
        Self { shared, key, hold, at, stale: false, is_replayed: false, from: From::Task, page: PAGE }
    }

    /// The same for who tells finished replies piece by piece, and knows himself what is gone.
    pub(super) fn replayed(self) -> Self {
        Self { is_replayed: true, ..self }
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
            From::Log => self.read().await?,
            From::Live(reader) => match reader.next().await {
                Ok(batch) => batch,
                Err(ReadEnd::Slow) => {
                    metrics::counter!(names::READERS_LAGGED).increment(1);
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

    /// Puts what is still missing into `rest`. Nothing is lost when the wait is given up.
    pub(super) async fn fill(&self, rest: &mut Rest) -> Result<(), StreamEnd> {
        // From the last one on, so that the others keep their places.
        while let Some(whole) = rest.wholes.back() {
            let told = self.told_whole(whole).await?;
            if let (Some(Whole { index, cursor, at, .. }), Some(snapshot)) = (rest.wholes.pop_back(), told) {
                rest.events.insert(index, Event { cursor, at, body: EventBody::Resync(snapshot) });
            }
        }
        Ok(())
    }

    async fn told_whole(&self, Whole { cursor, kept, before, .. }: &Whole) -> Result<Option<Arc<Snapshot>>, StreamEnd> {
        if let Some(reply_id) = before {
            loop {
                self.must_go_on()?;
                let reply_id = reply_id.clone();
                match self.shared.ask(&self.key, |answer| Command::ReadBefore(reply_id, answer)).await.flatten() {
                    Ok(snapshot) => return Ok(snapshot),
                    Err(refusal) => drop(self.refused(&refusal).await?),
                }
            }
        }
        let seq = cursor.map_or(0, |cursor| cursor.seq);
        let node = if let Some(kept) = kept {
            Some(kept.clone())
        } else {
            self.shared.head_at(&self.key, seq).await.map_err(|refusal| StreamEnd::Failed(refusal.code))?
        };
        loop {
            self.must_go_on()?;
            let node = node.clone();
            match self.shared.ask(&self.key, |answer| Command::ReadAt(node, seq, answer)).await.flatten() {
                Ok(snapshot) => return Ok(Some(snapshot)),
                Err(refusal) => drop(self.refused(&refusal).await?),
            }
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
            Ok(Followed::Part(events)) => Ok(events),
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

    /// Reads a page of the log, unless another reader that was there has read it.
    async fn read(&mut self) -> Result<Arc<Batch>, StreamEnd> {
        let (after, asked, is_whole) = (self.at.seq, self.page, self.at.within.is_none());
        let hold = self.hold.clone();
        let mut last = hold.page().await;
        self.must_go_on()?;
        if let Some(LogPage { told, read, .. }) = last.as_ref().filter(|page| is_whole && page.after == after && page.asked == asked) {
            self.at.seq += read.records;
            self.page = read.next;
            if read.is_last {
                self.from = From::Task;
            }
            return Ok(told.clone());
        }
        let told = Arc::new(Batch::new(self.read_page().await?));
        if is_whole {
            let read = Read { records: self.at.seq - after, next: self.page, is_last: matches!(self.from, From::Task) };
            *last = Some(LogPage { after, asked, told: told.clone(), read });
        }
        Ok(told)
    }

    async fn read_page(&mut self) -> Result<Vec<Event>, StreamEnd> {
        let failed = |refusal: Refusal| StreamEnd::Failed(refusal.code);
        let page = self.shared.store.read(&self.key, self.at.seq + 1, self.page).await;
        // What was read may be another log's.
        self.must_go_on()?;
        let mut page = page.map_err(|error| failed(log::refusal(&self.key, &error)))?;
        let mut bytes = 0;
        let fits = |record: &&bytes::Bytes| {
            let fits = bytes < PAGE_BYTES;
            bytes += record.len();
            fits
        };
        let fits = page.iter().take_while(fits).count();
        if fits < page.len() {
            page.truncate(fits);
            self.page = fits;
        } else {
            if page.len() < self.page {
                self.from = From::Task;
            }
            self.page = (self.page * 2).min(PAGE_MAX);
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
        if matches!(&record.body, Body::MessageNew(new) if new.call_id.is_some() && !new.partial) {
            // The whole reply: nothing of it is missing.
            self.at.within = None;
        }
        if ends_attempt(&record.body) && self.at.within.take().is_some() {
            // A reply that was finished is told as a whole, as its message.
            self.stale = !self.is_replayed && !matches!(record.body, Body::CallCompleted(_));
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
        | Body::SessionInterrupted(_)
        | Body::InterruptResumed(_)
        | Body::TurnSuspended(_)
        | Body::ContextLimited(_)
        | Body::ContextReplaced(_)
        | Body::ContextKept(_)
        | Body::JobStarted(_)
        | Body::JobFinished(_)
        | Body::JobFailed(_)
        | Body::JobDropped(_)
        | Body::ArrivalQueued(_)
        | Body::ArrivalConsumed(_)
        | Body::DecisionAsked(_)
        | Body::DecisionAnswered(_)
        | Body::DecisionFailed(_)
        | Body::ToolCallsTaken(_)
        | Body::ToolCallStarted(_)
        | Body::ToolCallCompleted(_)
        | Body::ToolCallFailed(_)
        | Body::StateUpdated(_)
        | Body::AgentUpdated(_)
        | Body::Custom(_)
        | Body::Unknown(_) => false,
    }
}
