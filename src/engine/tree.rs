//! The tree: a light index of every node, their names, their places among the reader views, the tool calls. May not know turns.

mod calls;

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::asked::Asked;
use super::chain::{Chain, NONE};
use super::names::{Apart, Names, Wanted};
use super::node::{Node, Nodes};
use super::places::{Places, Said};
use super::reading::{EMPTY, Ix, Name, Readings, Vertex};
use super::record::MessageNew;
use super::rows::Rows;
use super::sheets::Table;
use crate::ids::{Millis, NodeId, ToolCallId};
use crate::protocol::{Digest, Message, NodeKind, Role, Size};

/// A record that doesn't fit the tree: the log is damaged.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Misfit {
    /// The id is a node already.
    #[error("node {0} is recorded twice")]
    Twice(NodeId),
    /// It names a node that isn't there.
    #[error("node {0} names {1}, which isn't there")]
    Missing(NodeId, NodeId),
    /// It has no content and isn't a copy.
    #[error("node {0} has neither content nor an original")]
    Hollow(NodeId),
}

/// The index of a session's nodes.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Nodes,
    chain: Chain,
    readings: Readings,
    names: Names,
    places: Places,
    asked: Asked,
    /// Epochs, the heads that they replaced, and their numbers.
    epochs: Rows<[u32; 3]>,
    /// What was edited under its own id, and the edit.
    edited: Rows<[Name; 2]>,
    edits: HashMap<(Name, Said), Name, RandomState>,
}

impl Tree {
    /// Adds a node. `seq` is its record's position.
    pub fn add(&mut self, seq: u64, at: Millis, new: &MessageNew) -> Result<Ix, Misfit> {
        let parent = self.resolve(&new.id, new.parent.as_ref())?;
        let copied = self.resolve(&new.id, new.copied_from.as_ref())?;
        let original = (copied != NONE).then(|| self.node(self.node(copied).original));
        let reads_as = self.resolve(&new.id, new.reads_as.as_ref().and_then(Option::as_ref))?;
        let base = self.resolve(&new.id, new.base.as_ref())?;
        let (role, said, size) = match (&new.message, original) {
            (Some(message), _) => (message.role, Said::new(message.role, || message.digest()), size_of(new.kind, message, new.is_event)),
            (None, Some(original)) => (original.role, self.places.said(original.name), original.size),
            (None, None) => return Err(Misfit::Hollow(new.id.clone())),
        };
        let name = self.name(&new.id);
        if self.places.node(name).is_some() {
            return Err(Misfit::Twice(new.id.clone()));
        }
        let ix = self.chain.push(parent);
        let shown = new.shown_id().is_some();
        let (above, load, reported) = match self.nodes.get(parent) {
            None => (EMPTY, Size::ZERO, false),
            Some(parent) => (parent.vertex, parent.load, parent.reported),
        };
        let vertex = match (&new.reads_as, shown && new.kind == NodeKind::Message) {
            (Some(None), _) => EMPTY,
            (Some(Some(_)), _) => self.node(reads_as).vertex,
            (None, false) => above,
            (None, true) => self.extend(above, name, new.shown_id().filter(|&shown| *shown != new.id)),
        };
        let node = Node {
            name,
            seq,
            at,
            original: original.map_or(ix, |original| original.original),
            vertex,
            reads_as,
            role,
            kind: new.kind,
            shown,
            partial: new.partial || original.is_some_and(|original| original.partial),
            landing: new.kind != NodeKind::Custom || self.is_finished_reply(vertex),
            reads_empty: new.reads_as == Some(None),
            is_event: new.is_event || original.is_some_and(|original| original.is_event),
            by_worker: new.by_worker || original.is_some_and(|original| original.by_worker),
            size,
            load: load + size,
            reported,
        };
        if new.kind == NodeKind::Epoch {
            self.epochs.push([ix, base, self.epoch(Some(base).filter(|&base| base != NONE)) + 1]);
        }
        self.places.settle(name, ix, (vertex, self.readings.parent(vertex)), said);
        if node.landing {
            self.readings.land(vertex, ix);
        }
        if let Some(id) = &new.edit_of {
            let edited = self.name(id);
            self.edited.push([edited, name]);
            self.edits.insert((edited, said), name);
        }
        for other in &new.known_as {
            self.alias(other, name);
        }
        self.add_calls(ix, new);
        self.nodes.push(ix, node);
        Ok(ix)
    }

    /// Before it is stored.
    pub(super) fn tidy(&mut self) {
        self.names.tidy();
        self.asked.tidy();
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> Vec<&mut dyn Table> {
        let mut tables: Vec<&mut dyn Table> = self.nodes.tables().into();
        tables.push(self.chain.table());
        tables.extend(self.readings.tables());
        tables.extend(self.names.tables());
        tables.extend(self.places.tables());
        tables.extend([&mut self.epochs as &mut dyn Table, &mut self.edited]);
        tables.extend(self.asked.tables());
        tables
    }

    /// What else is stored of it: ids apart from their names. Calls that are open are told with [`open_calls`](Self::open_calls).
    pub(super) fn apart(&self) -> &Apart {
        self.names.apart()
    }

    /// After other sheets were put in; whether they fit together.
    pub(super) fn restore(&mut self, apart: Apart, open: Vec<ToolCallId>) -> bool {
        let fits = self.nodes.len() == self.chain.len() && self.names.len() == self.places.len();
        if !fits || self.readings.len().is_none() || !self.asked.restore(open) {
            return false;
        }
        if !self.names.restore(apart) {
            return false;
        }
        self.places.restore(&self.readings);
        self.edits = self.edited.iter().map(|[edited, name]| ((edited, self.places.said(name)), name)).collect();
        true
    }

    fn resolve(&self, of: &NodeId, id: Option<&NodeId>) -> Result<Ix, Misfit> {
        match id {
            None => Ok(NONE),
            Some(id) => self.find(id).ok_or_else(|| Misfit::Missing(of.clone(), id.clone())),
        }
    }

    /// The reader view `above` with one message more, and the names that stand for it.
    fn extend(&mut self, above: Vertex, name: Name, shown: Option<&NodeId>) -> Vertex {
        let shown = shown.map_or(name, |shown| self.name(shown));
        self.child(above, shown).unwrap_or_else(|| {
            let vertex = self.readings.add(above, shown);
            if shown != name {
                self.places.copy(shown, above, vertex);
            }
            vertex
        })
    }

    /// Whether a reader view ends with a reply that is whole. Only after such a one custom nodes come along.
    fn is_finished_reply(&self, vertex: Vertex) -> bool {
        let last = self.places.node(self.readings.shown(vertex)).map(|ix| self.node(ix));
        last.is_some_and(|last| last.role == Role::Assistant && !last.partial)
    }

    fn add_calls(&mut self, ix: Ix, new: &MessageNew) {
        let Some(message) = &new.message else { return };
        for call in &message.tool_calls {
            self.asked.ask(&call.id, ix, !new.partial && !new.sealed);
        }
        if let (Role::Tool, Some(id)) = (message.role, &message.tool_call_id) {
            self.asked.answer(id, ix);
        }
    }

    /// The name for `id`, made when it is new. A name without a node is passed over in views.
    pub fn name(&mut self, id: &NodeId) -> Name {
        let (name, new) = self.names.name(id.as_str());
        if new {
            self.places.add();
        }
        name
    }

    /// From now on `old`, which never became a node, and what it was another id of, stand for what `new` stands for.
    pub fn rename(&mut self, old: &NodeId, new: &NodeId) {
        let name = self.name(old);
        match self.names.get(new.as_str()) {
            Some(taken) => self.names.point(old.as_str(), taken),
            None => self.names.move_to(name, new.as_str()),
        }
    }

    /// From now on `other` stands for `name` too. Whether it does: an id that stands for something keeps to that.
    pub fn alias(&mut self, other: &NodeId, name: Name) -> bool {
        let taken = self.names.get(other.as_str());
        if taken.is_none() {
            self.names.point(other.as_str(), name);
        }
        taken.is_none_or(|taken| taken == name)
    }

    /// An id that never became a node is unknown again. Whether it is: what is recorded or shown stays known.
    pub fn forget(&mut self, id: &NodeId) -> bool {
        let bare = self.names.get(id.as_str()).is_none_or(|name| self.places.is_bare(name));
        if bare {
            self.names.forget(id.as_str());
        }
        bare
    }

    /// The name of a known id that was made ready before.
    pub(super) fn known_wanted(&self, wanted: &Wanted, id: &NodeId) -> Option<Name> {
        self.names.find(wanted, id.as_str())
    }

    /// The name of a known id.
    pub fn known(&self, id: &NodeId) -> Option<Name> {
        self.names.get(id.as_str())
    }

    /// The id that a name was made for.
    pub fn name_id(&self, name: Name) -> NodeId {
        self.names.id(name).into()
    }

    /// A node's id.
    pub fn id(&self, ix: Ix) -> NodeId {
        self.name_id(self.node(ix).name)
    }

    /// The node that a name was given to.
    pub fn named(&self, name: Name) -> Option<Ix> {
        self.places.node(name)
    }

    /// The node with this id.
    pub fn find(&self, id: &NodeId) -> Option<Ix> {
        self.known(id).and_then(|name| self.named(name))
    }

    /// The reader view of a name's node, and how many others end with it.
    pub fn places(&self, name: Name) -> (Option<Vertex>, u32) {
        self.places.of(name)
    }

    /// The others, the newest first.
    pub fn copies(&self, name: Name) -> impl Iterator<Item = Vertex> + '_ {
        self.places.copies(name)
    }

    /// The reader view that has one message more than `above`: this one.
    pub fn child(&self, above: Vertex, shown: Name) -> Option<Vertex> {
        let own = self.places.own_below(above, shown).filter(|&place| self.readings.shown(place) == shown);
        own.or_else(|| self.places.copy_below(above, shown))
    }

    /// The one place of a name, when it is the next one after `at`.
    pub fn next(&self, at: Vertex, name: Name) -> Option<Vertex> {
        self.places.next(at, name)
    }

    /// Of a user's message: whether it says what `digest` was made of.
    pub fn user_says(&self, name: Name, digest: Digest) -> Option<bool> {
        self.places.of_user(name, digest)
    }

    /// Whether a user's message or a result says what `digest` was made of.
    pub fn says(&self, ix: Ix, digest: Digest) -> bool {
        let node = self.node(ix);
        self.places.said(node.name) == Said::new(node.role, || digest)
    }

    /// The place of a name in the reader view `vertex`.
    pub fn place_in(&self, vertex: Vertex, name: Name) -> Option<Vertex> {
        let own = self.places(name).0;
        let mut places = own.into_iter().chain(self.copies(name)).filter(|&place| place != EMPTY);
        places.find(|&place| self.readings.extends(vertex, place))
    }

    /// Whether a name stands in the reader view `vertex`.
    pub fn is_in(&self, vertex: Vertex, name: Name) -> bool {
        self.place_in(vertex, name).is_some()
    }

    /// What an edit that was sent under a recorded id is called.
    pub fn edit(&self, name: Name, digest: Digest) -> Option<Name> {
        self.edits.get(&(name, Said::new(Role::User, || digest))).copied()
    }

    /// Edits that were sent under a recorded id: what was edited, and the edit.
    pub fn edits(&self) -> impl Iterator<Item = (Name, Name)> + '_ {
        self.edits.iter().map(|(&(edited, _), &edit)| (edited, edit))
    }

    /// A node.
    pub fn node(&self, ix: Ix) -> Node {
        self.nodes.at(ix)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len() as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node before.
    pub fn parent(&self, ix: Ix) -> Option<Ix> {
        Some(self.chain.link(ix).parent).filter(|&parent| parent != NONE)
    }

    /// From a node (itself included) up to the root.
    pub fn up(&self, from: Option<Ix>) -> impl Iterator<Item = Ix> + '_ {
        self.chain.up(from.unwrap_or(NONE))
    }

    /// Whether `above` stands on the way to `below`, or is `below`.
    pub fn is_above(&self, above: Ix, below: Ix) -> bool {
        self.chain.is_above(above, below)
    }

    /// A provider has reported how many tokens a model read for the reply `ix`.
    pub(super) fn report(&mut self, ix: Ix, tokens: u64) {
        self.nodes.report(ix, Size::from_tokens(tokens));
    }

    /// The first node of the path to a node.
    pub fn root(&self, at: Ix) -> Ix {
        self.chain.at_depth(at, 0)
    }

    /// The number of the history that a model reads at a node: 0 is the unshortened one.
    pub fn epoch(&self, at: Option<Ix>) -> u32 {
        at.and_then(|at| self.epoch_row(self.root(at))).map_or(0, |[_, _, number]| number)
    }

    /// Of an epoch's node: the head that it replaced.
    pub fn base(&self, epoch: Ix) -> Option<Ix> {
        self.epoch_row(epoch).map(|[_, base, _]| base).filter(|&base| base != NONE)
    }

    fn epoch_row(&self, ix: Ix) -> Option<[u32; 3]> {
        let at = self.epochs.partition_point(|[of, ..]| of < ix);
        self.epochs.get(at).filter(|[of, ..]| *of == ix)
    }

    /// The reader views.
    pub fn readings(&self) -> &Readings {
        &self.readings
    }

    /// A node's reader view; the empty one for the empty path.
    pub fn vertex(&self, ix: Option<Ix>) -> Vertex {
        ix.map_or(EMPTY, |ix| self.node(ix).vertex)
    }

    /// Where a view whose last match is `vertex` lands: the deepest twin on the way to `head`, else the newest. The empty reader
    /// view has twins on the way only: else it is the empty path.
    pub fn land(&self, vertex: Vertex, head: Option<Ix>) -> Option<Ix> {
        let depth = self.readings.depth(vertex);
        let on_path = head.and_then(|head| self.chain.lowest(head, |ix| self.readings.depth(self.node(ix).vertex) <= depth));
        let twin = self.up(on_path).take_while(|&ix| self.node(ix).vertex == vertex).find(|&ix| self.node(ix).landing);
        twin.or_else(|| self.readings.newest(vertex).filter(|_| vertex != EMPTY))
    }

    /// `head`, when nothing but results stands between it and `vertex`, else `vertex`: results that come one by one form a chain.
    pub fn below_results(&self, vertex: Vertex, head: Vertex) -> Vertex {
        let is_result = |at: Vertex| self.named(self.readings.shown(at)).is_some_and(|ix| self.node(ix).role == Role::Tool);
        let above = self.readings.up(head).find(|&at| at == vertex || !is_result(at));
        if above == Some(vertex) { head } else { vertex }
    }

    /// The other ids of a name: of abandoned attempts, and of a fork's sources.
    pub fn aliases(&self, name: Name) -> impl Iterator<Item = NodeId> + '_ {
        self.names.others(name).map(NodeId::from)
    }

    /// The node whose reader view a node has, when that isn't its parent's with itself added; none inside: the empty view.
    pub fn reads_as(&self, ix: Ix) -> Option<Option<Ix>> {
        let node = self.node(ix);
        let to = Some(node.reads_as).filter(|&to| to != NONE);
        (node.reads_empty || to.is_some()).then_some(to)
    }

    /// The nodes that a reader sees on the way to a node, last first: originals in the place of copies, custom nodes included.
    pub fn reader_up(&self, from: Option<Ix>) -> impl Iterator<Item = Ix> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            loop {
                let ix = at?;
                let node = self.node(ix);
                if node.reads_as != NONE || node.reads_empty {
                    at = Some(node.reads_as).filter(|&to| to != NONE);
                    continue;
                }
                at = self.parent(ix);
                if node.shown {
                    return Some(ix);
                }
            }
        })
    }

    /// The last node that a reader sees on the way to a node, by the id that names it: what people call the place.
    pub fn seen_at(&self, at: Option<Ix>) -> Option<NodeId> {
        self.reader_up(at).next().map(|ix| self.id(ix))
    }

    /// The id under which a reader sees a node.
    pub fn shown_id(&self, ix: Ix) -> NodeId {
        let node = self.node(ix);
        match node.kind {
            NodeKind::Message if node.shown => self.name_id(self.readings.shown(node.vertex)),
            NodeKind::Message | NodeKind::Epoch | NodeKind::Custom => self.name_id(node.name),
        }
    }
}

/// How much a model reads of a node: nothing of what is for people only.
pub(super) fn size_of(kind: NodeKind, message: &Message, is_event: bool) -> Size {
    match kind {
        NodeKind::Message if is_event => super::prompt::size_of_event(message),
        NodeKind::Message => Size::of_message(message),
        NodeKind::Epoch => super::prompt::size_of_summary(message),
        NodeKind::Custom => Size::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_stands_for_the_same_and_what_waited_in_vain_is_forgotten() {
        let mut tree = Tree::default();
        let said = MessageNew::plain("u1".into(), None, Message::text(Role::User, "u1"));
        let ix = tree.add(1, 1, &said).unwrap();
        let name = tree.known(&"u1".into()).unwrap();
        assert!(tree.alias(&"other".into(), name));
        assert_eq!((tree.find(&"other".into()), tree.id(ix)), (Some(ix), "u1".into()));
        let waiting = tree.name(&"waiting".into());
        assert!(!tree.alias(&"u1".into(), waiting), "an id that stands for something keeps to that");
        assert!(!tree.alias(&"waiting".into(), name));
        assert!(tree.forget(&"waiting".into()) && tree.forget(&"never heard of".into()));
        assert_eq!(tree.known(&"waiting".into()), None);
        assert!(!tree.forget(&"u1".into()) && !tree.forget(&"other".into()), "what is recorded stays known");
        assert_eq!(tree.find(&"u1".into()), Some(ix));
    }
}
