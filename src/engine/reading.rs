//! Reader views as one trie. A vertex is a class of nodes with the same reader view (twins): the shown messages from the root
//! to there, custom nodes left out. "Same" is the same vertex; "extends" is "stands below".

use super::chain::{Chain, NONE};
use super::rows::{Row, Rows};
use super::sheets::Table;

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

impl Row for Data {
    const WORDS: usize = 2;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        Self { shown: word(0), newest: word(1) }
    }

    fn write(self, word: impl FnMut(u32)) {
        [self.shown, self.newest].into_iter().for_each(word);
    }
}

/// The trie. Which vertex stands below which is known by names (see [`Tree`](super::tree::Tree)).
#[derive(Clone, Debug)]
pub struct Readings {
    chain: Chain,
    data: Rows<Data>,
}

impl Default for Readings {
    fn default() -> Self {
        let mut chain = Chain::default();
        chain.push(NONE);
        let mut data = Rows::default();
        data.push(Data { shown: NONE, newest: NONE });
        Self { chain, data }
    }
}

impl Readings {
    /// A new vertex, which reads like `above` with `shown` added.
    pub fn add(&mut self, above: Vertex, shown: Name) -> Vertex {
        self.data.push(Data { shown, newest: NONE });
        self.chain.push(above)
    }

    /// How many vertices there are; none: what was restored isn't whole.
    pub(super) fn len(&self) -> Option<u32> {
        Some(self.data.len()).filter(|&len| len == self.chain.len() && len > 0)
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> [&mut dyn Table; 2] {
        [self.chain.table(), &mut self.data]
    }

    /// Notes that a view may land on `node`, the newest one with this reader view.
    pub fn land(&mut self, vertex: Vertex, node: Ix) {
        let data = self.data.at(vertex);
        self.data.set(vertex, Data { newest: node, ..data });
    }

    /// The newest node that a view may land on.
    pub fn newest(&self, vertex: Vertex) -> Option<Ix> {
        Some(self.data.at(vertex).newest).filter(|&node| node != NONE)
    }

    /// The name of the last message of this reader view (`NONE` for the empty one).
    pub fn shown(&self, vertex: Vertex) -> Name {
        self.data.at(vertex).shown
    }

    /// How many messages it has.
    pub fn depth(&self, vertex: Vertex) -> u32 {
        self.chain.link(vertex).depth
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
