//! What each branch has a version of its own of. A version is written where the head is; a node that comes has the version of the node
//! before it, or of the one that it reads like, so that whoever goes back reads what was true there. A small row a node, once there is a
//! version at all; contents stay in the log, but for the one that was used last. May not know what is in a version.

use super::chain::NONE;
use super::reading::Ix;
use super::rows::{Row, Rows};
use super::sheets::Table;
use crate::protocol::Digest;

/// A version.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Position of its record.
    seq: u32,
    /// Bytes of what is in it; 0: nothing is.
    bytes: u32,
    /// Where the head was, or `NONE`: at the empty path.
    node: Ix,
    /// The version that was there before.
    before: u32,
    digest: [u32; 4],
}

impl Row for Version {
    const WORDS: usize = 8;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        let digest = [word(4), word(5), word(6), word(7)];
        Self { seq: word(0), bytes: word(1), node: word(2), before: word(3), digest }
    }

    fn write(self, word: impl FnMut(u32)) {
        [self.seq, self.bytes, self.node, self.before].into_iter().chain(self.digest).for_each(word);
    }
}

/// Which version a place has: none is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Which(u32);

impl Which {
    /// No version was written there, or above.
    pub const NONE: Self = Self(NONE);
}

/// What a version is, besides what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Position of its record.
    pub seq: u64,
    /// Bytes of what is in it.
    pub bytes: usize,
    /// Of what is in it: equal values have the same.
    pub digest: Digest,
}

/// What is in a version stands in the record at this position, and isn't in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InLog(pub u64);

/// The versions of one thing, and the one that was used last.
#[derive(Clone, Debug)]
pub struct Branched<T> {
    all: Rows<Version>,
    /// Of each node; of none while there is no version.
    of: Rows<u32>,
    /// Of the empty path.
    root: u32,
    used: Option<(u32, T)>,
}

impl<T> Default for Branched<T> {
    fn default() -> Self {
        Self { all: Rows::default(), of: Rows::default(), root: NONE, used: None }
    }
}

impl<T> Branched<T> {
    /// Whether no version was ever written.
    pub fn is_empty(&self) -> bool {
        self.all.len() == 0
    }

    /// The version that is current at a node; none: at the empty path.
    pub fn at(&self, at: Option<Ix>) -> Which {
        Which(at.map_or(self.root, |ix| self.of.get(ix).unwrap_or(NONE)))
    }

    /// The one that was current there when the record at `seq` had been written.
    pub fn at_then(&self, at: Option<Ix>, seq: u64) -> Which {
        let node = at.unwrap_or(NONE);
        let mut version = self.at(at).0;
        while let Some(row) = self.all.get(version).filter(|row| row.node == node && u64::from(row.seq) > seq) {
            version = row.before;
        }
        Which(version)
    }

    /// The one that was written last, wherever that was.
    pub fn last(&self) -> Which {
        Which(self.all.len().checked_sub(1).unwrap_or(NONE))
    }

    /// The position of the first version's record.
    pub fn first(&self) -> Option<u64> {
        self.all.get(0).map(|first| first.seq.into())
    }

    /// The one that will be written next, `ahead` others before it.
    pub(super) fn next(&self, ahead: u32) -> Which {
        Which(self.all.len().saturating_add(ahead))
    }

    /// What a version is; nothing: nothing is in it.
    pub fn written(&self, which: Which) -> Option<Written> {
        let Version { seq, bytes, digest, .. } = self.all.get(which.0).filter(|row| row.bytes > 0)?;
        Some(Written { seq: seq.into(), bytes: bytes as usize, digest: of_words(digest) })
    }

    /// What is in a version.
    pub fn content(&self, which: Which) -> Result<Option<&T>, InLog> {
        match (self.written(which), &self.used) {
            (None, _) => Ok(None),
            (Some(_), Some((used, content))) if *used == which.0 => Ok(Some(content)),
            (Some(written), _) => Err(InLog(written.seq)),
        }
    }

    /// What is current at a node.
    pub fn current(&self, at: Option<Ix>) -> Result<Option<&T>, InLog> {
        self.content(self.at(at))
    }

    /// Takes what is in the version current at a node into memory.
    pub(super) fn recall(&mut self, at: Option<Ix>, content: Option<T>) {
        self.used = content.map(|content| (self.at(at).0, content));
    }

    /// A node was added, below `from` or reading like it; none: at the empty path.
    pub(super) fn grow(&mut self, ix: Ix, from: Option<Ix>) {
        if !self.is_empty() {
            self.fill(ix);
            self.of.push(self.at(from).0);
        }
    }

    /// A version is written at `head`, the record at `seq`; so many nodes are there.
    pub(super) fn write(&mut self, seq: u64, head: Option<Ix>, nodes: usize, written: Option<(usize, Digest, T)>) {
        self.fill(u32::try_from(nodes).unwrap_or(NONE));
        let before = self.at(head).0;
        let (bytes, digest) = written.as_ref().map_or((0, [0; 4]), |(bytes, digest, _)| (*bytes, words(*digest)));
        let seq = u32::try_from(seq).expect("fewer than 2^32 records");
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let version = self.all.push(Version { seq, bytes, node: head.unwrap_or(NONE), before, digest });
        match head {
            None => self.root = version,
            Some(ix) => self.of.set(ix, version),
        }
        self.used = written.map(|(_, _, content)| (version, content));
    }

    /// Nodes of before have what the empty path had: nothing.
    fn fill(&mut self, nodes: u32) {
        while self.of.len() < nodes {
            self.of.push(NONE);
        }
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> [&mut dyn Table; 2] {
        [&mut self.all, &mut self.of]
    }

    /// What else is stored of it.
    pub(super) fn root(&self) -> u32 {
        self.root
    }

    /// After other sheets were put in; whether they fit to so many nodes.
    pub(super) fn restore(&mut self, root: u32, nodes: usize) -> bool {
        let versions = self.all.len();
        let known = |version: u32| version == NONE || version < versions;
        (self.root, self.used) = (root, None);
        let complete = if versions == 0 { self.of.len() == 0 } else { self.of.len() as usize == nodes };
        complete
            && known(root)
            && self.of.iter().all(known)
            && (0..).zip(self.all.iter()).all(|(n, row)| row.before == NONE || row.before < n)
    }
}

fn words(Digest(bytes): Digest) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

fn of_words(words: [u32; 4]) -> Digest {
    let mut bytes = [0; 16];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    Digest(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(branched: &mut Branched<&'static str>, seq: u64, head: Option<Ix>, nodes: usize, content: &'static str) {
        branched.write(seq, head, nodes, Some((content.len(), Digest([7; 16]), content)));
    }

    #[test]
    fn a_place_keeps_what_was_true_there() {
        let mut states = Branched::default();
        states.grow(0, None);
        write(&mut states, 2, Some(0), 1, "one");
        assert_eq!(states.current(Some(0)), Ok(Some(&"one")));
        states.grow(1, Some(0));
        write(&mut states, 4, Some(1), 2, "two");
        assert_eq!(states.current(Some(1)), Ok(Some(&"two")));
        assert_eq!(states.current(Some(0)), Err(InLog(2)), "only the last one is in memory");
        states.grow(2, Some(0));
        assert_eq!(states.at(Some(2)), states.at(Some(0)));
        // A version at a node doesn't change what came below it before.
        write(&mut states, 6, Some(0), 3, "three");
        assert_eq!(states.current(Some(2)), Err(InLog(2)));
        states.write(7, Some(0), 3, None);
        assert_eq!((states.current(Some(0)), states.written(states.at(Some(0)))), (Ok(None), None));
        assert_eq!(states.at_then(Some(0), 6), Which(2));
        assert_eq!(states.at_then(Some(0), 2), Which(0));
        assert_eq!(states.at_then(Some(0), 1), Which::NONE);
        assert_eq!(states.at_then(Some(2), 1), Which(0), "it came with it");
        states.recall(Some(2), Some("one"));
        assert_eq!(states.current(Some(2)), Ok(Some(&"one")));
    }

    #[test]
    fn the_empty_path_is_a_place_too() {
        let mut states = Branched::default();
        write(&mut states, 2, None, 0, "at first");
        states.grow(0, None);
        assert_eq!(states.current(Some(0)), Ok(Some(&"at first")));
        assert!(states.clone().restore(0, 1) && !states.clone().restore(0, 2) && !states.restore(1, 1));
    }
}
