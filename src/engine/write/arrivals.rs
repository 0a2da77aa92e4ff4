//! Arrivals, as records are written: how many of them a call reads, what becomes of them when it was successful, and what when the turn
//! ends that they wait for.

use std::sync::Arc;

use super::Writer;
use crate::engine::arrivals::{Arrival, size_waiting};
use crate::engine::context::{Agent, Load};
use crate::engine::record::{ArrivalConsumed, ArrivalQueued, Body, MessageNew, TurnCancelled, TurnStarted};
use crate::engine::turn::Call;
use crate::ids::{CallId, NodeId, TurnId};
use crate::protocol::{CancelReason, Client, Message, Size};

impl Writer<'_> {
    /// Something arrives; it waits.
    pub(in crate::engine) fn arrive(&mut self, queued: ArrivalQueued) {
        let size = queued.messages.iter().map(|message| size_waiting(self.session, message, queued.joins.is_none())).sum();
        self.arrivals.push_back(Arc::new(Arrival::new(self.context.stamp.now, queued.clone(), size)));
        self.push(Body::ArrivalQueued(Box::new(queued)));
    }

    /// What waits for a model call.
    pub(in crate::engine) fn arrivals(&self) -> impl Iterator<Item = &Arc<Arrival>> {
        self.arrivals.iter()
    }

    /// Whether a message waits that joins the running turn.
    pub(in crate::engine) fn steers(&self) -> bool {
        self.arrivals.iter().any(|arrival| !arrival.is_event())
    }

    /// Whether the message `id` waits.
    pub(super) fn brings(&self, id: &NodeId) -> bool {
        self.arrivals.iter().any(|arrival| arrival.brings(id))
    }

    /// How much a model reads with the oldest of what waits, for which there must be room.
    pub(super) fn load_with_oldest(&self) -> Load {
        let oldest = self.arrivals.front().map_or(Size::ZERO, |arrival| arrival.size());
        Load { read: self.load.read + oldest, ..self.load }
    }

    /// So many of what waits were read before, by an attempt that left them in the queue, or shown to the worker.
    pub(super) fn still_read(&self) -> u32 {
        let read = self.session.arrivals.iter().take(self.session.reading() as usize);
        let left = read.filter(|read| self.arrivals.iter().any(|waiting| waiting.id == read.id)).count();
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// How many of what waits a call reads: as many of the oldest ones as fit; one always, and no fewer than were read before.
    pub(in crate::engine) fn that_fit(&self, agent: Option<&Agent>, client: &Client) -> u32 {
        let least = self.still_read();
        let most = agent.and_then(Agent::most).unwrap_or(u64::MAX);
        let mut load = self.load;
        let mut count = 0;
        for arrival in &self.arrivals {
            load.read += arrival.size();
            if count >= least.max(1) && load.tokens(agent, client) > most {
                break;
            }
            count += 1;
        }
        count
    }

    /// What a call read besides the path becomes nodes; the ids of the inputs that brought it.
    pub(in crate::engine) fn place(&mut self, call: &Call) -> Vec<TurnId> {
        let read: Vec<Arc<Arrival>> = self.arrivals.drain(..self.arrivals.len().min(call.arrivals as usize)).collect();
        for arrival in &read {
            self.place_one(arrival);
        }
        read.iter().map(|arrival| arrival.id.clone()).collect()
    }

    fn place_one(&mut self, arrival: &Arrival) {
        if !arrival.is_event() {
            self.follow(arrival.messages.iter().map(AsRef::as_ref));
            return;
        }
        for message in &arrival.messages {
            let id = message.id.clone().unwrap_or_else(|| self.fresh().into());
            let plain = MessageNew::plain(id, self.parent.clone(), Message::clone(message));
            self.node(MessageNew { is_event: true, hidden: !arrival.show, ..plain });
        }
    }

    /// What a call has read leaves the queue.
    pub(in crate::engine) fn consumed(&mut self, turn_ids: Vec<TurnId>, call_id: &CallId) {
        if !turn_ids.is_empty() {
            self.push(Body::ArrivalConsumed(ArrivalConsumed { turn_ids, call_id: Some(call_id.clone()), into: None }));
        }
    }

    /// The turn ends: the messages that waited to join it become the next one, with what happened before them.
    pub(super) fn release(&mut self) {
        let Some(last) = self.arrivals.iter().rposition(|arrival| !arrival.is_event()) else { return };
        self.released = self.arrivals.drain(..=last).collect();
        let into = self.released.iter().find(|arrival| !arrival.is_event()).map(|first| first.id.clone());
        let turn_ids = self.released.iter().map(|arrival| arrival.id.clone()).collect();
        self.push(Body::ArrivalConsumed(ArrivalConsumed { turn_ids, call_id: None, into }));
    }

    /// No turn is there: what was released begins one.
    pub(super) fn begin_released(&mut self) {
        let released = std::mem::take(&mut self.released);
        let mut steering = released.iter().filter(|arrival| !arrival.is_event());
        let Some(first) = steering.next() else { return };
        let Arrival { id, agent_id, digest, mut client, .. } = Arrival::clone(first);
        for arrival in steering {
            client.merge(arrival.client.clone());
        }
        for arrival in &released {
            self.place_one(arrival);
        }
        self.begin(TurnStarted { turn_id: id, agent_id, digest, client }, true);
    }

    /// No turn is there: one begins for what asks for that.
    pub(super) fn begin_for_arrival(&mut self) {
        if self.is_busy {
            return;
        }
        let Some(arrival) = self.arrivals.iter().find(|arrival| arrival.run) else { return };
        let Arrival { id, agent_id, digest, client, .. } = Arrival::clone(arrival);
        self.begin(TurnStarted { turn_id: id, agent_id, digest, client }, true);
    }

    /// What waits is given up.
    pub(in crate::engine) fn give_up_arrival(&mut self, arrival: &Arrival, reason: Option<CancelReason>) {
        self.arrivals.retain(|waiting| waiting.id != arrival.id);
        let messages = arrival.messages.iter().filter_map(|message| message.id.clone());
        // One that is a node is nobody's loss.
        let messages = messages.filter(|id| arrival.is_shown() && self.session.tree.find(id).is_none()).collect();
        self.push(Body::TurnCancelled(TurnCancelled { turn_id: arrival.id.clone(), reason, messages }));
    }

    /// The messages that wait to join the turn are given up. What happened stays.
    pub(in crate::engine) fn give_up_steering(&mut self, reason: CancelReason) {
        let steering: Vec<Arc<Arrival>> = self.arrivals.iter().filter(|arrival| !arrival.is_event()).cloned().collect();
        for arrival in &steering {
            self.give_up_arrival(arrival, Some(reason));
        }
    }
}
