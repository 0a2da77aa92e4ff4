//! Ids and what they stand for: most for a name of their own, some for another's. The lookup is asked with a hash that was made
//! before, so that many look-ups in a row wait for memory together. May not know what is named.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::{RandomState, SeedableRandomState};
use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::chain::NONE;
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

/// The lookup. It isn't stored, but made again when it is asked for the first time.
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
    lookup: OnceLock<Lookup>,
}

/// Names that the ids which they were made for don't stand for any more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Apart(Vec<Name>);

impl Names {
    /// The name of an id.
    pub(super) fn get(&self, id: &str) -> Option<Name> {
        self.find(&Wanted::new(id), id)
    }

    /// The name of an id that was made ready.
    pub(super) fn find(&self, wanted: &Wanted, id: &str) -> Option<Name> {
        self.lookup().known.find(wanted.hash, |known| self.text.is(known.at, id, &wanted.short)).map(|known| known.name)
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
        self.apart.0.retain(|&apart| apart != name);
        self.insert(wanted.hash, Known { at, name });
    }

    /// An id is unknown again. Its name stays what it is.
    pub(super) fn forget(&mut self, id: &str) {
        self.take_out(id);
    }

    /// Takes an id out of the lookup; where it is held.
    fn take_out(&mut self, id: &str) -> Option<At> {
        let wanted = Wanted::new(id);
        self.lookup();
        let Self { text, made_for, others, apart, lookup } = self;
        let lookup = lookup.get_mut()?;
        let known = lookup.known.find_entry(wanted.hash, |known| text.is(known.at, id, &wanted.short)).ok()?;
        let (Known { at, name }, _) = known.remove();
        if made_for.get(name) == Some(at) {
            apart.0.push(name);
        } else if let Some(other) = (0..others.len()).find(|&other| others.at(other) == [at, name]) {
            others.set(other, [at, NONE]);
            lookup.others.entry(name).or_default().retain(|&stands| stands != other);
        }
        Some(at)
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> [&mut dyn Table; 3] {
        [&mut self.text, &mut self.made_for, &mut self.others]
    }

    /// What else is stored of it.
    pub(super) fn apart(&self) -> &Apart {
        &self.apart
    }

    /// After other sheets were put in.
    pub(super) fn restore(&mut self, apart: Apart) {
        (self.apart, self.lookup) = (apart, OnceLock::new());
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
        let count = (self.made_for.len() + self.others.len()) as usize;
        let mut lookup = Lookup { known: HashTable::with_capacity(count), others: HashMap::default() };
        let mut add = |at: At, name: Name| {
            let hash_of = |known: &Known| hash(self.text.bytes(known.at));
            lookup.known.insert_unique(hash(self.text.bytes(at)), Known { at, name }, hash_of);
        };
        let mut apart = self.apart.0.clone();
        apart.sort_unstable();
        for (name, at) in (0..).zip(self.made_for.iter()) {
            if apart.is_empty() || apart.binary_search(&name).is_err() {
                add(at, name);
            }
        }
        for (other, [at, name]) in (0..).zip(self.others.iter()).filter(|(_, [_, name])| *name != NONE) {
            add(at, name);
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

    #[test]
    fn an_id_can_stand_for_another_name_and_be_forgotten() {
        let mut names = Names::default();
        let (one, two) = (names.name("one").0, names.name("two").0);
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
        assert_eq!((names.get("ein"), names.get("uno"), names.len()), (Some(one), None, 3));
    }
}
