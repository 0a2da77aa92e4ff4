//! Reconciling a view: the messages that a client holds are matched, by id, with the tree; what is left is news. Reads the index
//! only, and costs O(view). Writes nothing: [`Reconciled`] says what would be written and where.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::names::Wanted;
use super::news::Collector;
use super::reading::{Ix, Name};
use super::tree::Tree;
use super::walk::{Step, Walk};
use crate::ids::NodeId;
use crate::protocol::{Code, Digest, Ignored, Message, PartialView, Refusal, Role, ViewOptions};

/// A client's view, made ready: contents are hashed once, here.
#[derive(Clone, Debug)]
pub struct View {
    /// In the client's order.
    pub messages: Vec<Message>,
    keys: Vec<Key>,
}

/// What reconciling reads of most messages, side by side.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) id: Option<NodeId>,
    /// The same, made ready.
    pub(super) wanted: Wanted,
    pub(super) role: Role,
    /// Of a user's message: what it says.
    pub(super) digest: Digest,
}

impl View {
    /// Makes `messages` ready.
    pub fn new(messages: Vec<Message>) -> Self {
        let key = |message: &Message| {
            let digest = if message.role == Role::User { message.digest() } else { Digest::default() };
            let wanted = Wanted::new(message.id.as_ref().map_or("", NodeId::as_str));
            Key { id: message.id.clone(), wanted, role: message.role, digest }
        };
        let keys = messages.iter().map(key).collect();
        Self { messages, keys }
    }

    /// A hash over the whole: ids, roles, what users say, and results.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for (message, key) in self.messages.iter().zip(&self.keys) {
            let id = message.id.as_ref().map_or("", NodeId::as_str);
            let call = message.tool_call_id.as_ref().map_or("", |id| id.as_str());
            let digest = if message.role == Role::Tool { message.digest() } else { key.digest };
            hasher.update(&[message.role as u8]).update(id.as_bytes()).update(b"\0").update(call.as_bytes()).update(&digest.0);
        }
        Digest::of(&hasher)
    }
}

/// Something to write below the landing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The result of an open call: the view's message at this index.
    Result(usize),
    /// The view's message at this index; `edit_of`: it came under the id of that recorded message.
    Message {
        /// Its index.
        index: usize,
        /// What it edits under the same id.
        edit_of: Option<Name>,
    },
    /// A copy of a recorded node.
    Copy(Ix),
}

/// What a view comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// The node that the view lands on; none: the empty path.
    pub landing: Option<Ix>,
    /// What is to be written, in order, each below the one before.
    pub news: Vec<News>,
    /// Index of the first new message; the view's length when nothing is new.
    pub new_from: usize,
    /// Recorded messages between those named (at most 100).
    pub implied: Vec<NodeId>,
    /// How many in all.
    pub implied_count: usize,
    /// Messages that a client may not write.
    pub ignored: Vec<Ignored>,
    /// Known user messages whose content differs.
    pub ignored_edits: Vec<NodeId>,
    /// Whether the view shares nothing with a tree that has nodes.
    pub root_branch: bool,
    /// Whether the view was read as messages that follow the head.
    pub appended: bool,
    /// Whether results stand there that the view doesn't name.
    pub behind: bool,
}

/// Reconciles `view` with the tree whose head is `head`.
pub fn reconcile(tree: &Tree, head: Option<Ix>, view: &View, options: ViewOptions) -> Result<Reconciled, Refusal> {
    reconcile_without(tree, head, view, options, |_| false)
}

/// The same, without ids that have no node and are `given_up`: they name nothing.
pub(super) fn reconcile_without(
    tree: &Tree,
    head: Option<Ix>,
    view: &View,
    options: ViewOptions,
    given_up: impl Fn(&NodeId) -> bool,
) -> Result<Reconciled, Refusal> {
    let known = |key: &Key| {
        let id = key.id.as_ref()?;
        tree.known_wanted(&key.wanted, id).filter(|&name| tree.named(name).is_some() || !given_up(id))
    };
    // All at once, so that the processor waits for several at a time.
    let names: Vec<Option<Name>> = view.keys.iter().map(known).collect();
    let mut walk = Walk::new(tree, head, options.same_id_edit);
    let mut unsure = Unsure::default();
    let mut from = 0;
    for (key, &known) in view.keys.iter().zip(&names) {
        if !walk.goes_on(key, known) {
            match walk.step(from, &view.messages[from], key.digest, known) {
                Step::On => {}
                Step::Over => unsure.add(from, known),
                Step::News => break,
            }
        }
        from += 1;
    }
    for (index, &known) in names.iter().enumerate().skip(from) {
        unsure.add(index, known);
    }
    unsure.refuse_twice(view)?;
    let (implied, implied_count) = walk.implied();
    let end = view.messages.len();
    let found_nothing = !walk.matched;
    let lost = found_nothing && from < end && !tree.is_empty();
    let answers = answers_open_call(tree, view);
    let is_new = names.iter().all(Option::is_none) && (answers || !calls_any(tree, view));
    let appended = lost && options.partial_view == PartialView::Append && is_new;
    let walk_end = walk.at();
    let under = match (appended, answers) {
        (true, _) => tree.vertex(head),
        (false, true) => tree.below_results(walk_end, tree.vertex(head)),
        (false, false) => walk_end,
    };
    let mut news = Collector::new(tree, under, options.same_id_edit, &given_up, walk.met);
    for (index, message) in view.messages.iter().enumerate().skip(from) {
        news.take(index, message, view.keys[index].digest, names[index])?;
    }
    let (results, written) = news.finish(view)?;
    let at_head = appended || (found_nothing && written.is_empty()) || (answers && under == tree.vertex(head));
    let first = results.iter().copied().chain((!written.is_empty()).then_some(from)).min();
    Ok(Reconciled {
        landing: if at_head { head } else { tree.land(under, head) },
        root_branch: lost && !appended && !written.is_empty(),
        news: results.into_iter().map(News::Result).chain(written).collect(),
        new_from: first.unwrap_or(end),
        implied,
        implied_count,
        ignored: news.ignored,
        ignored_edits: news.ignored_edits,
        appended,
        behind: !appended && under != walk_end,
    })
}

fn answers_open_call(tree: &Tree, view: &View) -> bool {
    let open = |message: &Message| message.tool_call_id.as_ref().and_then(|id| tree.call(id)).is_some_and(|called| called.open);
    !tree.open_calls().is_empty() && view.messages.iter().any(open)
}

fn calls_any(tree: &Tree, view: &View) -> bool {
    view.messages.iter().any(|message| message.tool_call_id.as_ref().is_some_and(|id| tree.call(id).is_some()))
}

/// Messages whose ids may stand twice. A message that the walk went on to by its id can't: no reader view holds an id twice.
#[derive(Default)]
struct Unsure {
    indices: Vec<usize>,
    any_known: bool,
}

impl Unsure {
    fn add(&mut self, index: usize, known: Option<Name>) {
        self.indices.push(index);
        self.any_known |= known.is_some();
    }

    /// A known id among them may be that of any message; unknown ones are only compared with each other.
    fn refuse_twice(&self, view: &View) -> Result<(), Refusal> {
        if self.any_known {
            return refuse_twice(view, 0..view.messages.len());
        }
        if self.indices.len() > 1 { refuse_twice(view, self.indices.iter().copied()) } else { Ok(()) }
    }
}

fn refuse_twice(view: &View, indices: impl ExactSizeIterator<Item = usize>) -> Result<(), Refusal> {
    let mut seen: HashSet<&str, RandomState> = HashSet::with_capacity_and_hasher(indices.len(), RandomState::default());
    for index in indices {
        if let Some(id) = &view.messages[index].id
            && !seen.insert(id.as_str())
        {
            let text = format!("messages[{index}] has the id {id}, which stands earlier in the same view; give each message its own id");
            return Err(Refusal::new(Code::DuplicateMessageId, text).with("index", index).with("id", id.as_str()));
        }
    }
    Ok(())
}
