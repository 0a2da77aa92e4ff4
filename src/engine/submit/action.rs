//! `client.action`: something that a person does in a front end, other than writing. A turn begins for it without a message; what
//! becomes of it is the agent's worker's business.

use super::Case;
use crate::engine::context::Caller;
use crate::engine::record::{About, Body};
use crate::protocol::{Accepted, CancelReason, ClientAction, Code, OnBusy, Refusal, TriggerKind};

impl Case<'_> {
    pub(super) fn action(&mut self, action: &ClientAction) -> Result<Accepted, Refusal> {
        let session = self.session;
        if !self.writer.asking(&self.submit.agent_id).is_some_and(|asking| asking.triggers.contains(&TriggerKind::ClientAction)) {
            let text = format!("the agent {} has no worker that is asked about actions; send messages", self.submit.agent_id);
            return Err(Refusal::new(Code::BadRequest, text).with("at", "agent_id"));
        }
        if let Some(turn) = &session.turn {
            let waits = session.is_waiting();
            if !waits && self.submit.on_busy != OnBusy::Cancel {
                return Err(self.busy(turn));
            }
            self.writer.stop(turn, waits.then_some(CancelReason::Superseded), false);
            self.writer.go_on();
        }
        // What had waited comes first.
        if let (true, Some(turn)) = (self.writer.is_busy(), &session.turn) {
            return Err(self.busy(turn));
        }
        self.create();
        let started = self.started();
        let (turn_id, agent_id, client) = (started.turn_id.clone(), started.agent_id.clone(), started.client.clone());
        self.writer.push(Body::TurnStarted(Box::new(started)));
        let caller = Caller { turn_id: &turn_id, agent_id: &agent_id, client: &client };
        self.writer.ask(&caller, About::Action(Box::new(action.clone())), true);
        Ok(Accepted { reply: true, ..self.plain() })
    }
}
