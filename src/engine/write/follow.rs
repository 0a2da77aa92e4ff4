//! Messages that follow the head, wherever that is: those of a `client.append`, at once or when the turn that waited begins.

use super::Writer;
use crate::engine::queue::Queued;
use crate::engine::reading::Ix;
use crate::engine::record::{MessageNew, TurnStarted};
use crate::ids::NodeId;
use crate::protocol::{Message, NodeKind, Role};

/// What came of messages that follow.
#[derive(Debug, Default)]
pub(in crate::engine) struct Followed {
    /// The ids of their nodes.
    pub(in crate::engine) nodes: Vec<NodeId>,
    /// Whether the last of them is a user's.
    pub(in crate::engine) asks: bool,
}

impl Writer<'_> {
    /// Writes messages below the head: one that is recorded elsewhere as a copy, one that is there already not at all.
    pub(in crate::engine) fn follow<'m>(&mut self, messages: impl IntoIterator<Item = &'m Message>) -> Followed {
        let tree = &self.session.tree;
        let mut followed = Followed::default();
        for message in messages {
            let id = message.id.clone().unwrap_or_else(|| self.fresh().into());
            let before = followed.nodes.len();
            if let Some(ix) = tree.find(&id) {
                self.copy(tree.node(ix).original, &mut followed.nodes);
            } else if !self.gained.contains(&id) && !self.has_result(message) {
                followed.nodes.push(id.clone());
                self.node(self.arrived(id, message));
            }
            if followed.nodes.len() > before && message.role != Role::Activity {
                followed.asks = message.role == Role::User;
            }
        }
        followed
    }

    fn arrived(&self, id: NodeId, message: &Message) -> MessageNew {
        MessageNew {
            kind: if message.role == Role::Activity { NodeKind::Custom } else { NodeKind::Message },
            // What came from elsewhere was answered there, or never is.
            sealed: !message.tool_calls.is_empty(),
            ..MessageNew::plain(id, self.parent.clone(), message.clone())
        }
    }

    /// Writes a copy of a recorded message, unless it is there already. A result brings the reply that asked for it.
    fn copy(&mut self, original: Ix, nodes: &mut Vec<NodeId>) {
        if self.is_there(original) {
            return;
        }
        let tree = &self.session.tree;
        if let Some(called) = tree.answers(original).and_then(|id| tree.call(&id)) {
            self.copy(tree.node(called.reply).original, nodes);
        }
        let (kind, from, id) = (tree.node(original).kind, tree.id(original), NodeId::from(self.fresh()));
        let shown = (kind == NodeKind::Message).then(|| from.clone());
        nodes.push(id.clone());
        self.node(MessageNew { kind, ..MessageNew::copy(id, self.parent.clone(), from, shown) });
    }

    /// Whether readers see a node at the head, or a copy of it.
    fn is_there(&self, original: Ix) -> bool {
        self.gained.contains(&self.session.tree.id(original)) || self.session.sees(original)
    }

    /// Whether the head has a result of the call that a result answers: the first one stays.
    fn has_result(&self, message: &Message) -> bool {
        let Some(id) = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool) else { return false };
        let tree = &self.session.tree;
        let result = tree.call(id).and_then(|called| called.result);
        self.answered.contains(id) || result.is_some_and(|result| self.is_there(tree.node(result).original))
    }

    /// No turn is there: what waited to join it begins one, then those that wait, until one asks for a reply.
    pub(in crate::engine) fn go_on(&mut self) {
        self.begin_released();
        while !self.is_busy
            && let Some(queued) = self.waiting().next()
        {
            self.gone += 1;
            let asks = self.follow(queued.messages.iter().map(AsRef::as_ref)).asks;
            let Queued { id, agent_id, digest, client, .. } = queued.clone();
            self.begin(TurnStarted { turn_id: id, agent_id, digest, client }, queued.run.unwrap_or(asks));
        }
        self.begin_for_arrival();
    }
}
