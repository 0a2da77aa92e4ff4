//! One run's events from any place in it: what the log holds becomes again what was told while it was made, piece by piece under
//! the same cursors; then what happens. May not know AG-UI.

use std::sync::Arc;

use super::bus::Batch;
use super::events::{EventStream, StreamEnd};
use super::replay::{Replay, Rest};
use super::runs::unknown_cursor;
use crate::ids::{NodeId, SessionKey};
use crate::protocol::{Code, Refusal, Waits};

/// Events of a run.
#[derive(Debug)]
pub struct Told {
    /// These.
    pub batch: Arc<Batch>,
    /// Whether they were told to others before: then the first of them may begin before the reader's place, in marks that are told
    /// together.
    pub past: bool,
}

/// A run's events.
#[derive(Debug)]
pub struct RunEvents {
    stream: EventStream,
    replay: Replay,
    first: Option<Told>,
    /// Read, and not told yet.
    rest: Option<Rest>,
}

impl RunEvents {
    pub(super) fn new(stream: EventStream, replay: Replay) -> Self {
        Self { stream, replay, first: None, rest: None }
    }

    /// The next events, at least one. The last of all is the run's end. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Result<Told, StreamEnd> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        loop {
            if let Some(told) = self.step().await? {
                return Ok(told);
            }
        }
    }

    /// Events that are here already.
    pub fn try_next(&mut self) -> Option<Told> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.rest.is_some() {
            return None;
        }
        let batch = self.stream.try_step()?;
        self.replay.follow(&batch);
        Some(Told { batch, past: false })
    }

    async fn step(&mut self) -> Result<Option<Told>, StreamEnd> {
        if self.rest.is_none() {
            if self.replay.has_ended() {
                return Err(StreamEnd::Closed);
            }
            let live = self.stream.is_live();
            let batch = self.stream.step().await?;
            if live {
                if batch.events.is_empty() {
                    return Ok(None);
                }
                self.replay.follow(&batch);
                return Ok(Some(Told { batch, past: false }));
            }
            self.rest = Some(self.replay.past(&batch.events)?);
        }
        // A wait that is given up finds the rest again.
        if let Some(rest) = &mut self.rest {
            self.stream.fill(rest).await?;
        }
        let events = self.rest.take().unwrap_or_default().events;
        Ok((!events.is_empty()).then(|| Told { batch: Arc::new(Batch::new(events)), past: true }))
    }

    /// Reads as far as the first thing to tell whose place is known, or up to now. `waiting`: the turn waits for that, and nothing
    /// will happen.
    pub(super) async fn find(&mut self, waiting: Option<Waits>) -> Result<(), StreamEnd> {
        let mut events = Vec::new();
        while (events.is_empty() || !self.replay.has_place()) && !self.replay.has_ended() && !self.stream.is_live() {
            events.extend(self.step().await?.iter().flat_map(|told| told.batch.events.iter().cloned()));
        }
        self.first = (!events.is_empty()).then(|| Told { batch: Arc::new(Batch::new(events)), past: true });
        if let (None, Some(waits)) = (&self.first, waiting) {
            self.first = self.replay.wait(waits).map(|end| Told { batch: Arc::new(Batch::new(vec![end])), past: true });
        }
        Ok(())
    }

    /// The record that began it.
    pub(super) fn began(&self) -> Option<u64> {
        self.replay.began()
    }

    /// The node below which the first of its nodes stands that readers see; none: it has no such node yet.
    #[expect(clippy::option_option, reason = "below nothing, and nothing yet, are different")]
    pub(super) fn stands_on(&mut self) -> Option<Option<NodeId>> {
        self.replay.stands_on()
    }
}

impl StreamEnd {
    pub(super) fn refusal(self, key: &SessionKey) -> Refusal {
        match self {
            Self::Failed(Code::CursorUnknown) => unknown_cursor("it stands in no reply"),
            Self::Failed(code) => Refusal::new(code, format!("the session {} can't be read", key.session)),
            Self::Closed => super::shared::stopping(),
        }
    }
}
