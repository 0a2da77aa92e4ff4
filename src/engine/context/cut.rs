//! Where a history can be cut: between turns, and inside the running one before a reply; never between a call and its result.

use std::collections::HashSet;

use super::Agent;
use super::need::besides;
use super::strategy::Kept;
use crate::engine::prompt::path;
use crate::engine::reading::Ix;
use crate::engine::session::Session;
use crate::engine::turn::Turn;
use crate::ids::{NodeId, TurnId};
use crate::protocol::{NodeKind, Role, Size};

/// The history that a model reads, while a turn waits for room.
#[derive(Debug)]
pub struct History<'a> {
    session: &'a Session,
    /// Root to head.
    path: Vec<Ix>,
    /// Where the running turn's own messages begin.
    own: usize,
    /// How much of it there may be.
    room: Option<Size>,
    /// Whether something has to go, whatever it takes.
    presses: bool,
}

impl<'a> History<'a> {
    /// The history at the head, of which the model may read `most` tokens, all in all. `presses`: it can't stay as it is.
    pub(super) fn of(session: &'a Session, turn: &Turn, agent: Option<&Agent>, most: Option<u64>, presses: bool) -> Self {
        let path = path(session);
        let room = most.map(|most| Size::from_tokens(most) - besides(agent, &turn.client));
        let own = own(session, turn, &path);
        Self { session, path, own, room, presses }
    }

    /// A node's id.
    pub(super) fn id(&self, ix: Ix) -> NodeId {
        self.session.tree.id(ix)
    }

    /// The node before `from`.
    pub(super) fn before(&self, from: usize) -> Option<Ix> {
        from.checked_sub(1).map(|at| self.path[at])
    }

    /// The place after `to`, when that is on the path.
    pub(super) fn after(&self, to: Ix) -> Option<usize> {
        self.path.iter().rposition(|&ix| ix == to).map(|at| at + 1)
    }

    /// Whether a place is outside of the running turn, or its beginning.
    pub(super) fn keeps_turn(&self, from: usize) -> bool {
        from <= self.own
    }

    /// The place from which everything is kept: at most so many turns before the running one, as far as they take no more than half of
    /// the room, and fewer when nothing would go otherwise. The running turn is kept whole unless it leaves too little room. Nothing:
    /// nothing can go.
    pub fn cut(&self, keep_turns: u32) -> Option<usize> {
        let room = self.room.map_or(u64::MAX, Size::characters);
        let mut from = self.own;
        for start in self.starts().take(keep_turns as usize) {
            if self.size(start).characters() > room / 2 {
                break;
            }
            from = start;
        }
        if from == self.own && self.size(from).characters() > room - room / 8 {
            from = self.inside(room / 2).unwrap_or(from);
        }
        let from = self.settled(from);
        if self.shortens(from) || !self.presses {
            return Some(from).filter(|&from| self.shortens(from));
        }
        let starts: Vec<usize> = self.starts().collect();
        let places = starts.into_iter().rev().chain([self.own]).chain(self.inside(room / 2));
        places.map(|place| self.settled(place)).find(|&place| self.shortens(place))
    }

    /// `from` with the calls of what is kept; the running turn is not cut where nothing of it would go.
    fn settled(&self, from: usize) -> usize {
        let from = self.with_calls(from);
        if from > self.own && self.messages(self.own, from) == self.messages_of(self.pinned(from)) { self.own } else { from }
    }

    /// Whether a cut at `from` leaves anything out.
    fn shortens(&self, from: usize) -> bool {
        self.messages(self.first(), from) > self.messages_of(self.pinned(from))
    }

    fn messages(&self, from: usize, to: usize) -> usize {
        self.messages_of(self.path.get(from..to).unwrap_or_default())
    }

    fn messages_of(&self, nodes: &[Ix]) -> usize {
        nodes.iter().filter(|&&ix| self.session.tree.node(ix).kind == NodeKind::Message).count()
    }

    /// The messages that are kept when the history is cut at `from`. Inside the running turn what the user asked is kept too.
    pub fn kept(&self, from: usize) -> Vec<Kept> {
        let kept = self.pinned(from).iter().chain(&self.path[from.min(self.path.len())..]);
        kept.filter(|&&ix| self.session.tree.node(ix).kind == NodeKind::Message).map(|&ix| Kept::Copy(ix)).collect()
    }

    /// The user's messages that the running turn begins with, when they stand before `from`: they are kept wherever the turn is cut.
    fn pinned(&self, from: usize) -> &[Ix] {
        let own = self.path.get(self.own..from).unwrap_or_default();
        let is_custom = |ix: Ix| self.session.tree.node(ix).kind == NodeKind::Custom;
        let end = own.iter().position(|&ix| !self.is_user(ix) && !is_custom(ix)).unwrap_or(own.len());
        &own[..end]
    }

    fn is_user(&self, ix: Ix) -> bool {
        is_user(self.session, ix)
    }

    /// The first place after the epoch.
    fn first(&self) -> usize {
        self.path.first().map_or(0, |&root| usize::from(self.session.tree.node(root).kind == NodeKind::Epoch))
    }

    /// How much a model reads from a place on.
    fn size(&self, from: usize) -> Size {
        self.path[from..].iter().map(|&ix| self.session.tree.node(ix).size).sum()
    }

    /// Where turns before the running one begin, the last one first: at a user's message that doesn't follow another. What joined a
    /// turn, or happened meanwhile, begins none.
    fn starts(&self) -> impl Iterator<Item = usize> + '_ {
        (self.first()..self.own).rev().filter(|&at| self.is_user(self.path[at]) && self.is_start(at))
    }

    fn is_start(&self, at: usize) -> bool {
        let ix = self.path[at];
        let before = self.path[..at].iter().rfind(|&&ix| self.session.tree.node(ix).kind != NodeKind::Custom);
        match (self.turn_of(ix), before) {
            (_, Some(&before)) if self.is_user(before) => false,
            (Some(turn), Some(&before)) => self.turn_of(before).as_ref() != Some(&turn),
            // What came with a fork says nothing of its turns.
            (None, _) => !self.session.tree.node(ix).is_event,
            (Some(_), None) => true,
        }
    }

    /// The turn that recorded a message.
    fn turn_of(&self, ix: Ix) -> Option<TurnId> {
        self.session.recorded_by(self.session.tree.node(ix).original)
    }

    /// A place inside the running turn, before a reply, after which there is no more than `most`; else before the last reply.
    fn inside(&self, most: u64) -> Option<usize> {
        let is_reply = |ix: Ix| {
            let node = self.session.tree.node(ix);
            node.kind == NodeKind::Message && node.role == Role::Assistant
        };
        let mut last = None;
        let mut size = Size::ZERO;
        for at in (self.own + 1..self.path.len()).rev() {
            size += self.session.tree.node(self.path[at]).size;
            if is_reply(self.path[at]) {
                if last.is_some() && size.characters() > most {
                    break;
                }
                last = Some(at);
            }
        }
        last
    }

    /// `from`, or the place of a reply before it whose results come after it.
    fn with_calls(&self, mut from: usize) -> usize {
        let tree = &self.session.tree;
        let original = |at: usize| tree.node(self.path[at]).original;
        let mut there: HashSet<Ix> = (from..self.path.len()).map(original).collect();
        let mut at = self.path.len();
        while at > from {
            at -= 1;
            let reply = tree.answers(original(at)).and_then(|id| tree.call(&id)).map(|called| tree.node(called.reply).original);
            if let Some(reply) = reply.filter(|reply| !there.contains(reply))
                && let Some(above) = (self.first()..from).rev().find(|&above| original(above) == reply)
            {
                there.extend((above..from).map(original));
                (from, at) = (above, self.path.len());
            }
        }
        from
    }
}

fn is_user(session: &Session, ix: Ix) -> bool {
    let node = session.tree.node(ix);
    node.kind == NodeKind::Message && node.role == Role::User
}

/// Where the running turn's own messages begin: with the question that it answers. One that goes on from somewhere else than a user's
/// message goes on with the turn that left off there.
fn own(session: &Session, turn: &Turn, path: &[Ix]) -> usize {
    let tree = &session.tree;
    let is_own = |ix: Ix| {
        let node = tree.node(ix);
        match node.kind {
            NodeKind::Message => node.vertex != turn.began && tree.readings().extends(node.vertex, turn.began),
            NodeKind::Epoch => false,
            NodeKind::Custom => true,
        }
    };
    let since = path.iter().rposition(|&ix| !is_own(ix)).map_or(0, |at| at + 1);
    let mut own = since;
    let mut asked = false;
    for (at, &ix) in path[..since].iter().enumerate().rev() {
        match tree.node(ix).kind {
            NodeKind::Epoch => break,
            NodeKind::Message if is_user(session, ix) => (own, asked) = (at, true),
            NodeKind::Message if asked => break,
            NodeKind::Message => own = at,
            NodeKind::Custom => {}
        }
    }
    own
}
