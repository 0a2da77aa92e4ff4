//! Laws that hold whatever front ends do. Made-up front ends (two or three tabs, each with its own list and its quirks) talk to a
//! session; hand-written compactions come in between. Beside it runs a twin that gets the same inputs and is never compacted.
//! `PROPTEST_CASES` and `HEADWATER_LAWS_SEED` run more, and others.

#[path = "laws/acts.rs"]
mod acts;

use std::collections::HashMap;

use headwater::engine::record::{Body, CallStarted, TurnCompleted, TurnStarted};
use headwater::engine::{self, Effect, MessageNew, News, View};
use headwater::ids::{NodeId, ToolCallId};
use headwater::protocol::{CallErrorKind, Client, Code, Digest, Message, NodeKind, PartialView, Role, SameIdEdit, ToolCall, ViewOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use crate::talk::{Asked, Talk, listed};

/// One thing that happens: what, and numbers that it takes as it needs them.
type Step = (u8, [u8; 6]);

#[test]
fn laws_hold_for_any_front_ends() {
    let seed = std::env::var("HEADWATER_LAWS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130);
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400);
    let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let steps = prop::collection::vec(any::<Step>(), 1..48);
    std::panic::set_hook(Box::new(|_| {}));
    let result = TestRunner::new(config).run(&steps, |steps| {
        play(&steps, false);
        Ok(())
    });
    drop(std::panic::take_hook());
    if let Err(failure) = result {
        if let TestError::Fail(_, steps) = &failure {
            play(steps, true);
        }
        panic!("{failure}");
    }
}

fn play(steps: &[Step], aloud: bool) {
    let mut world = World::new();
    world.aloud = aloud;
    for &step in steps {
        world.step(step);
    }
    world.talk.replays();
    world.twin.replays();
}

/// A message that a tab holds, and the id under which readers see it, when it is a node.
#[derive(Clone, Debug)]
struct Held {
    message: Message,
    real: Option<NodeId>,
}

/// A front end.
#[derive(Clone, Debug)]
struct Tab {
    list: Vec<Held>,
    options: ViewOptions,
    /// Whether the list is, message for message, one that was recorded.
    exact: bool,
    /// The id that it gives a result.
    result_ids: u8,
}

/// A session, its twin, and their front ends.
struct World {
    talk: Talk,
    twin: Talk,
    tabs: Vec<Tab>,
    /// The tab whose turn runs or was the last to run.
    acting: usize,
    /// Ids of attempts that the running call gave up.
    abandoned: Vec<NodeId>,
    made: u32,
    numbers: [u8; 6],
    taken: usize,
    /// Whether it tells what happens.
    aloud: bool,
}

impl World {
    fn new() -> Self {
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
        Self { talk, twin, tabs, acting: 0, abandoned: Vec::new(), made: 0, numbers: [0; 6], taken: 0, aloud: false }
    }

    /// The next number below `below`.
    fn number(&mut self, below: usize) -> usize {
        self.taken += 1;
        let n = usize::from(self.numbers[self.taken % 6]) + 7 * (self.taken / 6);
        n % below.max(1)
    }

    fn chance(&mut self, of: usize) -> bool {
        self.number(of) == 0
    }

    fn fresh(&mut self, stem: &str) -> String {
        self.made += 1;
        format!("{stem}{}", self.made)
    }

    fn step(&mut self, (what, numbers): Step) {
        (self.numbers, self.taken) = (numbers, 0);
        if self.talk.session.turn.is_none() {
            match what % 14 {
                0..=2 => self.send(),
                3 => self.edit(false),
                4 => self.edit(true),
                5 => self.regenerate(),
                6 => self.switch(),
                7 => self.rewind(),
                8 => self.reload(),
                9 => self.edit_under_the_same_id(),
                10 => self.custom(),
                11 => self.client_tools(),
                12 => self.lone_message(),
                _ => self.compact(),
            }
        } else {
            match what % 12 {
                0..=3 => self.finish(),
                4 => self.fail(),
                5 => self.both(Talk::recover),
                6 => self.cancel(),
                7 => self.resend(),
                8 => self.switch(),
                9 => self.send(),
                10 => self.custom(),
                _ => self.compact(),
            }
            if self.talk.session.turn.is_none() {
                self.reply_is_over();
            }
        }
        if self.aloud {
            let (head, nodes) = listed(&self.twin.session);
            eprintln!("step {what} {numbers:?}, tab {}:\n{}", self.acting, headwater::draw::draw(&nodes, head.as_ref()));
        }
        self.same_for_readers();
        if self.talk.session.turn.is_none() {
            self.what_is_held_is_known();
        }
    }

    fn both<T>(&mut self, act: impl Fn(&mut Talk) -> T) {
        act(&mut self.talk);
        act(&mut self.twin);
    }

    // What must hold.

    /// A compaction changes nothing for readers, and the model goes on with the end of what it read before.
    fn same_for_readers(&self) {
        let (talk, twin) = (&self.talk, &self.twin);
        let seen = |talk: &Talk| talk.snapshot().into_iter().filter(|message| message.role != Role::Activity).collect::<Vec<_>>();
        assert_eq!(seen(talk), seen(twin), "the conversation is the one without compaction");
        let places = |talk: &Talk| {
            let tree = &talk.session.tree;
            let row = |ix: u32| (tree.node(ix).id.clone(), tree.readings().depth(tree.node(ix).vertex));
            (0..u32::try_from(tree.len()).unwrap()).filter(|&ix| tree.node(ix).shown).map(row).collect::<Vec<_>>()
        };
        assert_eq!(places(talk), places(twin), "readers find the same tree");
        assert_eq!(talk.session.tree.open_calls(), twin.session.tree.open_calls());
        assert_eq!(
            engine::path(&twin.session).len(),
            engine::reader_nodes(&twin.session).len(),
            "without compaction the model reads it all"
        );
        let (read, whole) = (path(talk), path(twin));
        assert!(whole.ends_with(&read), "{read:?} isn't the end of {whole:?}");
        let prompt = engine::prompt(&talk.session).unwrap();
        for (at, message) in prompt.iter().enumerate().filter(|(_, message)| message.role == Role::Tool) {
            let asked = prompt[..at].iter().rev().find(|before| before.role != Role::Tool).unwrap();
            assert!(asked.tool_calls.iter().any(|call| Some(&call.id) == message.tool_call_id.as_ref()), "a result without its call");
        }
    }

    /// Submitting again what the front end holds, in whatever form, writes nothing and moves nothing.
    fn what_is_held_is_known(&mut self) {
        let tab = self.tabs[self.acting].clone();
        for plain in [true, false] {
            let messages: Vec<Message> =
                if plain { tab.list.iter().map(|held| held.message.clone()).collect() } else { self.quirky(&tab.list).0 };
            for run in [Some(false), None] {
                let asked = Asked { messages: messages.clone(), options: tab.options, turn_id: None, run };
                let written = self.talk.would_write(&asked);
                // Asked again for a reply that failed, what came with the failed one may be left behind.
                let again = written.iter().any(|body| matches!(body, Body::TurnStarted(_)));
                let moves = |body: &Body| matches!(body, Body::MessageNew(_)) || (!again && matches!(body, Body::HeadMoved(_)));
                assert!(!written.iter().any(moves), "[{}] writes {written:?}", brief(&messages));
                assert!(run.is_none() || written.is_empty(), "nothing is written");
            }
        }
    }

    /// Submits a list to both: the same answer, and a refusal writes nothing. Whether it was taken.
    fn submit(&mut self, tab: usize, list: &[Held], run: Option<bool>) -> bool {
        let (messages, list, whole) = self.quirky(list);
        let asked = Asked { messages, options: self.tabs[tab].options, turn_id: None, run };
        let written = (self.talk.session.turn.is_some() && self.chance(2)).then(|| Message::text(Role::Assistant, "half"));
        let reply = self.talk.reply_id();
        let before = (self.talk.session.seq, self.twin.session.seq);
        (self.talk.written, self.twin.written) = (written.clone(), written.clone());
        if self.aloud {
            eprintln!("tab {tab} sends [{}]", brief(&asked.messages));
        }
        let (came, twin) = (self.talk.submit(&asked), self.twin.submit(&asked));
        let ((records, accepted), (_, other)) = match (came, twin) {
            (Err(refusal), Err(other)) => {
                assert_eq!((refusal.code, &refusal.details.get("index")), (other.code, &other.details.get("index")));
                assert_eq!((self.talk.session.seq, self.twin.session.seq), before, "a refusal writes nothing");
                assert!(matches!(refusal.code, Code::TurnAlreadyActive), "{refusal}");
                return false;
            }
            (Ok(came), Ok(twin)) => (came, twin),
            (came, twin) => panic!("{came:?} and {twin:?}"),
        };
        let told = |accepted: &headwater::protocol::Accepted| headwater::protocol::Accepted { head_id: None, ..accepted.clone() };
        assert_eq!(told(&accepted), told(&other), "the same answer");
        if records.iter().any(|record| matches!(record.body, Body::TurnCancelled(_))) {
            self.left(reply, written.as_ref());
        }
        self.acting = tab;
        self.abandoned.clear();
        self.tabs[tab].list = list;
        let nameless = self.tabs[tab].list.iter().any(|held| held.message.id.is_none());
        if nameless || accepted.resync {
            self.adopt(tab);
        } else if whole && self.tabs[tab].exact && self.tabs[tab].list.iter().any(|held| held.real.is_some()) {
            let real: Vec<NodeId> = self.tabs[tab].list.iter().filter_map(|held| held.real.clone()).collect();
            assert_eq!(messages_of(&self.twin), real, "the head reads what the person sees");
        } else {
            self.tabs[tab].exact = false;
        }
        true
    }

    /// The running turn was left: its tab holds what it saw of the reply.
    fn left(&mut self, reply: Option<NodeId>, written: Option<&Message>) {
        if let (Some(reply), Some(seen)) = (reply, written) {
            let message = seen.clone().with_id(reply.clone());
            self.tabs[self.acting].list.push(Held { message, real: Some(reply) });
        }
    }

    /// The tab takes the conversation as the session gives it.
    fn adopt(&mut self, tab: usize) {
        let seen = self.talk.snapshot().into_iter().filter(|message| message.role != Role::Activity);
        self.tabs[tab].list = seen.map(|message| Held { real: message.id.clone(), message }).collect();
        self.tabs[tab].exact = true;
    }

    /// The list as a front end sends it, what of it it remembers, and whether every message is there, in its place.
    fn quirky(&mut self, list: &[Held]) -> (Vec<Message>, Vec<Held>, bool) {
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

    fn user(&mut self) -> Held {
        let id = self.fresh("u");
        let message = Message::text(Role::User, format!("says {id}"));
        if self.chance(8) {
            return Held { message, real: None };
        }
        Held { message: message.with_id(id.as_str().into()), real: Some(id.as_str().into()) }
    }
}

/// The messages that readers see at the head, by id.
fn messages_of(talk: &Talk) -> Vec<NodeId> {
    let tree = &talk.session.tree;
    let nodes = engine::reader_nodes(&talk.session).into_iter().filter(|&ix| tree.node(ix).kind == NodeKind::Message);
    nodes.map(|ix| tree.shown_id(ix).clone()).collect()
}

/// What a model reads word for word, by the originals' ids.
fn path(talk: &Talk) -> Vec<NodeId> {
    let tree = &talk.session.tree;
    let own = |&ix: &u32| {
        let id = tree.node(ix).id.as_str();
        tree.node(ix).kind == NodeKind::Message && !id.contains(".pin") && !id.contains(".note")
    };
    let original = |ix: u32| tree.node(tree.node(ix).original).id.clone();
    engine::path(&talk.session).into_iter().filter(own).map(original).collect()
}

/// A view in short.
fn brief(messages: &[Message]) -> String {
    let one = |message: &Message| {
        let call = message.tool_call_id.as_ref().map(|id| format!("@{id}")).unwrap_or_default();
        format!("{}{call}", message.id.as_ref().map_or("_", NodeId::as_str))
    };
    messages.iter().map(one).collect::<Vec<_>>().join(" ")
}
