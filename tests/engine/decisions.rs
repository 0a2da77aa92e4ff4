//! An agent's worker, at random: it accepts, declines, does something of its own, answers nonsense, late, or not at all, while people
//! write, steer and stop, models fail, and processes are lost. Each decision is answered once or given up; a call that is held is held
//! once; people read on as if nothing had been replaced; and every turn ends.

use std::collections::{HashMap, HashSet};

use headwater::engine::record::{Body, Record};
use headwater::engine::{self, Effect};
use headwater::ids::{CallId, DecisionId, NodeId, TurnId};
use headwater::protocol::{Action, Code, ContextReplace, DecisionAnswer, DecisionRequest, LlmCall, Message, OnBusy, Role};
use proptest::prelude::*;

use crate::arrivals::World;
use crate::talk::{Asked, Kind};

/// More steps than any turn may take.
const STEPS_MAX: usize = 400;

const NONSENSE: [&str; 14] = [
    "",
    "nothing",
    "[]",
    "{\"actions\":7}",
    "{\"actions\":[{\"type\":\"dance\"}]}",
    "{\"actions\":[{\"type\":\"done\",\"data\":1}]}",
    "{\"actions\":[{\"type\":\"done\"},{\"type\":\"llm.call\"}]}",
    "{\"actions\":[{\"type\":\"llm.call\",\"id\":\"nobody\"}]}",
    "{\"actions\":[{\"type\":\"llm.call\",\"messages\":[]}]}",
    "{\"actions\":[{\"type\":\"tool.call\",\"id\":\"nobody\"}]}",
    "{\"actions\":[{\"type\":\"context.replace\"}]}",
    "{\"actions\":[{\"type\":\"context.replace\",\"summary\":\"\\n\"}]}",
    "{\"actions\":[{\"type\":\"context.replace\",\"messages\":[{\"id\":\"hw_none\",\"role\":\"user\",\"content\":\"x\"}]}]}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
];

/// What the records so far have promised.
#[derive(Default)]
struct Ledger {
    asked: HashMap<DecisionId, u32>,
    closed: HashSet<DecisionId>,
    open: Option<DecisionId>,
    held: Option<CallId>,
    held_ever: HashSet<CallId>,
    turn: Option<TurnId>,
}

impl Ledger {
    fn close(&mut self, id: &DecisionId) {
        assert_eq!(self.open.take().as_ref(), Some(id), "the open one ends");
        assert!(self.closed.insert(id.clone()), "{id} ends twice");
    }

    fn take(&mut self, record: &Record) {
        match &record.body {
            Body::TurnStarted(started) => self.turn = Some(started.turn_id.clone()),
            Body::DecisionAsked(asked) => {
                let before = self.asked.insert(asked.decision_id.clone(), asked.attempt).unwrap_or(0);
                assert_eq!(asked.attempt, before + 1, "attempts are counted");
                assert_eq!(asked.about.is_some(), before == 0);
                match &self.open {
                    None => assert_eq!(before, 0, "a decision that ended is asked again"),
                    Some(open) => assert_eq!(*open, asked.decision_id, "one decision at a time"),
                }
                self.open = Some(asked.decision_id.clone());
            }
            Body::DecisionAnswered(answered) => self.close(&answered.decision_id),
            Body::DecisionFailed(failed) if failed.not_before.is_none() => self.close(&failed.decision_id),
            Body::ContextLimited(limited) => {
                assert_eq!(self.held.replace(limited.call_id.clone()), None, "one call is held");
                let again = !self.held_ever.insert(limited.call_id.clone());
                assert!(!again || limited.reason == headwater::protocol::LimitReason::Overflow, "{} is held twice", limited.call_id);
            }
            Body::ContextReplaced(replaced) if self.held.is_some() && !replaced.background => {
                assert_eq!(self.held.take(), replaced.call_id, "the held call's history is replaced");
            }
            Body::ContextKept(kept) => assert_eq!(self.held.take().as_ref(), Some(&kept.call_id), "the held call is kept"),
            Body::TurnCompleted(_) | Body::TurnFailed(_) => self.ends(),
            Body::TurnCancelled(cancelled) if self.turn.as_ref() == Some(&cancelled.turn_id) => self.ends(),
            _ => {}
        }
    }

    fn ends(&mut self) {
        assert_eq!(self.held, None, "a held call ends with its turn");
        self.closed.extend(self.open.take());
        self.turn = None;
    }
}

#[derive(Default)]
struct Worked {
    world: World,
    ledger: Ledger,
    taken: usize,
}

impl Worked {
    /// Looks at what was recorded since the last time.
    fn look(&mut self, view: &[NodeId]) {
        let records: Vec<Record> = self.world.talk.log[self.taken..].iter().map(|stored| Record::decode(stored).unwrap()).collect();
        self.taken = self.world.talk.log.len();
        for record in &records {
            self.ledger.take(record);
        }
        if records.iter().any(|record| matches!(record.body, Body::ContextReplaced(_))) {
            let now = self.world.talk.reader_view();
            assert_eq!(now.get(..view.len()), Some(view), "people read on");
        }
        assert_eq!(self.world.talk.decision().map(|open| &open.id), self.ledger.open.as_ref());
    }

    fn act(&mut self, what: u8, n: u8) {
        let view = self.world.talk.reader_view();
        match (what, self.world.talk.decision().is_some()) {
            (128.., true) => self.decide(what, n),
            _ => self.world.act(what, n),
        }
        self.look(&view);
    }

    /// An answer that may be refused. Then nothing is written.
    fn answer(&mut self, actions: Vec<Action>) {
        let id = self.world.talk.decision().unwrap().id.clone();
        let stored = self.world.talk.log.len();
        match self.world.talk.answer(&id, &DecisionAnswer::from(actions)) {
            Ok(records) => self.world.took(&records),
            Err(refusal) => assert!(
                self.world.talk.log.len() == stored
                    && !refusal.message.is_empty()
                    && self.world.talk.decision().is_some_and(|open| open.id == id)
            ),
        }
    }

    fn decide(&mut self, what: u8, n: u8) {
        let request = self.world.talk.request();
        let held = self.world.talk.session.turn.as_ref().and_then(|turn| turn.held.as_ref()).map(|held| held.id.clone());
        let ready = self.world.talk.decision().and_then(|open| open.ready.clone());
        let call = |id: Option<CallId>| Action::LlmCall(LlmCall { id, ..LlmCall::default() });
        match what % 16 {
            0..=4 => self.accept(&request),
            5 => self.answer(Vec::new()),
            6 => self.answer(vec![Action::Done]),
            7 => self.answer(vec![call(None)]),
            8 => self.answer(vec![call(held)]),
            9 => self.answer(vec![call(ready)]),
            10 => {
                let messages = Some(vec![Message::text(Role::System, "Be brief."), Message::text(Role::User, format!("only {n}"))]);
                self.answer(vec![Action::LlmCall(LlmCall { messages, llm: Some("small".to_owned()), ..LlmCall::default() })]);
            }
            11 | 12 => {
                let kept = usize::from(n) % (request.messages.len() + 1);
                let kept = request.messages[request.messages.len() - kept..].iter();
                // A summary is no message of the history, unless it is given as one.
                let messages = kept.filter(|message| message.id.is_some()).map(|message| Message::clone(message)).collect();
                let summary = (!n.is_multiple_of(3)).then(|| "s".repeat(usize::from(n)));
                let replace = Action::ContextReplace(ContextReplace { summary, messages });
                let then = if n.is_multiple_of(5) { Action::Done } else { call(held) };
                self.answer(vec![replace, then]);
            }
            13 => {
                let stored = self.world.talk.log.len();
                let json = NONSENSE[usize::from(n) % NONSENSE.len()];
                let refusal = self.world.talk.answer_json(&request.decision_id, json).unwrap_err();
                assert!(self.world.talk.log.len() == stored && refusal.message.len() > 5, "{refusal:?}");
                let records = self.world.talk.unanswered(Code::WorkerBadAnswer);
                self.world.took(&records);
            }
            14 => {
                let records = self.world.talk.wake_decision();
                self.world.took(&records);
            }
            _ => {
                let context = self.world.talk.context();
                for id in &self.ledger.closed {
                    let late = DecisionAnswer::from(vec![Action::Done]);
                    let came = engine::answer(&self.world.talk.session, id, &late, &context);
                    assert!(came.map_or_else(|refusal| refusal.code == Code::DecisionClosed, |records| records.is_empty()));
                }
                let other = engine::answer(&self.world.talk.session, &"another session's".into(), &DecisionAnswer::default(), &context);
                assert_eq!(other.unwrap_err().code, Code::DecisionClosed);
            }
        }
    }

    /// What is proposed can always be carried out.
    fn accept(&mut self, request: &DecisionRequest) {
        if self.world.talk.decision().is_some_and(|open| open.retry_at.is_some()) {
            let records = self.world.talk.wake_decision();
            return self.world.took(&records);
        }
        // As JSON, as a worker over the network gives it back.
        let proposed = serde_json::to_vec(&request.proposed).unwrap();
        let proposed = DecisionAnswer::decode(&proposed, &headwater::protocol::Limits::DEFAULT).unwrap();
        let records = self.world.talk.answer(&request.decision_id, &proposed).unwrap();
        self.world.took(&records);
    }

    /// Everything that is begun ends, when the worker does what is proposed and the model answers.
    fn settles(&mut self) {
        for _ in 0..STEPS_MAX {
            let view = self.world.talk.reader_view();
            if self.world.talk.decision().is_some() {
                let request = self.world.talk.request();
                self.accept(&request);
            } else if matches!(self.world.talk.call(), Some(Effect::Call { .. } | Effect::Wake { .. } | Effect::Room { .. })) {
                let records = self.world.model(15, 1);
                self.world.took(&records);
            } else if let Some(id) = self.world.talk.session.tree.open_calls().first().cloned() {
                let message = Message { tool_call_id: Some(id), ..Message::text(Role::Tool, "done") };
                let asked = Asked { kind: Kind::Result, messages: vec![message], ..Asked::default() };
                let records = self.world.talk.submit(&asked).unwrap().0;
                self.world.took(&records);
            } else {
                assert!(self.world.talk.session.turn.is_none() && self.world.talk.session.queue.iter().next().is_none());
                return;
            }
            self.look(&view);
        }
        panic!("it goes on for ever");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn whatever_a_worker_does(acts in prop::collection::vec(any::<(u8, u8)>(), 1..80), strategy in 0..4_usize) {
        let mut worked = Worked::default();
        let context = [
            "{}",
            r#"{"window":18000,"strategy":[{"use":"summarize","over_tokens":400,"keep_turns":1}]}"#,
            r#"{"window":18000,"strategy":[{"use":"reset","over_tokens":300}]}"#,
            r#"{"window":18000,"strategy":[{"use":"summarize","over_tokens":300,"keep_turns":1,"llm":"small","model":"tiny"}]}"#,
        ];
        worked.world.talk.configure("bot", Some("You help."), &serde_json::from_str(context[strategy]).unwrap());
        worked.world.talk.hire("bot");
        worked.world.send(Kind::Message, OnBusy::Steer, 1, None, false, 10);
        worked.look(&[]);
        for (what, n) in acts {
            worked.act(what, n);
        }
        worked.world.every_prefix_folds();
        worked.settles();
        worked.world.talk.replays();
    }
}
