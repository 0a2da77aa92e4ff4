//! What the index knows of a node: a small row, and another one when there is more to say. Its id and its content are elsewhere.

use super::chain::NONE;
use super::reading::{Ix, Name, Vertex};
use super::rows::{Row, Rows};
use super::sheets::Table;
use crate::ids::Millis;
use crate::protocol::{NodeKind, Role, Size};

/// What the index knows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Node {
    /// Its id, as a name.
    pub name: Name,
    /// Position of its record.
    pub seq: u64,
    /// When it was recorded.
    pub at: Millis,
    /// The first original of a copy, else itself: where its content is.
    pub original: Ix,
    /// Its reader view.
    pub vertex: Vertex,
    /// The node whose reader view it has, when that isn't its parent's with itself added; `NONE`: the usual.
    pub reads_as: Ix,
    /// Who speaks.
    pub role: Role,
    /// What sort of node.
    pub kind: NodeKind,
    /// Whether readers see it as a message of its own.
    pub shown: bool,
    /// Whether it is the kept part of a cancelled reply.
    pub partial: bool,
    /// Whether a view may land on it.
    pub landing: bool,
    /// Whether `reads_as` is set and is the empty view.
    pub reads_empty: bool,
    /// Whether it is something that happened, not what a person said.
    pub is_event: bool,
    /// Whether the agent's worker wrote it, without a model call.
    pub by_worker: bool,
    /// How much a model reads of it.
    pub size: Size,
    /// How much a model reads from the root up to it: as a provider reported for the last reply on the way, and the sizes since.
    pub load: Size,
    /// Whether a provider did: else the system prompt and the tools come on top.
    pub reported: bool,
}

/// The rows of all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    rows: Rows<Packed>,
    /// Of copies, and of nodes that read like another: which, its original, what it reads like. In order.
    more: Rows<[u32; 3]>,
}

/// A node as it lies in memory.
#[derive(Clone, Copy, Debug)]
struct Packed {
    name: Name,
    seq: u32,
    vertex: Vertex,
    /// The lower half of its time.
    at: u32,
    /// The upper half of its time (16 bits), role and kind (4 each), flags (8).
    rest: u32,
    /// In characters.
    size: u32,
    load: u32,
}

const SHOWN: u32 = 1;
const PARTIAL: u32 = 2;
const LANDING: u32 = 4;
const READS_EMPTY: u32 = 8;
/// There is more to say.
const MORE: u32 = 16;
const EVENT: u32 = 32;
const REPORTED: u32 = 64;
const BY_WORKER: u32 = 128;

const ROLES: [Role; 7] = [Role::User, Role::Assistant, Role::Tool, Role::System, Role::Developer, Role::Reasoning, Role::Activity];
const KINDS: [NodeKind; 3] = [NodeKind::Message, NodeKind::Epoch, NodeKind::Custom];

impl Row for Packed {
    const WORDS: usize = 7;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        Self { name: word(0), seq: word(1), vertex: word(2), at: word(3), rest: word(4), size: word(5), load: word(6) }
    }

    fn write(self, word: impl FnMut(u32)) {
        [self.name, self.seq, self.vertex, self.at, self.rest, self.size, self.load].into_iter().for_each(word);
    }
}

impl Nodes {
    /// Adds a node, whose index is `ix`.
    pub(super) fn push(&mut self, ix: Ix, node: Node) {
        let more = node.original != ix || node.reads_as != NONE;
        if more {
            self.more.push([ix, node.original, node.reads_as]);
        }
        let flags = [
            (node.shown, SHOWN),
            (node.partial, PARTIAL),
            (node.landing, LANDING),
            (node.reads_empty, READS_EMPTY),
            (more, MORE),
            (node.is_event, EVENT),
            (node.reported, REPORTED),
            (node.by_worker, BY_WORKER),
        ];
        let flags: u32 = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
        // Times have 48 bits: enough until the year 10889.
        let at = node.at.min((1 << 48) - 1);
        self.rows.push(Packed {
            name: node.name,
            seq: u32::try_from(node.seq).expect("fewer than 2^32 records"),
            vertex: node.vertex,
            at: u32::try_from(at & 0xffff_ffff).unwrap_or_default(),
            rest: u32::try_from(at >> 32).unwrap_or_default() << 16
                | number(&ROLES, &node.role) << 12
                | number(&KINDS, &node.kind) << 8
                | flags,
            size: characters(node.size),
            load: characters(node.load),
        });
    }

    /// A node, when there is one.
    pub(super) fn get(&self, ix: Ix) -> Option<Node> {
        (ix < self.len()).then(|| self.at(ix))
    }

    /// A node.
    pub(super) fn at(&self, ix: Ix) -> Node {
        let row = self.rows.at(ix);
        let has = |flag| row.rest & flag != 0;
        let [_, original, reads_as] = if has(MORE) { self.more(ix) } else { [ix, ix, NONE] };
        Node {
            name: row.name,
            seq: row.seq.into(),
            at: u64::from(row.rest >> 16) << 32 | u64::from(row.at),
            original,
            vertex: row.vertex,
            reads_as,
            role: ROLES.get((row.rest >> 12 & 15) as usize).copied().unwrap_or(Role::User),
            kind: KINDS.get((row.rest >> 8 & 15) as usize).copied().unwrap_or_default(),
            shown: has(SHOWN),
            partial: has(PARTIAL),
            landing: has(LANDING),
            reads_empty: has(READS_EMPTY),
            is_event: has(EVENT),
            by_worker: has(BY_WORKER),
            size: Size::from_characters(row.size.into()),
            load: Size::from_characters(row.load.into()),
            reported: has(REPORTED),
        }
    }

    /// A provider has reported how much a model read for the reply `ix`, itself left out.
    pub(super) fn report(&mut self, ix: Ix, read: Size) {
        let row = self.rows.at(ix);
        let load = characters(read + Size::from_characters(row.size.into()));
        self.rows.set(ix, Packed { load, rest: row.rest | REPORTED, ..row });
    }

    fn more(&self, ix: Ix) -> [u32; 3] {
        self.more.get(self.more.partition_point(|[of, ..]| of < ix)).unwrap_or([ix, ix, NONE])
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> [&mut dyn Table; 2] {
        [&mut self.rows, &mut self.more]
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.rows.len()
    }
}

/// Four thousand million characters are more than any model reads.
fn characters(size: Size) -> u32 {
    u32::try_from(size.characters()).unwrap_or(u32::MAX)
}

fn number<T: PartialEq>(all: &[T], one: &T) -> u32 {
    all.iter().position(|other| other == one).and_then(|at| u32::try_from(at).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_comes_back_as_it_was() {
        let mut nodes = Nodes::default();
        let mut all = Vec::new();
        for ix in 0..420_u32 {
            let odd = |n: u32| ix.is_multiple_of(n);
            let at = [0, 1_790_000_000_000, (1 << 48) - 1][(ix % 3) as usize];
            let (original, reads_as) = if odd(5) { (ix / 2, if odd(2) { ix / 3 } else { NONE }) } else { (ix, NONE) };
            let (role, kind) = (ROLES[(ix % 7) as usize], KINDS[(ix % 3) as usize]);
            let node = Node {
                name: ix + 7,
                seq: u64::from(ix) * 9_000_000,
                at,
                original,
                vertex: ix * 3,
                reads_as,
                role,
                kind,
                shown: odd(2),
                partial: odd(3),
                landing: odd(4),
                reads_empty: odd(7),
                is_event: odd(6),
                by_worker: odd(8),
                size: Size::from_characters(u64::from(ix) * 10_000_000),
                load: Size::from_characters(u64::from(ix) * 7),
                reported: odd(5),
            };
            nodes.push(ix, node);
            all.push(node);
        }
        assert!((0..420).map(|ix| nodes.at(ix)).eq(all));
    }
}
