//! Decisions: an agent's worker is asked what a turn does next. One decision is open in a session at a time; it is asked again until it is
//! answered, or the turn fails. What an answer comes to is in [`answer`](super::answer()).

mod request;

use serde::{Deserialize, Serialize};

use super::call::{RECOVERIES_MAX, doubled, turn};
use super::context::{self, Caller};
use super::effect::Effect;
use super::record::{
    About, Body, CallEnded, DecisionAnswered, DecisionAsked, DecisionFailed, HiddenCall, Reads, Record, Summary, TurnRecovered,
};
use super::session::Session;
use super::turn::{Call, Turn};
use super::write::Writer;
use super::{Context, Finished};
use crate::ids::{AgentId, CallId, DecisionId, Millis, NodeId};
use crate::protocol::{CallError, Code, Finish, KeptReason, TriggerKind, Usage};

pub use request::decision_request;
pub(super) use request::{Asked, label};

/// So many answered decisions are remembered.
const ANSWERED_MAX: usize = 32;

/// So much of what is wrong is recorded.
const MESSAGE_CHARS_MAX: usize = 500;

/// How an agent's worker is asked.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The agent's llm.
    pub llm: String,
    /// Those that there are.
    pub llms: Vec<String>,
    /// How long, and how often.
    pub patience: Patience,
    /// What it is asked; what it isn't, is decided without it.
    pub triggers: Vec<TriggerKind>,
}

impl Asking {
    /// Whether it is asked about this. What came of a call of its own it always is.
    fn wants(&self, about: &About) -> bool {
        let is_own = matches!(about, About::Call(ended) if ended.hidden.as_ref().is_some_and(|hidden| hidden.summary.is_none()));
        is_own || self.triggers.contains(&about.kind())
    }
}

/// How long and how often a worker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// An attempt has failed after so long.
    pub attempt: Millis,
    /// So many attempts.
    pub attempts: u32,
    /// All of them together take no longer.
    pub all: Millis,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempt: 20_000, attempts: 10, all: 300_000 }
    }
}

/// An open decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Which.
    pub id: DecisionId,
    /// What it is about.
    pub about: About,
    /// The id that a call has which is proposed.
    pub ready: Option<CallId>,
    /// So many of what waits for a call the worker is shown.
    pub arrivals: u32,
    /// From 1.
    pub attempt: u32,
    /// This attempt has failed then.
    pub deadline: Millis,
    /// No attempt begins after that.
    pub until: Millis,
    /// When the next attempt starts, when this one has failed.
    pub retry_at: Option<Millis>,
}

impl Decision {
    /// What it wants done.
    pub(super) fn wanted(&self) -> Vec<Effect> {
        let wake = |at| Effect::WakeDecision { at, id: self.id.clone(), attempt: self.attempt };
        match self.retry_at {
            Some(at) => vec![wake(at)],
            None => vec![Effect::Ask { id: self.id.clone(), attempt: self.attempt }, wake(self.deadline)],
        }
    }
}

impl Session {
    /// `decision.asked`.
    pub(super) fn ask(&mut self, asked: DecisionAsked) -> Result<(), String> {
        let DecisionAsked { turn_id, decision_id: id, attempt, about, trigger: _, arrivals, ready, deadline, until } = asked;
        let turn = self.running(&turn_id)?;
        turn.failed = None;
        match (about, &mut turn.decision) {
            (Some(about), none @ None) => {
                turn.decisions += 1;
                *none = Some(Box::new(Decision { id, about, ready, arrivals, attempt, deadline, until, retry_at: None }));
            }
            (None, Some(open)) if open.id == id => {
                (open.attempt, open.deadline, open.until, open.retry_at) = (attempt, deadline, until, None);
            }
            (Some(_), Some(open)) => return Err(format!("decision {id} is asked while decision {} is open", open.id)),
            (None, _) => return Err(format!("decision {id} isn't open")),
        }
        self.offer(arrivals);
        Ok(())
    }

    /// `decision.answered`.
    pub(super) fn take_answer(&mut self, answered: DecisionAnswered) -> Result<(), String> {
        let DecisionAnswered { turn_id, decision_id, actions: _ } = answered;
        let open = self.running(&turn_id)?.decision.take_if(|open| open.id == decision_id);
        open.ok_or_else(|| format!("decision {decision_id} isn't open"))?;
        self.remember_answer(decision_id);
        Ok(())
    }

    /// The same answer again is known from now on.
    pub(super) fn remember_answer(&mut self, id: DecisionId) {
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(id);
    }

    /// `decision.failed`.
    pub(super) fn fail_decision(&mut self, failed: &DecisionFailed) -> Result<(), String> {
        let turn = self.running(&failed.turn_id)?;
        let open = turn.decision.as_mut().filter(|open| open.id == failed.decision_id);
        let open = open.ok_or_else(|| format!("decision {} isn't open", failed.decision_id))?;
        match failed.not_before {
            Some(at) => open.retry_at = Some(at),
            None => turn.decision = None,
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// How an agent's worker is asked; nothing: it has none.
    pub(super) fn asking(&self, agent_id: &AgentId) -> Option<&Asking> {
        self.agent(agent_id)?.worker.as_ref()
    }

    /// Asks the agent's worker, showing it what waits besides, as far as a call would read it. Whether the agent has one.
    pub(super) fn ask(&mut self, caller: &Caller<'_>, about: About, with_waiting: bool) -> bool {
        let Caller { turn_id, agent_id, client } = *caller;
        let Some(patience) = self.asking(agent_id).filter(|asking| asking.wants(&about)).map(|asking| asking.patience) else {
            return false;
        };
        let arrivals = if with_waiting { self.that_fit(self.agent(agent_id), client) } else { 0 };
        let id = DecisionId::from(self.fresh());
        let may_propose = match &about {
            About::Limit => true,
            About::Call(ended) => ended.hidden.is_some() && ended.error.is_some(),
            About::Messages { .. } | About::Results { .. } | About::Action(_) | About::Resumed { .. } | About::End => false,
        };
        let ready = may_propose.then(|| CallId::from(self.fresh()));
        let asked = DecisionAsked {
            turn_id: turn_id.clone(),
            decision_id: id,
            attempt: 1,
            trigger: about.kind(),
            about: Some(about),
            arrivals,
            ready,
            deadline: 0,
            until: self.context.stamp.now.saturating_add(patience.all),
        };
        self.attempt_to_ask(asked, patience);
        true
    }

    fn attempt_to_ask(&mut self, asked: DecisionAsked, patience: Patience) {
        let deadline = self.context.stamp.now.saturating_add(patience.attempt).min(asked.until);
        self.push(Body::DecisionAsked(Box::new(DecisionAsked { deadline, ..asked })));
    }

    fn ask_again(&mut self, turn: &Turn, open: &Decision, until: Millis) {
        let patience = self.patience(turn);
        let (turn_id, decision_id, trigger) = (turn.id.clone(), open.id.clone(), open.about.kind());
        let (attempt, arrivals, ready) = (open.attempt + 1, open.arrivals, open.ready.clone());
        let asked = DecisionAsked { turn_id, decision_id, attempt, about: None, trigger, arrivals, ready, deadline: 0, until };
        self.attempt_to_ask(asked, patience);
    }

    fn patience(&self, turn: &Turn) -> Patience {
        self.asking(&turn.agent_id).map_or_else(Patience::default, |asking| asking.patience)
    }

    /// Messages came: those that begin a turn, or others that join it. Whether the worker is asked.
    pub(super) fn ask_about_messages(&mut self, caller: &Caller<'_>, reply: bool) -> bool {
        self.ask(caller, About::Messages { reply }, reply)
    }

    /// The results of a reply's calls are complete. Whether the worker is asked.
    pub(super) fn ask_about_results(&mut self, turn: &Turn, reply: bool) -> bool {
        let last = self.records.iter().rev().find_map(|record| match &record.body {
            Body::MessageNew(new) => new.message.as_ref()?.tool_call_id.clone(),
            _ => None,
        });
        last.is_some_and(|last| self.ask(&turn.caller(), About::Results { last, reply }, reply))
    }

    /// A call has failed for good: the worker is asked, or the turn fails; one that was to make room for another had made none.
    pub(super) fn call_failed(&mut self, turn: &Turn, call: &Call, error: &CallError) {
        if self.ask(&turn.caller(), About::Call(Box::new(failed(call, error.clone()))), true) {
            return;
        }
        if call.hidden {
            context::summary_failed(self, turn, call, error.kind);
        } else {
            self.fail(turn, error.kind.code(), error.message.clone());
        }
    }

    /// The reply of a call is a node; whether the worker is asked.
    pub(super) fn ask_about_reply(&mut self, turn: &Turn, call: &Call, finish: Finish, usage: Option<Usage>, calls: bool) -> bool {
        let (call_id, reply) = (call.id.clone(), Some(call.reply_id.clone()));
        let ended = CallEnded { call_id, reply, truncated: finish == Finish::Length, usage, error: None, hidden: None };
        // What waits comes after the results.
        self.ask(&turn.caller(), About::Call(Box::new(ended)), !calls)
    }

    /// A hidden call ended well; whether the worker is asked.
    pub(super) fn ask_about_hidden(&mut self, turn: &Turn, call: &Call, finished: &Finished) -> bool {
        let text = Some(finished.message.joined_text());
        let ended = CallEnded {
            call_id: call.id.clone(),
            reply: None,
            truncated: finished.finish == Finish::Length,
            usage: finished.usage.clone(),
            error: None,
            hidden: Some(HiddenCall { text, ..hidden(call) }),
        };
        self.ask(&turn.caller(), About::Call(Box::new(ended)), true)
    }

    /// A call that is held is held no more: the history stays as it is.
    pub(super) fn keep_history(&mut self, turn: &Turn, reason: KeptReason) {
        if let Some(held) = &turn.held {
            let (turn_id, call_id) = (turn.id.clone(), held.id.clone());
            self.push(Body::ContextKept(super::record::ContextKept { turn_id, call_id, reason }));
        }
    }
}

fn hidden(call: &Call) -> HiddenCall {
    let summary: Option<Summary> = match &call.reads {
        Reads::Summary(summary) => Some(summary.clone()),
        Reads::Path | Reads::Messages(_) => None,
    };
    HiddenCall { text: None, summary, llm: call.llm.clone(), model: call.model.clone() }
}

fn failed(call: &Call, error: CallError) -> CallEnded {
    let hidden = call.hidden.then(|| hidden(call));
    CallEnded { call_id: call.id.clone(), reply: None::<NodeId>, truncated: false, usage: None, error: Some(error), hidden }
}

/// The decision that is open under this id.
pub(super) fn open<'a>(session: &'a Session, id: &DecisionId) -> Option<(&'a Turn, &'a Decision)> {
    let turn = turn(session)?;
    let open = turn.decision.as_deref().filter(|open| open.id == *id)?;
    Some((turn, open))
}

/// Why an attempt to ask has failed.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered<'a> {
    /// In a word.
    pub code: Code,
    /// In words.
    pub message: &'a str,
    /// The next attempt begins no sooner than after so long.
    pub pause: Millis,
}

/// An attempt to ask has failed: the worker gave no answer, or none that can be carried out. An attempt that isn't the running one
/// changes nothing.
pub fn decision_failed(session: &Session, id: &DecisionId, attempt: u32, why: Unanswered<'_>, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    if let Some((turn, open)) = open(session, id).filter(|(_, open)| open.attempt == attempt && open.retry_at.is_none()) {
        give_up_attempt(&mut writer, turn, open, why);
    }
    writer.records
}

fn give_up_attempt(writer: &mut Writer<'_>, turn: &Turn, open: &Decision, why: Unanswered<'_>) {
    let Unanswered { code, message, pause } = why;
    let stamp = writer.context.stamp;
    let at = stamp.now.saturating_add(doubled(open.attempt, stamp.nonce).max(pause));
    // Who says it may say much.
    let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    let again = at < open.until && open.attempt < writer.patience(turn).attempts + turn.recoveries;
    writer.push(Body::DecisionFailed(DecisionFailed {
        turn_id: turn.id.clone(),
        decision_id: open.id.clone(),
        attempt: open.attempt,
        code,
        message,
        not_before: again.then_some(at),
    }));
    if !again {
        writer.keep_history(turn, KeptReason::Cancelled);
        let times = if open.attempt == 1 { "once".to_owned() } else { format!("{} times", open.attempt) };
        // What a worker says may be nobody's business.
        let what = match code {
            Code::WorkerTimedOut => "it didn't answer in time",
            Code::WorkerBadAnswer => "its answer can't be carried out",
            _ => "it failed",
        };
        writer.fail(turn, code, format!("the agent's worker was asked {times} what to do; the last time {what}"));
    }
}

/// The pause before the next attempt is over, or an attempt has taken too long.
pub fn wake_decision(session: &Session, id: &DecisionId, attempt: u32, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    let now = context.stamp.now;
    if let Some((turn, open)) = open(session, id).filter(|(_, open)| open.attempt == attempt) {
        match open.retry_at {
            Some(at) if at <= now => writer.ask_again(turn, open, open.until),
            None if open.deadline <= now => {
                let why = Unanswered { code: Code::WorkerTimedOut, message: "the worker didn't answer in time", pause: 0 };
                give_up_attempt(&mut writer, turn, open, why);
            }
            Some(_) | None => {}
        }
    }
    writer.records
}

/// The process that asked was lost: the worker is asked again, with all its time. One that waits for its next attempt lost nothing.
pub(super) fn recover(writer: &mut Writer<'_>, turn: &Turn, open: &Decision) {
    if open.retry_at.is_some() {
        return;
    }
    if turn.recoveries < RECOVERIES_MAX {
        writer.push(Body::TurnRecovered(TurnRecovered { turn_id: turn.id.clone(), attempt: turn.recoveries + 1 }));
        let until = writer.context.stamp.now.saturating_add(writer.patience(turn).all);
        return writer.ask_again(turn, open, until);
    }
    writer.keep_history(turn, KeptReason::Cancelled);
    writer.fail(turn, Code::OwnerLost, format!("the process that ran this turn was lost {} times", turn.recoveries + 1));
}
