//! Results of a waiting turn's calls. With the last of them the turn goes on, under one more name.

use super::Case;
use crate::engine::record::{Body, MessageNew, TurnJoined};
use crate::ids::{NodeId, ToolCallId};
use crate::protocol::{Accepted, Code, Message, Refusal};

impl Case<'_> {
    /// `tool.result`, `tool.error`.
    pub(super) fn result(&mut self, message: &Message) -> Result<Accepted, Refusal> {
        let session = self.session;
        let Some(call_id) = &message.tool_call_id else {
            return Err(Refusal::new(Code::BadRequest, "a result needs tool_call_id, the call that it answers"));
        };
        if session.agent_id.is_none() {
            return Err(
                Refusal::new(Code::SessionNotFound, format!("there is no session {}", self.id)).with("session_id", self.id.as_str())
            );
        }
        let tree = &session.tree;
        let why = match tree.call(call_id) {
            None => format!("no reply of this session made a call {call_id}"),
            Some(called) => match called.result {
                Some(ix) if tree.says(ix, message.digest()) => return Ok(self.known(session.recorded_by(ix))),
                Some(_) => format!("the call {call_id} has a result already; it stays"),
                None if called.taken => format!("the call {call_id} is carried out by Headwater; nobody else answers it"),
                None if session.suspended().iter().any(|suspended| suspended.calls.contains(call_id)) => {
                    format!("the turn of the call {call_id} pauses where the head isn't; answer its interrupts first")
                }
                None if !called.open => format!("the call {call_id} waits for no result any more: its turn has ended"),
                None => {
                    self.must_have_free_id(message)?;
                    return self.results(&[message]);
                }
            },
        };
        Err(Refusal::new(Code::CallNotOpen, why).with("tool_call_id", call_id.as_str()))
    }

    /// Results alone, each of another open call.
    pub(super) fn results(&mut self, answers: &[&Message]) -> Result<Accepted, Refusal> {
        let session = self.session;
        let Some(turn) = &session.turn else {
            return Err(Refusal::new(Code::Internal, "calls are open, and no turn is there"));
        };
        if turn.decision.is_some() {
            return Err(self.busy(turn));
        }
        let is_answered = |id: &ToolCallId| answers.iter().any(|answer| answer.tool_call_id.as_ref() == Some(id));
        let left: Vec<ToolCallId> = session.tree.awaited_calls().into_iter().filter(|id| !is_answered(id)).collect();
        // What is carried out goes on, and the turn with it.
        let goes_on = !turn.executions.is_empty();
        if !left.is_empty() && self.submit.run == Some(true) {
            return Err(calls_open());
        }
        let recorded = self.write_results(answers);
        self.writer.take_client_state(&turn.agent_id, &self.client);
        self.writer.push(Body::TurnJoined(Box::new(TurnJoined {
            turn_id: turn.id.clone(),
            name: self.turn_id.clone(),
            digest: self.submit.digest,
            client: self.client.clone(),
        })));
        if !turn.interrupts.is_empty() {
            // What pauses the turn is answered first.
            let interrupts = turn.interrupts.clone();
            return Ok(Accepted { turn_id: turn.id.clone(), reply: false, waiting: left, interrupts, recorded, ..self.plain() });
        }
        let reply = left.is_empty() && (goes_on || self.submit.run != Some(false));
        if goes_on {
        } else if reply {
            self.writer.proceed(turn);
        } else if left.is_empty() && !self.writer.ask_about_results(turn, false) {
            self.writer.complete(turn);
        }
        Ok(Accepted { turn_id: turn.id.clone(), reply, waiting: left, recorded, ..self.plain() })
    }

    /// Writes results below the head, each under its own id when that is free; their ids.
    pub(super) fn write_results(&mut self, answers: &[&Message]) -> Vec<NodeId> {
        let mut nodes = Vec::with_capacity(answers.len());
        for &answer in answers {
            let id = self.writer.free_id(answer.id.as_ref());
            nodes.push(id.clone());
            self.writer.node(MessageNew::plain(id, self.writer.parent.clone(), answer.clone()));
        }
        nodes
    }

    /// An id that names something else is a mistake of a client that names one result.
    pub(super) fn must_have_free_id(&self, message: &Message) -> Result<(), Refusal> {
        match &message.id {
            Some(id) if self.session.tree.known(id).is_some() => {
                let text = format!("the id {id} names another message of this session; give the result an id of its own or none");
                Err(Refusal::new(Code::BadRequest, text).with("id", id.as_str()))
            }
            Some(id) if id.is_reserved() => {
                let text = format!("the id {id} begins with Headwater's own prefix; give the result an id of its own or none");
                Err(Refusal::new(Code::ReservedId, text).with("id", id.as_str()))
            }
            Some(_) | None => Ok(()),
        }
    }
}

pub(super) fn calls_open() -> Refusal {
    Refusal::new(Code::CallsOpen, "tool calls are open; send their results before asking for a reply")
}
