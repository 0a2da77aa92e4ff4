//! Which versions of the state, and of overrides, a fork carries, and where it writes them. May not know nodes' contents.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::engine::branched::{Branched, Which, Written};
use crate::engine::reading::Ix;
use crate::engine::record::{Body, StateUpdated};
use crate::engine::session::Session;

/// A fork carries versions of so many bytes; nodes whose own aren't among them have those of the nodes before.
const VERSIONS_BYTES_MAX: usize = 16 << 20;

/// The positions of the records that say which state, and which overrides, these nodes have: the newest first, as far as there is room
/// for them.
pub fn fork_versions(session: &Session, nodes: &[Ix]) -> Vec<u64> {
    [versions(&session.states, nodes), versions(&session.overrides, nodes)].concat()
}

fn versions<T>(of: &Branched<T>, nodes: &[Ix]) -> Vec<u64> {
    let places = nodes.iter().map(|&ix| Some(ix)).chain([None]);
    let which: BTreeSet<Which> = places.map(|at| of.at(at)).collect();
    let mut bytes = 0_usize;
    let written = which.into_iter().rev().filter_map(|which| of.written(which));
    // The newest one is carried, however large it is.
    let fits = |written: &Written| {
        let is_first = bytes == 0;
        bytes = bytes.saturating_add(written.bytes);
        is_first || bytes <= VERSIONS_BYTES_MAX
    };
    written.take_while(fits).map(|written| written.seq).collect()
}

/// Which versions of one thing the carried nodes have, here and there.
pub(super) struct Branch<'a> {
    /// Of each node here: its version, and what that is; none: nothing.
    here: Box<dyn Fn(Option<Ix>) -> Option<Written> + 'a>,
    versions: &'a BTreeMap<u64, Body>,
    /// What says that a place has nothing.
    nothing: Body,
    /// Of each place there: what it has.
    there: HashMap<Option<Ix>, Option<Written>>,
}

impl<'a> Branch<'a> {
    pub(super) fn new<T>(of: &'a Branched<T>, versions: &'a BTreeMap<u64, Body>, nothing: Body) -> Self {
        Self { here: Box::new(|at| of.written(of.at(at))), versions, nothing, there: HashMap::new() }
    }

    /// What is to be written at the empty path.
    pub(super) fn at_root(&mut self) -> Option<Body> {
        self.at(None, None)
    }

    /// What is to be written after a carried node, so that it has there what it has here; nothing: it has it of the one that it comes from.
    pub(super) fn at_node(&mut self, ix: Ix, from: Option<Ix>) -> Option<Body> {
        let inherited = self.there.get(&from).copied().flatten();
        self.at(Some(ix), inherited)
    }

    fn at(&mut self, at: Option<Ix>, inherited: Option<Written>) -> Option<Body> {
        let here = (self.here)(at);
        let is_same = here.map(|here| here.digest) == inherited.map(|inherited| inherited.digest);
        let written = match here {
            _ if is_same => None,
            Some(here) => self.versions.get(&here.seq).cloned(),
            None => Some(self.nothing.clone()),
        };
        self.there.insert(at, if written.is_some() { here } else { inherited });
        written.map(alone)
    }
}

/// A version that is told to who was told nothing before.
fn alone(body: Body) -> Body {
    match body {
        Body::StateUpdated(data) => Body::StateUpdated(Box::new(StateUpdated { patch: None, ..*data })),
        other => other,
    }
}
