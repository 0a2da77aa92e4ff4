//! Turns that pause, at random: inputs of all kinds, head moves, answers that come once, twice, wrong or in part, stops, lost processes.
//! Each interrupt ends once; nothing lands where a turn pauses; what is refused writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use headwater::engine::record::Body;
use headwater::engine::{Effect, Record};
use headwater::ids::{InterruptId, NodeId, TurnId};
use headwater::protocol::{
    Code, DecisionAnswer, HeadMove, HeadTo, Input, InputBody, Message, OnBusy, Resume, ResumeStatus, Role, ToolCall,
};
use proptest::prelude::*;

use crate::talk::{Asked, Kind, Talk};

/// What is known of interrupts from the records alone.
#[derive(Default)]
struct Known {
    open: BTreeMap<InterruptId, TurnId>,
    ended: BTreeMap<InterruptId, Resume>,
    over: BTreeSet<TurnId>,
}

impl Known {
    fn take(&mut self, records: &[Record]) {
        for record in records {
            match &record.body {
                Body::SessionInterrupted(interrupted) => {
                    for open in &interrupted.interrupts {
                        assert!(!self.ended.contains_key(&open.id), "{} is open again", open.id);
                        self.open.insert(open.id.clone(), interrupted.turn_id.clone());
                    }
                }
                Body::InterruptResumed(resumed) => {
                    for answer in &resumed.interrupts {
                        assert_eq!(self.open.remove(&answer.interrupt_id), Some(resumed.turn_id.clone()), "one that is open ends, once");
                        assert_eq!(self.ended.insert(answer.interrupt_id.clone(), answer.clone()), None);
                    }
                }
                Body::TurnCompleted(over) => self.end(&over.turn_id),
                Body::TurnFailed(over) => self.end(&over.turn_id),
                Body::TurnCancelled(over) => self.end(&over.turn_id),
                _ => {}
            }
        }
    }

    fn end(&mut self, turn: &TurnId) {
        assert!(self.over.insert(turn.clone()), "{turn} ends twice");
        assert!(!self.open.values().any(|of| of == turn), "{turn} ends, and something of it is open");
    }
}

struct Walk {
    talk: Talk,
    known: Known,
    made: u32,
    /// What happened, and how often.
    happened: BTreeMap<&'static str, u32>,
}

impl Walk {
    fn new() -> Self {
        let mut talk = Talk::default();
        talk.hire("bot");
        Self { talk, known: Known::default(), made: 0, happened: BTreeMap::new() }
    }

    fn count(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    fn fresh(&mut self, stem: &str) -> String {
        self.made += 1;
        format!("{stem}{}", self.made)
    }

    fn submit(&mut self, asked: &Asked) {
        let (before, pauses) = (self.talk.session.seq, self.pausing());
        let waits = matches!(asked.on_busy, OnBusy::Queue | OnBusy::Merge);
        match self.talk.submit(asked) {
            Ok((records, accepted)) => {
                let written = records.iter().any(|record| matches!(record.body, Body::MessageNew(_)));
                if let Some(turn) = pauses.filter(|_| asked.kind == Kind::Message) {
                    assert!(!written && (waits || accepted.duplicate), "{asked:?} lands where {turn} pauses");
                }
                self.known.take(&records);
            }
            Err(refusal) => {
                assert_eq!(self.talk.session.seq, before);
                assert_ne!(refusal.code, Code::Internal);
                if refusal.code == Code::SessionInterrupted {
                    self.count("refused");
                }
            }
        }
    }

    fn pausing(&self) -> Option<TurnId> {
        self.talk.session.turn.as_ref().filter(|turn| !turn.interrupts.is_empty()).map(|turn| turn.id.clone())
    }

    /// Answers some turn that pauses, `how`: all of it, in part, with something that isn't there.
    fn resume(&mut self, which: usize, how: u8) {
        let turns: BTreeSet<TurnId> = self.known.open.values().cloned().collect();
        let Some(turn) = turns.iter().nth(which % turns.len().max(1)).cloned() else { return };
        let mut answers: Vec<Resume> = self.known.open.iter().filter(|(_, of)| **of == turn).map(|(id, _)| answer(id, how)).collect();
        let all = answers.len();
        match how % 8 {
            0 => drop(answers.pop()),
            1 => answers.push(answer(&"nowhere".into(), how)),
            _ => {}
        }
        let whole = answers.len() == all && how % 8 != 1;
        let before = self.talk.session.seq;
        let blocked = self.talk.session.turn.as_ref().is_some_and(|there| there.id != turn && there.interrupts.is_empty());
        let view = (how % 8 == 2).then(|| (self.talk.snapshot(), Asked::default().options));
        let is_there = self.talk.session.turn.as_ref().is_some_and(|there| there.id == turn);
        match self.talk.submit_input(input(answers.clone(), view.clone())) {
            Ok((records, accepted)) => {
                assert!(whole && !blocked);
                assert_eq!(accepted.turn_id, turn);
                self.known.take(&records);
                assert!(answers.iter().all(|answer| self.known.ended.contains_key(&answer.interrupt_id)));
                let seq = self.talk.session.seq;
                let (again, accepted) = self.talk.submit_input(input(answers, None)).expect("the same again is known");
                self.count(if is_there { "resumed" } else { "resumed elsewhere" });
                assert!(again.is_empty() && accepted.duplicate && accepted.turn_id == turn && self.talk.session.seq == seq);
            }
            Err(refusal) => {
                assert_eq!(self.talk.session.seq, before);
                assert!(!whole || blocked || (view.is_some() && !is_there), "{refusal:?}");
                self.count(if refusal.code == Code::InterruptsOpen { "in part" } else { "not resumed" });
            }
        }
    }

    /// One that ended is answered again.
    fn resume_late(&mut self, which: usize, same: bool) {
        let Some(before) = self.known.ended.values().nth(which % self.known.ended.len().max(1)).cloned() else { return };
        let other = Resume { payload: None, status: ResumeStatus::Resolved, ..before.clone() };
        let asked = if same { before.clone() } else { other.clone() };
        let seq = self.talk.session.seq;
        match self.talk.submit_input(input(vec![asked], None)) {
            Ok((records, accepted)) => {
                assert!(records.is_empty() && accepted.duplicate && (same || other == before));
                self.count("answered again");
            }
            Err(refusal) => {
                assert!(!same && refusal.code == Code::InterruptClosed, "{refusal:?}");
                self.count("answered otherwise");
            }
        }
        assert_eq!(self.talk.session.seq, seq);
    }

    /// What the session wants done is done, one way or another.
    fn go_on(&mut self, how: u8) {
        match self.talk.call() {
            Some(Effect::Ask { id, .. }) => {
                let request = self.talk.request();
                let records = if how.is_multiple_of(3) {
                    self.talk.answer(&id, &request.proposed).unwrap()
                } else if how % 3 == 1 {
                    let raised = (0..=how % 2).map(|_| {
                        let id = self.fresh("i");
                        format!(r#"{{"type":"interrupt","id":"{id}","reason":"approval"}}"#)
                    });
                    let raised: Vec<String> = raised.collect();
                    self.talk.answer_json(&id, &format!(r#"{{"actions":[{}]}}"#, raised.join(","))).unwrap()
                } else {
                    self.talk.answer(&id, &DecisionAnswer::default()).unwrap()
                };
                self.known.take(&records);
            }
            Some(Effect::Call { .. }) => {
                let calls =
                    if how.is_multiple_of(3) { vec![ToolCall::new(self.fresh("c").as_str().into(), "look", "{}")] } else { Vec::new() };
                let text = self.fresh("said ");
                let (_, records) = self.talk.finish(&text, calls);
                self.known.take(&records);
            }
            _ => {}
        }
    }

    fn head(&mut self, which: usize) {
        let tree = &self.talk.session.tree;
        let seen: Vec<NodeId> = (0..u32::try_from(tree.len()).unwrap()).filter(|&ix| tree.node(ix).shown).map(|ix| tree.id(ix)).collect();
        let Some(node) = seen.get(which % seen.len().max(1)).cloned() else { return };
        let paused = self.pausing();
        let (records, answer) = self.talk.move_head(&HeadMove { to: HeadTo::Node(Some(node)), label: None }).unwrap();
        assert!(answer.suspended.is_none() || answer.suspended == paused, "only what pauses is suspended");
        assert_eq!(answer.interrupts.is_empty(), self.pausing().is_none() || self.pausing() == paused);
        self.known.take(&records);
        if answer.suspended.is_some() {
            self.count("left");
        }
        if !answer.interrupts.is_empty() {
            self.count("shown again");
        }
    }

    fn step(&mut self, (what, how, which): (u8, u8, usize)) {
        let on_busy = [OnBusy::Refuse, OnBusy::Queue, OnBusy::Merge, OnBusy::Steer, OnBusy::Cancel][usize::from(how) % 5];
        let said = |walk: &mut Self| {
            let id = walk.fresh("u");
            Message::text(Role::User, id.as_str()).with_id(id.as_str().into())
        };
        match what {
            0 => {
                let messages = vec![said(self)];
                self.submit(&Asked { kind: Kind::Message, messages, on_busy, ..Asked::default() }.with_tools(&["look"]));
            }
            1 => {
                let mut messages = self.talk.snapshot();
                messages.truncate(which % (messages.len() + 1));
                if how % 4 > 0 {
                    messages.push(said(self));
                }
                self.submit(&Asked { on_busy, ..Asked::view(messages) });
            }
            2 => {
                let Some(call) = self.talk.session.tree.open_calls().first().cloned() else { return };
                let messages = vec![Message { tool_call_id: Some(call), ..Message::text(Role::Tool, "seen") }];
                self.submit(&Asked { kind: Kind::Result, messages, ..Asked::default() });
            }
            3 => {
                let turns: Vec<TurnId> = self.known.open.values().cloned().collect();
                let named = turns.get(which % (turns.len() + 1)).cloned();
                let records = self.talk.cancel(named.as_ref());
                self.known.take(&records);
            }
            4 => self.head(which),
            5 => self.resume_late(which, how.is_multiple_of(2)),
            6 => self.talk.reopen(),
            7 => {
                let paused = self.pausing();
                let records = self.talk.recover();
                assert!(paused.is_none() || records.is_empty(), "one that pauses lost nothing");
                self.known.take(&records);
            }
            8 | 9 => self.resume(which, how),
            _ => self.go_on(how),
        }
        let open: BTreeSet<&InterruptId> = self.known.open.keys().collect();
        let session = &self.talk.session;
        let suspended = session.suspended().iter().flat_map(|one| &one.turn.interrupts);
        let told: BTreeSet<&InterruptId> = session.open_interrupts().iter().chain(suspended).map(|open| &open.id).collect();
        assert_eq!(told, open, "what is open is shown, at the head or elsewhere");
    }
}

fn answer(id: &InterruptId, how: u8) -> Resume {
    let status = if how.is_multiple_of(5) { ResumeStatus::Cancelled } else { ResumeStatus::Resolved };
    let payload = (status == ResumeStatus::Resolved).then(|| serde_json::from_str(r#"{"yes":true}"#).unwrap());
    Resume { interrupt_id: id.clone(), status, payload }
}

fn input(interrupts: Vec<Resume>, view: Option<(Vec<Message>, headwater::protocol::ViewOptions)>) -> Input {
    let body = InputBody::Resume { interrupts, view };
    Input {
        agent_id: "bot".into(),
        turn_id: None,
        run: None,
        client: headwater::protocol::Client::default(),
        on_busy: OnBusy::Refuse,
        body,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_each_interrupt_ends_once(steps in prop::collection::vec((0..16_u8, any::<u8>(), 0..64_usize), 1..60)) {
        let mut walk = Walk::new();
        for step in steps {
            walk.step(step);
        }
        walk.talk.replays();
    }
}

#[test]
fn a_walk_meets_everything() {
    let mut happened: BTreeMap<&str, u32> = BTreeMap::new();
    let mut number: u64 = 7;
    let mut next = move || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number >> 33
    };
    for _ in 0..100 {
        let mut walk = Walk::new();
        for _ in 0..60 {
            let (what, how, which) = (next() % 16, next() % 256, next() % 64);
            walk.step((u8::try_from(what).unwrap(), u8::try_from(how).unwrap(), usize::try_from(which).unwrap()));
        }
        walk.talk.replays();
        for (what, times) in walk.happened {
            *happened.entry(what).or_default() += times;
        }
    }
    let all = [
        "refused",
        "resumed",
        "resumed elsewhere",
        "in part",
        "not resumed",
        "answered again",
        "answered otherwise",
        "left",
        "shown again",
    ];
    for what in all {
        assert!(happened.get(what).is_some_and(|times| *times >= 5), "{what}: {happened:?}");
    }
}

#[test]
fn of_many_turns_that_pause_the_oldest_is_stopped() {
    let mut walk = Walk::new();
    walk.submit(&Asked { kind: Kind::Message, messages: vec![Message::text(Role::User, "u").with_id("u".into())], ..Asked::default() });
    walk.go_on(0);
    walk.go_on(1);
    walk.go_on(0);
    let mut first = None;
    for n in 0..=headwater::engine::SUSPENDED_MAX + 1 {
        let mut view = walk.talk.snapshot();
        view.truncate(2);
        view.push(Message::text(Role::User, format!("e{n}")).with_id(format!("e{n}").as_str().into()));
        walk.submit(&Asked::view(view));
        walk.go_on(1);
        first = first.or_else(|| walk.known.open.keys().next().cloned());
    }
    let first = first.expect("something pauses");
    assert_eq!(walk.talk.session.suspended().len(), headwater::engine::SUSPENDED_MAX);
    assert_eq!(walk.known.ended.get(&first).map(|answer| answer.status), Some(ResumeStatus::Cancelled));
}
