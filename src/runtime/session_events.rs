//! A session's events from any place on, in which what the log holds of replies becomes again what was told while they were made,
//! piece by piece under the same cursors. May not know AG-UI.

use std::sync::Arc;

use super::bus::Batch;
use super::events::{EventStream, StreamEnd};
use super::replay::{Replay, Rest};
use super::run_events::Told;
use crate::protocol::{Cursor, Event, EventBody};

/// So many events at the end of a page wait for the next one.
const HELD_MAX: usize = 32;

/// A session's events.
#[derive(Debug)]
pub struct SessionEvents {
    stream: EventStream,
    replay: Replay,
    /// Ended a page of the log; what belongs to it may follow.
    held: Vec<Event>,
    /// Read, and not told yet.
    rest: Option<Rest>,
}

impl SessionEvents {
    /// What comes after `after`; `stream` begins there, or where the call began that runs there.
    pub(super) fn new(stream: EventStream, after: Cursor) -> Self {
        let stream = stream.replayed();
        Self { stream, replay: Replay::of_session(after), held: Vec::new(), rest: None }
    }

    /// The next events, at least one. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Result<Told, StreamEnd> {
        loop {
            if self.rest.is_none() {
                let live = self.stream.is_live();
                let batch = self.stream.step().await?;
                if live {
                    if batch.events.is_empty() {
                        continue;
                    }
                    self.replay.follow(&batch);
                    return Ok(Told { batch, past: false });
                }
                self.rest = Some(self.replay.past_of_session(&batch.events)?);
            }
            // A wait that is given up finds the rest again.
            if let Some(rest) = &mut self.rest {
                self.stream.fill(rest).await?;
            }
            let past = self.rest.take().unwrap_or_default().events;
            let mut events = std::mem::take(&mut self.held);
            events.extend(past);
            if self.stream.is_behind() {
                let whole = events.iter().rposition(|event| !wants_more(&event.body)).map_or(0, |last| last + 1);
                // Of nodes that only models read nothing is said here.
                if events[whole..].iter().filter(|event| !is_hidden(&event.body)).count() <= HELD_MAX {
                    self.held = events.split_off(whole);
                }
            }
            if !events.is_empty() {
                return Ok(Told { batch: Arc::new(Batch::new(events)), past: true });
            }
        }
    }
}

fn is_hidden(body: &EventBody) -> bool {
    matches!(body, EventBody::MessageNew { shown_id: None, .. })
}

/// Whether what follows says what it means: a message that a turn is about to answer, a turn that is about to go on.
fn wants_more(body: &EventBody) -> bool {
    matches!(body, EventBody::MessageNew { .. } | EventBody::TurnJoined { .. })
}
