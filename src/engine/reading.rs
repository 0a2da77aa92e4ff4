//! Reader views as one trie. A vertex is a class of nodes with the same reader view (twins): the shown messages from the root
//! to there, custom nodes left out. "Same" is the same vertex; "extends" is "stands below".

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::chain::{Chain, NONE};

/// A vertex, by index.
pub type Vertex = u32;
/// A name, by index (see [`Tree`](super::tree::Tree)).
pub type Name = u32;
/// A node, by index.
pub type Ix = u32;

/// The empty reader view.
pub const EMPTY: Vertex = 0;

#[derive(Clone, Copy, Debug)]
struct Data {
    shown: Name,
    newest: Ix,
}

/// The trie.
#[derive(Clone, Debug)]
pub struct Readings {
    chain: Chain,
    data: Vec<Data>,
    below: HashMap<(Vertex, Name), Vertex, RandomState>,
}

impl Default for Readings {
    fn default() -> Self {
        let mut chain = Chain::default();
        chain.push(NONE);
        Self { chain, data: vec![Data { shown: NONE, newest: NONE }], below: HashMap::default() }
    }
}

impl Readings {
    /// The vertex that reads like `above` with `shown` added, and whether it is new.
    pub fn extend(&mut self, above: Vertex, shown: Name) -> (Vertex, bool) {
        if let Some(&vertex) = self.below.get(&(above, shown)) {
            return (vertex, false);
        }
        let vertex = self.chain.push(above);
        self.data.push(Data { shown, newest: NONE });
        self.below.insert((above, shown), vertex);
        (vertex, true)
    }

    /// Notes that a view may land on `node`, the newest one with this reader view.
    pub fn land(&mut self, vertex: Vertex, node: Ix) {
        self.data[vertex as usize].newest = node;
    }

    /// The newest node that a view may land on.
    pub fn newest(&self, vertex: Vertex) -> Option<Ix> {
        Some(self.data[vertex as usize].newest).filter(|&node| node != NONE)
    }

    /// The name of the last message of this reader view (`NONE` for the empty one).
    pub fn shown(&self, vertex: Vertex) -> Name {
        self.data[vertex as usize].shown
    }

    /// How many messages it has.
    pub fn depth(&self, vertex: Vertex) -> u32 {
        self.chain.link(vertex).depth
    }

    /// The reader view that has one message more, `shown`.
    pub fn child(&self, vertex: Vertex, shown: Name) -> Option<Vertex> {
        self.below.get(&(vertex, shown)).copied()
    }

    /// The first `depth` messages of a reader view.
    pub fn above(&self, vertex: Vertex, depth: u32) -> Vertex {
        self.chain.at_depth(vertex, depth)
    }

    /// The reader view without its last message.
    pub fn parent(&self, vertex: Vertex) -> Vertex {
        self.chain.link(vertex).parent
    }

    /// Whether `below` extends `above` or is the same.
    pub fn extends(&self, below: Vertex, above: Vertex) -> bool {
        self.chain.is_above(above, below)
    }

    /// The same and shorter reader views, down to (without) the empty one.
    pub fn up(&self, vertex: Vertex) -> impl Iterator<Item = Vertex> + '_ {
        self.chain.up(vertex).filter(|&at| at != EMPTY)
    }
}
