//! Messages that follow the head: they begin a turn, or wait for the one that is there. Whatever comes waits behind what waits already.

use std::borrow::Cow;

use super::Case;
use crate::engine::queue::{asks, together};
use crate::engine::record::{Body, TurnQueued};
use crate::protocol::{Accepted, CancelReason, Code, Message, OnBusy, Refusal};

impl Case<'_> {
    /// Takes messages that follow the head, whatever turn is there; results of its calls come first.
    pub(super) fn follow(&mut self, messages: &[Cow<'_, Message>], answers: &[&Message]) -> Result<Accepted, Refusal> {
        let session = self.session;
        let Some(turn) = &session.turn else { return Ok(self.start(messages)) };
        if !turn.interrupts.is_empty() {
            self.may_wait_for(turn)?;
        }
        let waits = session.is_waiting();
        // Before the worker has decided, the calls of a reply aren't anybody's yet.
        let is_early = turn.decision.is_some() && !answers.is_empty();
        if (self.submit.on_busy == OnBusy::Refuse && !waits) || is_early {
            return Err(self.busy(turn));
        }
        if self.submit.on_busy == OnBusy::Steer {
            return self.steer(turn, messages, answers);
        }
        let recorded = self.write_results(answers);
        match self.submit.on_busy {
            OnBusy::Queue | OnBusy::Merge | OnBusy::Steer => {
                if !answers.is_empty() && answers.len() == session.tree.open_calls().len() {
                    self.writer.proceed(turn);
                }
            }
            OnBusy::Refuse | OnBusy::Cancel => {
                self.writer.stop(turn, waits.then_some(CancelReason::Superseded), false);
                self.writer.go_on();
            }
        }
        let accepted = if self.writer.is_busy() { self.enqueue(messages)? } else { self.start(messages) };
        Ok(Accepted { recorded: [recorded, accepted.recorded].concat(), ..accepted })
    }

    /// Messages become nodes and a turn begins.
    fn start(&mut self, messages: &[Cow<'_, Message>]) -> Accepted {
        self.create();
        let followed = self.writer.follow(messages.iter().map(AsRef::as_ref));
        let reply = self.submit.run.unwrap_or(followed.asks);
        let started = self.started();
        self.writer.begin(started, reply);
        Accepted { reply, recorded: followed.nodes, ..self.plain() }
    }

    /// Messages wait for the turn that is there.
    fn enqueue(&mut self, messages: &[Cow<'_, Message>]) -> Result<Accepted, Refusal> {
        let open = self.submit.on_busy == OnBusy::Merge;
        let last = self.writer.waiting().next_back();
        let into = last.filter(|last| open && last.open && last.agent_id == self.submit.agent_id);
        let depth = self.writer.waiting().len() + usize::from(into.is_none());
        self.must_have_room(depth, messages.len())?;
        let mut waiting = Vec::with_capacity(messages.len());
        for message in messages {
            let id = message.id.clone().unwrap_or_else(|| self.writer.fresh().into());
            waiting.push(Message::clone(message).with_id(id));
        }
        let recorded = waiting.iter().filter_map(|message| message.id.clone()).collect();
        let agent_id = self.submit.agent_id.clone();
        let queued = TurnQueued {
            turn_id: self.turn_id.clone(),
            into: into.map(|last| last.id.clone()),
            agent_id,
            digest: self.submit.digest,
            open,
            messages: waiting,
            run: self.submit.run,
            client: self.client.clone(),
        };
        let run = into.map_or(queued.run, |last| together(last.run, queued.run));
        let before = into.iter().flat_map(|last| last.messages.iter().map(AsRef::as_ref));
        let reply = asks(run, before.chain(&queued.messages));
        self.writer.push(Body::TurnQueued(Box::new(queued)));
        let turn_id = into.map_or_else(|| self.turn_id.clone(), |last| last.id.clone());
        Ok(Accepted { turn_id, reply, queued: true, position: Some(depth), recorded, ..self.plain() })
    }

    pub(super) fn must_have_room(&self, turns: usize, messages: usize) -> Result<(), Refusal> {
        let policy = self.context.policy;
        let waiting = self.writer.waiting();
        let arriving: usize = self.writer.arrivals().map(|arrival| arrival.messages.len()).sum();
        let messages = messages + arriving + waiting.map(|queued| queued.messages.len()).sum::<usize>();
        let full = |what: &str, max: usize| {
            let text = format!("{max} {what} may wait in a session, and no more have room; send it again when the running turn has ended");
            Err(Refusal::new(Code::QueueFull, text).with("queue_depth", self.session.queue.len()))
        };
        if turns > policy.queue_turns_max {
            return full("turns", policy.queue_turns_max);
        }
        if messages > policy.queue_messages_max {
            return full("messages", policy.queue_messages_max);
        }
        Ok(())
    }
}
