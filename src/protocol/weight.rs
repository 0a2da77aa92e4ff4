//! About how many bytes an event takes: what queues of events are bounded by. May not know who waits for them.

use super::{Content, Event, EventBody, Json, Live, Message, Part, ToolCall};

/// What an event, a message, a part takes besides its texts.
const EACH: usize = 160;

impl Event {
    /// About how many bytes it takes, in memory as on the wire.
    pub fn weight(&self) -> usize {
        EACH + match &self.body {
            EventBody::Live(live) => live.text().map_or(0, str::len),
            EventBody::MessageNew { message, .. } => message.as_deref().map_or(0, of_message),
            EventBody::TurnQueued { messages, .. } => messages.iter().map(|message| of_message(message)).sum(),
            EventBody::Resync(snapshot) => {
                snapshot.messages.iter().map(|message| of_message(message)).sum::<usize>() + of_json(snapshot.state.as_ref())
            }
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
            | EventBody::CallVoided { .. } => 0,
        }
    }
}

impl Live {
    /// The text that it adds; nothing of one that begins or ends something.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { delta, .. } | Self::Reasoning { delta, .. } | Self::ToolCallArguments { delta, .. } => Some(delta),
            Self::TextStarted { .. }
            | Self::ReasoningStarted { .. }
            | Self::ReasoningEnded { .. }
            | Self::ToolCallStarted { .. }
            | Self::ReplyEnded { .. } => None,
        }
    }

    /// Adds the text of `next`, when it goes on with the same part. Whether it did.
    pub fn go_on(&mut self, next: &Self) -> bool {
        let (text, more) = match (self, next) {
            (Self::Text { reply_id: of, delta }, Self::Text { reply_id, delta: more }) if of == reply_id => (delta, more),
            (Self::Reasoning { reply_id: of, index: at, delta }, Self::Reasoning { reply_id, index, delta: more })
                if of == reply_id && at == index =>
            {
                (delta, more)
            }
            (Self::ToolCallArguments { id: of, delta }, Self::ToolCallArguments { id, delta: more }) if of == id => (delta, more),
            (
                Self::TextStarted { .. }
                | Self::Text { .. }
                | Self::ReasoningStarted { .. }
                | Self::Reasoning { .. }
                | Self::ReasoningEnded { .. }
                | Self::ToolCallStarted { .. }
                | Self::ToolCallArguments { .. }
                | Self::ReplyEnded { .. },
                _,
            ) => return false,
        };
        text.push_str(more);
        true
    }
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
    use crate::protocol::{Role, Snapshot};

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

    #[test]
    fn only_the_same_part_goes_on() {
        let text = |reply: &str, delta: &str| Live::Text { reply_id: reply.into(), delta: delta.to_owned() };
        let thought = |index, delta: &str| Live::Reasoning { reply_id: "r1".into(), index, delta: delta.to_owned() };
        let arguments = |id: &str, delta: &str| Live::ToolCallArguments { id: id.into(), delta: delta.to_owned() };
        for (mut live, next) in
            [(text("r1", "a"), text("r1", "b")), (thought(1, "a"), thought(1, "b")), (arguments("c", "a"), arguments("c", "b"))]
        {
            assert!(live.go_on(&next));
            assert_eq!(live.text(), Some("ab"));
        }
        let mut live = text("r1", "a");
        for next in [text("r2", "b"), thought(1, "b"), arguments("c", "b"), Live::TextStarted { reply_id: "r1".into() }] {
            assert!(!live.go_on(&next));
        }
        assert!(!thought(1, "a").go_on(&thought(2, "b")) && !arguments("c", "a").go_on(&arguments("d", "b")));
        assert_eq!(live.text(), Some("a"));
    }
}
