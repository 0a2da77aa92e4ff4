//! Made-up front ends: two or three tabs, each with its own list, that send, edit, switch and forget as real ones do.

use std::collections::HashMap;

use headwater::engine;
use headwater::engine::record::Body;
use headwater::ids::NodeId;
use headwater::protocol::{Accepted, Code, Message, NodeKind, OnBusy, PartialView, Refusal, Role, SameIdEdit, ViewOptions};

use crate::talk::{Asked, Talk, listed};

/// A message that a tab holds, and the id under which readers see it, when it is a node.
#[derive(Clone, Debug)]
pub struct Held {
    pub message: Message,
    pub real: Option<NodeId>,
}

/// A front end.
#[derive(Clone, Debug)]
pub struct Tab {
    pub list: Vec<Held>,
    pub options: ViewOptions,
    /// Whether the list is, message for message, one that was recorded.
    pub exact: bool,
    /// The id that it gives a result.
    pub result_ids: u8,
}

/// A session, its twin, and their front ends.
pub struct World {
    pub talk: Talk,
    pub twin: Talk,
    pub tabs: Vec<Tab>,
    /// The tab whose turn runs or was the last to run.
    pub acting: usize,
    /// Ids of attempts that the running call gave up.
    pub abandoned: Vec<NodeId>,
    pub made: u32,
    pub numbers: [u8; 6],
    pub taken: usize,
    /// Whether it tells what happens.
    pub aloud: bool,
    /// What becomes of a submit while a turn is there.
    pub on_busy: OnBusy,
    /// The twin's ids, when it makes others.
    pub others: Option<Others>,
}

/// What the session calls otherwise than its twin.
#[derive(Default)]
pub struct Others {
    there: HashMap<NodeId, NodeId>,
    here: HashMap<NodeId, NodeId>,
    /// So many nodes that readers see are known in both.
    known: usize,
}

impl World {
    pub fn new() -> Self {
        let tab = |n: u8| Tab {
            list: Vec::new(),
            options: ViewOptions {
                same_id_edit: if n == 2 { SameIdEdit::Fork } else { SameIdEdit::Ignore },
                partial_view: if n == 1 { PartialView::Append } else { PartialView::Root },
            },
            exact: true,
            result_ids: n,
        };
        let tabs = (0..3).map(tab).collect();
        let (talk, twin) = (Talk::default(), Talk::default());
        Self {
            talk,
            twin,
            tabs,
            acting: 0,
            abandoned: Vec::new(),
            made: 0,
            numbers: [0; 6],
            taken: 0,
            aloud: false,
            on_busy: OnBusy::Refuse,
            others: None,
        }
    }

    /// The next number below `below`.
    pub fn number(&mut self, below: usize) -> usize {
        self.taken += 1;
        let n = usize::from(self.numbers[self.taken % 6]) + 7 * (self.taken / 6);
        n % below.max(1)
    }

    pub fn chance(&mut self, of: usize) -> bool {
        self.number(of) == 0
    }

    pub fn fresh(&mut self, stem: &str) -> String {
        self.made += 1;
        format!("{stem}{}", self.made)
    }

    pub fn both<T>(&mut self, act: impl Fn(&mut Talk) -> T) {
        act(&mut self.talk);
        act(&mut self.twin);
    }

    /// Submits a list to both: the same answer, and a refusal writes nothing. Whether it was taken.
    pub fn submit(&mut self, tab: usize, list: &[Held], run: Option<bool>) -> bool {
        let (messages, list, whole) = self.quirky(list);
        let (options, on_busy) = (self.tabs[tab].options, self.on_busy);
        let asked = Asked { options, run, on_busy, ..Asked::view(messages).with_tools(&["pick"]) };
        let written = (self.talk.session.turn.is_some() && self.chance(2)).then(|| Message::text(Role::Assistant, "half"));
        let written = written.filter(|_| self.shows_a_reply());
        let reply = self.shown_reply();
        let before = (self.talk.session.seq, self.twin.session.seq);
        (self.talk.written, self.twin.written) = (written.clone(), written.clone());
        if self.aloud {
            eprintln!("tab {tab} sends [{}]", brief(&asked.messages));
        }
        let for_twin = self.for_twin(&asked);
        let came = self.talk.submit(&asked);
        if self.never_fits(&came, before.0) {
            return false;
        }
        let twin = self.twin.submit(&for_twin);
        let ((records, accepted), (_, other)) = match (came, twin) {
            (Err(refusal), Err(other)) => {
                assert_eq!((refusal.code, &refusal.details.get("index")), (other.code, &other.details.get("index")));
                assert_eq!((self.talk.session.seq, self.twin.session.seq), before, "a refusal writes nothing");
                assert!(on_busy != OnBusy::Refuse || matches!(refusal.code, Code::TurnAlreadyActive), "{refusal}");
                return false;
            }
            (Ok(came), Ok(twin)) => (came, twin),
            (came, twin) => panic!("{came:?} and {twin:?}"),
        };
        self.learn();
        self.learn_waiting(&accepted, &other);
        assert_eq!(self.told(&accepted, NodeId::clone), self.told(&other, |id| self.here(id)), "the same answer");
        if records.iter().any(|record| matches!(record.body, Body::TurnCancelled(_))) {
            self.left(reply, written.as_ref());
        }
        self.acting = tab;
        self.abandoned.clear();
        self.tabs[tab].list = list;
        if accepted.queued {
            self.tabs[tab].exact = false;
            return true;
        }
        let nameless = self.tabs[tab].list.iter().any(|held| held.message.id.is_none());
        if nameless || accepted.resync {
            self.adopt(tab);
        } else if whole && self.tabs[tab].exact && self.tabs[tab].list.iter().any(|held| held.real.is_some()) {
            let real: Vec<NodeId> = self.tabs[tab].list.iter().filter_map(|held| held.real.clone()).collect();
            let mut reads: Vec<NodeId> = messages_of(&self.twin).iter().map(|id| self.here(id)).collect();
            if self.twin.session.is_waiting() && reads.starts_with(&real) {
                // Results that the tab doesn't hold are there all the same.
                let tree = &self.talk.session.tree;
                let more = reads.split_off(real.len());
                assert!(more.iter().all(|id| tree.find(id).is_some_and(|ix| tree.node(ix).role == Role::Tool)), "{more:?}");
            }
            assert_eq!(reads, real, "the head reads what the person sees");
        } else {
            self.tabs[tab].exact = false;
        }
        true
    }

    /// Whether what came can never fit the session's window. The twin has none.
    fn never_fits(&mut self, came: &Result<(Vec<headwater::engine::Record>, Accepted), Refusal>, before: u64) -> bool {
        let too_large = came.as_ref().is_err_and(|refusal| refusal.code == Code::ArrivalTooLarge);
        assert!(!too_large || self.talk.session.seq == before, "a refusal writes nothing");
        if too_large {
            self.twin.written = None;
        }
        too_large
    }

    /// Both take an input that isn't a front end's: the same comes of it, and who asked last shows the conversation as it is now.
    pub fn both_take(&mut self, asked: &Asked) {
        let seq = self.talk.session.seq;
        let came = self.talk.submit(asked);
        if self.never_fits(&came, seq) {
            return;
        }
        let twin = self.twin.submit(&self.for_twin(asked));
        assert_eq!(came.as_ref().err().map(|one| one.code), twin.as_ref().err().map(|one| one.code), "the same answer");
        self.learn();
        let (Ok((_, accepted)), Ok((_, other))) = (came, twin) else { return };
        self.learn_waiting(&accepted, &other);
        if !accepted.queued && self.talk.session.seq > seq {
            self.abandoned.clear();
            let acting = self.acting;
            self.adopt(acting);
        }
    }

    /// Of what waits, ids are known before there are nodes.
    fn learn_waiting(&mut self, accepted: &Accepted, other: &Accepted) {
        let Some(others) = &mut self.others else { return };
        for (one, other) in accepted.recorded.iter().zip(&other.recorded) {
            others.there.insert(one.clone(), other.clone());
            others.here.insert(other.clone(), one.clone());
        }
    }

    /// The running turn was left: its tab holds what it saw of the reply.
    pub fn left(&mut self, reply: Option<NodeId>, written: Option<&Message>) {
        if let (Some(reply), Some(seen)) = (reply, written) {
            let message = seen.clone().with_id(reply.clone());
            self.tabs[self.acting].list.push(Held { message, real: Some(reply) });
        }
    }

    /// The tab takes the conversation as the session gives it.
    pub fn adopt(&mut self, tab: usize) {
        let seen = self.talk.snapshot().into_iter().filter(|message| message.role != Role::Activity);
        self.tabs[tab].list = seen.map(|message| Held { real: message.id.clone(), message }).collect();
        self.tabs[tab].exact = true;
    }

    /// The list as a front end sends it, what of it it remembers, and whether every message is there, in its place.
    pub fn quirky(&mut self, list: &[Held]) -> (Vec<Message>, Vec<Held>, bool) {
        let mut sent: Vec<Message> = Vec::new();
        let (reasons, forgets, greets) = (self.chance(3), self.chance(4), self.chance(4));
        let (mut remembered, mut whole) = (Vec::new(), true);
        let tree = &self.talk.session.tree;
        let known: Vec<bool> = list.iter().map(|held| held.real.as_ref().is_some_and(|real| tree.find(real).is_some())).collect();
        let newest = known.iter().rposition(|&known| known);
        for (n, held) in list.iter().enumerate() {
            if forgets && known[n] && Some(n) != newest && self.chance(3) {
                whole = false;
                continue;
            }
            remembered.push(held.clone());
            if reasons && held.message.role == Role::Assistant {
                let reply = held.message.id.as_ref().map_or("", NodeId::as_str);
                let id = if self.chance(2) { format!("{reply}:reasoning-1") } else { self.fresh("thought") };
                sent.push(Message::text(Role::Reasoning, "hm").with_id(id.as_str().into()));
            }
            sent.push(held.message.clone());
        }
        if self.chance(3) {
            for at in 1..sent.len() {
                let result = sent[at].role == Role::Tool && matches!(sent[at - 1].role, Role::Tool | Role::Assistant);
                if result && self.chance(2) {
                    sent.swap(at - 1, at);
                    whole = false;
                }
            }
        }
        if greets {
            let (greeting, rules) = (self.fresh("greeting"), self.fresh("rules"));
            sent.insert(0, Message::text(Role::Assistant, "welcome").with_id(greeting.as_str().into()));
            let at = self.number(sent.len());
            sent.insert(at, Message::text(Role::System, "rules").with_id(rules.as_str().into()));
        }
        (sent, remembered, whole)
    }

    pub fn user(&mut self) -> Held {
        let id = self.fresh("u");
        let text = self.long(&format!("says {id}"));
        let message = Message::text(Role::User, text);
        if self.chance(8) {
            return Held { message, real: None };
        }
        Held { message: message.with_id(id.as_str().into()), real: Some(id.as_str().into()) }
    }

    /// Whether people see the running call's reply.
    pub fn shows_a_reply(&self) -> bool {
        self.talk.session.turn.as_ref().and_then(|turn| turn.call.as_ref()).is_some_and(|call| !call.hidden)
    }

    /// The id of the running reply, when people see it.
    pub fn shown_reply(&self) -> Option<NodeId> {
        self.talk.reply_id().filter(|_| self.shows_a_reply())
    }

    /// A node's id as the twin has it.
    pub fn there(&self, id: &NodeId) -> NodeId {
        let Some(others) = &self.others else { return id.clone() };
        let (stem, thought) = id.as_str().split_once(":reasoning").map_or((id.as_str(), None), |(stem, rest)| (stem, Some(rest)));
        let there = others.there.get(stem).map_or(stem, NodeId::as_str);
        thought.map_or_else(|| there.into(), |rest| format!("{there}:reasoning{rest}").as_str().into())
    }

    /// One of the twin's ids as the session has it.
    pub fn here(&self, id: &NodeId) -> NodeId {
        self.others.as_ref().and_then(|others| others.here.get(id)).unwrap_or(id).clone()
    }

    /// A submit as the twin gets it.
    pub fn for_twin(&self, asked: &Asked) -> Asked {
        let there = |message: &Message| Message { id: message.id.as_ref().map(|id| self.there(id)), ..message.clone() };
        Asked { messages: asked.messages.iter().map(there).collect(), ..asked.clone() }
    }

    /// An answer in words that both have.
    fn told(&self, accepted: &Accepted, here: impl Fn(&NodeId) -> NodeId) -> Accepted {
        let all = |ids: &[NodeId]| ids.iter().map(&here).collect();
        let (recorded, implied, ignored_edits) = (all(&accepted.recorded), all(&accepted.implied), all(&accepted.ignored_edits));
        let turn_id = if self.others.is_some() { "".into() } else { accepted.turn_id.clone() };
        Accepted { head_id: None, turn_id, recorded, implied, ignored_edits, ..accepted.clone() }
    }

    /// Learns how the twin calls what both have.
    pub fn learn(&mut self) {
        let Some(others) = &mut self.others else { return };
        let ids = |talk: &Talk| {
            let tree = &talk.session.tree;
            let all = 0..u32::try_from(tree.len()).unwrap();
            all.filter(|&ix| tree.node(ix).shown).map(|ix| tree.id(ix)).collect::<Vec<_>>()
        };
        let (here, there) = (ids(&self.talk), ids(&self.twin));
        assert_eq!(here.len(), there.len(), "readers find the same tree: {here:?}, {there:?}");
        let replies = self.talk.reply_id().zip(self.twin.reply_id());
        for (one, other) in here.iter().cloned().zip(there).skip(others.known).chain(replies) {
            others.there.insert(one.clone(), other.clone());
            others.here.insert(other, one);
        }
        others.known = here.len();
    }

    /// A text that takes some room.
    pub fn long(&mut self, text: &str) -> String {
        let some = if self.others.is_some() { [0, 0, 1, 5, 20, 80][self.number(6)] } else { 0 };
        text.to_owned() + &" and so on".repeat(some)
    }

    // What front ends do.

    pub fn send(&mut self) {
        let tab = self.number(3);
        let mut list = self.tabs[tab].list.clone();
        list.push(self.user());
        if self.chance(6) {
            list.push(self.user());
        }
        self.submit(tab, &list, None);
    }

    pub fn a_user_message(&mut self, tab: usize) -> Option<usize> {
        let list = &self.tabs[tab].list;
        let users: Vec<usize> = (0..list.len()).filter(|&n| list[n].message.role == Role::User).collect();
        let n = self.number(users.len());
        users.get(n).copied()
    }

    pub fn edit(&mut self, keeps_tail: bool) {
        let tab = self.number(3);
        let Some(at) = self.a_user_message(tab) else { return };
        let mut list = self.tabs[tab].list.clone();
        let edited = self.user();
        let tail = list.split_off(at);
        list.push(edited);
        if keeps_tail {
            list.extend(tail.into_iter().skip(1));
            if self.chance(2) {
                list.push(self.user());
            }
        }
        self.submit(tab, &list, None);
    }

    pub fn edit_under_the_same_id(&mut self) {
        let tab = 2 * self.number(2);
        let Some(at) = self.a_user_message(tab) else { return };
        let mut list = self.tabs[tab].list.clone();
        let text = format!("says otherwise {}", self.number(3));
        let id = list[at].message.id.clone();
        list[at].message = Message { id, ..Message::text(Role::User, text) };
        if self.tabs[tab].options.same_id_edit == SameIdEdit::Fork {
            // Under this id it holds another node's content; until it takes the whole again, its list isn't the recorded one.
            self.tabs[tab].exact = false;
        }
        if self.chance(2) {
            list.truncate(at + 1);
        } else {
            list.push(self.user());
        }
        self.submit(tab, &list, None);
    }

    pub fn regenerate(&mut self) {
        let tab = self.number(3);
        let Some(at) = self.a_user_message(tab) else { return };
        let list = self.tabs[tab].list[..=at].to_vec();
        self.submit(tab, &list, None);
    }

    pub fn rewind(&mut self) {
        let tab = self.number(3);
        let len = self.tabs[tab].list.len();
        let keep = self.number(len) + 1;
        let list = self.tabs[tab].list[..keep.min(len)].to_vec();
        let run = [None, Some(false)][self.number(2)];
        self.submit(tab, &list, run);
    }

    /// The tab shows another branch, as the tree endpoint lists it, and perhaps goes on there.
    pub fn switch(&mut self) {
        let tab = self.number(3);
        let (_, nodes) = listed(&self.talk.session);
        if nodes.is_empty() {
            return;
        }
        let to = nodes[self.number(nodes.len())].id.clone();
        let tree = &self.talk.session.tree;
        let up = tree.reader_up(tree.find(&to)).filter(|&ix| tree.node(ix).kind == NodeKind::Message);
        let said: HashMap<&NodeId, &Message> = nodes.iter().map(|node| (&node.id, &*node.message)).collect();
        let held = |ix: u32| {
            let shown = tree.shown_id(ix).clone();
            let message = said[&tree.id(ix)];
            Held { message: message.clone().with_id(shown.clone()), real: Some(shown) }
        };
        let mut list: Vec<Held> = up.map(held).collect();
        list.reverse();
        if self.talk.session.turn.is_none() && self.chance(3) {
            list.push(self.user());
        }
        let was = std::mem::replace(&mut self.tabs[tab].exact, true);
        if !self.submit(tab, &list, None) {
            self.tabs[tab].exact = was;
        }
    }

    pub fn reload(&mut self) {
        let tab = self.number(3);
        self.adopt(tab);
        self.acting = tab;
    }

    /// A front end that lost its list sends one message.
    pub fn lone_message(&mut self) {
        let tab = self.number(3);
        self.tabs[tab].exact = true;
        let list = vec![self.user()];
        assert!(self.submit(tab, &list, None), "no turn runs");
    }

    /// While a turn runs: its view again is refused, also with the reply so far.
    pub fn resend(&mut self) {
        let mut list = self.tabs[self.acting].list.clone();
        if let Some(reply) = self.shown_reply().filter(|_| self.chance(2)) {
            list.push(Held { message: Message::text(Role::Assistant, "ha").with_id(reply), real: None });
        }
        assert!(!self.submit(self.acting, &list, None), "the running turn's view is a resend");
    }
}

/// The messages that readers see at the head, by id.
fn messages_of(talk: &Talk) -> Vec<NodeId> {
    let tree = &talk.session.tree;
    let nodes = engine::reader_nodes(&talk.session).into_iter().filter(|&ix| tree.node(ix).kind == NodeKind::Message);
    nodes.map(|ix| tree.shown_id(ix).clone()).collect()
}

/// A view in short.
pub fn brief(messages: &[Message]) -> String {
    let one = |message: &Message| {
        let call = message.tool_call_id.as_ref().map(|id| format!("@{id}")).unwrap_or_default();
        format!("{}{call}", message.id.as_ref().map_or("_", NodeId::as_str))
    };
    messages.iter().map(one).collect::<Vec<_>>().join(" ")
}
