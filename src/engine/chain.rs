//! Ancestor questions on a growing forest in O(log n): each member points to its parent and, further up, to a skip (a jump
//! pointer). Serves the tree of nodes and the trie of reader views.

use super::rows::{Row, Rows};
use super::sheets::Table;

/// The index that stands for "none".
pub const NONE: u32 = u32::MAX;

/// A member's links.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The member before it, or `NONE`.
    pub parent: u32,
    /// A member further up, or `NONE`.
    pub skip: u32,
    /// How many members stand before it.
    pub depth: u32,
}

impl Row for Link {
    const WORDS: usize = 3;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        Self { parent: word(0), skip: word(1), depth: word(2) }
    }

    fn write(self, word: impl FnMut(u32)) {
        [self.parent, self.skip, self.depth].into_iter().for_each(word);
    }
}

/// A forest of links, by index.
#[derive(Clone, Debug, Default)]
pub struct Chain(Rows<Link>);

impl Chain {
    /// Adds a member below `parent` and gives its index.
    pub fn push(&mut self, parent: u32) -> u32 {
        let link = match self.get(parent) {
            None => Link { parent: NONE, skip: NONE, depth: 0 },
            Some(above) => Link { parent, skip: self.skip_below(parent, above), depth: above.depth + 1 },
        };
        self.0.push(link)
    }

    /// The skip of a new child: twice as far when the two skips above are equally long, else just the parent.
    fn skip_below(&self, parent: u32, above: Link) -> u32 {
        let Some(first) = self.get(above.skip) else { return parent };
        match self.get(first.skip) {
            Some(second) if above.depth - first.depth == first.depth - second.depth => first.skip,
            _ => parent,
        }
    }

    fn get(&self, at: u32) -> Option<Link> {
        self.0.get(at)
    }

    /// How many members there are.
    pub(super) fn len(&self) -> u32 {
        self.0.len()
    }

    /// What is stored of it in sheets.
    pub(super) fn table(&mut self) -> &mut dyn Table {
        &mut self.0
    }

    /// A member's links.
    pub fn link(&self, at: u32) -> Link {
        self.0.at(at)
    }

    /// The lowest member on the way up from `from` (itself included) that `fits`, where everything above a fitting one fits too.
    pub fn lowest(&self, from: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = from;
        while let Some(link) = self.get(at) {
            if fits(at) {
                return Some(at);
            }
            at = if link.skip != NONE && !fits(link.skip) { link.skip } else { link.parent };
        }
        None
    }

    /// Whether `above` stands on the way from the root to `below`, or is `below`.
    pub fn is_above(&self, above: u32, below: u32) -> bool {
        let depth = self.link(above).depth;
        let link = self.link(below);
        if link.depth <= depth {
            return above == below;
        }
        link.parent == above || self.at_depth(below, depth) == above
    }

    /// The member at `depth` on the way from the root to `from`; `from` when that isn't so deep.
    pub fn at_depth(&self, from: u32, depth: u32) -> u32 {
        self.lowest(from, |at| self.link(at).depth <= depth).unwrap_or(from)
    }

    /// From `from` (itself included) up to the root.
    pub fn up(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.get(from).map(|_| from), |&at| self.get(self.link(at).parent).map(|_| self.link(at).parent))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn answers_as_walking_would(parents in prop::collection::vec(any::<prop::sample::Index>(), 1..200)) {
            let mut chain = Chain::default();
            for (n, parent) in parents.iter().enumerate() {
                let parent = if n == 0 || n % 17 == 0 { NONE } else { u32::try_from(parent.index(n)).unwrap() };
                chain.push(parent);
            }
            let count = u32::try_from(parents.len()).unwrap();
            for below in 0..count {
                let way: Vec<u32> = chain.up(below).collect();
                for above in 0..count {
                    prop_assert_eq!(chain.is_above(above, below), way.contains(&above));
                }
                for (depth, above) in way.iter().rev().enumerate() {
                    prop_assert_eq!(chain.at_depth(below, u32::try_from(depth).unwrap()), *above);
                }
            }
        }
    }
}
