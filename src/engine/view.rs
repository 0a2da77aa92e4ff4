//! Reconciling a view: the messages that a client holds are matched, by id, with the tree; what is left is news. Reads the index
//! only, and costs O(view). Writes nothing: [`Reconciled`] says what would be written and where.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::news::Collector;
use super::reading::{EMPTY, Ix, Name, Vertex};
use super::tree::Tree;
use crate::ids::NodeId;
use crate::protocol::{Code, Digest, Ignored, IgnoredReason, Message, PartialView, Refusal, Role, SameIdEdit, ViewOptions};

/// The most reader views that a walk keeps.
const CANDIDATES_MAX: usize = 16;
/// The most ids of implied messages that are reported.
const IMPLIED_MAX: usize = 100;

/// A client's view, made ready: contents are hashed once, here.
#[derive(Clone, Debug)]
pub struct View {
    /// In the client's order.
    pub messages: Vec<Message>,
    digests: Vec<Digest>,
}

impl View {
    /// Makes `messages` ready.
    pub fn new(messages: Vec<Message>) -> Self {
        let hashed = |message: &Message| match message.role {
            Role::User => message.digest(),
            Role::Assistant | Role::Tool | Role::System | Role::Developer | Role::Reasoning | Role::Activity => Digest::default(),
        };
        let digests = messages.iter().map(hashed).collect();
        Self { messages, digests }
    }

    /// A hash over the whole: ids, roles, and what users say.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        for (message, digest) in self.messages.iter().zip(&self.digests) {
            let id = message.id.as_ref().map_or("", NodeId::as_str);
            let call = message.tool_call_id.as_ref().map_or("", |id| id.as_str());
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
}

/// Reconciles `view` with the tree whose head is `head`.
pub fn reconcile(tree: &Tree, head: Option<Ix>, view: &View, options: ViewOptions) -> Result<Reconciled, Refusal> {
    refuse_twice(view)?;
    let mut walk = Walk::new(tree, head, options.same_id_edit);
    let mut from = 0;
    while from < view.messages.len() && walk.step(from, &view.messages[from], view.digests[from]) {
        from += 1;
    }
    let vertex = walk.at();
    let (implied, implied_count) = walk.implied(vertex);
    let lost = !walk.matched && from < view.messages.len() && !tree.is_empty();
    let appended = lost && options.partial_view == PartialView::Append && names_nothing(tree, view);
    let (landing, under) = if appended { (head, tree.vertex(head)) } else { (tree.land(vertex, head), vertex) };
    let mut news = Collector::new(tree, under, options.same_id_edit, walk.results, walk.ignored, walk.ignored_edits);
    for index in from..view.messages.len() {
        news.take(index, &view.messages[index], view.digests[index])?;
    }
    let (results, list) = news.drop_second_results(view);
    let first = results.iter().copied().chain((!list.is_empty()).then_some(from)).min();
    Ok(Reconciled {
        landing,
        news: results.into_iter().map(News::Result).chain(list.iter().copied()).collect(),
        new_from: first.unwrap_or(view.messages.len()),
        implied,
        implied_count,
        ignored: news.ignored,
        ignored_edits: news.ignored_edits,
        root_branch: lost && !appended && !list.is_empty(),
        appended,
    })
}

fn names_nothing(tree: &Tree, view: &View) -> bool {
    !view.messages.iter().any(|message| {
        message.id.as_ref().is_some_and(|id| tree.known(id).is_some())
            || message.tool_call_id.as_ref().is_some_and(|id| tree.call(id).is_some())
    })
}

fn refuse_twice(view: &View) -> Result<(), Refusal> {
    let mut seen: HashSet<&str, RandomState> = HashSet::with_capacity_and_hasher(view.messages.len(), RandomState::default());
    for (index, message) in view.messages.iter().enumerate() {
        if let Some(id) = &message.id
            && !seen.insert(id.as_str())
        {
            let text = format!("messages[{index}] has the id {id}, which stands earlier in the same view; give each message its own id");
            return Err(Refusal::new(Code::DuplicateMessageId, text).with("index", index).with("id", id.as_str()));
        }
    }
    Ok(())
}

/// What a message of a view is, before its place is asked.
pub(super) enum Meaning {
    /// It stands for a recorded name.
    Known(Name),
    /// It answers an open call of the reply that has this name.
    Answer(Name),
    /// It is passed over; a reason is worth telling.
    Passed(Option<IgnoredReason>),
    /// A client wrote it. `edit_of`: under a recorded id.
    New {
        /// What it edits under the same id.
        edit_of: Option<Name>,
    },
}

/// What `message` is.
pub(super) fn meaning(tree: &Tree, message: &Message, digest: Digest, same_id_edit: SameIdEdit) -> (Meaning, bool) {
    let known = message.id.as_ref().and_then(|id| tree.known(id));
    let found = match message.role {
        Role::User => match known {
            None => Meaning::New { edit_of: None },
            Some(name) => return meaning_of_user(tree, name, digest, same_id_edit),
        },
        Role::Assistant => match known.or_else(|| parent_named_by_call(tree, message)) {
            Some(name) => Meaning::Known(name),
            None => Meaning::Passed(Some(IgnoredReason::NotFromClients)),
        },
        Role::Tool => meaning_of_result(tree, message, known),
        Role::System | Role::Developer => Meaning::Passed(Some(IgnoredReason::Instructions)),
        Role::Reasoning => Meaning::Passed(reasoning_of_nobody(tree, message).then_some(IgnoredReason::NotFromClients)),
        Role::Activity => Meaning::Passed(None),
    };
    (found, false)
}

/// Ids decide, unless edits under the same id are taken. The flag: its content differs from the recorded one.
fn meaning_of_user(tree: &Tree, name: Name, digest: Digest, same_id_edit: SameIdEdit) -> (Meaning, bool) {
    let differs = tree.named(name).is_some_and(|ix| tree.node(ix).role == Role::User && tree.node(ix).digest != digest);
    match (differs, same_id_edit) {
        (false, _) => (Meaning::Known(name), false),
        (true, SameIdEdit::Ignore) => (Meaning::Known(name), true),
        (true, SameIdEdit::Fork) => match tree.edit(name, digest) {
            Some(edit) => (Meaning::Known(edit), false),
            None => (Meaning::New { edit_of: Some(name) }, false),
        },
    }
}

/// Results go by their call, before their id.
fn meaning_of_result(tree: &Tree, message: &Message, known: Option<Name>) -> Meaning {
    let named = |ix: Ix| tree.known(&tree.node(ix).id);
    let called = message.tool_call_id.as_ref().and_then(|id| tree.call(id));
    match called {
        Some(called) => match (called.result.and_then(named), called.open, named(called.reply)) {
            (Some(result), _, _) => Meaning::Known(result),
            (None, true, Some(reply)) => Meaning::Answer(reply),
            (None, _, _) => Meaning::Passed(Some(IgnoredReason::CallNotOpen)),
        },
        None => known.map_or(Meaning::Passed(Some(IgnoredReason::CallNotOpen)), Meaning::Known),
    }
}

/// Some clients make up an assistant message that has its call's id.
fn parent_named_by_call(tree: &Tree, message: &Message) -> Option<Name> {
    let id = message.id.as_ref()?;
    let called = tree.call(&id.as_str().into())?;
    tree.known(&tree.node(called.reply).id)
}

/// Whether a reasoning message belongs to no reply that is known here.
fn reasoning_of_nobody(tree: &Tree, message: &Message) -> bool {
    let reply = message.id.as_ref().and_then(|id| id.as_str().split_once(":reasoning")).map(|(reply, _)| NodeId::from(reply));
    message.id.is_some() && reply.is_none_or(|reply| tree.known(&reply).is_none())
}

/// The walk along a view: the reader views that fit so far, best first.
struct Walk<'a> {
    tree: &'a Tree,
    head: Vertex,
    same_id_edit: SameIdEdit,
    fits: Vec<Vertex>,
    matched: bool,
    /// Steps over messages that the view doesn't name: what fitted before, what after.
    gaps: Vec<(Vec<Vertex>, Vec<Vertex>)>,
    /// Names that came later than their place.
    late: Vec<Name>,
    results: Vec<usize>,
    ignored: Vec<Ignored>,
    ignored_edits: Vec<NodeId>,
}

impl<'a> Walk<'a> {
    fn new(tree: &'a Tree, head: Option<Ix>, same_id_edit: SameIdEdit) -> Self {
        Self {
            tree,
            head: tree.vertex(head),
            same_id_edit,
            fits: vec![EMPTY],
            matched: false,
            gaps: Vec::new(),
            late: Vec::new(),
            results: Vec::new(),
            ignored: Vec::new(),
            ignored_edits: Vec::new(),
        }
    }

    /// Where the walk is: the best that fits.
    fn at(&self) -> Vertex {
        self.fits[0]
    }

    /// Takes one message; `false` when the news begins with it.
    fn step(&mut self, index: usize, message: &Message, digest: Digest) -> bool {
        let (found, differs) = meaning(self.tree, message, digest, self.same_id_edit);
        match found {
            Meaning::Known(name) => {
                let fits = self.follow(name);
                if fits && differs {
                    self.ignored_edits.extend(message.id.clone());
                }
                fits
            }
            Meaning::Answer(reply) => {
                let fits = self.follow(reply);
                if fits {
                    self.results.push(index);
                }
                fits
            }
            Meaning::Passed(reason) => {
                self.ignored.extend(reason.map(|reason| Ignored { index, id: message.id.clone(), reason }));
                true
            }
            Meaning::New { .. } => false,
        }
    }

    /// Goes on to a name's place, or passes over it where it was walked already or has no place yet.
    fn follow(&mut self, name: Name) -> bool {
        let readings = self.tree.readings();
        let (own, more) = self.tree.places(name);
        if let (Some(place), [], [at]) = (own, more, self.fits.as_slice()) {
            if readings.parent(place) == *at {
                self.fits[0] = place;
                self.matched = true;
                return true;
            }
        }
        let places: Vec<Vertex> = own.into_iter().chain(more.iter().copied()).collect();
        if places.is_empty() {
            return true;
        }
        let onward: Vec<Vertex> =
            places.iter().copied().filter(|&place| self.fits.iter().any(|&at| place != at && readings.extends(place, at))).collect();
        if !onward.is_empty() {
            self.go(onward);
            return true;
        }
        let walked: Vec<Vertex> = self.fits.iter().copied().filter(|&at| places.iter().any(|&place| readings.extends(at, place))).collect();
        if walked.is_empty() {
            return false;
        }
        self.fits = walked;
        self.late.push(name);
        self.matched = true;
        true
    }

    fn go(&mut self, mut onward: Vec<Vertex>) {
        let (tree, head) = (self.tree, self.head);
        let readings = tree.readings();
        if onward.len() > 1 {
            onward.sort_unstable_by_key(|&place| std::cmp::Reverse((readings.extends(head, place), readings.newest(place))));
            onward.dedup();
            onward.truncate(CANDIDATES_MAX);
        }
        let adjacent = onward.iter().all(|&place| self.fits.contains(&readings.parent(place)));
        let before = std::mem::replace(&mut self.fits, onward);
        if self.matched && !(adjacent && self.fits.len() == 1) {
            self.gaps.push((before, self.fits.clone()));
        }
        self.matched = true;
    }

    /// What the view leaves out between the messages that it names, now that its end is known.
    fn implied(&self, end: Vertex) -> (Vec<NodeId>, usize) {
        let readings = self.tree.readings();
        let (mut ids, mut count) = (Vec::new(), 0);
        for (before, after) in &self.gaps {
            let Some(&lower) = after.iter().find(|&&place| readings.extends(end, place)) else { continue };
            let Some(&upper) = before.iter().find(|&&at| at != lower && readings.extends(lower, at)) else { continue };
            let between = readings.depth(lower) - readings.depth(upper) - 1;
            let steps = readings.up(lower).skip(1).take(between as usize);
            count += between as usize;
            let shown = steps.map(|place| readings.shown(place)).filter(|name| !self.late.contains(name));
            ids.extend(shown.take(IMPLIED_MAX.saturating_sub(ids.len())).map(|name| self.tree.name_id(name).clone()));
        }
        let late = self.late.iter().filter(|&&name| self.in_a_gap(name, end)).count();
        (ids, count.saturating_sub(late))
    }

    fn in_a_gap(&self, name: Name, end: Vertex) -> bool {
        let readings = self.tree.readings();
        let (own, more) = self.tree.places(name);
        let place = own.into_iter().chain(more.iter().copied()).find(|&place| readings.extends(end, place));
        place.is_some_and(|place| {
            self.gaps.iter().any(|(before, after)| {
                after.iter().any(|&lower| lower != place && readings.extends(lower, place))
                    && before.iter().any(|&upper| upper != place && readings.extends(place, upper))
            })
        })
    }
}
