//! Laws that hold whatever front ends do. Made-up front ends (two or three tabs, each with its own list and its quirks) talk to a
//! session; hand-written compactions come in between. Beside it runs a twin that gets the same inputs and is never compacted.
//! `PROPTEST_CASES` and `HEADWATER_LAWS_SEED` run more, and others.

use headwater::engine;
use headwater::engine::record::Body;
use headwater::ids::NodeId;
use headwater::protocol::{Message, NodeKind, Role};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use crate::front_ends::{World, brief};
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
impl World {
    fn step(&mut self, (what, numbers): Step) {
        (self.numbers, self.taken) = (numbers, 0);
        if self.talk.session.turn.is_none() {
            match what % 13 {
                0..=2 => self.send(),
                3 => self.edit(false),
                4 => self.edit(true),
                5 => self.regenerate(),
                6 => self.switch(),
                7 => self.rewind(),
                8 => self.reload(),
                9 => self.edit_under_the_same_id(),
                10 => self.custom(),
                11 => self.lone_message(),
                _ => self.compact(),
            }
        } else {
            match what % 12 {
                0..=3 => self.finish(),
                4 => self.fail(),
                5 => self.both(Talk::recover),
                6 => self.cancel(),
                7 if self.talk.session.is_waiting() => self.look_again(),
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
        // The twin stays in memory.
        if numbers[5].is_multiple_of(8) {
            self.talk.reopen();
        }
        if self.aloud {
            let (head, nodes) = listed(&self.twin.session);
            eprintln!("step {what} {numbers:?}, tab {}:\n{}", self.acting, headwater::draw::draw(&nodes, head.as_ref()));
        }
        self.same_for_readers();
        if self.talk.session.turn.is_none() {
            self.what_is_held_is_known();
        }
        if self.chance(4) {
            self.forks();
        }
    }

    /// A compaction changes nothing for readers, and the model goes on with the end of what it read before.
    fn same_for_readers(&self) {
        let (talk, twin) = (&self.talk, &self.twin);
        let seen = |talk: &Talk| talk.snapshot().into_iter().filter(|message| message.role != Role::Activity).collect::<Vec<_>>();
        assert_eq!(seen(talk), seen(twin), "the conversation is the one without compaction");
        let places = |talk: &Talk| {
            let tree = &talk.session.tree;
            let row = |ix: u32| (tree.id(ix), tree.readings().depth(tree.node(ix).vertex));
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
    pub fn what_is_held_is_known(&mut self) {
        let tab = self.tabs[self.acting].clone();
        for plain in [true, false] {
            let messages: Vec<Message> =
                if plain { tab.list.iter().map(|held| held.message.clone()).collect() } else { self.quirky(&tab.list).0 };
            for run in [Some(false), None] {
                let asked = Asked { options: tab.options, run, ..Asked::view(messages.clone()) };
                let written = self.talk.would_write(&asked);
                // Asked again for a reply that failed, what came with the failed one may be left behind.
                let again = written.iter().any(|body| matches!(body, Body::TurnStarted(_)));
                let moves = |body: &Body| match body {
                    // When a call begins, a summary that was written in the background is adopted.
                    Body::MessageNew(new) => !again || new.reads_as.is_none(),
                    Body::HeadMoved(_) => !again,
                    _ => false,
                };
                assert!(!written.iter().any(moves), "[{}] writes {written:?}", brief(&messages));
                assert!(run.is_none() || written.is_empty(), "nothing is written");
            }
        }
    }
}

/// What a model reads word for word, by the originals' ids.
fn path(talk: &Talk) -> Vec<NodeId> {
    let tree = &talk.session.tree;
    let own = |&ix: &u32| {
        let id = tree.id(ix);
        tree.node(ix).kind == NodeKind::Message && !id.as_str().contains(".pin") && !id.as_str().contains(".note")
    };
    let original = |ix: u32| tree.id(tree.node(ix).original);
    engine::path(&talk.session).into_iter().filter(own).map(original).collect()
}
