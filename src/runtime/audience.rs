//! Who reads a session, and what they are told: readers of one turn, of a turn that waits for its beginning, and of everything.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::{Mutex, MutexGuard};

use super::Limits;
use super::bus::{self, Batch, Reader, Sink};
use super::events::{LogPage, StreamEnd};
use super::told::{Bound, bound, told};
use crate::engine::Record;
use crate::engine::record::Body;
use crate::ids::TurnId;
use crate::protocol::{Code, Cursor, Event, EventBody, Refusal, Snapshot};

/// Keeps a session in memory while its events are read, and says why no more come.
#[derive(Debug, Default)]
pub struct Hold {
    end: OnceLock<StreamEnd>,
    /// What was read of the log last: readers that fell behind together read the same, one after another.
    page: Mutex<Option<LogPage>>,
}

impl Hold {
    /// Why no more events come, once none do.
    pub fn end(&self) -> Option<StreamEnd> {
        self.end.get().copied()
    }

    fn set(&self, end: StreamEnd) {
        let _ = self.end.set(end);
    }

    /// What was read of the log last, for who reads next.
    pub(super) async fn page(&self) -> MutexGuard<'_, Option<LogPage>> {
        self.page.lock().await
    }
}

/// A reply in the making is told in batches of about so many bytes.
const LIVE_BYTES: usize = 16 << 10;

/// The readers of a session.
pub struct Audience {
    turns: Vec<TurnSink>,
    whole: Vec<Sink>,
    hold: Arc<Hold>,
    readers_max: usize,
    batches_max: usize,
    bytes_max: usize,
}

/// A reader of one turn.
struct TurnSink {
    turn: TurnId,
    /// The input's id with which it came, when it did with one.
    name: Option<TurnId>,
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
    /// The conversation as a call reads it that begins, when it reads what waited.
    pub reading: Option<Arc<Snapshot>>,
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
    pub fn admit(&mut self, turn: TurnId, name: Option<TurnId>) -> Result<Reader, Refusal> {
        self.add(turn, name, false)
    }

    /// One reader more of a turn that waits for another: what it is told first is the turn's beginning, or that it never begins.
    pub fn admit_waiting(&mut self, turn: TurnId) -> Result<Reader, Refusal> {
        self.add(turn, None, true)
    }

    fn add(&mut self, turn: TurnId, name: Option<TurnId>, waits: bool) -> Result<Reader, Refusal> {
        self.must_have_room()?;
        let (sink, reader) = self.channel();
        self.turns.push(TurnSink { turn, name, waits, sink });
        Ok(reader)
    }

    fn channel(&self) -> (Sink, Reader) {
        bus::channel(self.batches_max, self.bytes_max)
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

    /// Tells everyone but those whose turn hasn't begun. Who doesn't keep up is let go, and costs nothing until it reads again.
    pub fn tell(&mut self, events: Vec<Event>) {
        if events.is_empty() || self.is_empty() {
            return;
        }
        let batch = Arc::new(Batch::new(events));
        self.turns.retain(|reader| reader.waits || reader.sink.send(&batch));
        self.whole.retain(|sink| sink.send(&batch));
    }

    /// Tells of a reply in the making, in batches of about so many bytes: who reads slowly holds one of them.
    pub fn tell_live(&mut self, events: Vec<Event>) {
        let mut batch: Vec<Event> = Vec::new();
        let mut bytes = 0;
        for event in events {
            if bytes >= LIVE_BYTES {
                self.tell(std::mem::take(&mut batch));
                bytes = 0;
            }
            bytes += event.weight();
            batch.push(event);
        }
        self.tell(batch);
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
        let Along { closing, snapshot, resync, reading, within } = along;
        // Who reads just now goes on behind it.
        if let Ok(mut page) = self.hold.page.try_lock() {
            *page = None;
        }
        let mut resync = snapshot.clone().filter(|_| resync);
        // What a reply's call had read besides is told after the reply's pieces, and stands in the log before the reply.
        let mut inside = closing.as_ref().and_then(|closing| closing.cursor).and_then(|cursor| cursor.within);
        let mut events: Vec<Event> = closing.into_iter().collect();
        for (seq, record) in (first..).zip(records) {
            inside = inside.filter(|_| matches!(&record.body, Body::MessageNew(new) if new.call_id.is_none()));
            let body = match &record.body {
                // What changed of the state before is no use to who is told the state after.
                Body::StateUpdated(updated) if snapshot.is_some() => Some(updated.whole()),
                _ => told(record),
            };
            let Some(body) = body else { continue };
            let (at, cursor) = (record.at, Some(Cursor { seq, within: inside.or(within) }));
            match bound(&body) {
                Bound::Goes => events.push(Event { cursor, at, body }),
                Bound::Reads => match &reading {
                    None => events.push(Event { cursor, at, body }),
                    // Before it, so that the call keeps its place.
                    Some(snapshot) => {
                        events.push(Event { cursor: None, at, body: EventBody::Resync(snapshot.clone()) });
                        events.push(Event { cursor, at, body });
                    }
                },
                Bound::Becomes(names, turn) => {
                    events.push(Event { cursor, at, body });
                    self.pass_to(&names, &turn);
                }
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
            !begins || reader.sink.open(&batch)
        });
    }

    /// Those who came with these inputs read another turn from now on.
    fn pass_to(&mut self, names: &[TurnId], turn: &TurnId) {
        let came = |name: &Option<TurnId>| name.as_ref().is_some_and(|name| names.contains(name));
        self.turns.iter_mut().filter(|reader| came(&reader.name)).for_each(|reader| reader.turn = turn.clone());
    }

    /// A turn's readers leave, and who came with an input that is given up; who still waited for its beginning is told that it never comes.
    fn end(&mut self, turn: &TurnId, event: Event) {
        let batch = Arc::new(Batch::new(vec![event]));
        for reader in self.turns.extract_if(.., |reader| reader.turn == *turn || reader.name.as_ref() == Some(turn)) {
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
