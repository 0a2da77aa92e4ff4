//! What waits for a model call, at random: several senders steer, things happen, calls succeed, fail, are refused as too long, turns are
//! stopped and left, processes are lost. Never is an older one skipped, never is one lost, never does one come twice; after every append
//! the log folds, and goes on after a crash.

use std::collections::{HashMap, HashSet};

use headwater::engine::record::{Body, Reads, Record};
use headwater::engine::{self, Context, Effect, Session};
use headwater::ids::{Stamp, TurnId};
use headwater::protocol::{CallErrorKind, HeadMove, HeadTo, Message, OnBusy, Role, ToolCall};
use proptest::prelude::*;

use crate::talk::{Asked, CALLS_MAX, Kind, Talk};

/// What the records so far have promised.
#[derive(Default)]
struct Ledger {
    /// What waits: its input's id, its messages, whether it joins a turn, whether people see it.
    waiting: Vec<(TurnId, Vec<String>, bool, bool)>,
    running: Option<TurnId>,
    /// So many each call has read, at most.
    read: HashMap<String, u32>,
    nodes: HashSet<String>,
    given_up: HashSet<String>,
    promised: HashSet<String>,
    calls: u32,
}

impl Ledger {
    /// One append.
    fn take(&mut self, records: &[Record]) {
        let mut written: Vec<String> = Vec::new();
        let mut owed: Vec<String> = Vec::new();
        for record in records {
            match &record.body {
                Body::ArrivalQueued(queued) => {
                    let ids: Vec<String> = queued.messages.iter().map(|message| message.id.as_ref().unwrap().to_string()).collect();
                    for id in &ids {
                        assert!(!self.nodes.contains(id) && !self.waits(id), "{id} comes twice");
                        self.given_up.remove(id);
                    }
                    self.promised.extend(ids.iter().cloned());
                    self.waiting.push((queued.turn_id.clone(), ids, queued.joins.is_some(), queued.joins.is_some() || queued.show));
                }
                Body::ArrivalConsumed(consumed) => {
                    let rest = self.waiting.split_off(consumed.turn_ids.len());
                    let oldest: Vec<TurnId> = self.waiting.iter().map(|(id, ..)| id.clone()).collect();
                    assert_eq!(oldest, consumed.turn_ids, "the oldest ones leave, in order");
                    let ids: Vec<String> = std::mem::replace(&mut self.waiting, rest).into_iter().flat_map(|(_, ids, ..)| ids).collect();
                    match (&consumed.call_id, &consumed.into) {
                        (Some(call), None) => {
                            assert_eq!(self.read.get(call.as_str()).copied(), u32::try_from(consumed.turn_ids.len()).ok());
                            assert_eq!(written[..ids.len()], ids, "they stand before the reply, in order");
                        }
                        (None, Some(_)) => owed = ids,
                        wrong => panic!("{wrong:?}"),
                    }
                }
                Body::MessageNew(new) => {
                    let id = new.id.to_string();
                    assert!(self.nodes.insert(id.clone()), "{id} is recorded twice");
                    written.push(id);
                }
                Body::TurnStarted(started) => self.running = Some(started.turn_id.clone()),
                Body::TurnCancelled(cancelled) if self.running.as_ref() != Some(&cancelled.turn_id) => {
                    let Some(at) = self.waiting.iter().position(|(id, ..)| *id == cancelled.turn_id) else { continue };
                    let (_, ids, _, shown) = self.waiting.remove(at);
                    let named: Vec<String> = cancelled.messages.iter().map(ToString::to_string).collect();
                    assert_eq!(named, if shown { ids.clone() } else { Vec::new() }, "what is given up is named");
                    self.given_up.extend(ids);
                }
                Body::TurnCompleted(_) | Body::TurnFailed(_) | Body::TurnCancelled(_) => self.running = None,
                Body::CallStarted(call) if !call.hidden => {
                    self.calls += 1;
                    let waiting = u32::try_from(self.waiting.len()).unwrap();
                    // One that a worker gives its messages reads what the worker was shown.
                    let is_given = matches!(call.reads, Reads::Messages(_));
                    let takes = call.arrivals > 0 || waiting == 0 || call.attempt > 1 || is_given;
                    assert!(call.arrivals <= waiting && takes, "{} of {waiting} are read", call.arrivals);
                    let before = self.read.insert(call.call_id.to_string(), call.arrivals).unwrap_or_default();
                    assert!(call.arrivals >= before, "an attempt reads no fewer than the one before");
                }
                _ => {}
            }
        }
        for id in owed {
            assert!(self.nodes.contains(&id), "{id} left the queue and is no node");
        }
        for id in &self.promised {
            let places = usize::from(self.nodes.contains(id)) + usize::from(self.waits(id)) + usize::from(self.given_up.contains(id));
            assert_eq!(places, 1, "{id} was accepted: it waits, is a node, or was given up");
        }
    }

    fn waits(&self, id: &str) -> bool {
        self.waiting.iter().any(|(_, ids, ..)| ids.iter().any(|waiting| waiting == id))
    }
}

/// Senders, a model, and a conversation between them.
#[derive(Default)]
pub struct World {
    pub talk: Talk,
    ledger: Ledger,
    made: u32,
    appends: Vec<usize>,
}

impl World {
    pub fn fresh(&mut self, stem: &str) -> String {
        self.made += 1;
        format!("{stem}{}", self.made)
    }

    pub fn took(&mut self, records: &[Record]) {
        self.ledger.take(records);
        self.appends.push(self.talk.log.len());
        let session = &self.talk.session;
        let steers = session.arrivals.iter().filter(|arrival| !arrival.is_event()).count();
        assert!(session.turn.is_some() || steers == 0, "a message waits for a turn that isn't there");
        let waiting: Vec<TurnId> = session.arrivals.iter().map(|arrival| arrival.id.clone()).collect();
        assert_eq!(waiting, self.ledger.waiting.iter().map(|(id, ..)| id.clone()).collect::<Vec<_>>());
        if let Some(turn) = &session.turn {
            assert!(turn.calls <= CALLS_MAX);
        }
        // The model reads the path, and behind it what the call took.
        let prompt = engine::prompt(session).unwrap();
        let read: Vec<String> = session
            .arrivals
            .iter()
            .take(session.turn.as_ref().and_then(|turn| turn.call.as_ref()).map_or(0, |call| call.arrivals) as usize)
            .flat_map(|arrival| arrival.messages.iter().map(|message| message.joined_text()))
            .collect();
        for (read, said) in prompt[prompt.len() - read.len()..].iter().zip(&read) {
            assert!(read.joined_text().ends_with(said.as_str()));
        }
    }

    pub fn send(&mut self, kind: Kind, on_busy: OnBusy, count: usize, run: Option<bool>, show: bool, long: usize) {
        let stem = if kind == Kind::Event { "e" } else { "u" };
        let messages = (0..count).map(|_| {
            let id = self.fresh(stem);
            Message::text(Role::User, format!("{id} {}", "x".repeat(long))).with_id(id.as_str().into())
        });
        let messages = messages.collect();
        let turn_id = Some(TurnId::from(self.fresh("t")));
        let asked = Asked { kind, messages, turn_id, run, on_busy, show, ..Asked::default() }.with_tools(&["pick"]);
        match self.talk.submit(&asked) {
            Ok((records, _)) => {
                self.took(&records);
                // The same again changes nothing.
                assert!(self.talk.submit(&asked).unwrap().0.is_empty());
            }
            Err(refusal) => assert!(kind != Kind::Event || refusal.code.as_str() != "turn_already_active", "an event is never refused so"),
        }
    }

    pub fn act(&mut self, what: u8, n: u8) {
        let long = usize::from(n) * 12;
        let records = match what % 24 {
            0..=2 => return self.send(Kind::Message, OnBusy::Steer, 1, None, false, long),
            3 => return self.send(Kind::Append, OnBusy::Steer, 2, None, false, long),
            4 | 5 => return self.send(Kind::Event, OnBusy::Refuse, 1, None, n.is_multiple_of(2), long),
            6 => return self.send(Kind::Event, OnBusy::Refuse, 1, Some(true), false, long),
            7 => return self.send(Kind::Message, OnBusy::Queue, 1, None, false, long),
            8 => return self.send(Kind::Message, OnBusy::Cancel, 1, None, false, long),
            9 => return self.send(Kind::Message, OnBusy::Refuse, 1, None, false, long),
            10..=16 => self.model(what, n),
            17 => {
                self.talk.written = self.talk.reply_id().filter(|_| n.is_multiple_of(2)).map(|_| Message::text(Role::Assistant, "half"));
                self.talk.cancel(None)
            }
            18 => {
                let names: Vec<TurnId> = self.talk.session.arrivals.iter().map(|arrival| arrival.id.clone()).collect();
                let Some(name) = names.get(usize::from(n) % names.len().max(1)).cloned() else { return };
                self.talk.cancel(Some(&name))
            }
            19 if n.is_multiple_of(3) => {
                let nodes = self.talk.session.tree.len();
                let Some(ix) = usize::from(n).checked_rem(nodes) else { return };
                let to = HeadTo::Node(Some(self.talk.session.tree.id(u32::try_from(ix).unwrap())));
                match self.talk.move_head(&HeadMove { to, label: None }) {
                    Ok((records, _)) => records,
                    Err(_) => return,
                }
            }
            20 => self.talk.recover(),
            21 => {
                let Some(call) = self.talk.session.tree.open_calls().first().cloned() else { return };
                let message = Message { tool_call_id: Some(call), ..Message::text(Role::Tool, "done") };
                let asked = Asked { kind: Kind::Result, messages: vec![message], ..Asked::default() };
                match self.talk.submit(&asked) {
                    Ok((records, _)) => records,
                    // The worker hasn't decided who carries it out.
                    Err(refusal) if refusal.code.as_str() == "turn_already_active" && self.talk.decision().is_some() => return,
                    Err(refusal) => panic!("{refusal:?}"),
                }
            }
            _ => self.model(15, n),
        };
        self.took(&records);
    }

    /// The model, or what is done for it.
    pub fn model(&mut self, what: u8, n: u8) -> Vec<Record> {
        match self.talk.call() {
            Some(Effect::Job { .. }) => unreachable!("a job isn't the turn's"),
            // Nothing of the model's is due.
            Some(Effect::Ask { .. } | Effect::WakeDecision { .. } | Effect::Execute { .. } | Effect::WakeExecution { .. }) | None => {
                Vec::new()
            }
            Some(Effect::Wake { .. }) => self.talk.wake(),
            Some(Effect::Room { .. }) => self.talk.make_room(),
            Some(Effect::Call { .. }) => match what {
                10 => self.talk.fail(CallErrorKind::Cut, None),
                11 => self.talk.fail(CallErrorKind::Refused, None),
                12 => self.talk.fail(CallErrorKind::TooLong, None),
                13 => {
                    let (call, text) = (self.fresh("call"), self.fresh("a"));
                    let tool = if n.is_multiple_of(2) { "pick" } else { "nothing" };
                    self.talk.finish(&text, vec![ToolCall::new(call.as_str().into(), tool, "{}")]).1
                }
                _ => {
                    let text = self.fresh("a");
                    self.talk.reports = n.is_multiple_of(2).then_some(u64::from(n) * 20);
                    self.talk.finish(&text, Vec::new()).1
                }
            },
        }
    }

    /// The log folds up to each record, and after each append a lost process loses nothing.
    pub fn every_prefix_folds(&self) {
        let mut session = Session::default();
        let mut appends = self.appends.iter().peekable();
        for (at, stored) in (1..).zip(&self.talk.log) {
            session.evolve(Record::decode(stored).unwrap()).unwrap();
            engine::check_step(&session).unwrap();
            engine::prompt(&session).unwrap();
            if appends.next_if_eq(&&at).is_none() {
                continue;
            }
            engine::check(&session).unwrap();
            let context = Context { stamp: Stamp { now: session.updated + 1, nonce: 1 << 90 }, ..Talk::default().context() };
            let waiting = session.arrivals.len();
            let reads = session.reading();
            let mut taken = session.clone();
            for record in engine::recover(&session, &context) {
                taken.evolve(record).unwrap();
            }
            engine::check(&taken).unwrap();
            assert!(
                taken.turn.as_ref().map(|turn| &turn.id) != session.turn.as_ref().map(|turn| &turn.id) || taken.arrivals.len() == waiting
            );
            assert!(taken.turn.as_ref().map(|turn| &turn.id) != session.turn.as_ref().map(|turn| &turn.id) || taken.reading() >= reads);
        }
        self.talk.replays();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn none_is_skipped_lost_or_doubled(acts in prop::collection::vec(any::<(u8, u8)>(), 1..60), window in any::<bool>()) {
        let mut world = World::default();
        if window {
            let context = r#"{"window":18000,"strategy":[{"use":"summarize","over_tokens":1200,"keep_turns":1}]}"#;
            world.talk.configure("bot", Some("You help."), &serde_json::from_str(context).unwrap());
        }
        for (what, n) in acts {
            world.act(what, n);
        }
        world.every_prefix_folds();
    }
}
