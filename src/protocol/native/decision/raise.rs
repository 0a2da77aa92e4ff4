//! `interrupt` and `interrupt.resolve`, as a worker writes them. May not know whether they can be carried out.

use serde::de;

use super::ActionFields;
use crate::ids::{InterruptId, ToolCallId};
use crate::protocol::reading::Reading;
use crate::protocol::{Action, Code, Raise};

impl ActionFields {
    pub(super) fn interrupt<E: de::Error>(self, reading: &Reading<'_>) -> Result<Action, E> {
        let refuse = |field, what: &str| Err(reading.refuse_field(field, Code::BadRequest, what));
        let Some(reason) = self.reason else {
            return refuse("reason", "an interrupt has a reason, in a word: approval, say");
        };
        let message = match self.message.map(|message| serde_json::from_str::<String>(message.get())) {
            None => None,
            Some(Ok(message)) => Some(message),
            Some(Err(_)) => return refuse("message", "what a person reads is a string; what else a front end needs is payload"),
        };
        Ok(Action::Interrupt(Box::new(Raise {
            id: self.id.map(InterruptId::from),
            reason,
            message,
            tool_call_id: self.tool_call_id.map(ToolCallId::from),
            payload: self.payload,
            response_schema: self.response_schema,
            expires_at: self.expires_at,
            metadata: self.metadata,
        })))
    }

    pub(super) fn interrupt_resolve<E: de::Error>(self, reading: &Reading<'_>) -> Result<Action, E> {
        match self.interrupt_id {
            Some(id) => Ok(Action::InterruptResolve { interrupt_id: InterruptId::from(id), payload: self.payload }),
            None => Err(reading.refuse_field("interrupt_id", Code::BadRequest, "an interrupt.resolve names an interrupt")),
        }
    }
}
