//! The tree: a light index of every node, their names, their places among the reader views, and the tool calls. Contents are
//! elsewhere. May not know turns.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::chain::{Chain, NONE};
use super::names::Names;
use super::reading::{EMPTY, Ix, Name, Readings, Vertex};
use super::record::MessageNew;
use crate::ids::{Millis, NodeId, ToolCallId};
use crate::protocol::{Digest, NodeKind, Role};

/// What the index knows of a node.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, packed")]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The same, as a name.
    pub name: Name,
    /// Position of its record.
    pub seq: u64,
    /// When it was recorded.
    pub at: Millis,
    /// A hash of what it says.
    pub digest: Digest,
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
}

/// What a name stands for, and what a walk asks of it: half a cache line.
#[derive(Clone, Copy, Debug)]
struct Named {
    /// Its node's reader view, and that without the last message.
    place: Vertex,
    above: Vertex,
    node: Ix,
    digest: Digest,
    role: Role,
    /// Whether other reader views end with it too.
    copied: bool,
}

/// A name without a node. What it says and who isn't asked then.
const NAMELESS: Named = Named { place: NONE, above: NONE, node: NONE, digest: Digest([0; 16]), role: Role::User, copied: false };

/// A tool call of a reply.
#[derive(Clone, Debug)]
pub struct Called {
    /// The reply that asks.
    pub reply: Ix,
    /// The result, once recorded.
    pub result: Option<Ix>,
    /// Whether a result may still come.
    pub open: bool,
}

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
    nodes: Vec<Node>,
    chain: Chain,
    readings: Readings,
    names: Names,
    named: Vec<Named>,
    /// The id that each name was made for.
    ids: Vec<NodeId>,
    /// Reader views that end with a name, besides its own node's.
    copies: HashMap<Name, Vec<Vertex>, RandomState>,
    calls: HashMap<ToolCallId, Called, RandomState>,
    open: Vec<ToolCallId>,
    /// Of a reply: the calls that it asks for.
    asks: HashMap<Ix, Vec<ToolCallId>, RandomState>,
    /// Of a result: the call that it answers.
    answers: HashMap<Ix, ToolCallId, RandomState>,
    edits: HashMap<(Name, Digest), Name, RandomState>,
}

impl Tree {
    /// Adds a node. `seq` is its record's position.
    pub fn add(&mut self, seq: u64, at: Millis, new: &MessageNew) -> Result<Ix, Misfit> {
        let parent = self.resolve(&new.id, new.parent.as_ref())?;
        let original = self.resolve(&new.id, new.copied_from.as_ref())?;
        let original = self.nodes.get(original as usize).map_or(NONE, |copied| copied.original);
        let reads_as = self.resolve(&new.id, new.reads_as.as_ref().and_then(Option::as_ref))?;
        let (role, digest) = match (&new.message, self.nodes.get(original as usize)) {
            (Some(message), _) => (message.role, message.digest()),
            (None, Some(original)) => (original.role, original.digest),
            (None, None) => return Err(Misfit::Hollow(new.id.clone())),
        };
        let name = self.name(&new.id);
        if self.named[name as usize].node != NONE {
            return Err(Misfit::Twice(new.id.clone()));
        }
        let ix = self.chain.push(parent);
        let shown = new.shown_id().is_some();
        let above = if parent == NONE { EMPTY } else { self.nodes[parent as usize].vertex };
        let vertex = match (&new.reads_as, shown && new.kind == NodeKind::Message) {
            (Some(None), _) => EMPTY,
            (Some(Some(_)), _) => self.nodes[reads_as as usize].vertex,
            (None, false) => above,
            (None, true) => self.extend(above, name, new.shown_id().unwrap_or(&new.id)),
        };
        let node = Node {
            id: new.id.clone(),
            name,
            seq,
            at,
            digest,
            original: if original == NONE { ix } else { original },
            vertex,
            reads_as,
            role,
            kind: new.kind,
            shown,
            partial: new.partial || self.nodes.get(original as usize).is_some_and(|original| original.partial),
            landing: new.kind != NodeKind::Custom || self.is_finished_reply(vertex),
            reads_empty: new.reads_as == Some(None),
        };
        let above = self.readings.parent(vertex);
        let copied = self.named[name as usize].copied;
        self.named[name as usize] = Named { place: vertex, above, node: ix, digest, role, copied };
        if node.landing {
            self.readings.land(vertex, ix);
        }
        if let Some(id) = &new.edit_of {
            let edited = self.name(id);
            self.edits.insert((edited, digest), name);
        }
        self.add_calls(ix, new);
        self.nodes.push(node);
        Ok(ix)
    }

    fn resolve(&self, of: &NodeId, id: Option<&NodeId>) -> Result<Ix, Misfit> {
        match id {
            None => Ok(NONE),
            Some(id) => self.find(id).ok_or_else(|| Misfit::Missing(of.clone(), id.clone())),
        }
    }

    /// The reader view `above` with one message more, and the names that stand for it.
    fn extend(&mut self, above: Vertex, name: Name, shown: &NodeId) -> Vertex {
        let shown = self.name(shown);
        let (vertex, new) = self.readings.extend(above, shown);
        if new && shown != name {
            self.named[shown as usize].copied = true;
            self.copies.entry(shown).or_default().push(vertex);
        }
        vertex
    }

    /// Whether a reader view ends with a reply that is whole. Only after such a one custom nodes come along.
    fn is_finished_reply(&self, vertex: Vertex) -> bool {
        let last = self.named.get(self.readings.shown(vertex) as usize).and_then(|named| self.nodes.get(named.node as usize));
        last.is_some_and(|last| last.role == Role::Assistant && !last.partial)
    }

    fn add_calls(&mut self, ix: Ix, new: &MessageNew) {
        let Some(message) = &new.message else { return };
        for call in &message.tool_calls {
            if self.calls.contains_key(&call.id) {
                continue;
            }
            let called = Called { reply: ix, result: None, open: !new.partial };
            if called.open {
                self.open.push(call.id.clone());
            }
            self.calls.insert(call.id.clone(), called);
            self.asks.entry(ix).or_default().push(call.id.clone());
        }
        if let (Role::Tool, Some(id)) = (message.role, &message.tool_call_id)
            && let Some(called) = self.calls.get_mut(id)
        {
            called.result.get_or_insert(ix);
            called.open = false;
            self.answers.insert(ix, id.clone());
            self.open.retain(|open| open != id);
        }
    }

    /// No result of an open call comes any more.
    pub fn seal_calls(&mut self) {
        for id in self.open.drain(..) {
            if let Some(called) = self.calls.get_mut(&id) {
                called.open = false;
            }
        }
    }

    /// The name for `id`, made when it is new. A name without a node is passed over in views.
    pub fn name(&mut self, id: &NodeId) -> Name {
        if let Some(name) = self.names.get(id) {
            return name;
        }
        let name = u32::try_from(self.named.len()).expect("fewer than 2^32 names");
        self.named.push(NAMELESS);
        self.ids.push(id.clone());
        self.names.insert(id.clone(), name);
        name
    }

    /// From now on `old`, which never became a node, and what it was another id of, stand for what `new` stands for.
    pub fn rename(&mut self, old: &NodeId, new: &NodeId) {
        let name = self.name(old);
        if let Some(taken) = self.names.get(new) {
            self.names.insert(old.clone(), taken);
            return;
        }
        self.names.insert(new.clone(), name);
        self.ids[name as usize] = new.clone();
    }

    /// The name of a known id whose hash was made before.
    pub(super) fn known_hashed(&self, hash: u64, id: &NodeId) -> Option<Name> {
        self.names.get_hashed(hash, id)
    }

    /// The name of a known id.
    pub fn known(&self, id: &NodeId) -> Option<Name> {
        self.names.get(id)
    }

    /// The id that a name was made for.
    pub fn name_id(&self, name: Name) -> &NodeId {
        &self.ids[name as usize]
    }

    /// The node that a name was given to.
    pub fn named(&self, name: Name) -> Option<Ix> {
        Some(self.named[name as usize].node).filter(|&node| node != NONE)
    }

    /// The node with this id.
    pub fn find(&self, id: &NodeId) -> Option<Ix> {
        self.known(id).and_then(|name| self.named(name))
    }

    /// Every reader view that ends with a name: its node's, and those that show it.
    pub fn places(&self, name: Name) -> (Option<Vertex>, &[Vertex]) {
        let named = &self.named[name as usize];
        let copies = if named.copied { self.copies.get(&name) } else { None };
        (Some(named.place).filter(|&place| place != NONE), copies.map_or(&[], Vec::as_slice))
    }

    /// The one place of a name, when it is the next one after `at`.
    pub fn next(&self, at: Vertex, name: Name) -> Option<Vertex> {
        let named = &self.named[name as usize];
        (named.above == at && !named.copied).then_some(named.place)
    }

    /// Of a user's message: the hash of what it says.
    pub fn user_digest(&self, name: Name) -> Option<Digest> {
        let named = &self.named[name as usize];
        (named.role == Role::User && named.node != NONE).then_some(named.digest)
    }

    /// The place of a name in the reader view `vertex`.
    pub fn place_in(&self, vertex: Vertex, name: Name) -> Option<Vertex> {
        let (own, more) = self.places(name);
        let mut places = own.into_iter().chain(more.iter().copied()).filter(|&place| place != EMPTY);
        places.find(|&place| self.readings.extends(vertex, place))
    }

    /// Whether a name stands in the reader view `vertex`.
    pub fn is_in(&self, vertex: Vertex, name: Name) -> bool {
        self.place_in(vertex, name).is_some()
    }

    /// What an edit that was sent under a recorded id is called.
    pub fn edit(&self, name: Name, digest: Digest) -> Option<Name> {
        self.edits.get(&(name, digest)).copied()
    }

    /// A node.
    pub fn node(&self, ix: Ix) -> &Node {
        &self.nodes[ix as usize]
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
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

    /// The reader views.
    pub fn readings(&self) -> &Readings {
        &self.readings
    }

    /// A node's reader view; the empty one for the empty path.
    pub fn vertex(&self, ix: Option<Ix>) -> Vertex {
        ix.map_or(EMPTY, |ix| self.node(ix).vertex)
    }

    /// A tool call.
    pub fn call(&self, id: &ToolCallId) -> Option<&Called> {
        self.calls.get(id)
    }

    /// The call that the result `ix` answers.
    pub fn answers(&self, ix: Ix) -> Option<&ToolCallId> {
        self.answers.get(&ix)
    }

    /// Whether the reader view `vertex` holds a result for each call of the reply that the result `ix` belongs to. A call that
    /// ended without one counts as answered.
    pub fn completes(&self, vertex: Vertex, ix: Ix) -> bool {
        let reply = self.answers(ix).and_then(|id| self.calls.get(id)).map(|called| called.reply);
        let asked = reply.and_then(|reply| self.asks.get(&reply));
        asked.into_iter().flatten().filter_map(|id| self.calls.get(id)).all(|called| match called.result {
            Some(result) => self.is_in(vertex, self.node(result).name),
            None => !called.open,
        })
    }

    /// Calls whose results may still come.
    pub fn open_calls(&self) -> &[ToolCallId] {
        &self.open
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

    /// The id under which a reader sees a node.
    pub fn shown_id(&self, ix: Ix) -> &NodeId {
        let node = self.node(ix);
        match node.kind {
            NodeKind::Message if node.shown => self.name_id(self.readings.shown(node.vertex)),
            NodeKind::Message | NodeKind::Epoch | NodeKind::Custom => &node.id,
        }
    }
}
