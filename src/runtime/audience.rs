//! Who reads a session, and what they are told.

use std::sync::Arc;

use super::Limits;
use super::bus::{self, Batch, Reader, Sink};
use crate::engine::Record;
use crate::protocol::{Code, Cursor, Event, EventBody, Refusal, Snapshot};

/// The readers of a session.
pub struct Audience {
    sinks: Vec<Sink>,
    readers_max: usize,
    batches_max: usize,
}

impl Audience {
    /// Nobody yet.
    pub fn new(limits: &Limits) -> Self {
        Self { sinks: Vec::new(), readers_max: limits.readers_max.get(), batches_max: limits.reader_batches_max.get() }
    }

    /// Whether nobody reads.
    pub fn is_empty(&self) -> bool {
        self.sinks.is_empty()
    }

    /// Refuses when one more reader would be too many.
    pub fn must_have_room(&mut self) -> Result<(), Refusal> {
        if self.sinks.len() >= self.readers_max {
            self.sinks.retain(|sink| !sink.is_closed());
        }
        if self.sinks.len() >= self.readers_max {
            let text = format!("the session has {} readers, the most that are allowed", self.sinks.len());
            return Err(Refusal::new(Code::TooManyReaders, text));
        }
        Ok(())
    }

    /// One reader more, from here on, until the turn ends.
    pub fn admit(&mut self) -> Result<Reader, Refusal> {
        self.must_have_room()?;
        let (sink, reader) = bus::channel(self.batches_max);
        self.sinks.push(sink);
        Ok(reader)
    }

    /// Tells everyone; who can't follow is let go.
    pub fn tell(&mut self, events: Vec<Event>) {
        if events.is_empty() || self.sinks.is_empty() {
            return;
        }
        let batch = Arc::new(Batch::new(events));
        self.sinks.retain(|sink| sink.send(&batch));
    }

    /// Lets everyone go: the session is given up.
    pub fn fail(&mut self, code: Code) {
        for sink in self.sinks.drain(..) {
            sink.fail(code);
        }
    }

    /// Tells of records, the first of which has the position `first`; `closing` comes before them, `resync` before a turn's end.
    /// A turn's readers leave with it.
    pub fn tell_records(&mut self, first: u64, records: &[Record], closing: Option<Event>, mut resync: Option<Arc<Snapshot>>) {
        let mut events: Vec<Event> = closing.into_iter().collect();
        for (seq, record) in (first..).zip(records) {
            let Some(body) = record.body.event() else { continue };
            let ends = matches!(body, EventBody::TurnCompleted { .. } | EventBody::TurnFailed { .. } | EventBody::TurnCancelled { .. });
            let failed = matches!(body, EventBody::CallFailed { .. });
            events.push(Event { cursor: Some(Cursor::after(seq)), at: record.at, body });
            if let Some(snapshot) = resync.take_if(|_| failed) {
                events.push(Event { cursor: Some(Cursor::after(seq)), at: record.at, body: EventBody::Resync(snapshot) });
            }
            if ends {
                self.tell(std::mem::take(&mut events));
                self.sinks.clear();
            }
        }
        self.tell(events);
    }
}
