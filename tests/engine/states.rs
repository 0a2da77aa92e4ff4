//! States of branches, at random: people write, edit, go back, and send states along; a worker sets them, in whole or in part; histories are
//! replaced, sessions forked, and opened again. Beside it a model that knows no rows: it walks the log from its start, and the last who
//! wrote at a place, or where that came from, is right.

use std::collections::HashMap;

use headwater::engine::record::{Body, Record};
use headwater::engine::{self, InLog, Ix, Session};
use headwater::ids::NodeId;
use headwater::protocol::{EventBody, HeadMove, HeadTo, Json, Message, Role};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::talk::{Asked, Kind, Talk};

/// What each place has, and what an observer knows who reads on from the start.
#[derive(Default)]
struct Plain {
    has: HashMap<Option<NodeId>, Value>,
    head: Option<NodeId>,
    told: Value,
}

impl Plain {
    fn of(log: &[Vec<u8>]) -> Self {
        let mut plain = Self { told: json!({}), ..Self::default() };
        for stored in log {
            plain.take(&Record::decode(stored).unwrap());
        }
        plain
    }

    fn at(&self, at: Option<&NodeId>) -> Value {
        self.has.get(&at.cloned()).cloned().unwrap_or_else(|| json!({}))
    }

    fn take(&mut self, record: &Record) {
        match &record.body {
            Body::MessageNew(new) => {
                let from = new.reads_as.clone().unwrap_or_else(|| new.parent.clone());
                self.has.insert(Some(new.id.clone()), self.at(from.as_ref()));
                if !new.aside {
                    self.head = Some(new.id.clone());
                }
            }
            Body::HeadMoved(moved) => self.head.clone_from(&moved.to),
            Body::StateUpdated(updated) => {
                let state = updated.state.as_ref().map_or_else(|| json!({}), value);
                assert_ne!(self.at(self.head.as_ref()), state, "an equal write is dropped");
                match record.body.event() {
                    Some(EventBody::StateUpdated { state: Some(told), patch: None }) => self.told = value(&told),
                    Some(EventBody::StateUpdated { state: None, patch: Some(patch) }) => {
                        assert!(patch.get().len() < updated.state.as_ref().unwrap().get().len(), "it is shorter");
                        let patch: json_patch::Patch = serde_json::from_str(patch.get()).unwrap();
                        json_patch::patch(&mut self.told, &patch).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
                assert_eq!(self.told, state, "who reads on has what was written last");
                self.has.insert(self.head.clone(), state);
            }
            _ => {}
        }
    }
}

fn value(json: &Json) -> Value {
    serde_json::from_str(json.get()).unwrap()
}

/// What a session has at a place, from memory or from its log.
fn state_at(session: &Session, log: &[Vec<u8>], at: Option<Ix>) -> Value {
    let state = match session.states.current(at) {
        Ok(state) => state.cloned(),
        Err(InLog(seq)) => match Record::decode(&log[usize::try_from(seq - 1).unwrap()]).unwrap().body {
            Body::StateUpdated(updated) => updated.state,
            other => panic!("{other:?}"),
        },
    };
    state.map_or_else(|| json!({}), |state| value(&state))
}

fn agrees(talk: &Talk) {
    let plain = Plain::of(&talk.log);
    let tree = &talk.session.tree;
    for at in (0..u32::try_from(tree.len()).unwrap()).map(Some).chain([None]) {
        let id = at.map(|ix| tree.id(ix));
        assert_eq!(state_at(&talk.session, &talk.log, at), plain.at(id.as_ref()), "at {id:?}");
    }
    let here = talk.session.state().expect("what is at the head is in memory").map_or_else(|| json!({}), value);
    assert_eq!(here, plain.at(plain.head.as_ref()));
}

/// Each carried place has in a fork what it has in its source.
fn forks_alike(talk: &mut Talk) {
    let nodes = engine::fork_nodes(&talk.session, None).unwrap();
    let (fork, _) = talk.fork(None).unwrap();
    for (there, &here) in (0..).zip(&nodes) {
        let source = state_at(&talk.session, &talk.log, Some(here));
        assert_eq!(state_at(&fork.session, &fork.log, Some(there)), source, "of {}", talk.session.tree.id(here));
    }
    agrees(&fork);
    fork.replays();
}

fn some_state(n: u8) -> Value {
    let words = "words ".repeat(usize::from(n % 5) * 4);
    match n % 4 {
        0 => json!({}),
        1 => json!({"n": n / 32}),
        2 => json!({"n": n / 32, "text": words, "list": vec![n / 64; usize::from(n / 64)]}),
        _ => json!({"text": words, "n": n / 64}),
    }
}

fn some_json(n: u8) -> Json {
    Json::from_value(&some_state(n)).unwrap()
}

#[derive(Default)]
struct Walk {
    talk: Talk,
    made: u32,
}

impl Walk {
    fn step(&mut self, what: u8, n: u8) {
        while let Some(open) = self.talk.decision() {
            let id = open.id.clone();
            let proposed = serde_json::to_value(&self.talk.request().proposed).unwrap();
            let mut answer = proposed;
            if n.is_multiple_of(3) {
                answer["state"] = some_state(n);
            } else if n % 3 == 1 {
                answer["state_patch"] = json!([{"op": "add", "path": "/by", "value": n / 16}]);
            }
            self.talk.answer_json(&id, &answer.to_string()).unwrap();
        }
        if self.talk.session.turn.is_some() {
            self.talk.finish(&format!("answer {n}"), Vec::new());
            return;
        }
        match what % 9 {
            0..=2 => self.say(Kind::Message, Vec::new(), n),
            3 | 4 => self.edit(n),
            5 if self.talk.session.head.is_some() => {
                let view = self.talk.reader_view();
                let to = view.get(usize::from(n) % view.len().max(1)).cloned();
                self.talk.move_head(&HeadMove { to: HeadTo::Node(to), label: None }).unwrap();
            }
            6 if self.talk.session.head.is_some() => {
                // Anywhere that people see.
                let tree = &self.talk.session.tree;
                let seen: Vec<NodeId> =
                    (0..u32::try_from(tree.len()).unwrap()).filter(|&ix| tree.node(ix).shown).map(|ix| tree.id(ix)).collect();
                let to = seen[usize::from(n) % seen.len()].clone();
                self.talk.move_head(&HeadMove { to: HeadTo::Node(Some(to)), label: None }).unwrap();
            }
            7 => {
                self.made += 1;
                self.talk.compact(&format!("e{}", self.made), usize::from(n % 4), n.is_multiple_of(2).then_some("a summary"), n % 8 == 1);
            }
            _ if n.is_multiple_of(2) && self.talk.session.seq > 0 => self.talk.reopen(),
            _ if self.talk.session.seq > 0 => forks_alike(&mut self.talk),
            _ => {}
        }
    }

    fn say(&mut self, kind: Kind, mut messages: Vec<Message>, n: u8) {
        self.made += 1;
        messages.push(Message::text(Role::User, format!("says {n}")).with_id(format!("u{}", self.made).as_str().into()));
        let mut asked = Asked { kind, messages, ..Asked::default() };
        asked.client.state = (!n.is_multiple_of(5)).then(|| some_json(n));
        self.talk.submit(&asked).unwrap();
    }

    fn edit(&mut self, n: u8) {
        let view = self.talk.snapshot();
        let kept = view.len() * usize::from(n % 8) / 8;
        self.say(Kind::View, view[..kept].to_vec(), n);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_place_has_what_was_written_there_last(has_worker in any::<bool>(), accepts in any::<bool>(), steps in prop::collection::vec(any::<(u8, u8)>(), 1..40)) {
        let mut walk = Walk::default();
        walk.talk.configure("bot", Some("You help."), &headwater::engine::context::ContextOptions::default());
        if has_worker {
            walk.talk.hire("bot");
        }
        if accepts {
            walk.talk.takes("bot", headwater::protocol::ClientState::Accept);
        }
        for (what, n) in steps {
            walk.step(what, n);
            agrees(&walk.talk);
        }
        walk.talk.replays();
    }
}
