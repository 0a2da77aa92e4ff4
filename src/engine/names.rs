//! Ids and what they stand for: most for a name of their own, some for another's. Of a long session most are looked up in a directory
//! that is stored; the lookup of the others is asked with a hash that was made before, so that many look-ups in a row wait for memory
//! together. May not know what is named.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::{RandomState, SeedableRandomState};
use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::chain::NONE;
use super::directory::{Directory, Made};
use super::reading::Name;
use super::rows::Rows;
use super::sheets::Table;
use super::text::{At, Short, Text};

/// An id made ready to be looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    hash: u64,
    short: Short,
}

impl Wanted {
    /// An id, as every lookup of the process knows it.
    pub(super) fn new(id: &str) -> Self {
        let short = Short::of(id);
        Self { hash: hash(short.bytes(id)), short }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SeedableRandomState::with_seed(0, SharedSeed::global_random()).build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// An id that is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: At,
    name: Name,
}

/// The lookup of what the directory doesn't know. It isn't stored, but made again when it is asked for the first time.
#[derive(Clone, Debug, Default)]
struct Lookup {
    known: HashTable<Known>,
    /// Of a name: which of the others stand for it.
    others: HashMap<Name, Vec<u32>, RandomState>,
}

/// Which name each id has, and the id that each name was made for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    text: Text,
    made_for: Rows<At>,
    /// Ids without a name of their own: where they are held, what they stand for (`NONE`: nothing any more).
    others: Rows<[u32; 2]>,
    apart: Apart,
    directory: Directory,
    lookup: OnceLock<Lookup>,
}

/// Names that need a second look.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Apart {
    /// The ids which they were made for don't stand for them any more.
    gone: BTreeSet<Name>,
    /// The directory doesn't know their ids.
    moved: BTreeSet<Name>,
}

/// An entry of the directory with this bit is another id, else a name.
const OTHER: u32 = 1 << 31;
/// The fewest ids of a directory.
const LEAST: u32 = 1024;

/// Where an id was found.
#[derive(Clone, Copy)]
enum Found {
    /// The name was made for it.
    Own(Name),
    /// It is one of the others.
    Other(u32),
}

impl Names {
    /// The name of an id.
    pub(super) fn get(&self, id: &str) -> Option<Name> {
        self.find(&Wanted::new(id), id)
    }

    /// The name of an id that was made ready.
    pub(super) fn find(&self, wanted: &Wanted, id: &str) -> Option<Name> {
        let since = self.lookup().known.find(wanted.hash, |known| self.text.is(known.at, id, &wanted.short)).copied();
        since.or_else(|| self.find_old(wanted, id).map(|(known, _)| known)).map(|known| known.name)
    }

    /// What the directory has of an id, if that is still so.
    fn find_old(&self, wanted: &Wanted, id: &str) -> Option<(Known, Found)> {
        self.directory.find(wanted.short.bytes(id), |entry| {
            let (known, found) = if entry & OTHER == 0 {
                let known = Known { at: self.made_for.get(entry)?, name: entry };
                (known, Found::Own(entry))
            } else {
                let other = entry & !OTHER;
                let [at, name] = self.others.get(other)?;
                (Known { at, name }, Found::Other(other))
            };
            let stands = match found {
                Found::Own(name) => !self.apart.gone.contains(&name),
                Found::Other(_) => known.name != NONE,
            };
            (self.text.is(known.at, id, &wanted.short) && stands).then_some((known, found))
        })
    }

    /// How many names there are.
    pub(super) fn len(&self) -> u32 {
        self.made_for.len()
    }

    /// The id that a name was made for.
    pub(super) fn id(&self, name: Name) -> String {
        self.text.get(self.made_for.at(name))
    }

    /// The other ids that stand for a name.
    pub(super) fn others(&self, name: Name) -> impl Iterator<Item = String> + '_ {
        let others = self.lookup().others.get(&name);
        others.into_iter().flatten().map(|&other| self.text.get(self.others.at(other)[0]))
    }

    /// The name of an id, made when it is unknown, and whether it was made.
    pub(super) fn name(&mut self, id: &str) -> (Name, bool) {
        let wanted = Wanted::new(id);
        if let Some(name) = self.find(&wanted, id) {
            return (name, false);
        }
        let at = self.text.push(id, &wanted.short);
        let name = self.made_for.push(at);
        self.insert(wanted.hash, Known { at, name });
        (name, true)
    }

    /// From now on `id` stands for `name`, whatever it stood for before.
    pub(super) fn point(&mut self, id: &str, name: Name) {
        let wanted = Wanted::new(id);
        let at = self.take_out(id).unwrap_or_else(|| self.text.push(id, &wanted.short));
        let other = self.others.push([at, name]);
        self.insert(wanted.hash, Known { at, name });
        self.lookup_mut().others.entry(name).or_default().push(other);
    }

    /// As if `name` had been made for `id`, which is unknown; the one that it was made for stands for it too.
    pub(super) fn move_to(&mut self, name: Name, id: &str) {
        let before = self.id(name);
        if self.get(&before) == Some(name) {
            self.point(&before, name);
        }
        let wanted = Wanted::new(id);
        let at = self.text.push(id, &wanted.short);
        self.made_for.set(name, at);
        self.apart.gone.remove(&name);
        if name < self.directory.made().names {
            self.apart.moved.insert(name);
        }
        self.insert(wanted.hash, Known { at, name });
    }

    /// An id is unknown again. Its name stays what it is.
    pub(super) fn forget(&mut self, id: &str) {
        self.take_out(id);
    }

    /// Takes an id out; where it is held.
    fn take_out(&mut self, id: &str) -> Option<At> {
        let wanted = Wanted::new(id);
        self.lookup();
        let Self { text, lookup, .. } = self;
        let known = &mut lookup.get_mut()?.known;
        let since = known.find_entry(wanted.hash, |known| text.is(known.at, id, &wanted.short)).ok();
        let since = since.map(|known| known.remove().0);
        let (Known { at, name }, found) = match since {
            Some(known) => (known, self.place_of(known)),
            None => self.find_old(&wanted, id).map(|(known, found)| (known, Some(found)))?,
        };
        match found {
            Some(Found::Own(name)) => {
                self.apart.gone.insert(name);
            }
            Some(Found::Other(other)) => {
                self.others.set(other, [at, NONE]);
                self.lookup_mut().others.entry(name).or_default().retain(|&stands| stands != other);
            }
            None => {}
        }
        Some(at)
    }

    /// Where what the lookup knows stands.
    fn place_of(&self, Known { at, name }: Known) -> Option<Found> {
        if self.made_for.get(name) == Some(at) {
            return Some(Found::Own(name));
        }
        (0..self.others.len()).find(|&other| self.others.at(other) == [at, name]).map(Found::Other)
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> [&mut dyn Table; 4] {
        [&mut self.text, &mut self.made_for, &mut self.others, &mut self.directory]
    }

    /// Before it is stored: makes a new directory when many ids came since the last one.
    pub(super) fn tidy(&mut self) {
        let made = self.directory.made();
        let known = made.names + made.others;
        let since = self.made_for.len() + self.others.len() - known;
        if since >= LEAST.max(known / 4) {
            let made = Made { names: self.made_for.len(), others: self.others.len(), seed: self.text.sum() };
            self.directory = Directory::new(made, &self.standing().collect::<Vec<_>>());
            self.apart.moved.clear();
            if let Some(lookup) = self.lookup.get_mut() {
                lookup.known = HashTable::new();
            }
        }
    }

    /// All ids that stand for something, as they are hashed, and their entries in a directory.
    fn standing(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let own = (0..).zip(self.made_for.iter()).filter(|(name, _)| !self.apart.gone.contains(name));
        let others = (0..).zip(self.others.iter()).filter(|(_, [_, name])| *name != NONE);
        own.map(|(name, at)| (at, name))
            .chain(others.map(|(other, [at, _])| (at, other | OTHER)))
            .map(|(at, entry)| (self.text.bytes(at), entry))
    }

    /// What else is stored of it.
    pub(super) fn apart(&self) -> &Apart {
        &self.apart
    }

    /// After other sheets were put in; whether they fit together.
    pub(super) fn restore(&mut self, apart: Apart) -> bool {
        (self.apart, self.lookup) = (apart, OnceLock::new());
        let (names, made) = (self.made_for.len(), self.directory.made());
        let there = self.apart.gone.iter().chain(&self.apart.moved).all(|&name| name < names);
        there && made.names <= names && made.others <= self.others.len()
    }

    fn insert(&mut self, hash: u64, known: Known) {
        self.lookup();
        let Self { text, lookup, .. } = self;
        if let Some(lookup) = lookup.get_mut() {
            lookup.known.insert_unique(hash, known, |known| self::hash(text.bytes(known.at)));
        }
    }

    fn lookup_mut(&mut self) -> &mut Lookup {
        self.lookup();
        self.lookup.get_mut().expect("made by the line above")
    }

    fn lookup(&self) -> &Lookup {
        self.lookup.get_or_init(|| self.make_lookup())
    }

    fn make_lookup(&self) -> Lookup {
        let Made { names, others, .. } = self.directory.made();
        let count = (self.made_for.len() - names + self.others.len() - others) as usize;
        let mut lookup = Lookup { known: HashTable::with_capacity(count), others: HashMap::default() };
        let mut add = |at: At, name: Name| {
            let hash_of = |known: &Known| hash(self.text.bytes(known.at));
            lookup.known.insert_unique(hash(self.text.bytes(at)), Known { at, name }, hash_of);
        };
        let Apart { gone, moved } = &self.apart;
        for name in moved.iter().copied().chain(names..self.made_for.len()).filter(|name| gone.is_empty() || !gone.contains(name)) {
            add(self.made_for.at(name), name);
        }
        for (other, [at, name]) in (0..).zip(self.others.iter()).filter(|(_, [_, name])| *name != NONE) {
            if other >= others {
                add(at, name);
            }
            lookup.others.entry(name).or_default().push(other);
        }
        lookup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_again() {
        let ids: Vec<String> = (0..5_000).map(|n| format!("{n}{}", "x".repeat(n % 40))).collect();
        let mut names = Names::default();
        for (id, n) in ids.iter().zip(0..).chain(ids.iter().zip(0..)) {
            assert_eq!((names.name(id).0, names.id(n)), (n, id.clone()));
        }
        assert_eq!(names.name("one more"), (5_000, true));
        assert_eq!(names.get("none"), None);
    }

    /// The same without the lookup, which is made again.
    fn again(names: &Names) -> Names {
        Names { lookup: OnceLock::new(), ..names.clone() }
    }

    /// With a directory that has so many ids of before, some of them here.
    fn directed(names: &mut Names, ids: u32) {
        for n in 0..ids {
            names.name(&format!("id {n}"));
        }
        names.tidy();
        assert_eq!(names.directory.made().names, if ids > LEAST { names.len() } else { 0 });
    }

    #[test]
    fn what_a_directory_knows_is_found_with_what_came_since() {
        let mut names = Names::default();
        directed(&mut names, 5_000);
        assert!(names.lookup().known.is_empty());
        for n in 0..6_200 {
            assert_eq!(names.name(&format!("id {n}")), (n, n >= 5_000));
        }
        names.tidy();
        assert_eq!(names.directory.made().names, 5_000, "not for so few");
        names.name("id 6200");
        for n in 6_201..6_251 {
            names.name(&format!("id {n}"));
        }
        names.tidy();
        assert_eq!(names.directory.made().names, 6_251);
        let names = again(&names);
        for n in 0..6_251 {
            assert_eq!(names.get(&format!("id {n}")), Some(n));
        }
        assert_eq!(names.get("id 6251"), None);
    }

    #[test]
    fn an_id_can_stand_for_another_name_and_be_forgotten() {
        for ids in [0, 2_000] {
            changes(ids);
        }
    }

    /// `ids`: so many are put in a directory first, among them those that change.
    fn changes(ids: u32) {
        let mut names = Names::default();
        let (one, two) = (names.name("one").0, names.name("two").0);
        directed(&mut names, ids);
        names.point("1", one);
        names.point("two", one);
        let mut names = again(&names);
        assert_eq!((names.get("1"), names.get("two"), names.id(one), names.id(two)), (Some(one), Some(one), "one".into(), "two".into()));
        names.move_to(one, "uno");
        let mut names = again(&names);
        assert_eq!((names.get("uno"), names.get("one"), names.id(one)), (Some(one), Some(one), "uno".into()));
        assert!(names.others(one).eq(["1", "two", "one"]));
        names.forget("one");
        names.point("1", two);
        names.forget("uno");
        let mut names = again(&names);
        assert_eq!((names.get("uno"), names.get("one"), names.get("1"), names.get("two")), (None, None, Some(two), Some(one)));
        assert!(names.others(one).eq(["two"]) && names.others(two).eq(["1"]));
        assert!(names.name("one").1, "it is unknown, and gets a name of its own");
        names.move_to(one, "ein");
        let names = again(&names);
        assert_eq!((names.get("ein"), names.get("uno"), names.len()), (Some(one), None, 3 + ids));
    }
}
