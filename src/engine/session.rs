//! A session: the fold of its log. Decides nothing; [`evolve`](Session::evolve) takes one record after another.

use std::sync::Arc;

use super::contents::Contents;
use super::queue::Queue;
use super::reading::Ix;
use super::record::{
    Body, CallCompleted, CallFailed, CallStarted, CallVoided, HeadMoved, MessageNew, Record, TurnJoined, TurnQueued, TurnStarted,
};
use super::tree::{Misfit, Tree};
use super::turn::{Call, End, Known, Turn};
use super::turns::Turns;
use crate::ids::{AgentId, CallId, Millis, TurnId};
use crate::protocol::{ForkedFrom, Message, NodeKind};

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
    /// What it is about.
    pub title: Option<String>,
    /// Whether lists leave it out.
    pub archived: bool,
    /// Of a fork: what it was made from.
    pub forked_from: Option<ForkedFrom>,
    /// Named nodes, in the order in which they were named.
    pub labels: Vec<(String, Ix)>,
    /// Every turn id that was used.
    pub turns: Turns,
    /// The last record that belongs to a turn of before, or came with a fork.
    pub(super) ended: u64,
    /// A record of a later version that must be understood: the session is read only.
    pub newer: Option<String>,
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
            Body::TurnCompleted(data) => self.end(seq, &data.turn_id, End::Completed)?,
            Body::TurnFailed(data) => self.end(seq, &data.turn_id, End::Failed { code: data.code, message: data.message })?,
            Body::TurnCancelled(data) => self.cancel(seq, &data.turn_id)?,
            Body::TurnRecovered(data) => self.running(&data.turn_id)?.recoveries = data.attempt,
            Body::CallStarted(data) => self.start_call(&data)?,
            Body::CallCompleted(CallCompleted { call_id, .. }) | Body::CallVoided(CallVoided { call_id, .. }) => self.end_call(&call_id)?,
            Body::CallFailed(data) => self.fail_call(&data)?,
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
        });
        Ok(())
    }

    fn join(&mut self, joined: TurnJoined) -> Result<(), String> {
        self.running(&joined.turn_id)?.client.merge(joined.client);
        self.turns.insert(&joined.name, Known::new(joined.digest, Some(joined.turn_id)));
        Ok(())
    }

    /// A turn that waits for another leaves the queue, and the ids of what it would have brought name nothing any more.
    fn cancel(&mut self, seq: u64, turn_id: &TurnId) -> Result<(), String> {
        let Some(queued) = self.queue.remove(turn_id) else { return self.end(seq, turn_id, End::Cancelled) };
        for id in queued.messages.iter().filter_map(|message| message.id.as_ref()) {
            if self.queue.bringing(id).is_none() {
                self.tree.forget(id);
            }
        }
        self.turns.end(turn_id, End::Cancelled);
        Ok(())
    }

    fn end(&mut self, seq: u64, turn_id: &TurnId, end: End) -> Result<(), String> {
        self.running(turn_id)?;
        self.turn = None;
        self.ended = seq;
        self.tree.seal_calls();
        self.turns.end(turn_id, end);
        Ok(())
    }

    fn running(&mut self, turn_id: &TurnId) -> Result<&mut Turn, String> {
        self.turn.as_mut().filter(|turn| turn.id == *turn_id).ok_or_else(|| format!("turn {turn_id} doesn't run"))
    }

    fn start_call(&mut self, started: &CallStarted) -> Result<(), String> {
        let turn = self.running(&started.turn_id)?;
        let before = turn.call.take();
        if before.as_ref().is_none_or(|call| call.id != started.call_id) {
            turn.calls += 1;
        }
        turn.call = Some(Call {
            id: started.call_id.clone(),
            attempt: started.attempt,
            reply_id: started.reply_id.clone(),
            hidden: started.hidden,
            retry_at: None,
        });
        self.turns.reply(&started.turn_id);
        match before {
            Some(call) if call.id == started.call_id => self.tree.rename(&call.reply_id, &started.reply_id),
            Some(_) | None => {
                self.tree.name(&started.reply_id);
            }
        }
        Ok(())
    }

    fn end_call(&mut self, id: &CallId) -> Result<(), String> {
        self.calling(id)?;
        if let Some(turn) = &mut self.turn {
            turn.call = None;
        }
        Ok(())
    }

    fn fail_call(&mut self, failed: &CallFailed) -> Result<(), String> {
        match failed.not_before {
            Some(retry_at) => self.calling(&failed.call_id)?.retry_at = Some(retry_at),
            None => self.end_call(&failed.call_id)?,
        }
        Ok(())
    }

    fn calling(&mut self, id: &CallId) -> Result<&mut Call, String> {
        let call = self.turn.as_mut().and_then(|turn| turn.call.as_mut());
        call.filter(|call| call.id == *id).ok_or_else(|| format!("call {id} doesn't run"))
    }

    /// Whether the turn can't go on before a client sends results.
    pub fn is_waiting(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.call.is_none()) && !self.tree.open_calls().is_empty()
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

    /// Contents that are neither on the active path nor in what readers see there leave memory, when they take more than those.
    pub fn forget(&mut self) {
        if self.contents.is_full() {
            let tree = &self.tree;
            let nodes = tree.up(self.head).chain(tree.reader_up(self.head));
            self.contents.keep(nodes.map(|ix| tree.node(ix).original));
        }
    }
}
