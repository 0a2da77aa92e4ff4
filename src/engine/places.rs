//! What each name stands for: its node, and the reader views that end with it. Most of what a walk asks is asked here, of one small
//! row.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::chain::NONE;
use super::reading::{Ix, Name, Readings, Vertex};
use super::rows::{Row, Rows};
use super::sheets::Table;
use crate::protocol::{Digest, Role};

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// Its node's reader view, and that without the last message.
    place: Vertex,
    above: Vertex,
    node: Ix,
    /// The last other reader view that ends with it too.
    copy: u32,
    said: Said,
}

/// A name without a node.
const NAMELESS: Named = Named { place: NONE, above: NONE, node: NONE, copy: NONE, said: Said(0) };

impl Row for Named {
    const WORDS: usize = 6;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        let said = Said(u64::from(word(4)) | u64::from(word(5)) << 32);
        Self { place: word(0), above: word(1), node: word(2), copy: word(3), said }
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are written")]
    fn write(self, word: impl FnMut(u32)) {
        let Self { place, above, node, copy, said: Said(said) } = self;
        [place, above, node, copy, said as u32, (said >> 32) as u32].into_iter().for_each(word);
    }
}

/// What a message says, in short: 62 bits of its digest, and who says it. Enough to tell one text from another; nobody gains by
/// making two that look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Said(u64);

const BY_USER: u64 = 1;
const BY_TOOL: u64 = 2;

impl Said {
    /// What a message of `role` says; of most roles that isn't kept.
    pub(super) fn new(role: Role, digest: impl FnOnce() -> Digest) -> Self {
        let by = match role {
            Role::User => BY_USER,
            Role::Tool => BY_TOOL,
            Role::Assistant | Role::System | Role::Developer | Role::Reasoning | Role::Activity => return Self(0),
        };
        Self(short(digest()) | by)
    }

    /// Whether a user says it, and whether that is what `digest` was made of.
    fn of_user(self, digest: Digest) -> Option<bool> {
        (self.0 & BY_USER != 0).then(|| self.0 == short(digest) | BY_USER)
    }
}

fn short(digest: Digest) -> u64 {
    u64::from_le_bytes(digest.0.first_chunk().copied().unwrap_or_default()) & !(BY_USER | BY_TOOL)
}

/// Another reader view that ends with a name.
#[derive(Clone, Copy, Debug)]
struct Copy {
    place: Vertex,
    /// The one before, of the same name.
    before: u32,
    /// How many there are with this one.
    count: u32,
}

impl Row for Copy {
    const WORDS: usize = 3;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        Self { place: word(0), before: word(1), count: word(2) }
    }

    fn write(self, word: impl FnMut(u32)) {
        [self.place, self.before, self.count].into_iter().for_each(word);
    }
}

/// What names stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    named: Rows<Named>,
    copies: Rows<Copy>,
    /// Of the copies: the reader view, by that without its last message, and that message.
    below: HashMap<(Vertex, Name), Vertex, RandomState>,
}

impl Places {
    /// How many names there are.
    pub(super) fn len(&self) -> u32 {
        self.named.len()
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> [&mut dyn Table; 2] {
        [&mut self.named, &mut self.copies]
    }

    /// After other sheets were put in.
    pub(super) fn restore(&mut self, readings: &Readings) {
        let place = |copy: Copy| ((readings.parent(copy.place), readings.shown(copy.place)), copy.place);
        self.below = self.copies.iter().map(place).collect();
    }

    /// One name more.
    pub(super) fn add(&mut self) {
        self.named.push(NAMELESS);
    }

    /// A name gets its node.
    pub(super) fn settle(&mut self, name: Name, node: Ix, (place, above): (Vertex, Vertex), said: Said) {
        let copy = self.named.at(name).copy;
        self.named.set(name, Named { place, above, node, copy, said });
    }

    /// Another reader view, that of `above` and one message more, ends with a name.
    pub(super) fn copy(&mut self, name: Name, above: Vertex, place: Vertex) {
        let named = self.named.at(name);
        let count = self.count(named) + 1;
        let copy = self.copies.push(Copy { place, before: named.copy, count });
        self.named.set(name, Named { copy, ..named });
        self.below.insert((above, name), place);
    }

    fn count(&self, named: Named) -> u32 {
        self.copies.get(named.copy).map_or(0, |copy| copy.count)
    }

    /// The node that a name was given to.
    pub(super) fn node(&self, name: Name) -> Option<Ix> {
        self.named.get(name).map(|named| named.node).filter(|&node| node != NONE)
    }

    /// Whether a name stands for nothing yet.
    pub(super) fn is_bare(&self, name: Name) -> bool {
        let named = self.named.at(name);
        named.node == NONE && named.copy == NONE
    }

    /// The reader view of a name's node, and how many others end with it.
    pub(super) fn of(&self, name: Name) -> (Option<Vertex>, u32) {
        let named = self.named.at(name);
        (Some(named.place).filter(|&place| place != NONE), self.count(named))
    }

    /// The others, the newest first.
    pub(super) fn copies(&self, name: Name) -> impl Iterator<Item = Vertex> + '_ {
        let last = self.copies.get(self.named.at(name).copy);
        std::iter::successors(last, |copy| self.copies.get(copy.before)).map(|copy| copy.place)
    }

    /// The one place of a name, when it is the next one after `at`.
    pub(super) fn next(&self, at: Vertex, name: Name) -> Option<Vertex> {
        let named = self.named.at(name);
        (named.above == at && named.copy == NONE).then_some(named.place)
    }

    /// The place of a name's node, when it is the next one after `at`. It may end with another message: hidden nodes read so.
    pub(super) fn own_below(&self, at: Vertex, name: Name) -> Option<Vertex> {
        self.named.get(name).filter(|named| named.above == at && named.place != NONE).map(|named| named.place)
    }

    /// The copy of a name that is the next one after `at`.
    pub(super) fn copy_below(&self, at: Vertex, name: Name) -> Option<Vertex> {
        if self.below.is_empty() { None } else { self.below.get(&(at, name)).copied() }
    }

    /// Whether a name is a user's message, and whether that says what `digest` was made of.
    pub(super) fn of_user(&self, name: Name, digest: Digest) -> Option<bool> {
        self.named.at(name).said.of_user(digest)
    }

    /// What a message says, in short.
    pub(super) fn said(&self, name: Name) -> Said {
        self.named.at(name).said
    }
}
