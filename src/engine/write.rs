//! Writing records: ids from the stamp, each node below the one before; a turn's beginning and its end. Knows what the records so
//! far have changed: whether a turn is there, who waits, what the path has gained.

mod follow;

use std::collections::HashSet;

use super::queue::Queued;
use super::record::{Body, CallStarted, CallVoided, MessageNew, Record, TurnCancelled, TurnCompleted, TurnFailed, TurnStarted};
use super::session::Session;
use super::turn::{Call, Turn};
use super::{Context, News, View};
use crate::ids::{CallId, NodeId, ToolCallId, TurnId};
use crate::protocol::{CancelReason, Code, Content, Message, Part, PartKind, Role};

/// Records in the making.
pub(super) struct Writer<'a> {
    session: &'a Session,
    context: &'a Context,
    made: u32,
    /// Where the next node attaches.
    pub(super) parent: Option<NodeId>,
    /// What readers see there that they didn't see at the session's head: ids, of copies those of the originals.
    gained: HashSet<NodeId>,
    /// Calls whose results are among that.
    answered: HashSet<ToolCallId>,
    /// Whether a turn is there.
    is_busy: bool,
    /// Of the turns that wait, so many have begun or were given up: the first ones.
    gone: usize,
    pub(super) records: Vec<Record>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(session: &'a Session, context: &'a Context) -> Self {
        let parent = session.head.map(|head| session.tree.id(head));
        let is_busy = session.turn.is_some();
        Self { session, context, made: 0, parent, gained: HashSet::new(), answered: HashSet::new(), is_busy, gone: 0, records: Vec::new() }
    }

    pub(super) fn fresh(&mut self) -> String {
        self.made += 1;
        self.context.stamp.id(self.made - 1)
    }

    pub(super) fn push(&mut self, body: Body) {
        self.records.push(Record { at: self.context.stamp.now, body });
    }

    /// Whether a turn is there.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The turns that wait, the next one first.
    pub(super) fn waiting(&self) -> impl DoubleEndedIterator<Item = &'a Queued> + ExactSizeIterator + use<'a> {
        self.session.queue.iter().skip(self.gone)
    }

    pub(super) fn node(&mut self, new: MessageNew) {
        self.parent = Some(new.id.clone());
        self.gained.insert(new.copied_from.as_ref().unwrap_or(&new.id).clone());
        self.answered.extend(new.message.as_ref().and_then(|message| message.tool_call_id.clone()));
        self.push(Body::MessageNew(Box::new(new)));
    }

    /// Writes what a view brings; the ids of its nodes.
    pub(super) fn news(&mut self, view: &View, news: &[News]) -> Vec<NodeId> {
        let mut nodes = Vec::with_capacity(news.len());
        for item in news {
            let parent = self.parent.clone();
            let new = match *item {
                News::Result(index) | News::Message { index, edit_of: None } => {
                    let message = &view.messages[index];
                    MessageNew::plain(self.free_id(message.id.as_ref()), parent, message.clone())
                }
                News::Message { index, edit_of: Some(name) } => MessageNew {
                    edit_of: Some(self.session.tree.name_id(name).clone()),
                    ..MessageNew::plain(self.fresh().into(), parent, view.messages[index].clone())
                },
                News::Copy(original) => {
                    let original = self.session.tree.id(original);
                    MessageNew::copy(self.fresh().into(), parent, original.clone(), Some(original))
                }
            };
            nodes.push(new.id.clone());
            self.node(new);
        }
        nodes
    }

    /// The id of a new node: the client's, when it names nothing, or a message that waited and was given up.
    pub(super) fn free_id(&mut self, id: Option<&NodeId>) -> NodeId {
        let tree = &self.session.tree;
        let given_up = |id: &NodeId| self.session.queue.bringing(id).is_some() && !self.waiting().any(|queued| queued.brings(id));
        let is_free = |id: &NodeId| tree.known(id).is_none() || (tree.find(id).is_none() && given_up(id));
        let id = id.filter(|&id| is_free(id)).cloned();
        id.unwrap_or_else(|| self.fresh().into())
    }

    /// Begins a turn and, when a reply is due, its first call; else it ends at once.
    pub(super) fn begin(&mut self, started: TurnStarted, reply: bool) {
        let turn_id = started.turn_id.clone();
        self.push(Body::TurnStarted(Box::new(started)));
        if reply {
            self.is_busy = true;
            self.next_call(turn_id);
        } else {
            self.push(Body::TurnCompleted(TurnCompleted { turn_id }));
        }
    }

    /// Begins a turn's next call.
    fn next_call(&mut self, turn_id: TurnId) {
        let (call_id, reply_id) = (CallId::from(self.fresh()), NodeId::from(self.fresh()));
        self.push(Body::CallStarted(CallStarted { turn_id, call_id, attempt: 1, reply_id, hidden: false }));
    }

    /// The turn's results are complete: its next call begins, unless it made too many.
    pub(super) fn proceed(&mut self, turn: &Turn) {
        if turn.calls < self.context.policy.calls_per_turn_max {
            return self.next_call(turn.id.clone());
        }
        let message = format!("the turn made {} model calls, the most that are allowed", turn.calls);
        self.fail(turn, Code::TooManyCalls, message);
    }

    /// Ends the turn well.
    pub(super) fn complete(&mut self, turn: &Turn) {
        self.push(Body::TurnCompleted(TurnCompleted { turn_id: turn.id.clone() }));
        self.is_busy = false;
        self.go_on();
    }

    /// Ends the turn badly.
    pub(super) fn fail(&mut self, turn: &Turn, code: Code, message: String) {
        self.push(Body::TurnFailed(TurnFailed { turn_id: turn.id.clone(), code, message }));
        self.is_busy = false;
        self.go_on();
    }

    /// Begins another attempt of a call.
    pub(super) fn next_attempt(&mut self, turn: &Turn, call: &Call) {
        let reply_id = NodeId::from(self.fresh());
        self.push(Body::CallStarted(CallStarted {
            turn_id: turn.id.clone(),
            call_id: call.id.clone(),
            attempt: call.attempt + 1,
            reply_id,
            hidden: call.hidden,
        }));
    }

    /// Stops the turn: what readers saw of its reply is kept, below the head or `aside`, and its call is nobody's any more. What
    /// follows the end is the caller's business.
    pub(super) fn stop(&mut self, turn: &Turn, reason: Option<CancelReason>, aside: bool) {
        if let Some(call) = &turn.call {
            if let Some(message) = self.context.written.clone().filter(|_| !call.hidden).and_then(kept) {
                let parent = self.parent.clone();
                let new = MessageNew {
                    partial: true,
                    aside,
                    call_id: Some(call.id.clone()),
                    ..MessageNew::plain(call.reply_id.clone(), parent, message)
                };
                if aside {
                    self.push(Body::MessageNew(Box::new(new)));
                } else {
                    self.node(new);
                }
            }
            self.push(Body::CallVoided(CallVoided { call_id: call.id.clone(), hidden: call.hidden }));
        }
        self.push(Body::TurnCancelled(TurnCancelled { turn_id: turn.id.clone(), reason, messages: Vec::new() }));
        self.is_busy = false;
    }

    /// A turn that waits is given up.
    pub(super) fn give_up(&mut self, queued: &Queued, reason: Option<CancelReason>) {
        let messages = queued.messages.iter().filter_map(|message| message.id.clone());
        // One that is a node is nobody's loss.
        let messages = messages.filter(|id| self.session.tree.find(id).is_none()).collect();
        self.push(Body::TurnCancelled(TurnCancelled { turn_id: queued.id.clone(), reason, messages }));
    }

    /// The head leaves the turn's branch: the turn is stopped, and those that waited for it are given up.
    pub(super) fn leave(&mut self, turn: &Turn, reason: Option<CancelReason>) {
        self.stop(turn, reason, true);
        for queued in self.waiting() {
            self.give_up(queued, Some(CancelReason::BranchLeft));
        }
        self.gone = self.session.queue.len();
    }
}

/// Of a reply that was cut short: its text and reasoning. Calls that were still being written are left out.
pub(super) fn kept(message: Message) -> Option<Message> {
    let says = |part: &Part| part.kind != PartKind::ToolCall && part.text.as_ref().is_some_and(|text| !text.is_empty());
    let content = match message.content? {
        Content::Text(text) => Some(Content::Text(text)).filter(|content| *content != Content::Text(String::new())),
        Content::Parts(parts) => {
            Some(parts.into_iter().filter(says).collect::<Vec<_>>()).filter(|parts| !parts.is_empty()).map(Content::Parts)
        }
        Content::Object(_) => None,
    }?;
    Some(Message { content: Some(content), ..Message::empty(Role::Assistant) })
}
