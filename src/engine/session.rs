//! A session: the fold of its log. Decides nothing; [`evolve`](Session::evolve) takes one record after another.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::reading::Ix;
use super::record::{Body, CallCompleted, CallFailed, CallStarted, CallVoided, HeadMoved, MessageNew, Record, TurnStarted};
use super::tree::{Misfit, Tree};
use super::turn::{Call, End, Known, Turn};
use crate::ids::{AgentId, CallId, Millis, TurnId};
use crate::protocol::Message;

/// So many contents are always kept.
const CONTENTS_MIN: usize = 256;

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
    /// The turn that runs.
    pub turn: Option<Turn>,
    /// Every turn id that was used.
    pub turns: HashMap<TurnId, Known, RandomState>,
    /// A record of a later version that must be understood: the session is read only.
    pub newer: Option<String>,
    contents: HashMap<Ix, Arc<Message>, RandomState>,
    /// How many contents may be in memory before those off the path leave it.
    contents_max: usize,
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
    pub fn evolve(&mut self, record: &Record) -> Result<(), Corrupt> {
        let seq = self.seq + 1;
        let applied = self.apply(record.at, seq, &record.body);
        applied.or_else(|why| if self.newer.is_some() { Ok(()) } else { Err(Corrupt { seq, why }) })?;
        self.seq = seq;
        self.updated = record.at;
        Ok(())
    }

    fn apply(&mut self, at: Millis, seq: u64, body: &Body) -> Result<(), String> {
        match body {
            Body::SessionCreated(data) => self.agent_id = Some(data.agent_id.clone()),
            Body::MessageNew(data) => self.add(seq, at, data).map_err(|misfit| misfit.to_string())?,
            Body::HeadMoved(data) => self.move_head(data)?,
            Body::TurnStarted(data) => self.start(at, data)?,
            Body::TurnCompleted(data) => self.end(&data.turn_id, End::Completed)?,
            Body::TurnFailed(data) => self.end(&data.turn_id, End::Failed { code: data.code, message: data.message.clone() })?,
            Body::TurnCancelled(data) => self.end(&data.turn_id, End::Cancelled)?,
            Body::TurnRecovered(data) => self.running(&data.turn_id)?.recoveries = data.attempt,
            Body::CallStarted(data) => self.start_call(data)?,
            Body::CallCompleted(CallCompleted { call_id, .. }) | Body::CallVoided(CallVoided { call_id, .. }) => self.end_call(call_id)?,
            Body::CallFailed(data) => self.fail_call(data)?,
            Body::Unknown(data) => {
                if data.must_understand {
                    self.newer.get_or_insert_with(|| data.kind.clone());
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, seq: u64, at: Millis, new: &MessageNew) -> Result<(), Misfit> {
        let ix = self.tree.add(seq, at, new)?;
        if let Some(message) = &new.message {
            let message = Message { id: Some(new.id.clone()), ..message.clone() };
            self.contents.insert(ix, Arc::new(message));
        }
        if !new.aside {
            self.head = Some(ix);
        }
        self.forget();
        Ok(())
    }

    fn move_head(&mut self, moved: &HeadMoved) -> Result<(), String> {
        self.head = match &moved.to {
            None => None,
            Some(id) => Some(self.tree.find(id).ok_or_else(|| format!("the head moves to {id}, which isn't there"))?),
        };
        if let (Some(turn_id), Some(digest)) = (&moved.turn_id, moved.digest) {
            self.turns.insert(turn_id.clone(), Known { digest, end: Some(End::Completed) });
        }
        Ok(())
    }

    fn start(&mut self, at: Millis, started: &TurnStarted) -> Result<(), String> {
        if let Some(turn) = &self.turn {
            return Err(format!("turn {} starts while turn {} runs", started.turn_id, turn.id));
        }
        self.turns.insert(started.turn_id.clone(), Known { digest: started.digest, end: None });
        self.turn = Some(Turn {
            id: started.turn_id.clone(),
            agent_id: started.agent_id.clone(),
            started_at: at,
            began: self.tree.vertex(self.head),
            client: started.client.clone(),
            call: None,
            calls: 0,
            recoveries: 0,
        });
        Ok(())
    }

    fn end(&mut self, turn_id: &TurnId, end: End) -> Result<(), String> {
        self.running(turn_id)?;
        self.turn = None;
        self.tree.seal_calls();
        if let Some(known) = self.turns.get_mut(turn_id) {
            known.end = Some(end);
        }
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

    /// A node's content, under its own id, when it is in memory. Copies have their original's.
    pub fn content(&self, ix: Ix) -> Option<&Arc<Message>> {
        self.contents.get(&self.tree.node(ix).original)
    }

    /// Of these nodes, the originals whose contents aren't in memory, with their records' positions.
    pub fn missing(&self, nodes: impl IntoIterator<Item = Ix>) -> Vec<(Ix, u64)> {
        let originals = nodes.into_iter().map(|ix| self.tree.node(ix).original);
        originals.filter(|ix| !self.contents.contains_key(ix)).map(|ix| (ix, self.tree.node(ix).seq)).collect()
    }

    /// Takes a node's content back into memory, from its record.
    pub fn recall(&mut self, ix: Ix, new: &MessageNew) {
        if let Some(message) = &new.message {
            let message = Message { id: Some(new.id.clone()), ..message.clone() };
            self.contents.insert(ix, Arc::new(message));
        }
    }

    /// Contents that are neither on the active path nor in what readers see there leave memory, once they outnumber those.
    fn forget(&mut self) {
        if self.contents.len() <= self.contents_max.max(CONTENTS_MIN) {
            return;
        }
        let tree = &self.tree;
        let mut kept = HashMap::with_capacity_and_hasher(self.contents.len() / 2, RandomState::default());
        for ix in tree.up(self.head).chain(tree.reader_up(self.head)) {
            let original = tree.node(ix).original;
            if let Some(content) = self.contents.remove(&original) {
                kept.insert(original, content);
            }
        }
        self.contents_max = 2 * kept.len();
        self.contents = kept;
    }
}
