//! What a worker says itself, without a model call: messages and activities that become nodes, and what is only for the application.
//! Checked as a whole, then written.

use std::collections::HashSet;

use super::check::{Place, must_say_something};
use crate::engine::decision::Asked;
use crate::engine::record::{Body, Custom, MessageNew};
use crate::engine::write::Writer;
use crate::ids::{NodeId, ToolCallId};
use crate::protocol::{Action, Code, Content, DecisionAnswer, Message, NodeKind, PartKind, Refusal, Role, ToolCall};

/// What an answer says.
#[derive(Debug, Default)]
pub(super) struct Said {
    messages: Vec<Message>,
    /// The calls of the last message.
    pub(super) calls: Vec<ToolCall>,
    customs: Vec<(String, crate::protocol::Json)>,
}

impl Said {
    /// Reads what an answer says, or refuses it.
    pub(super) fn of(asked: &Asked<'_>, answer: &DecisionAnswer) -> Result<Self, Refusal> {
        let mut said = Self::default();
        let mut ids = HashSet::new();
        for (index, message) in answer.messages.iter().enumerate() {
            said.message(asked, &Place(format!("messages[{index}]")), message.clone(), &mut ids)?;
        }
        for (index, action) in answer.actions.iter().enumerate() {
            let place = Place(format!("actions[{index}]"));
            match action {
                Action::Activity { id, activity_type, content } => {
                    let content = Some(Content::Object(content.clone()));
                    let activity_type = Some(activity_type.clone());
                    let message = Message { id: id.clone(), activity_type, content, ..Message::empty(Role::Activity) };
                    said.message(asked, &place, message, &mut ids)?;
                }
                Action::Custom { name, value } => said.customs.push((name.clone(), value.clone())),
                Action::LlmCall(_)
                | Action::ContextReplace(_)
                | Action::ToolCall { .. }
                | Action::ToolResult { .. }
                | Action::ToolError { .. }
                | Action::Interrupt(_)
                | Action::InterruptResolve { .. }
                | Action::Done => {}
            }
        }
        Ok(said)
    }

    /// Whether it puts anything on the path.
    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    fn message(&mut self, asked: &Asked<'_>, place: &Place, message: Message, ids: &mut HashSet<NodeId>) -> Result<(), Refusal> {
        if let Some(id) = &message.id {
            must_be_free(asked, place, id)?;
            if !ids.insert(id.clone()) {
                return Err(place.field("id").refuse(Code::DuplicateMessageId, "it stands there twice"));
            }
        }
        if !self.calls.is_empty() {
            return Err(place.bad("the message before it makes tool calls; nothing stands between these and their results"));
        }
        match message.role {
            Role::Activity => {}
            Role::Assistant => {
                must_say_something(place, &message)?;
                must_be_words(place, &message)?;
                self.calls = calls(asked, place, &message)?;
            }
            Role::User | Role::Tool | Role::System | Role::Developer | Role::Reasoning => {
                return Err(place.field("role").bad("a worker's messages are of role assistant or activity"));
            }
        }
        self.messages.push(message);
        Ok(())
    }

    /// Writes it below the head.
    pub(super) fn write(self, writer: &mut Writer<'_>, asked: &Asked<'_>) {
        for message in self.messages {
            let kind = if message.role == Role::Activity { NodeKind::Custom } else { NodeKind::Message };
            let (id, parent) = (writer.free_id(message.id.as_ref()), writer.parent.clone());
            writer.node(MessageNew { kind, by_worker: true, ..MessageNew::plain(id, parent, message) });
        }
        for (name, value) in self.customs {
            writer.push(Body::Custom(Custom { turn_id: asked.turn.id.clone(), name, value }));
        }
    }
}

fn must_be_free(asked: &Asked<'_>, place: &Place, id: &NodeId) -> Result<(), Refusal> {
    if id.is_reserved() {
        let text = format!("{id} begins with Headwater's own prefix; give the message an id of its own or none");
        return Err(place.field("id").refuse(Code::ReservedId, text));
    }
    if asked.session.tree.known(id).is_some() {
        let text = format!("{id} names a message of this session already; give the new one an id of its own or none");
        return Err(place.field("id").bad(text));
    }
    Ok(())
}

/// Text and reasoning: a model that reads them as its own has said nothing else.
fn must_be_words(place: &Place, message: &Message) -> Result<(), Refusal> {
    let parts = match &message.content {
        Some(Content::Parts(parts)) => parts.as_slice(),
        Some(Content::Text(_) | Content::Object(_)) | None => &[],
    };
    match parts.iter().position(|part| !matches!(part.kind, PartKind::Text | PartKind::Reasoning)) {
        Some(index) => Err(place.field(&format!("content[{index}]")).bad("an assistant's message has text and reasoning only")),
        None => Ok(()),
    }
}

/// The tool calls that a message makes, each under an id that is new in the session.
fn calls(asked: &Asked<'_>, place: &Place, message: &Message) -> Result<Vec<ToolCall>, Refusal> {
    let mut ids: HashSet<&ToolCallId> = HashSet::new();
    for (index, call) in message.tool_calls.iter().enumerate() {
        if asked.session.tree.call(&call.id).is_some() || !ids.insert(&call.id) {
            let text = format!("{} is a tool call of this session already; give the new one an id of its own", call.id);
            return Err(place.field(&format!("tool_calls[{index}].id")).bad(text));
        }
    }
    Ok(message.tool_calls.clone())
}
