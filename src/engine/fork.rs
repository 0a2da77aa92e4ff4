//! Fork: a path, with everything that it rests on, as the log of a new session. Ids are fresh, the old ones stay names.

mod versions;

use std::collections::{BTreeMap, HashMap};

use self::versions::Branch;
use super::head::{must_be_there, reader_node};
use super::reading::{Ix, Name};
use super::record::{AgentUpdated, Body, MessageNew, Record, SessionForked, StateUpdated};
use super::session::Session;
use super::{Context, refuse_newer};
use crate::ids::{NodeId, SessionId};
use crate::protocol::{AgentOverrides, Code, ForkedFrom, Message, NodeKind, Refusal};

pub use self::versions::fork_versions;

/// The nodes that a fork at `at` (none: the head) carries, parents first.
pub fn fork_nodes(session: &Session, at: Option<&NodeId>) -> Result<Vec<Ix>, Refusal> {
    refuse_newer(session)?;
    must_be_there(session)?;
    let tree = &session.tree;
    let mut carried = vec![false; tree.len()];
    let mut ahead: Vec<Ix> = end(session, at)?.into_iter().collect();
    while let Some(ix) = ahead.pop() {
        if !std::mem::replace(&mut carried[ix as usize], true) {
            ahead.extend(tree.parent(ix));
            ahead.extend(tree.reads_as(ix).flatten());
        }
    }
    Ok((0..).zip(carried).filter_map(|(ix, is_carried)| is_carried.then_some(ix)).collect())
}

/// Where the path that is carried ends.
fn end(session: &Session, at: Option<&NodeId>) -> Result<Option<Ix>, Refusal> {
    at.map_or(Ok(session.head), |id| reader_node(session, id).map(Some))
}

/// The records of a fork that carries `nodes`, whose contents are in memory, with `versions` of what they have; and what people see last at
/// its head.
pub fn fork(
    session: &Session,
    id: &SessionId,
    at: Option<&NodeId>,
    nodes: &[Ix],
    versions: &BTreeMap<u64, Body>,
    context: &Context,
) -> Result<(Vec<Record>, Option<NodeId>), Refusal> {
    let head = end(session, at)?;
    let agent_id = session.agent_id.clone().ok_or_else(|| Refusal::new(Code::SessionNotFound, format!("there is no session {id}")))?;
    let tree = &session.tree;
    let from = ForkedFrom { session_id: id.clone(), node_id: tree.seen_at(head) };
    let mut records = vec![Record { at: context.stamp.now, body: Body::SessionForked(SessionForked { agent_id: agent_id.clone(), from }) }];
    let carrier = Carrier::new(session, nodes, context);
    let stateless = Body::StateUpdated(Box::new(StateUpdated { state: None, digest: None, patch: None }));
    let as_configured = AgentUpdated { agent_id: agent_id.clone(), agent: AgentOverrides::default(), others: BTreeMap::new() };
    let as_configured = Body::AgentUpdated(Box::new(as_configured));
    let mut branches = [Branch::new(&session.states, versions, stateless), Branch::new(&session.overrides, versions, as_configured)];
    for branch in &mut branches {
        records.extend(branch.at_root().map(|body| Record { at: context.stamp.now, body }));
    }
    for &ix in nodes {
        let (new, at) = (carrier.carry(ix)?, tree.node(ix).at);
        records.push(Record { at, body: Body::MessageNew(Box::new(new)) });
        let from = tree.reads_as(ix).unwrap_or_else(|| tree.parent(ix));
        for branch in &mut branches {
            records.extend(branch.at_node(ix, from).map(|body| Record { at, body }));
        }
    }
    Ok((records, tree.reader_up(head).next().map(|seen| carrier.fresh[&seen].clone())))
}

/// Carries nodes over.
struct Carrier<'a> {
    session: &'a Session,
    /// Their new ids.
    fresh: HashMap<Ix, NodeId>,
    /// Of each original: the first of them that says it. It becomes the original there, the others its copies.
    first: HashMap<Ix, Ix>,
    /// Of an edit that came under a recorded id: that name.
    edited: HashMap<Name, Name>,
}

impl<'a> Carrier<'a> {
    fn new(session: &'a Session, nodes: &[Ix], context: &Context) -> Self {
        let tree = &session.tree;
        let fresh = (0..).zip(nodes).map(|(n, &ix)| (ix, NodeId::from(context.stamp.id(n)))).collect();
        let mut first = HashMap::new();
        for &ix in nodes {
            first.entry(tree.node(ix).original).or_insert(ix);
        }
        Self { session, fresh, first, edited: tree.edits().map(|(edited, edit)| (edit, edited)).collect() }
    }

    fn carry(&self, ix: Ix) -> Result<MessageNew, Refusal> {
        let (session, tree) = (self.session, &self.session.tree);
        let node = tree.node(ix);
        let original = self.first[&node.original];
        let is_original = original == ix;
        let missing = || Refusal::new(Code::Internal, "a message of the path isn't in memory");
        let content = if is_original { Some(session.content(ix).ok_or_else(missing)?) } else { None };
        let edited = self.edited.get(&tree.node(node.original).name).filter(|_| is_original);
        let edit_of = edited.and_then(|&name| self.carried(tree.named(name)?));
        let mut names = vec![node.name];
        if is_original && node.original != ix {
            // A copy whose original stays behind answers to that one's ids too.
            names.push(tree.node(node.original).name);
        }
        names.extend(edited.filter(|_| edit_of.is_none()));
        Ok(MessageNew {
            kind: node.kind,
            copied_from: (!is_original).then(|| self.fresh[&original].clone()),
            shown: if node.shown && node.kind == NodeKind::Message { self.shown(ix) } else { None },
            hidden: !node.shown && node.kind != NodeKind::Epoch && tree.reads_as(ix).is_none(),
            reads_as: tree.reads_as(ix).map(|to| to.map(|to| self.fresh[&to].clone())),
            base: self.base(ix).map(|base| self.fresh[&base].clone()),
            partial: node.partial,
            is_event: node.is_event,
            by_worker: node.by_worker,
            sealed: content.is_some_and(|message| !message.tool_calls.is_empty()),
            edit_of: edit_of.map(|ix| self.fresh[&ix].clone()),
            known_as: names.into_iter().flat_map(|name| self.ids(name)).collect(),
            message: content.map(|message| Message { id: None, ..Message::clone(message) }),
            ..MessageNew::plain(
                self.fresh[&ix].clone(),
                tree.parent(ix).map(|parent| self.fresh[&parent].clone()),
                Message::empty(node.role),
            )
        })
    }

    /// Of an epoch: the head that it replaced, or, when that isn't carried, the last node that it stands for.
    fn base(&self, epoch: Ix) -> Option<Ix> {
        let tree = &self.session.tree;
        let base = tree.base(epoch)?;
        Some(base).filter(|base| self.fresh.contains_key(base)).or(tree.reads_as(epoch).flatten())
    }

    /// The node that says there what `ix` says here.
    fn carried(&self, ix: Ix) -> Option<Ix> {
        self.first.get(&self.session.tree.node(ix).original).copied()
    }

    /// The id under which readers see a node there, when that isn't its own.
    fn shown(&self, ix: Ix) -> Option<NodeId> {
        let tree = &self.session.tree;
        let shown = tree.named(tree.readings().shown(tree.node(ix).vertex)).filter(|&shown| shown != ix)?;
        self.carried(shown).filter(|&shown| shown != ix).map(|shown| self.fresh[&shown].clone())
    }

    fn ids(&self, name: Name) -> impl Iterator<Item = NodeId> + use<'a> {
        let tree = &self.session.tree;
        std::iter::once(tree.name_id(name)).chain(tree.aliases(name))
    }
}
