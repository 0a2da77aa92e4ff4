//! The tool calls that replies ask for, and the results that came. May not know where they stand in the tree.

use super::chain::NONE;
use super::names::{Apart, Names};
use super::reading::{Ix, Name};
use super::rows::Rows;
use super::sheets::Table;
use crate::ids::ToolCallId;

/// A tool call of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// The reply that asks.
    pub reply: Ix,
    /// The result, once recorded.
    pub result: Option<Ix>,
    /// Whether a result may still come, from a client or from outside.
    pub open: bool,
    /// Whether Headwater has it carried out: its result comes from there alone.
    pub taken: bool,
}

/// The tool calls of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    names: Names,
    /// By name: the reply, and the result or `NONE`. Replies are added one after another, so that a reply's calls stand together.
    calls: Rows<[Ix; 2]>,
    /// Results, in order, and the calls that they answer.
    answers: Rows<[u32; 2]>,
    open: Vec<ToolCallId>,
    /// Of the open ones, those that Headwater has carried out.
    taken: Vec<ToolCallId>,
}

impl Asked {
    /// A reply asks. A call that was asked for before stays that of its first reply.
    pub(super) fn ask(&mut self, id: &ToolCallId, reply: Ix, open: bool) {
        if !self.names.name(id.as_str()).1 {
            return;
        }
        self.calls.push([reply, NONE]);
        if open {
            self.open.push(id.clone());
        }
    }

    /// A result came. Of several the first one counts.
    pub(super) fn answer(&mut self, id: &ToolCallId, result: Ix) {
        let Some(name) = self.names.get(id.as_str()) else { return };
        let [reply, first] = self.calls.at(name);
        if first == NONE {
            self.calls.set(name, [reply, result]);
        }
        self.answers.push([result, name]);
        self.open.retain(|open| open != id);
        self.taken.retain(|taken| taken != id);
    }

    /// Headwater has an open call carried out.
    pub(super) fn take(&mut self, id: &ToolCallId) {
        if self.open.contains(id) && !self.taken.contains(id) {
            self.taken.push(id.clone());
        }
    }

    /// Before it is stored.
    pub(super) fn tidy(&mut self) {
        self.names.tidy();
    }

    /// What is stored of it in sheets.
    pub(super) fn tables(&mut self) -> Vec<&mut dyn Table> {
        let mut tables: Vec<&mut dyn Table> = self.names.tables().into();
        tables.extend([&mut self.calls as &mut dyn Table, &mut self.answers]);
        tables
    }

    /// After other sheets were put in; whether they fit together.
    pub(super) fn restore(&mut self, open: Vec<ToolCallId>) -> bool {
        self.open = open;
        self.names.restore(Apart::default()) && self.names.len() == self.calls.len()
    }

    /// From now on results come of these calls only.
    pub(super) fn leave_open(&mut self, calls: Vec<ToolCallId>) {
        self.taken.retain(|taken| calls.contains(taken));
        self.open = calls;
    }

    /// Calls whose results may still come.
    pub(super) fn open(&self) -> &[ToolCallId] {
        &self.open
    }

    /// Those of them that Headwater doesn't have carried out.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &ToolCallId> {
        self.open.iter().filter(|open| !self.taken.contains(open))
    }

    /// A call.
    pub(super) fn get(&self, id: &str) -> Option<Called> {
        self.names.get(id).map(|name| self.named(name))
    }

    fn named(&self, name: Name) -> Called {
        let [reply, result] = self.calls.at(name);
        let still = result == NONE && !self.open.is_empty();
        let id = if still { self.names.id(name) } else { String::new() };
        let is_among = |calls: &[ToolCallId]| still && calls.iter().any(|call| call.as_str() == id);
        let taken = is_among(&self.taken);
        let open = !taken && is_among(&self.open);
        Called { reply, result: Some(result).filter(|&result| result != NONE), open, taken }
    }

    /// The call that a result answers.
    pub(super) fn answered(&self, result: Ix) -> Option<ToolCallId> {
        self.answer_of(result).map(|name| self.names.id(name).into())
    }

    fn answer_of(&self, result: Ix) -> Option<Name> {
        let at = self.answers.partition_point(|[of, _]| of < result);
        self.answers.get(at).filter(|[of, _]| *of == result).map(|[_, name]| name)
    }

    /// The calls of the reply that a result belongs to.
    pub(super) fn beside(&self, result: Ix) -> impl Iterator<Item = Called> + '_ {
        let reply = self.answer_of(result).map(|name| self.calls.at(name)[0]);
        let first = reply.map_or(self.calls.len(), |reply| self.calls.partition_point(|[of, _]| of < reply));
        (first..self.calls.len()).take_while(move |&name| Some(self.calls.at(name)[0]) == reply).map(|name| self.named(name))
    }
}
