//! A session: the fold of its log. Decides nothing; [`evolve`](Session::evolve) takes one record after another.

use std::collections::VecDeque;
use std::sync::Arc;

use super::arrivals::Arrivals;
use super::branched::Branched;
use super::contents::Contents;
use super::interrupt::Interrupts;
use super::job::Job;
use super::queue::Queue;
use super::reading::Ix;
use super::record::{
    Body, CallCompleted, CallFailed, CallStarted, CallVoided, ContextKept, ContextLimited, ContextReplaced, HeadMoved, MessageNew, Reads,
    Record, TurnJoined, TurnQueued, TurnStarted,
};
use super::state::Overrides;
use super::tree::{Misfit, Tree};
use super::turn::{Call, End, Held, Known, Turn, Wish};
use super::turns::Turns;
use crate::ids::{AgentId, CallId, DecisionId, Millis, TurnId};
use crate::protocol::{ForkedFrom, Json, KeptReason, LimitReason, Message, NodeKind, Usage};

/// One conversation, as its log makes it.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Records folded so far.
    pub seq: u64,
    /// The agent it began with; none: no record yet.
    pub agent_id: Option<AgentId>,
    /// Time of the last record.
    pub updated: Millis,
    /// The nodes.
    pub tree: Tree,
    /// Where the next message attaches.
    pub head: Option<Ix>,
    /// The turn that runs, or waits for results.
    pub turn: Option<Turn>,
    /// The turns that wait for it.
    pub queue: Queue,
    /// The summary that is written while turns go on, until it is adopted.
    pub job: Option<Job>,
    /// What waits for a model call.
    pub arrivals: Arrivals,
    /// What it is about.
    pub title: Option<String>,
    /// Whether lists leave it out.
    pub archived: bool,
    /// Of a fork: what it was made from.
    pub forked_from: Option<ForkedFrom>,
    /// Named nodes, in the order in which they were named.
    pub labels: Vec<(String, Ix)>,
    /// When the last turn ended.
    pub rested: Option<Millis>,
    /// Every turn id that was used.
    pub turns: Turns,
    /// The last record that belongs to a turn of before, or came with a fork.
    pub(super) ended: u64,
    /// A record of a later version that must be understood: the session is read only.
    pub newer: Option<String>,
    /// The last decisions that were answered, the oldest first: the same answer again is known.
    pub answered: VecDeque<DecisionId>,
    /// The agent's state, by branch.
    pub states: Branched<Json>,
    /// What is overridden of agents, by branch.
    pub overrides: Branched<Overrides>,
    /// What is kept of interrupts, besides those of the turn that is there.
    pub interrupts: Interrupts,
    /// What nodes say; not of all.
    pub(super) contents: Contents,
}

/// The log doesn't make a session.
#[derive(Debug, thiserror::Error)]
#[error("record {seq} doesn't fit: {why}")]
pub struct Corrupt {
    /// Which record.
    pub seq: u64,
    /// Why.
    pub why: String,
}

impl Session {
    /// Takes the next record of the log. After one that isn't understood, what doesn't fit is no damage.
    pub fn evolve(&mut self, record: Record) -> Result<(), Corrupt> {
        let seq = self.seq + 1;
        let applied = self.apply(record.at, seq, record.body);
        applied.or_else(|why| if self.newer.is_some() { Ok(()) } else { Err(Corrupt { seq, why }) })?;
        self.seq = seq;
        // A fork's records keep their times.
        self.updated = self.updated.max(record.at);
        Ok(())
    }

    fn apply(&mut self, at: Millis, seq: u64, body: Body) -> Result<(), String> {
        match body {
            Body::SessionCreated(data) => self.agent_id = Some(data.agent_id),
            Body::SessionForked(data) => {
                self.agent_id = Some(data.agent_id);
                self.forked_from = Some(data.from);
            }
            Body::SessionUpdated(data) => {
                if let Some(title) = data.title {
                    self.title = title;
                }
                self.archived = data.archived.unwrap_or(self.archived);
            }
            Body::MessageNew(data) => self.add(seq, at, *data).map_err(|misfit| misfit.to_string())?,
            Body::HeadMoved(data) => self.move_head(&data)?,
            Body::TurnQueued(data) => self.wait(at, *data)?,
            Body::TurnStarted(data) => self.start(at, *data)?,
            Body::TurnJoined(data) => self.join(*data)?,
            Body::TurnWaiting(data) => drop(self.running(&data.turn_id)?),
            Body::TurnCompleted(data) => self.end(at, seq, &data.turn_id, End::Completed)?,
            Body::TurnFailed(data) => self.end(at, seq, &data.turn_id, End::Failed { code: data.code, message: data.message })?,
            Body::TurnCancelled(data) => self.cancel(at, seq, &data.turn_id)?,
            Body::TurnRecovered(data) => self.running(&data.turn_id)?.recoveries = data.attempt,
            Body::CallStarted(data) => self.start_call(data)?,
            Body::CallCompleted(data) => self.complete_call(&data)?,
            Body::CallVoided(CallVoided { call_id, .. }) => drop(self.end_call(&call_id)?),
            Body::CallFailed(data) => self.fail_call(data)?,
            Body::ContextLimited(data) => self.hold(data)?,
            Body::ContextReplaced(data) => self.replaced(&data)?,
            Body::ContextKept(data) => self.keep(&data)?,
            Body::JobStarted(data) => self.job_started(*data)?,
            Body::JobFinished(data) => self.job_finished(data)?,
            Body::JobFailed(data) => self.job_failed(&data)?,
            Body::JobDropped(data) => self.job_dropped(&data)?,
            Body::ArrivalQueued(data) => self.arrive(at, *data)?,
            Body::ArrivalConsumed(data) => self.consume(&data)?,
            Body::DecisionAsked(data) => self.ask(*data)?,
            Body::DecisionAnswered(data) => self.take_answer(data)?,
            Body::DecisionFailed(data) => self.fail_decision(&data)?,
            Body::ToolCallsTaken(data) => self.take_calls(*data)?,
            Body::ToolCallStarted(data) => self.start_execution(&data)?,
            Body::ToolCallCompleted(data) => self.complete_execution(&data)?,
            Body::ToolCallFailed(data) => self.fail_execution(&data)?,
            Body::StateUpdated(data) => self.update_state(seq, *data),
            Body::AgentUpdated(data) => self.update_agent(seq, *data),
            Body::SessionInterrupted(data) => self.interrupted(*data)?,
            Body::InterruptResumed(data) => self.interrupt_resumed(*data)?,
            Body::TurnSuspended(data) => self.suspend(seq, &data)?,
            Body::Custom(data) => drop(self.running(&data.turn_id)?),
            Body::Unknown(data) => {
                if data.must_understand {
                    self.newer.get_or_insert(data.kind);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, seq: u64, at: Millis, new: MessageNew) -> Result<(), Misfit> {
        let ix = self.tree.add(seq, at, &new)?;
        self.inherit(ix);
        if !new.aside {
            self.head = Some(ix);
        }
        if !new.known_as.is_empty() {
            self.ended = seq;
        }
        self.recall(ix, new);
        self.forget();
        Ok(())
    }

    fn move_head(&mut self, moved: &HeadMoved) -> Result<(), String> {
        self.head = match &moved.to {
            None => None,
            Some(id) => Some(self.tree.find(id).ok_or_else(|| format!("the head moves to {id}, which isn't there"))?),
        };
        if let (Some(turn_id), Some(digest)) = (&moved.turn_id, moved.digest) {
            self.turns.insert(turn_id, Known { end: Some(End::Completed), ..Known::new(digest, None) });
        }
        if let (Some(label), Some(head)) = (&moved.label, self.head) {
            self.labels.retain(|(name, _)| name != label);
            self.labels.push((label.clone(), head));
        }
        Ok(())
    }

    fn wait(&mut self, at: Millis, queued: TurnQueued) -> Result<(), String> {
        for id in queued.messages.iter().filter_map(|message| message.id.as_ref()) {
            self.tree.name(id);
        }
        self.turns.insert(&queued.turn_id, Known::new(queued.digest, queued.into.clone()));
        self.queue.take(at, queued)
    }

    fn start(&mut self, at: Millis, started: TurnStarted) -> Result<(), String> {
        if let Some(turn) = &self.turn {
            return Err(format!("turn {} starts while turn {} runs", started.turn_id, turn.id));
        }
        let merged = self.queue.remove(&started.turn_id).is_some_and(|queued| queued.merged);
        self.begun_for(&started.turn_id);
        self.turns.insert(&started.turn_id, Known::new(started.digest, None));
        self.turns.begin(self.ended + 1, &started.turn_id);
        self.turn = Some(Turn {
            id: started.turn_id,
            agent_id: started.agent_id,
            started_at: at,
            began: self.tree.vertex(self.head),
            client: started.client,
            merged,
            call: None,
            calls: 0,
            recoveries: 0,
            held: None,
            decision: None,
            decisions: 0,
            executions: Vec::new(),
            usage: Vec::new(),
            failed: None,
            refused: None,
            stuck: false,
            job_in_vain: false,
            interrupts: Vec::new(),
            resumed: Vec::new(),
        });
        Ok(())
    }

    fn join(&mut self, joined: TurnJoined) -> Result<(), String> {
        self.running(&joined.turn_id)?.client.merge(joined.client);
        self.turns.insert(&joined.name, Known::new(joined.digest, Some(joined.turn_id)));
        Ok(())
    }

    /// A turn that waits for another leaves the queue, and the ids of what it would have brought name nothing any more. So does what
    /// waits for a call.
    fn cancel(&mut self, at: Millis, seq: u64, turn_id: &TurnId) -> Result<(), String> {
        let runs = self.turn.as_ref().is_some_and(|turn| turn.id == *turn_id);
        if !runs && self.give_up_arrival(turn_id) {
            return Ok(());
        }
        if self.end_suspended(turn_id) {
            self.turns.end(turn_id, End::Cancelled);
            return Ok(());
        }
        let Some(queued) = self.queue.remove(turn_id) else { return self.end(at, seq, turn_id, End::Cancelled) };
        for id in queued.messages.iter().filter_map(|message| message.id.as_ref()) {
            if self.queue.bringing(id).is_none() && self.arrivals.bringing(id).is_none() {
                self.tree.forget(id);
            }
        }
        self.turns.end(turn_id, End::Cancelled);
        Ok(())
    }

    fn end(&mut self, at: Millis, seq: u64, turn_id: &TurnId, end: End) -> Result<(), String> {
        self.running(turn_id)?;
        self.turn = None;
        self.rested = Some(at);
        self.ended = seq;
        self.tree.leave_open(Vec::new());
        self.turns.end(turn_id, end);
        Ok(())
    }

    pub(super) fn running(&mut self, turn_id: &TurnId) -> Result<&mut Turn, String> {
        self.turn.as_mut().filter(|turn| turn.id == *turn_id).ok_or_else(|| format!("turn {turn_id} doesn't run"))
    }

    fn start_call(&mut self, started: CallStarted) -> Result<(), String> {
        let CallStarted { turn_id, call_id, attempt, reply_id, hidden, llm, model, reads, arrivals, goes_on } = started;
        let turn = self.running(&turn_id)?;
        let begun = turn.call.take().filter(|call| call.id == call_id).map(|call| call.reply_id);
        let held = turn.held.take_if(|held| held.id == call_id).and_then(|held| held.begun).map(|(_, reply)| reply);
        let before = begun.or(held);
        // What an agent goes on with was counted when it began. When that was lost, it begins anew.
        if before.is_some() == goes_on && !hidden {
            turn.calls += 1;
        }
        let (reply, retry_at) = (reply_id.clone(), None);
        turn.call = Some(Call { id: call_id, attempt, reply_id: reply, hidden, retry_at, llm, model, reads, arrivals, goes_on });
        self.turns.reply(&turn_id);
        self.offer(arrivals);
        match before {
            Some(before) => self.tree.rename(&before, &reply_id),
            None if hidden => {}
            None => {
                self.tree.name(&reply_id);
            }
        }
        Ok(())
    }

    /// A call has ended; its reply, when it has one, is the newest node.
    fn complete_call(&mut self, completed: &CallCompleted) -> Result<(), String> {
        let call = self.end_call(&completed.call_id)?;
        if let (Some(turn), Some(usage)) = (&mut self.turn, &completed.usage) {
            Usage::add_to(&mut turn.usage, usage);
        }
        let reported = completed.usage.as_ref().and_then(Usage::read);
        if let (Some(tokens), Some(reply), Reads::Path) = (reported, self.tree.find(&call.reply_id), &call.reads) {
            self.tree.report(reply, tokens);
        }
        Ok(())
    }

    fn end_call(&mut self, id: &CallId) -> Result<Call, String> {
        let call = self.turn.as_mut().and_then(|turn| {
            let call = turn.call.take_if(|call| call.id == *id)?;
            if !call.hidden {
                turn.resumed.clear();
            }
            Some(call)
        });
        call.ok_or_else(|| format!("call {id} doesn't run"))
    }

    fn fail_call(&mut self, failed: CallFailed) -> Result<(), String> {
        let CallFailed { call_id, not_before, .. } = failed;
        if let Some(retry_at) = not_before {
            self.calling(&call_id)?.retry_at = Some(retry_at);
            return Ok(());
        }
        let call = self.end_call(&call_id)?;
        if let Some(turn) = self.turn.as_mut().filter(|_| !call.hidden) {
            turn.failed = Some(call);
        }
        Ok(())
    }

    /// A call waits for room: a new one, or the one that a provider has just refused.
    fn hold(&mut self, limited: ContextLimited) -> Result<(), String> {
        let ContextLimited { turn_id, call_id, reason, strategy, tokens, window: _, llm, model } = limited;
        let turn = self.running(&turn_id)?;
        let failed = turn.failed.take_if(|call| call.id == call_id);
        let arrivals = failed.as_ref().map_or(0, |call| call.arrivals);
        let begun = failed.map(|call| (call.attempt, call.reply_id));
        if reason == LimitReason::Overflow {
            turn.refused = Some(call_id.clone());
        }
        turn.held = Some(Held { id: call_id, reason, strategy, tokens, begun, arrivals, wish: Wish { llm, model } });
        Ok(())
    }

    fn replaced(&mut self, replaced: &ContextReplaced) -> Result<(), String> {
        self.running(&replaced.turn_id)?.stuck |= replaced.no_gain;
        if replaced.background {
            self.end_job(false);
        }
        Ok(())
    }

    fn keep(&mut self, kept: &ContextKept) -> Result<(), String> {
        self.running(&kept.turn_id)?.stuck |= match kept.reason {
            KeptReason::SummaryFailed | KeptReason::NoGain => true,
            KeptReason::Declined | KeptReason::Cancelled => false,
        };
        Ok(())
    }

    fn calling(&mut self, id: &CallId) -> Result<&mut Call, String> {
        let call = self.turn.as_mut().and_then(|turn| turn.call.as_mut());
        call.filter(|call| call.id == *id).ok_or_else(|| format!("call {id} doesn't run"))
    }

    /// Whether the turn can't go on before a client, or somebody outside, sends results, or somebody answers what pauses it.
    pub fn is_waiting(&self) -> bool {
        let idle = self.turn.as_ref().filter(|turn| turn.call.is_none() && turn.decision.is_none() && turn.executions.is_empty());
        idle.is_some_and(|turn| !turn.interrupts.is_empty() || !self.tree.open_calls().is_empty())
    }

    /// Whether results of the turn's calls may come, also while others are carried out.
    pub fn takes_results(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.call.is_none() && turn.decision.is_none()) && !self.tree.open_calls().is_empty()
    }

    /// Whether `id` names a turn that several submits were merged into.
    pub fn is_merged(&self, id: &TurnId) -> bool {
        let Some((id, _)) = self.turns.turn_of(id) else { return false };
        let of_turn = self.turn.as_ref().filter(|turn| turn.id == id).map(|turn| turn.merged);
        of_turn.or_else(|| self.queue.iter().find(|queued| queued.id == id).map(|queued| queued.merged)).unwrap_or(false)
    }

    /// Whether readers see a node at the head, or a copy of it.
    pub fn sees(&self, original: Ix) -> bool {
        let tree = &self.tree;
        match tree.node(original).kind {
            NodeKind::Message | NodeKind::Epoch => tree.is_in(tree.vertex(self.head), tree.node(original).name),
            NodeKind::Custom => tree.reader_up(self.head).any(|ix| tree.node(ix).original == original),
        }
    }

    /// The turn that recorded a node. Nothing: none of this session did, it came with a fork.
    pub fn recorded_by(&self, ix: Ix) -> Option<TurnId> {
        self.turns.of_record(self.tree.node(ix).seq)
    }

    /// A node's content, under its own id, when it is in memory. Copies have their original's.
    pub fn content(&self, ix: Ix) -> Option<&Arc<Message>> {
        self.contents.get(self.tree.node(ix).original)
    }

    /// Of these nodes, the originals whose contents aren't in memory, with their records' positions.
    pub fn missing(&self, nodes: impl IntoIterator<Item = Ix>) -> Vec<(Ix, u64)> {
        let originals = nodes.into_iter().map(|ix| self.tree.node(ix).original);
        originals.filter(|&ix| self.contents.get(ix).is_none()).map(|ix| (ix, self.tree.node(ix).seq)).collect()
    }

    /// Takes a node's content back into memory, from its record.
    pub fn recall(&mut self, ix: Ix, new: MessageNew) {
        if let Some(message) = new.message {
            self.contents.insert(ix, Message { id: Some(new.id), ..message });
        }
    }

    /// Contents that aren't on the active path leave memory, when they take more than those that are.
    pub fn forget(&mut self) {
        if self.contents.is_full() {
            let tree = &self.tree;
            self.contents.keep(tree.up(self.head).map(|ix| tree.node(ix).original));
        }
    }
}
