//! Writing records: ids from the stamp, each node below the one before; a turn's beginning and its end. Knows what the records so
//! far have changed: whether a turn is there, who waits, what the path has gained.

mod arrivals;
mod follow;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::arrivals::Arrival;
use super::context::{self, Agent, Caller, Load, Need};
use super::job::Job;
use super::queue::Queued;
use super::reading::Ix;
use super::record::{
    About, Body, CallStarted, CallVoided, ContextLimited, HeadMoved, MessageNew, Reads, Record, TurnCancelled, TurnCompleted, TurnFailed,
    TurnStarted,
};
use super::session::Session;
use super::state::Has;
use super::tree::size_of;
use super::turn::{Call, Held, Turn, Wish};
use super::{Context, News, View};
use crate::ids::{AgentId, CallId, Millis, NodeId, ToolCallId, TurnId};
use crate::protocol::{CancelReason, Code, Content, KeptReason, Message, Part, PartKind, Role, Size, Usage};

/// Records in the making.
pub(super) struct Writer<'a> {
    session: &'a Session,
    pub(super) context: &'a Context,
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
    /// How much a model reads at `parent`.
    load: Load,
    /// Which state, and which overrides, `parent` has; and what nodes have that were written, or at which some were.
    has: Has,
    has_of: HashMap<Option<NodeId>, Has>,
    /// What waits for a model call.
    arrivals: VecDeque<Arc<Arrival>>,
    /// Of that, what becomes the next turn, as the one that it joined ends.
    released: Vec<Arc<Arrival>>,
    /// Whether the call that begins next is one in which an agent goes on with what it began.
    pub(super) goes_on: bool,
    pub(super) records: Vec<Record>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(session: &'a Session, context: &'a Context) -> Self {
        let mut writer = Self {
            session,
            context,
            made: 0,
            parent: None,
            gained: HashSet::new(),
            answered: HashSet::new(),
            is_busy: session.turn.is_some(),
            gone: 0,
            load: Load::default(),
            has: Has::of(session, None),
            has_of: HashMap::new(),
            arrivals: session.arrivals.iter().cloned().collect(),
            released: Vec::new(),
            goes_on: false,
            records: Vec::new(),
        };
        writer.go_to(session.head);
        writer
    }

    /// The session as it is without these records.
    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    /// What is configured of an agent.
    pub(super) fn agent(&self, id: &AgentId) -> Option<&'a Agent> {
        self.context.agents.get(id)
    }

    /// The time.
    pub(super) fn now(&self) -> Millis {
        self.context.stamp.now
    }

    /// The background job, unless these records end it.
    pub(super) fn job(&self) -> Option<&'a Job> {
        let fails = |body: &Body| matches!(body, Body::JobFailed(failed) if failed.not_before.is_none());
        let ends = |record: &Record| fails(&record.body) || matches!(record.body, Body::JobDropped(_));
        self.session.job.as_ref().filter(|_| !self.records.iter().any(ends))
    }

    /// How much a model reads where the next node attaches.
    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// The next node attaches to this one.
    pub(super) fn go_to(&mut self, at: Option<Ix>) {
        let tree = &self.session.tree;
        self.parent = at.map(|at| tree.id(at));
        self.has = self.has_of.get(&self.parent).copied().unwrap_or_else(|| Has::of(self.session, at));
        self.load = at.map_or(Load::default(), |at| {
            let node = tree.node(at);
            Load { read: node.load, reported: node.reported }
        });
    }

    /// The next node attaches to the node with this id: one of the session's, or the last one that was written.
    pub(super) fn attach_to(&mut self, at: Option<NodeId>) {
        if self.parent != at {
            self.go_to(at.and_then(|at| self.session.tree.find(&at)));
        }
    }

    /// The next node is a root.
    pub(super) fn start_over(&mut self) {
        self.go_to(None);
    }

    pub(super) fn fresh(&mut self) -> String {
        self.made += 1;
        self.context.stamp.id(self.made - 1)
    }

    pub(super) fn push(&mut self, body: Body) {
        self.records.push(Record { at: self.context.stamp.now, body });
    }

    /// The head goes to where the next node attaches, which is a node of the session, or nowhere.
    pub(super) fn head_moved(&mut self, moved: HeadMoved) {
        let (to, seen) = (self.parent.clone(), self.seen());
        let reads_as = (seen != to).then_some(seen);
        self.push(Body::HeadMoved(HeadMoved { to, reads_as, ..moved }));
    }

    /// The last node that people see where the next node attaches.
    pub(super) fn seen(&self) -> Option<NodeId> {
        let tree = &self.session.tree;
        let mut at = self.parent.clone();
        while let Some(id) = &at {
            let Some(new) = self.written(id) else { return tree.seen_at(tree.find(id)) };
            match &new.reads_as {
                Some(to) => at = to.clone(),
                None if new.shown_id().is_some() => break,
                None => at = new.parent.clone(),
            }
        }
        at
    }

    /// The node with this id, as it is written in these records.
    fn written(&self, id: &NodeId) -> Option<&MessageNew> {
        self.records
            .iter()
            .rev()
            .find_map(|record| if let Body::MessageNew(new) = &record.body { Some(&**new) } else { None }.filter(|new| new.id == *id))
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
        let size = self.size(&new);
        self.copy_of(new, size);
    }

    /// Writes a node of which a model reads so much.
    pub(super) fn copy_of(&mut self, new: MessageNew, size: Size) {
        if let Some(reads_as) = &new.reads_as {
            self.has = self.has_at(reads_as.as_ref());
        }
        self.parent = Some(new.id.clone());
        self.has_of.insert(self.parent.clone(), self.has);
        self.load.read += size;
        self.gained.insert(new.copied_from.as_ref().unwrap_or(&new.id).clone());
        self.answered.extend(new.message.as_ref().and_then(|message| message.tool_call_id.clone()));
        self.push(Body::MessageNew(Box::new(new)));
    }

    /// What a place has.
    fn has_at(&self, at: Option<&NodeId>) -> Has {
        let of_session = || Has::of(self.session, at.and_then(|id| self.session.tree.find(id)));
        self.has_of.get(&at.cloned()).copied().unwrap_or_else(of_session)
    }

    /// What the place has where the next node attaches.
    pub(super) fn has(&self) -> Has {
        self.has
    }

    /// A version was written where the next node attaches.
    pub(super) fn put_has(&mut self, put: impl FnOnce(&mut Has)) {
        put(&mut self.has);
        self.has_of.insert(self.parent.clone(), self.has);
    }

    /// A model reads `now` where it read `was` before.
    pub(super) fn reads_instead(&mut self, was: Size, now: Size) {
        self.load.read = self.load.read.instead(was, now);
    }

    /// How much a model reads of a node.
    pub(super) fn size(&self, new: &MessageNew) -> Size {
        let tree = &self.session.tree;
        let original = || new.copied_from.as_ref().and_then(|id| tree.find(id)).map_or(Size::ZERO, |ix| tree.node(ix).size);
        new.message.as_ref().map_or_else(original, |message| size_of(new.kind, message, new.is_event))
    }

    /// Writes a reply. Its model has read the path, as `usage` says.
    pub(super) fn reply(&mut self, new: MessageNew, usage: Option<&Usage>) {
        if let Some(tokens) = usage.and_then(Usage::read) {
            self.load = Load { read: Size::from_tokens(tokens), reported: true };
        }
        self.node(new);
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
        let waited = |id: &NodeId| self.session.queue.bringing(id).is_some() || self.session.arrivals.bringing(id).is_some();
        let waits = |id: &NodeId| self.waiting().any(|queued| queued.brings(id)) || self.brings(id);
        let given_up = |id: &NodeId| waited(id) && !waits(id);
        let is_free = |id: &NodeId| tree.known(id).is_none() || (tree.find(id).is_none() && given_up(id));
        let id = id.filter(|&id| is_free(id)).cloned();
        id.unwrap_or_else(|| self.fresh().into())
    }

    /// Begins a turn and, when a reply is due, its first call; else it ends at once.
    pub(super) fn begin(&mut self, started: TurnStarted, reply: bool) {
        let TurnStarted { turn_id, agent_id, client, .. } = started.clone();
        self.push(Body::TurnStarted(Box::new(started)));
        self.take_client_state(&agent_id, &client);
        let caller = Caller { turn_id: &turn_id, agent_id: &agent_id, client: &client };
        if self.ask_about_messages(&caller, reply) {
            self.is_busy = true;
        } else if reply {
            self.is_busy = true;
            // A turn that is there ends in this append: there is no pause.
            let rested = self.session.rested.filter(|_| self.session.turn.is_none());
            let idle = rested.map(|rested| self.context.stamp.now.saturating_sub(rested));
            self.next_call(&caller, idle, false, Wish::default());
        } else {
            self.push(Body::TurnCompleted(TurnCompleted { turn_id }));
        }
    }

    /// Begins a turn's next call, or holds it until there is room.
    pub(super) fn next_call(&mut self, caller: &Caller<'_>, idle: Option<Millis>, stuck: bool, wish: Wish) {
        context::adopt(self, caller);
        let Caller { turn_id, agent_id, client } = *caller;
        let agent = self.agent(agent_id);
        let need = Need { tokens: self.load_with_oldest().tokens(agent, client), idle };
        let call_id = CallId::from(self.fresh());
        match agent.filter(|_| !stuck).and_then(|agent| agent.applies(&need)) {
            None => {
                let arrivals = self.that_fit(agent, client);
                self.begin_call(turn_id.clone(), call_id, 1, wish, Reads::Path, arrivals);
            }
            Some((strategy, reason)) => {
                self.push(Body::ContextLimited(ContextLimited {
                    turn_id: turn_id.clone(),
                    call_id,
                    reason,
                    strategy: Some(strategy),
                    tokens: need.tokens,
                    window: agent.and_then(|agent| agent.window),
                    llm: wish.llm,
                    model: wish.model,
                }));
                self.ask(caller, About::Limit, true);
            }
        }
    }

    /// Begins the call that was held, as it was to be made.
    pub(super) fn begin_held(&mut self, turn: &Turn, held: &Held) {
        self.begin_held_as(turn, held, held.wish.clone(), Reads::Path);
    }

    /// Begins the call that was held.
    pub(super) fn begin_held_as(&mut self, turn: &Turn, held: &Held, wish: Wish, reads: Reads) {
        let attempts = held.begun.as_ref().map_or(0, |(attempts, _)| *attempts);
        let arrivals = self.read_by(turn, &reads);
        self.begin_call(turn.id.clone(), held.id.clone(), attempts + 1, wish, reads, arrivals);
    }

    /// Begins a call that reads what a worker gives.
    pub(super) fn begin_given(&mut self, turn: &Turn, wish: Wish, reads: Reads) {
        let call_id = CallId::from(self.fresh());
        let arrivals = self.read_by(turn, &reads);
        self.begin_call(turn.id.clone(), call_id, 1, wish, reads, arrivals);
    }

    /// How many of what waits a call reads. A worker that gives a call its messages has seen what was shown to it.
    fn read_by(&self, turn: &Turn, reads: &Reads) -> u32 {
        match reads {
            Reads::Path => self.that_fit(self.agent(&turn.agent_id), &turn.client),
            Reads::Summary(_) | Reads::Messages(_) => self.still_read(),
        }
    }

    /// Begins an attempt of a call that people see.
    fn begin_call(&mut self, turn_id: TurnId, call_id: CallId, attempt: u32, wish: Wish, reads: Reads, arrivals: u32) {
        let (reply_id, Wish { llm, model }) = (NodeId::from(self.fresh()), wish);
        let (started, goes_on) = (CallStarted::of_path(turn_id, call_id, attempt, reply_id), std::mem::take(&mut self.goes_on));
        self.push(Body::CallStarted(CallStarted { llm, model, reads, arrivals, goes_on, ..started }));
    }

    /// The turn's results are complete: its next call begins, unless it made too many.
    pub(super) fn proceed(&mut self, turn: &Turn) {
        // What pauses it is answered first.
        if !turn.interrupts.is_empty() {
            return;
        }
        if self.ask_about_results(turn, true) {
            return;
        }
        if self.may_call(turn) {
            return self.next_call(&turn.caller(), None, turn.stuck, Wish::default());
        }
        self.too_many_calls(turn);
    }

    /// Whether the turn may call a model once more.
    pub(super) fn may_call(&self, turn: &Turn) -> bool {
        turn.calls < self.context.policy.calls_per_turn_max
    }

    /// The turn fails: it asked for too much.
    pub(super) fn too_many_calls(&mut self, turn: &Turn) {
        let message = format!("the turn made {} model calls, the most that are allowed", turn.calls);
        self.fail(turn, Code::TooManyCalls, message);
    }

    /// Ends the turn well; while a message waits that joins it, it goes on.
    pub(super) fn complete(&mut self, turn: &Turn) {
        if self.steers() && self.may_call(turn) {
            if self.ask_about_messages(&turn.caller(), true) {
                return;
            }
            return self.next_call(&turn.caller(), None, turn.stuck, Wish::default());
        }
        self.end(turn);
    }

    /// Ends the turn well, after its worker was asked, if it wants to be.
    pub(super) fn end(&mut self, turn: &Turn) {
        if !self.ask(&turn.caller(), About::End, false) {
            self.close(turn);
        }
    }

    /// The turn ends well now; the messages that waited to join it become the next one.
    pub(super) fn close(&mut self, turn: &Turn) {
        self.release();
        self.push(Body::TurnCompleted(TurnCompleted { turn_id: turn.id.clone() }));
        self.is_busy = false;
        self.go_on();
    }

    /// Ends the turn badly.
    pub(super) fn fail(&mut self, turn: &Turn, code: Code, message: String) {
        self.release();
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
            llm: call.llm.clone(),
            model: call.model.clone(),
            reads: call.reads.clone(),
            arrivals: call.arrivals,
            goes_on: call.goes_on,
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
        self.keep_history(turn, KeptReason::Cancelled);
        self.close_interrupts(turn);
        self.release();
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
        self.give_up_steering(CancelReason::BranchLeft);
        self.stop(turn, reason, true);
        self.give_up_waiting();
    }

    /// The turns that wait are given up: the branch is left.
    pub(super) fn give_up_waiting(&mut self) {
        for queued in self.waiting() {
            self.give_up(queued, Some(CancelReason::BranchLeft));
        }
        self.gone = self.session.queue.len();
    }

    /// No turn is there any more.
    pub(super) fn nobody_runs(&mut self) {
        self.is_busy = false;
    }

    /// A turn is there.
    pub(super) fn somebody_runs(&mut self) {
        self.is_busy = true;
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
