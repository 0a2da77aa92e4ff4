//! The tree's tool calls: who asks, what came, what may still come. May not know turns.

use super::Tree;
use crate::engine::asked::Called;
use crate::engine::reading::{Ix, Vertex};
use crate::ids::{NodeId, ToolCallId};

impl Tree {
    /// From now on results come of these calls only.
    pub fn leave_open(&mut self, calls: Vec<ToolCallId>) {
        self.asked.leave_open(calls);
    }

    /// Headwater has an open call carried out: nobody else answers it.
    pub(in crate::engine) fn take_call(&mut self, id: &ToolCallId) {
        self.asked.take(id);
    }

    /// A tool call.
    pub fn call(&self, id: &ToolCallId) -> Option<Called> {
        self.asked.get(id.as_str())
    }

    /// A tool call, by an id of another kind that may be its.
    pub fn call_like(&self, id: &NodeId) -> Option<Called> {
        self.asked.get(id.as_str())
    }

    /// The call that the result `ix` answers.
    pub fn answers(&self, ix: Ix) -> Option<ToolCallId> {
        self.asked.answered(ix)
    }

    /// Whether the reader view `vertex` holds a result for each call of the reply that the result `ix` belongs to. A call that
    /// ended without one counts as answered.
    pub fn completes(&self, vertex: Vertex, ix: Ix) -> bool {
        self.asked.beside(ix).all(|called| match called.result {
            Some(result) => self.is_in(vertex, self.node(result).name),
            None => !called.open && !called.taken,
        })
    }

    /// Calls whose results may still come, whoever carries them out.
    pub fn open_calls(&self) -> &[ToolCallId] {
        self.asked.open()
    }

    /// Those of them that wait for a client, or for somebody outside.
    pub fn awaited_calls(&self) -> Vec<ToolCallId> {
        self.asked.awaited().cloned().collect()
    }
}
