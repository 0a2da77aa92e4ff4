//! What a view adds below its landing: messages of the client's, copies of recorded ones (so that no branch is grafted onto
//! another), results of open calls.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::meaning::{Meaning, meaning};
use super::reading::{Ix, Name, Vertex};
use super::tree::Tree;
use super::view::{News, View};
use crate::ids::NodeId;
use crate::protocol::{Code, Digest, Ignored, IgnoredReason, Message, NodeKind, Refusal, SameIdEdit};

fn ignored(index: usize, message: &Message, reason: IgnoredReason) -> Ignored {
    Ignored { index, id: message.id.clone(), reason }
}

fn refuse_reserved(index: usize, message: &Message, edit_of: Option<Name>) -> Result<(), Refusal> {
    match &message.id {
        Some(id) if id.is_reserved() && edit_of.is_none() => {
            let text = format!(
                "messages[{index}] has the id {id}, which begins with Headwater's own prefix and names nothing in this session; \
                 send the message with an id of your own or without one"
            );
            Err(Refusal::new(Code::ReservedId, text).with("index", index).with("id", id.as_str()))
        }
        _ => Ok(()),
    }
}

/// What the walk met before the news: results of open calls, and what was passed over.
#[derive(Default)]
pub(super) struct Met {
    /// By index.
    pub(super) results: Vec<usize>,
    pub(super) ignored: Vec<Ignored>,
    pub(super) ignored_edits: Vec<NodeId>,
}

/// Gathers what is written, from the news' first message on.
pub(super) struct Collector<'a> {
    tree: &'a Tree,
    under: Vertex,
    same_id_edit: SameIdEdit,
    /// Ids that name nothing any more, and may come again.
    given_up: &'a dyn Fn(&NodeId) -> bool,
    written: HashSet<Name, RandomState>,
    list: Vec<News>,
    results: Vec<usize>,
    pub(super) ignored: Vec<Ignored>,
    pub(super) ignored_edits: Vec<NodeId>,
}

impl<'a> Collector<'a> {
    /// News below the reader view `under`, with what the walk met already.
    pub(super) fn new(
        tree: &'a Tree,
        under: Vertex,
        same_id_edit: SameIdEdit,
        given_up: &'a dyn Fn(&NodeId) -> bool,
        Met { results, ignored, ignored_edits }: Met,
    ) -> Self {
        Self { tree, under, same_id_edit, given_up, written: HashSet::default(), list: Vec::new(), results, ignored, ignored_edits }
    }

    /// Takes the view's message at `index`, whose own id stands for `known`.
    pub(super) fn take(&mut self, index: usize, message: &Message, digest: Digest, known: Option<Name>) -> Result<(), Refusal> {
        let (found, differs) = meaning(self.tree, message, digest, known, self.same_id_edit);
        match found {
            Meaning::Known(name) => {
                self.copy(name);
                if differs {
                    self.ignored_edits.extend(message.id.clone());
                }
            }
            Meaning::Answer(reply) if self.tree.is_in(self.under, reply) => self.results.push(index),
            Meaning::Answer(_) => self.ignored.push(ignored(index, message, IgnoredReason::CallNotOpen)),
            Meaning::Passed(reason) => self.ignored.extend(reason.map(|reason| ignored(index, message, reason))),
            Meaning::New { edit_of } => {
                if !message.id.as_ref().is_some_and(self.given_up) {
                    refuse_reserved(index, message, edit_of)?;
                }
                self.list.push(News::Message { index, edit_of });
            }
        }
        Ok(())
    }

    /// What is written: results of open calls (the first of each call wins), then the rest.
    pub(super) fn finish(&mut self, view: &View) -> Result<(Vec<usize>, Vec<News>), Refusal> {
        let mut answered = HashSet::new();
        let (first, second): (Vec<usize>, Vec<usize>) = std::mem::take(&mut self.results)
            .into_iter()
            .partition(|&index: &usize| answered.insert(view.messages[index].tool_call_id.as_ref()));
        self.ignored.extend(second.into_iter().map(|index| ignored(index, &view.messages[index], IgnoredReason::CallNotOpen)));
        for &index in &first {
            let message = &view.messages[index];
            if message.id.as_ref().is_some_and(|id| self.tree.known(id).is_none()) {
                refuse_reserved(index, message, None)?;
            }
        }
        Ok((first, std::mem::take(&mut self.list)))
    }

    /// Whether a name is in the reader view that is being written.
    fn is_there(&self, name: Name) -> bool {
        self.written.contains(&name) || self.tree.is_in(self.under, name)
    }

    /// A recorded message is copied, unless it is there already, has no node yet, or is for models only. A result brings the reply that asked for it.
    fn copy(&mut self, name: Name) {
        let Some(ix) = self.tree.named(name) else { return };
        let original = self.tree.node(ix).original;
        let node = self.tree.node(original);
        // What readers never see as a message isn't brought to light by a client that guesses its id.
        let to_see = node.shown && node.kind == NodeKind::Message;
        if !to_see || self.is_there(node.name) || self.is_there(name) {
            return;
        }
        if let Some(reply) = self.reply_of(original) {
            self.copy(reply);
        }
        self.written.insert(node.name);
        self.list.push(News::Copy(original));
    }

    /// The name of the reply whose call this node answers.
    fn reply_of(&self, result: Ix) -> Option<Name> {
        let called = self.tree.answers(result).and_then(|id| self.tree.call(&id))?;
        Some(self.tree.node(called.reply).name)
    }
}
