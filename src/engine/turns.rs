//! Every turn id that was used, and where turns began. Small rows: a long session has many.

use super::chain::NONE;
use super::names::{Apart, Names};
use super::reading::Name;
use super::rows::{Row, Rows};
use super::sheets::Table;
use super::text::{At, Short, Text};
use super::turn::{End, Known};
use crate::ids::TurnId;
use crate::protocol::Digest;

/// The turn ids of a session.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    names: Names,
    rows: Rows<Packed>,
    /// Codes and words of those that failed, as JSON.
    failures: Text,
    /// From which record on the log is each turn's, in order: from the end of the turn before; and its name.
    began: Rows<[u32; 2]>,
}

/// What is kept of a turn id.
#[derive(Clone, Copy, Debug)]
struct Packed {
    digest: [u32; 4],
    /// The turn that this is another name of, or `NONE`.
    of: Name,
    /// How it ended, and whether it asked a model.
    end: u32,
    /// Of a failed one.
    failure: At,
}

const GOES_ON: u32 = 0;
const COMPLETED: u32 = 1;
const CANCELLED: u32 = 2;
const FAILED: u32 = 3;
/// Beside one of these: it asked a model.
const REPLIED: u32 = 4;
/// Beside a name: its turn had begun before, and goes on.
const AGAIN: u32 = 1 << 31;

impl Row for Packed {
    const WORDS: usize = 7;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        Self { digest: [word(0), word(1), word(2), word(3)], of: word(4), end: word(5), failure: word(6) }
    }

    fn write(self, word: impl FnMut(u32)) {
        self.digest.into_iter().chain([self.of, self.end, self.failure]).for_each(word);
    }
}

impl Turns {
    /// Before it is stored.
    pub(super) fn tidy(&mut self) {
        self.names.tidy();
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> Vec<&mut dyn Table> {
        let mut tables: Vec<&mut dyn Table> = self.names.tables().into();
        tables.extend([&mut self.rows as &mut dyn Table, &mut self.failures, &mut self.began]);
        tables
    }

    /// After other sheets were put in; whether they fit together.
    pub(super) fn restore(&mut self) -> bool {
        self.names.restore(Apart::default()) && self.names.len() == self.rows.len()
    }

    /// From now on `id` is known as this.
    pub(super) fn insert(&mut self, id: &TurnId, known: Known) {
        let of = known.of.as_ref().map_or(NONE, |of| self.name(of));
        let name = self.name(id);
        let (end, failure) = self.pack_end(known.end);
        let end = if known.replied { end | REPLIED } else { end };
        self.rows.set(name, Packed { digest: words(known.digest), of, end, failure });
    }

    /// A turn has ended.
    pub(super) fn end(&mut self, id: &TurnId, end: End) {
        if let Some(name) = self.names.get(id.as_str()) {
            let (end, failure) = self.pack_end(Some(end));
            let row = self.rows.at(name);
            self.rows.set(name, Packed { end: end | (row.end & REPLIED), failure, ..row });
        }
    }

    /// A turn begins; the log is its own from the record `seq` on.
    pub(super) fn begin(&mut self, seq: u64, id: &TurnId) {
        let name = self.name(id);
        self.began.push([u32::try_from(seq).expect("fewer than 2^32 records"), name]);
    }

    /// A turn that others came after goes on; the log is its own from the record `seq` on.
    pub(super) fn begin_again(&mut self, seq: u64, id: &TurnId) {
        let name = self.name(id);
        self.began.push([u32::try_from(seq).expect("fewer than 2^32 records"), name | AGAIN]);
    }

    /// A turn asks a model.
    pub(super) fn reply(&mut self, id: &TurnId) {
        if let Some(name) = self.names.get(id.as_str()) {
            let row = self.rows.at(name);
            self.rows.set(name, Packed { end: row.end | REPLIED, ..row });
        }
    }

    fn name(&mut self, id: &TurnId) -> Name {
        let (name, new) = self.names.name(id.as_str());
        if new {
            self.rows.push(Packed { digest: [0; 4], of: NONE, end: GOES_ON, failure: 0 });
        }
        name
    }

    /// What is known of a turn id.
    pub fn get(&self, id: &TurnId) -> Option<Known> {
        self.names.get(id.as_str()).map(|name| self.known(name))
    }

    /// The turn that `id` is a name of, and what is known of it.
    pub fn turn_of(&self, id: &TurnId) -> Option<(TurnId, Known)> {
        let name = self.names.get(id.as_str())?;
        let name = Some(self.rows.at(name).of).filter(|&of| of != NONE).unwrap_or(name);
        Some((self.id(name), self.known(name)))
    }

    /// The turn that a record belongs to.
    pub fn of_record(&self, seq: u64) -> Option<TurnId> {
        let after = self.began.partition_point(|[from, _]| u64::from(from) <= seq);
        let [_, name] = self.began.get(after.checked_sub(1)?)?;
        Some(self.id(name & !AGAIN))
    }

    /// From which record on the log is a turn's that has begun. Newer ones are found sooner.
    pub fn began(&self, id: &TurnId) -> Option<u64> {
        let wanted = self.names.get(id.as_str())?;
        let mut places = (0..self.began.len()).rev().filter_map(|place| self.began.get(place));
        places.find(|&[_, name]| name == wanted).map(|[from, _]| u64::from(from))
    }

    /// All, in the order in which they were first heard of.
    pub fn iter(&self) -> impl Iterator<Item = (TurnId, Known)> + '_ {
        (0..self.rows.len()).map(|name| (self.id(name), self.known(name)))
    }

    fn id(&self, name: Name) -> TurnId {
        self.names.id(name).into()
    }

    fn known(&self, name: Name) -> Known {
        let row = self.rows.at(name);
        let of = Some(row.of).filter(|&of| of != NONE).map(|of| self.id(of));
        let end = match row.end & !REPLIED {
            COMPLETED => Some(End::Completed),
            CANCELLED => Some(End::Cancelled),
            FAILED => serde_json::from_str(&self.failures.get(row.failure)).ok().map(|(code, message)| End::Failed { code, message }),
            _ => None,
        };
        Known { digest: digest(row.digest), of, replied: row.end & REPLIED != 0, end }
    }

    fn pack_end(&mut self, end: Option<End>) -> (u32, At) {
        match end {
            None => (GOES_ON, 0),
            Some(End::Completed) => (COMPLETED, 0),
            Some(End::Cancelled) => (CANCELLED, 0),
            Some(End::Failed { code, message }) => {
                let json = serde_json::to_string(&(code, message)).expect("two texts");
                (FAILED, self.failures.push(&json, &Short::of(&json)))
            }
        }
    }
}

fn words(digest: Digest) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(digest.0.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

fn digest(words: [u32; 4]) -> Digest {
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Digest(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Code;

    #[test]
    fn what_is_known_is_what_was_told() {
        let mut turns = Turns::default();
        let digest = Digest(std::array::from_fn(|n| u8::try_from(n).unwrap()));
        let known = |of: Option<&str>, end| Known { end, ..Known::new(digest, of.map(TurnId::from)) };
        turns.insert(&"t1".into(), known(None, None));
        turns.begin(3, &"t1".into());
        turns.insert(&"t2".into(), known(None, None));
        turns.insert(&"t3".into(), known(Some("t2"), None));
        assert_eq!(turns.get(&"t3".into()), Some(known(Some("t2"), None)));
        assert_eq!(turns.turn_of(&"t3".into()), Some(("t2".into(), known(None, None))));
        let failed = End::Failed { code: Code::TooManyCalls, message: "so many \"calls\"".to_owned() };
        turns.end(&"t1".into(), failed.clone());
        turns.begin(9, &"t2".into());
        turns.end(&"t2".into(), End::Cancelled);
        let all = [("t1", known(None, Some(failed))), ("t2", known(None, Some(End::Cancelled))), ("t3", known(Some("t2"), None))];
        assert!(turns.iter().eq(all.map(|(id, known)| (TurnId::from(id), known))));
        assert_eq!([2, 3, 8, 9].map(|seq| turns.of_record(seq)), [None, Some("t1".into()), Some("t1".into()), Some("t2".into())]);
        assert_eq!(["t1", "t2", "t3"].map(|id| turns.began(&id.into())), [Some(3), Some(9), None]);
        turns.reply(&"t1".into());
        assert!(turns.get(&"t1".into()).is_some_and(|known| known.replied && known.end.is_some()));
        assert_eq!((turns.of_record(99), turns.get(&"t9".into())), (Some("t2".into()), None));
    }
}
