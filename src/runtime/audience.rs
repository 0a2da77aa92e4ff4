//! Who reads a session, and what they are told: readers of one turn, of a turn that waits for its beginning, and of everything.

use std::sync::{Arc, OnceLock, Weak};

use super::Limits;
use super::bus::{self, Batch, Reader, Sink};
use super::events::StreamEnd;
use super::told::{Bound, bound, told};
use crate::engine::Record;
use crate::engine::record::Body;
use crate::ids::TurnId;
use crate::protocol::{Code, Cursor, Event, EventBody, Refusal, Snapshot};

/// Keeps a session in memory while its events are read, and says why no more come.
#[derive(Debug, Default)]
pub struct Hold(OnceLock<StreamEnd>);

impl Hold {
    /// Why no more events come, once none do.
    pub fn end(&self) -> Option<StreamEnd> {
        self.0.get().copied()
    }

    fn set(&self, end: StreamEnd) {
        let _ = self.0.set(end);
    }
}

/// The readers of a session.
pub struct Audience {
    turns: Vec<TurnSink>,
    whole: Vec<Sink>,
    hold: Arc<Hold>,
    readers_max: usize,
    batches_max: usize,
    bytes_max: usize,
    admitted: usize,
}

/// A reader of one turn.
struct TurnSink {
    turn: TurnId,
    /// Whether the turn waits for another, so that there is nothing to tell.
    waits: bool,
    sink: Sink,
}

/// What is told along with records.
#[derive(Default)]
pub struct Along {
    /// The end of what readers saw open; comes first.
    pub closing: Option<Event>,
    /// The conversation as it is then, for those whose turn begins.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Whether everyone needs it, because something was shown that wasn't kept.
    pub resync: bool,
    /// Where in the running call readers are, when it goes on.
    pub within: Option<(u32, u64)>,
}

impl Audience {
    /// Nobody yet.
    pub fn new(limits: &Limits) -> Self {
        Self {
            turns: Vec::new(),
            whole: Vec::new(),
            hold: Arc::default(),
            readers_max: limits.readers_max.get(),
            batches_max: limits.reader_batches_max.get(),
            bytes_max: limits.reader_bytes_max.get(),
            admitted: 0,
        }
    }

    /// Whether nobody is told anything.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.whole.is_empty()
    }

    /// Whether somebody waits for what may come: the session must stay in memory.
    pub fn is_waiting(&mut self) -> bool {
        self.turns.retain(|reader| !reader.sink.is_closed());
        !self.turns.is_empty() || self.streams() > 0
    }

    /// Those who read everything, also while they are told nothing because they read the log.
    fn streams(&self) -> usize {
        Arc::strong_count(&self.hold) - 1
    }

    /// Refuses when one more reader would be too many.
    pub fn must_have_room(&mut self) -> Result<(), Refusal> {
        if self.turns.len() + self.streams() >= self.readers_max {
            self.turns.retain(|reader| !reader.sink.is_closed());
        }
        let readers = self.turns.len() + self.streams();
        if readers >= self.readers_max {
            let text = format!("the session has {readers} readers, the most that are allowed");
            return Err(Refusal::new(Code::TooManyReaders, text));
        }
        Ok(())
    }

    /// One reader more of the turn that runs, from here on.
    pub fn admit(&mut self, turn: TurnId) -> Result<Reader, Refusal> {
        self.add(turn, false)
    }

    /// One reader more of a turn that waits for another: what it is told first is the turn's beginning, or that it never begins.
    pub fn admit_waiting(&mut self, turn: TurnId) -> Result<Reader, Refusal> {
        self.add(turn, true)
    }

    fn add(&mut self, turn: TurnId, waits: bool) -> Result<Reader, Refusal> {
        self.must_have_room()?;
        let (sink, reader) = self.channel();
        self.turns.push(TurnSink { turn, waits, sink });
        Ok(reader)
    }

    fn channel(&mut self) -> (Sink, Reader) {
        self.admitted = self.admitted.wrapping_add(1);
        bus::numbered(self.batches_max, self.bytes_max, self.admitted)
    }

    /// Somebody begins to read everything.
    pub fn hold(&mut self) -> Result<Arc<Hold>, Refusal> {
        self.must_have_room()?;
        Ok(self.hold.clone())
    }

    /// Tells who reads everything, and holds `hold`, what comes from here on. Nothing: it held another life of the session.
    pub fn admit_whole(&mut self, hold: &Weak<Hold>) -> Option<Reader> {
        if !hold.ptr_eq(&Arc::downgrade(&self.hold)) {
            return None;
        }
        self.whole.retain(|sink| !sink.is_closed());
        let (sink, reader) = self.channel();
        self.whole.push(sink);
        Some(reader)
    }

    /// Tells everyone but those whose turn hasn't begun; who can't follow is let go.
    pub fn tell(&mut self, events: Vec<Event>) {
        if events.is_empty() || self.is_empty() {
            return;
        }
        let batch = Arc::new(Batch::new(events));
        self.turns.retain(|reader| reader.waits || reader.sink.send(&batch));
        self.whole.retain(|sink| sink.send(&batch));
    }

    /// Lets everyone go: the session is given up.
    pub fn fail(&mut self, code: Code) {
        self.hold.set(StreamEnd::Failed(code));
        let turns = self.turns.drain(..).map(|reader| reader.sink);
        for sink in turns.chain(self.whole.drain(..)) {
            sink.fail(code);
        }
    }

    /// Whether somebody waits for a turn that `records` begin.
    pub fn waits_for(&self, records: &[Record]) -> bool {
        let begins = |turn: &TurnId| self.turns.iter().any(|reader| reader.waits && reader.turn == *turn);
        records.iter().any(|record| if let Body::TurnStarted(started) = &record.body { begins(&started.turn_id) } else { false })
    }

    /// Tells of records, the first of which has the position `first`. A turn's readers leave with its end, and when it starts to wait.
    pub fn tell_records(&mut self, first: u64, records: &[Record], along: Along) {
        let Along { closing, snapshot, resync, within } = along;
        let mut resync = snapshot.clone().filter(|_| resync);
        let mut events: Vec<Event> = closing.into_iter().collect();
        for (seq, record) in (first..).zip(records) {
            let Some(body) = told(record) else { continue };
            let (at, cursor) = (record.at, Some(Cursor { seq, within }));
            match bound(&body) {
                Bound::Goes => events.push(Event { cursor, at, body }),
                Bound::Fails => match resync.take() {
                    None => events.push(Event { cursor, at, body }),
                    Some(snapshot) => events.extend(resynced(body, snapshot, at, cursor)),
                },
                Bound::Begins(turn) => {
                    events.push(Event { cursor, at, body: body.clone() });
                    let Some(snapshot) = snapshot.clone().filter(|_| self.turns.iter().any(|reader| reader.turn == turn)) else { continue };
                    self.tell(std::mem::take(&mut events));
                    self.begin(&turn, resynced(body, snapshot, at, cursor).into());
                }
                Bound::Ends(turn) => {
                    let event = Event { cursor, at, body };
                    events.push(event.clone());
                    self.tell(std::mem::take(&mut events));
                    self.end(&turn, event);
                }
            }
        }
        self.tell(events);
    }

    /// Those who waited for a turn are told that it begins.
    fn begin(&mut self, turn: &TurnId, events: Vec<Event>) {
        let batch = Arc::new(Batch::new(events));
        self.turns.retain_mut(|reader| {
            let begins = reader.waits && reader.turn == *turn;
            reader.waits &= !begins;
            !begins || reader.sink.send(&batch)
        });
    }

    /// A turn's readers leave; who still waited for its beginning is told that it never comes.
    fn end(&mut self, turn: &TurnId, event: Event) {
        let batch = Arc::new(Batch::new(vec![event]));
        for reader in self.turns.extract_if(.., |reader| reader.turn == *turn) {
            if reader.waits {
                reader.sink.send(&batch);
            }
        }
    }
}

/// An event after which clients need the whole again. Where a reader resumes stands at the last of both.
fn resynced(body: EventBody, snapshot: Arc<Snapshot>, at: crate::ids::Millis, cursor: Option<Cursor>) -> [Event; 2] {
    [Event { cursor: None, at, body }, Event { cursor, at, body: EventBody::Resync(snapshot) }]
}

impl Drop for Audience {
    fn drop(&mut self) {
        self.hold.set(StreamEnd::Closed);
    }
}
