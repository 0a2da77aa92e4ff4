//! What is held of the records that make room: which follows which, and how often.

use std::collections::{HashMap, HashSet};

use headwater::engine::context::{ContextOptions, StrategyOptions};
use headwater::engine::record::{Body, CallFailed, CallStarted, ContextLimited, Reads, Record};
use headwater::engine::{self, Effect, Session};
use headwater::ids::{CallId, Millis, NodeId, TurnId};
use headwater::protocol::{CallErrorKind, Code, KeptReason, LimitReason};

use super::beside::Jobs;
use super::counts::Counts;
use crate::talk::{ATTEMPTS, CALLS_MAX, Talk};

/// A turn that is there.
#[derive(Default)]
struct Turn {
    id: Option<TurnId>,
    /// How long no turn ran before it.
    idle: Option<Millis>,
    /// Visible calls that it has begun.
    begun: Vec<CallId>,
    limited: Vec<(CallId, LimitReason)>,
    /// Calls that a provider has refused as too long.
    refused: HashSet<CallId>,
    stuck: bool,
    recovered: u32,
    /// Only the end may follow.
    fails: bool,
}

/// A call that is held.
struct Hold {
    call: CallId,
    reason: LimitReason,
    /// The hidden calls that were made for it, and their attempts.
    hidden: HashMap<CallId, u32>,
}

/// The records so far.
#[derive(Default)]
pub struct Ledger {
    read: usize,
    turn: Option<Turn>,
    hold: Option<Hold>,
    rested: Option<Millis>,
    /// What was wanted after so many records.
    wanted: Vec<(usize, Vec<Effect>)>,
    /// Epochs, why room was made, and for which call.
    pub replaced: Vec<(NodeId, LimitReason, CallId)>,
}

/// The most tokens that a strategy lets pass; none: it isn't about how much there is.
pub fn most(strategy: &StrategyOptions, options: &ContextOptions) -> Option<u64> {
    if strategy.idle_secs.is_some() {
        return None;
    }
    let by_window = |window: u64| if window > 16_000 { window - 16_000 } else { window / 2 };
    strategy.over_tokens.map(std::num::NonZero::get).or_else(|| options.window.map(|window| by_window(window.get())))
}

impl Ledger {
    /// Takes what was recorded since.
    pub fn take(&mut self, talk: &Talk, options: &ContextOptions, counts: &mut Counts, jobs: &mut Jobs) {
        for stored in &talk.log[self.read..] {
            let record = Record::decode(stored).unwrap();
            counts.take(&record);
            jobs.take(&record);
            self.record(&record, options);
        }
        self.read = talk.log.len();
        self.wanted.push((self.read, engine::wanted(&talk.session)));
        assert_eq!(self.hold.is_some(), talk.session.turn.as_ref().is_some_and(|turn| turn.held.is_some()), "a call is held");
        assert!(!self.turn.as_ref().is_some_and(|turn| turn.fails), "refused again, the turn fails in the same append");
    }

    fn turn(&mut self) -> &mut Turn {
        self.turn.as_mut().expect("a turn is there")
    }

    /// Whether making room was of no use in the turn that is there.
    pub fn is_stuck(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.stuck)
    }

    /// Whether room was made for a call, or was to be.
    pub fn was_held(&self, call: &CallId) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.limited.iter().any(|(limited, _)| limited == call))
    }

    fn record(&mut self, record: &Record, options: &ContextOptions) {
        match &record.body {
            Body::TurnStarted(started) => {
                assert!(self.turn.is_none() && self.hold.is_none(), "one turn at a time");
                let idle = self.rested.map(|rested| record.at - rested);
                self.turn = Some(Turn { id: Some(started.turn_id.clone()), idle, ..Turn::default() });
            }
            Body::ContextLimited(limited) => self.limited(limited, options),
            Body::CallStarted(started) => self.started(started),
            Body::CallFailed(failed) => self.failed(failed),
            Body::ContextReplaced(replaced) if replaced.background => assert!(self.hold.is_none(), "nothing is held for it"),
            Body::ContextReplaced(replaced) => {
                let hold = self.hold.take().expect("a call was held");
                assert_eq!(Some(&hold.call), replaced.call_id.as_ref());
                assert!(hold.reason == LimitReason::Overflow || !replaced.no_gain);
                self.turn().stuck |= replaced.no_gain;
                self.replaced.push((replaced.node_id.clone(), hold.reason, hold.call));
            }
            Body::ContextKept(kept) => {
                let hold = self.hold.take().expect("a call was held");
                assert_eq!(hold.call, kept.call_id);
                self.turn().stuck |= matches!(kept.reason, KeptReason::NoGain | KeptReason::SummaryFailed);
                self.turn().fails |= hold.reason == LimitReason::Overflow && kept.reason == KeptReason::NoGain;
            }
            Body::TurnRecovered(_) => self.turn().recovered += 1,
            Body::TurnCompleted(ended) => self.ended(&ended.turn_id, record.at),
            Body::TurnFailed(ended) => {
                let fails = self.turn().fails;
                assert_eq!(fails, ended.code == Code::LlmTooLong);
                self.ended(&ended.turn_id, record.at);
            }
            Body::TurnCancelled(ended) if self.turn.as_ref().is_some_and(|turn| turn.id.as_ref() == Some(&ended.turn_id)) => {
                self.ended(&ended.turn_id, record.at);
            }
            _ => {}
        }
    }

    fn ended(&mut self, id: &TurnId, at: Millis) {
        let turn = self.turn.take().expect("a turn was there");
        assert_eq!(turn.id.as_ref(), Some(id));
        assert!(self.hold.is_none(), "what was limited is replaced or kept");
        self.rested = Some(at);
    }

    fn limited(&mut self, limited: &ContextLimited, options: &ContextOptions) {
        assert!(self.hold.is_none(), "one call at a time");
        let named = limited.strategy.as_ref().map(|named| (named.index as usize, named.name.as_str()));
        let turn = self.turn();
        assert!(!turn.stuck, "what was of no use isn't tried again in that turn");
        let held = (limited.call_id.clone(), limited.reason);
        assert!(!turn.limited.contains(&held), "for one reason a call is held once");
        turn.limited.push(held);
        let applies = |strategy: &StrategyOptions| match (strategy.idle_secs, most(strategy, options)) {
            (Some(secs), _) => {
                let first = turn.begun.is_empty() && turn.limited.len() == 1;
                (first && turn.idle.is_some_and(|idle| idle >= secs.get() * 1000)).then_some(LimitReason::Idle)
            }
            (None, Some(most)) => (limited.tokens > most).then_some(LimitReason::Full),
            (None, None) => None,
        };
        let mut holding = options.strategy.iter().enumerate().filter(|(_, strategy)| strategy.background.is_none());
        let first = holding.find_map(|(at, strategy)| Some((at, strategy, applies(strategy)?)));
        match limited.reason {
            LimitReason::Idle | LimitReason::Full => {
                let (at, strategy, reason) = first.expect("a strategy applies");
                assert_eq!((named, limited.reason), (Some((at, strategy.r#use.as_str())), reason), "the first that applies");
                assert!(!turn.begun.contains(&limited.call_id));
            }
            LimitReason::Overflow => {
                let summarizing = options.strategy.iter().position(|strategy| strategy.r#use == "summarize");
                assert_eq!(named, summarizing.map(|at| (at, "summarize")));
                assert!(turn.refused.contains(&limited.call_id));
            }
        }
        self.hold = Some(Hold { call: limited.call_id.clone(), reason: limited.reason, hidden: HashMap::new() });
    }

    fn started(&mut self, started: &CallStarted) {
        if !started.hidden {
            assert!(self.hold.is_none(), "a call that is held doesn't run");
            let turn = self.turn();
            if !turn.begun.contains(&started.call_id) {
                turn.begun.push(started.call_id.clone());
            }
            assert!(turn.begun.len() <= CALLS_MAX as usize, "so many calls a turn");
            return;
        }
        assert!(matches!(started.reads, Reads::Summary(_)));
        let most = ATTEMPTS + self.turn().recovered;
        let hold = self.hold.as_mut().expect("a call is held");
        let attempts = hold.hidden.entry(started.call_id.clone()).or_default();
        *attempts += 1;
        assert!(*attempts <= most + 1, "a summary is tried {attempts} times");
        assert!(hold.hidden.len() <= 4, "at most three are shorter");
    }

    fn failed(&mut self, failed: &CallFailed) {
        if failed.hidden || failed.error.kind != CallErrorKind::TooLong {
            return;
        }
        let turn = self.turn();
        let again = !turn.refused.insert(failed.call_id.clone());
        turn.fails |= again || turn.stuck;
    }

    /// From every place in the log the same follows as when it was there.
    pub fn every_prefix_goes_on(&self, log: &[Vec<u8>]) {
        let mut session = Session::default();
        let mut read = 0;
        for (len, wanted) in &self.wanted {
            for stored in &log[read..*len] {
                session.evolve(Record::decode(stored).unwrap()).unwrap();
            }
            read = *len;
            assert_eq!(&engine::wanted(&session), wanted, "after {len} records");
        }
    }
}
