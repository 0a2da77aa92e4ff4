//! What waits for a model call: messages that join the running turn, and things that happened. One ordered queue: a call reads the
//! oldest ones, and they leave it when the call was successful. Their part of the fold is here. Decides nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record::{ArrivalConsumed, ArrivalQueued};
use super::session::Session;
use super::tree::size_of;
use super::turn::{End, Known};
use crate::ids::{AgentId, Millis, NodeId, TurnId};
use crate::protocol::{Client, Digest, Message, NodeKind, Size};

/// Something that waits for a model call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its input's id.
    pub id: TurnId,
    /// Whose.
    pub agent_id: AgentId,
    /// What its input held.
    pub digest: Digest,
    /// Of messages: the turn that they join. None: it is something that happened.
    pub joins: Option<TurnId>,
    /// What it brings, each with an id; what is recorded elsewhere without content.
    pub messages: Vec<Arc<Message>>,
    /// Of what happened: whether readers see it.
    pub show: bool,
    /// Whether a turn begins for it when none is there.
    pub run: bool,
    /// What the client offers.
    pub client: Client,
    /// Since when.
    pub at: Millis,
    /// How much a model reads of it, in characters.
    characters: u64,
}

impl Arrival {
    /// What a record says, `size` of which a model reads.
    pub(super) fn new(at: Millis, queued: ArrivalQueued, size: Size) -> Self {
        let ArrivalQueued { turn_id: id, agent_id, digest, joins, messages, show, run, client } = queued;
        let messages = messages.into_iter().map(Arc::new).collect();
        Self { id, agent_id, digest, joins, messages, show, run, client, at, characters: size.characters() }
    }

    /// Whether it is something that happened, and not what a person said.
    pub fn is_event(&self) -> bool {
        self.joins.is_none()
    }

    /// Whether readers see what it brings.
    pub fn is_shown(&self) -> bool {
        !self.is_event() || self.show
    }

    /// Whether it brings the message `id`.
    pub fn brings(&self, id: &NodeId) -> bool {
        self.messages.iter().any(|message| message.id.as_ref() == Some(id))
    }

    /// How much a model reads of it.
    pub fn size(&self) -> Size {
        Size::from_characters(self.characters)
    }
}

/// What waits for a model call, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    waiting: VecDeque<Arc<Arrival>>,
}

impl Arrivals {
    /// All, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Arrival>> + ExactSizeIterator {
        self.waiting.iter()
    }

    /// What came with the input `id`.
    pub fn get(&self, id: &TurnId) -> Option<&Arc<Arrival>> {
        self.waiting.iter().find(|arrival| arrival.id == *id)
    }

    /// Its place, from 1.
    pub fn position(&self, id: &TurnId) -> Option<usize> {
        self.waiting.iter().position(|arrival| arrival.id == *id).map(|at| at + 1)
    }

    /// What brings the message `id`.
    pub fn bringing(&self, id: &NodeId) -> Option<&Arc<Arrival>> {
        self.waiting.iter().find(|arrival| arrival.brings(id))
    }

    /// Whether a message waits that joins the running turn.
    pub fn steers(&self) -> bool {
        self.waiting.iter().any(|arrival| !arrival.is_event())
    }

    /// How much a model reads of the first ones.
    pub fn size(&self, count: u32) -> Size {
        self.waiting.iter().take(count as usize).map(|arrival| arrival.size()).sum()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// How much a model reads of a message that waits; of one that is recorded already as much as of that.
pub(super) fn size_waiting(session: &Session, message: &Message, is_event: bool) -> Size {
    let recorded = message.id.as_ref().filter(|_| message.content.is_none()).and_then(|id| session.tree.find(id));
    recorded.map_or_else(|| size_of(NodeKind::Message, message, is_event), |ix| session.tree.node(ix).size)
}

impl Session {
    /// `arrival.queued`.
    pub(super) fn arrive(&mut self, at: Millis, queued: ArrivalQueued) -> Result<(), String> {
        for id in queued.messages.iter().filter_map(|message| message.id.as_ref()) {
            self.tree.name(id);
        }
        let known = Known::new(queued.digest, queued.joins.clone());
        match &queued.joins {
            Some(turn_id) => {
                self.running(turn_id)?.merged = true;
                self.turns.insert(&queued.turn_id, known);
            }
            None => self.turns.insert(&queued.turn_id, Known { end: Some(End::Completed), ..known }),
        }
        let size = queued.messages.iter().map(|message| size_waiting(self, message, queued.joins.is_none())).sum();
        self.arrivals.waiting.push_back(Arc::new(Arrival::new(at, queued, size)));
        Ok(())
    }

    /// `arrival.consumed`: the oldest ones leave the queue.
    pub(super) fn consume(&mut self, consumed: &ArrivalConsumed) -> Result<(), String> {
        for id in &consumed.turn_ids {
            let oldest = self.arrivals.waiting.pop_front().filter(|oldest| oldest.id == *id);
            let arrival = oldest.ok_or_else(|| format!("{id} leaves the queue of arrivals, and isn't the oldest"))?;
            if let Some(into) = consumed.into.as_ref().filter(|into| !arrival.is_event() && **into != *id) {
                self.turns.insert(id, Known::new(arrival.digest, Some(into.clone())));
            }
        }
        Ok(())
    }

    /// One is given up: the ids of what it would have brought name nothing any more. Whether it waited.
    pub(super) fn give_up_arrival(&mut self, id: &TurnId) -> bool {
        let Some(at) = self.arrivals.waiting.iter().position(|arrival| arrival.id == *id) else { return false };
        let Some(arrival) = self.arrivals.waiting.remove(at) else { return false };
        for id in arrival.messages.iter().filter_map(|message| message.id.as_ref()) {
            if self.arrivals.bringing(id).is_none() && self.queue.bringing(id).is_none() {
                self.tree.forget(id);
            }
        }
        if !arrival.is_event() {
            self.turns.insert(id, Known { end: Some(End::Cancelled), ..Known::new(arrival.digest, None) });
        } else if self.turns.began(id).is_none() {
            self.turns.end(id, End::Cancelled);
        }
        true
    }

    /// A turn begins; when it does for something that waits, that begins no other one.
    pub(super) fn begun_for(&mut self, turn_id: &TurnId) {
        if let Some(arrival) = self.arrivals.waiting.iter_mut().find(|arrival| arrival.id == *turn_id) {
            Arc::make_mut(arrival).run = false;
        }
    }

    /// What the clients offer whose messages a call reads is the turn's from there on.
    pub(super) fn offer(&mut self, count: u32) {
        let Self { turn, arrivals, .. } = self;
        let steering = arrivals.waiting.iter().take(count as usize).filter(|arrival| !arrival.is_event());
        let Some(turn) = turn else { return };
        for arrival in steering {
            turn.client.merge(arrival.client.clone());
        }
    }

    /// So many of the arrivals, the oldest ones, are read by the call that is there, or shown to the worker: they stay where they are.
    pub fn reading(&self) -> u32 {
        let Some(turn) = &self.turn else { return 0 };
        let of_call = turn.call.as_ref().map_or(0, |call| call.arrivals);
        let of_held = turn.held.as_ref().map_or(0, |held| held.arrivals);
        of_call.max(of_held).max(turn.decision.as_ref().map_or(0, |decision| decision.arrivals))
    }

    /// The turn that a waiting message belongs to, or will be.
    pub(super) fn waiting_in(&self, id: &NodeId) -> Option<TurnId> {
        let queued = self.queue.bringing(id).map(|queued| queued.id.clone());
        queued.or_else(|| {
            let arrival = self.arrivals.bringing(id)?;
            self.turns.turn_of(&arrival.id).map(|(turn_id, _)| turn_id)
        })
    }

    /// What can't be of what waits.
    pub(super) fn misplaced_arrival(&self) -> Option<String> {
        if self.arrivals.is_empty() && self.reading() == 0 {
            return None;
        }
        let turn = self.turn.as_ref().map(|turn| &turn.id);
        let stray = self.arrivals.iter().find(|arrival| arrival.joins.as_ref().is_some_and(|joins| turn != Some(joins)));
        if let Some(stray) = stray {
            return Some(format!("{} waits to join a turn that isn't there", stray.id));
        }
        let read = self.reading() as usize;
        (read > self.arrivals.len()).then(|| format!("a call reads {read} arrivals, and {} wait", self.arrivals.len()))
    }
}
