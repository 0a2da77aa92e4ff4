//! The table from ids to names. It is asked with a hash that was made before, so that many look-ups in a row wait for memory together.

use std::hash::BuildHasher as _;

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;

use super::reading::Name;
use crate::ids::NodeId;

/// Hashes ids; the same for every table of the process.
#[derive(Clone, Debug)]
pub(super) struct Hasher(SeedableRandomState);

impl Default for Hasher {
    fn default() -> Self {
        Self(SeedableRandomState::with_seed(0, SharedSeed::global_random()))
    }
}

impl Hasher {
    /// The hash of an id.
    pub(super) fn hash(&self, id: &NodeId) -> u64 {
        self.0.hash_one(id.as_str())
    }
}

/// Which name each id has.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    table: HashTable<(NodeId, Name)>,
    hasher: Hasher,
}

impl Names {
    /// The name of an id.
    pub(super) fn get(&self, id: &NodeId) -> Option<Name> {
        self.get_hashed(self.hasher.hash(id), id)
    }

    /// The name of an id whose hash is known.
    pub(super) fn get_hashed(&self, hash: u64, id: &NodeId) -> Option<Name> {
        self.table.find(hash, |(known, _)| known == id).map(|&(_, name)| name)
    }

    /// From now on `id` has this name.
    pub(super) fn insert(&mut self, id: NodeId, name: Name) {
        let (hasher, hash) = (&self.hasher, self.hasher.hash(&id));
        match self.table.entry(hash, |(known, _)| *known == id, |(known, _)| hasher.hash(known)) {
            hashbrown::hash_table::Entry::Occupied(mut entry) => entry.get_mut().1 = name,
            hashbrown::hash_table::Entry::Vacant(entry) => {
                entry.insert((id, name));
            }
        }
    }
}
