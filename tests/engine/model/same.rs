//! What must be the same in the engine and in the reference, and what holds of the engine alone.

use std::collections::BTreeMap;

use headwater::engine::record::Record;
use headwater::engine::{self, Context, End, Session};
use headwater::ids::{Stamp, TurnId};
use headwater::protocol::{Message, Role};

use super::rules::Phase;
use super::world::World;
use crate::talk::{Asked, Talk};

impl World {
    pub fn same(&mut self) {
        let (session, reference) = (&self.talk.session, &self.reference);
        let says = |id: &str| reference.ids.get(id).cloned().unwrap_or_else(|| format!("{id}?"));
        let tree = &session.tree;
        let nodes: Vec<_> = (0..u32::try_from(tree.len()).unwrap())
            .map(|ix| (says(tree.id(ix).as_str()), tree.parent(ix).map(|parent| parent as usize), tree.node(ix).partial))
            .collect();
        let expected: Vec<_> = reference.tree.nodes.iter().map(|node| (node.said.says.clone(), node.parent, node.partial)).collect();
        assert_eq!(nodes, expected, "the tree");
        assert_eq!(session.head.map(|head| head as usize), reference.tree.head, "the head");
        let seen: Vec<String> = self.talk.snapshot().iter().map(|message| says(message.id.as_ref().unwrap().as_str())).collect();
        assert_eq!(seen, reference.tree.reads(reference.tree.head), "the conversation");
        self.same_turns();
        let open: Vec<String> = session.tree.open_calls().iter().map(ToString::to_string).collect();
        assert_eq!(open, reference.tree.open_calls(), "the open calls");
        let labels: BTreeMap<_, _> = session.labels.iter().map(|(label, ix)| (label.clone(), *ix as usize)).collect();
        assert_eq!(labels, reference.labels, "the labels");
        assert_eq!(labels.len(), session.labels.len(), "a label names one node");
        prompt_is_whole(&self.talk);
        self.what_is_held_is_known();
    }

    fn same_turns(&self) {
        let (session, reference) = (&self.talk.session, &self.reference);
        let phase = session.turn.as_ref().map(|turn| {
            let phase = match &turn.call {
                None => Phase::Waiting,
                Some(call) if call.retry_at.is_some() => Phase::Pausing,
                Some(_) => Phase::Asking,
            };
            (turn.id.to_string(), phase, turn.client.has_tool("pick"))
        });
        let expected = reference.turn.as_ref().map(|turn| (turn.id.clone(), turn.phase, turn.tools == Some(true)));
        assert_eq!(phase, expected, "the turn");
        let says = |message: &Message| reference.ids.get(message.id.as_ref().expect("an id").as_str()).cloned();
        let waiting = session.queue.iter().map(|queued| {
            let messages: Vec<_> = queued.messages.iter().map(|message| says(message).unwrap_or_default()).collect();
            (queued.id.to_string(), queued.agent_id.to_string(), queued.open, queued.run, queued.client.has_tool("pick"), messages)
        });
        let expected = reference.queue.iter().map(|waiting| {
            let messages: Vec<String> = waiting.messages.iter().map(|said| said.says.clone()).collect();
            (waiting.id.clone(), waiting.agent.clone(), waiting.open, waiting.run, waiting.tools == Some(true), messages)
        });
        assert_eq!(waiting.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "the queue");
        assert_eq!(session.turns.iter().count(), reference.turns.len(), "as many turn ids");
        for (name, known) in &reference.turns {
            let there = session.turns.get(&TurnId::from(name.as_str())).unwrap_or_else(|| panic!("the turn {name} is forgotten"));
            let of = there.of.as_ref().map_or_else(|| name.clone(), ToString::to_string);
            assert_eq!(of, reference.turn_of(name), "whose name {name} is");
            let end = there.end.as_ref().map(|end| match end {
                End::Completed => "completed",
                End::Failed { .. } => "failed",
                End::Cancelled => "cancelled",
            });
            assert_eq!(end, known.end, "the end of {name}");
        }
    }

    /// After any turn: what the front end holds writes nothing and moves nothing.
    fn what_is_held_is_known(&mut self) {
        if self.talk.session.turn.is_some() {
            return;
        }
        let held = self.talk.snapshot();
        let before = self.talk.head_id();
        for run in [Some(false), None] {
            let written = self.talk.would_write(&Asked { run, ..Asked::view(held.clone()) });
            let due = run.is_none() && self.reference.tree.reply_due_at(self.reference.tree.head);
            assert!(written.is_empty() || due, "what is held writes {written:?}");
            let makes = |body: &engine::record::Body| matches!(body, engine::record::Body::MessageNew(_));
            assert!(!written.iter().any(makes), "what is held writes {written:?}");
        }
        assert_eq!(self.talk.head_id(), before);
    }

    /// Any beginning of the log is a session that can be read; one that ends with an append can be taken over.
    pub fn every_prefix_folds(&mut self) {
        let mut session = Session::default();
        let mut appends = self.appends.iter().copied().peekable();
        for (at, stored) in (1..).zip(&self.talk.log) {
            session.evolve(Record::decode(stored).unwrap()).unwrap();
            engine::check_step(&session).unwrap();
            engine::prompt(&session).unwrap();
            assert_eq!(engine::page(&session, &"s".into()).is_some(), session.agent_id.is_some());
            if appends.next_if_eq(&at).is_none() {
                continue;
            }
            engine::check(&session).unwrap();
            // A stamp that no other input of the case had.
            let context = Talk::default().context();
            let context = Context { stamp: Stamp { now: session.updated + 1, nonce: 1 << 80 }, ..context };
            let records = engine::recover(&session, &context);
            if !records.is_empty() {
                let mut taken = session.clone();
                for record in records {
                    taken.evolve(record).unwrap();
                }
                engine::check(&taken).unwrap();
                assert!(taken.turn.is_none() || engine::wanted(&taken).len() == 1, "somebody goes on with the turn");
            }
        }
    }
}

/// What the model reads: after each reply a result for each of its calls, and no other.
fn prompt_is_whole(talk: &Talk) {
    let prompt = engine::prompt(&talk.session).unwrap();
    let mut owed: Vec<String> = Vec::new();
    for message in &prompt {
        if message.role == Role::Tool {
            let call = message.tool_call_id.as_ref().expect("a result names its call").to_string();
            assert!(!owed.is_empty() && owed.remove(0) == call, "the result of {call} has no call there");
        } else {
            assert_eq!(owed, Vec::<String>::new(), "calls without a result");
            owed = message.tool_calls.iter().map(|call| call.id.to_string()).collect();
        }
    }
    assert_eq!(owed, Vec::<String>::new(), "calls without a result");
}
