//! About how many bytes an event takes: what queues of events are bounded by. May not know who waits for them.

use super::{Content, Event, EventBody, Interrupt, Json, Message, Part, ToolCall};

/// What an event, a message, a part takes besides its texts.
const EACH: usize = 160;

impl Event {
    /// About how many bytes it takes, in memory as on the wire.
    pub fn weight(&self) -> usize {
        EACH + match &self.body {
            EventBody::Live(live) => live.text().map_or(0, str::len),
            EventBody::MessageNew { message, .. } => message.as_deref().map_or(0, of_message),
            EventBody::TurnQueued { messages, .. } | EventBody::ArrivalQueued { messages, .. } => {
                messages.iter().map(|message| of_message(message)).sum()
            }
            EventBody::Resync(snapshot) => {
                snapshot.messages.iter().map(|message| of_message(message)).sum::<usize>() + of_json(snapshot.state.as_ref())
            }
            EventBody::StateUpdated { state, patch } => of_json(state.as_ref()) + of_json(patch.as_ref()),
            EventBody::Custom { name, value, .. } => name.len() + value.get().len(),
            EventBody::SessionInterrupted { interrupts, .. } => interrupts.iter().map(of_interrupt).sum(),
            EventBody::InterruptResumed { interrupts, .. } => interrupts.iter().map(|answer| EACH + of_json(answer.payload.as_ref())).sum(),
            EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::SessionUpdated { .. }
            | EventBody::HeadMoved { .. }
            | EventBody::TurnJoined { .. }
            | EventBody::TurnStarted { .. }
            | EventBody::TurnWaiting { .. }
            | EventBody::TurnCompleted { .. }
            | EventBody::TurnFailed { .. }
            | EventBody::TurnCancelled { .. }
            | EventBody::TurnRecovered { .. }
            | EventBody::CallStarted { .. }
            | EventBody::CallCompleted { .. }
            | EventBody::CallFailed { .. }
            | EventBody::CallVoided { .. }
            | EventBody::ContextLimited { .. }
            | EventBody::ContextReplaced { .. }
            | EventBody::ContextKept { .. }
            | EventBody::DecisionAsked { .. }
            | EventBody::DecisionAnswered { .. }
            | EventBody::DecisionFailed { .. }
            | EventBody::ToolCallStarted { .. }
            | EventBody::ToolCallCompleted { .. }
            | EventBody::ToolCallFailed { .. }
            | EventBody::AgentUpdated { .. }
            | EventBody::TurnSuspended { .. }
            | EventBody::ArrivalConsumed { .. } => 0,
        }
    }
}

fn of_interrupt(interrupt: &Interrupt) -> usize {
    let json = [&interrupt.payload, &interrupt.response_schema, &interrupt.metadata];
    EACH + interrupt.message.as_ref().map_or(0, String::len) + json.into_iter().map(|json| of_json(json.as_ref())).sum::<usize>()
}

fn of_message(message: &Message) -> usize {
    let said = match &message.content {
        None => 0,
        Some(Content::Text(text)) => text.len(),
        Some(Content::Object(object)) => object.get().len(),
        Some(Content::Parts(parts)) => parts.iter().map(of_part).sum(),
    };
    let call = |call: &ToolCall| EACH + call.function.name.len() + call.function.arguments.len();
    let texts = [&message.error, &message.encrypted_value].into_iter().flatten().map(String::len).sum::<usize>();
    EACH + said + texts + message.tool_calls.iter().map(call).sum::<usize>() + of_json(message.metadata.as_ref())
}

fn of_part(part: &Part) -> usize {
    let texts = [&part.text, &part.encrypted_value].into_iter().flatten().map(String::len).sum::<usize>();
    EACH + texts + of_json(part.source.as_ref()) + of_json(part.metadata.as_ref())
}

fn of_json(json: Option<&Json>) -> usize {
    json.map_or(0, |json| json.get().len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::{Live, Role, Snapshot};

    fn weight(body: EventBody) -> usize {
        Event { cursor: None, at: 0, body }.weight()
    }

    #[test]
    fn an_event_weighs_what_it_says() {
        let text = "x".repeat(5000);
        let message = Arc::new(Message::text(Role::User, text.clone()));
        let live = Live::Text { reply_id: "r1".into(), delta: text };
        for body in [
            EventBody::Live(live),
            EventBody::TurnQueued { turn_id: "t1".into(), joined: false, agent_id: "bot".into(), messages: vec![message.clone()] },
            EventBody::Resync(Arc::new(Snapshot { messages: vec![message], ..Snapshot::default() })),
        ] {
            let weight = weight(body);
            assert!((5000..6000).contains(&weight), "{weight}");
        }
        assert_eq!(weight(EventBody::TurnCompleted { turn_id: "t1".into() }), EACH);
    }
}
