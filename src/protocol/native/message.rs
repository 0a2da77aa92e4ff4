//! A message in native JSON. May not know which messages become nodes.

use serde::de::{self, MapAccess};

use super::part::PartFields;
use crate::ids::{NodeId, ToolCallId};
use crate::protocol::reading::{CallFields, ContentSeed, Fields, Id, List, Object, ROLES, Reading, RoleSeed, check_content};
use crate::protocol::{Code, Content, Json, Message, PartKind, Role, ToolCall};

#[derive(Default)]
pub(super) struct MessageFields {
    id: Option<NodeId>,
    role: Option<Role>,
    content: Option<Content>,
    tool_calls: Option<Vec<ToolCall>>,
    tool_call_id: Option<ToolCallId>,
    error: Option<String>,
    name: Option<String>,
    activity_type: Option<String>,
    encrypted_value: Option<String>,
    metadata: Option<Json>,
}

impl<'de> Fields<'de> for MessageFields {
    type Value = Message;

    const EXPECTED: &'static str = "a message (an object)";
    const ALLOWED: &'static [&'static str] =
        &["id", "role", "content", "tool_calls", "tool_call_id", "error", "name", "activity_type", "encrypted_value", "metadata"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "id" => self.id = reading.maybe(map, "id", Id::new(reading))?,
            "role" => self.role = reading.maybe(map, "role", RoleSeed::new(reading))?,
            "content" => self.content = reading.maybe(map, "content", ContentSeed::<PartFields>::new(reading))?,
            "tool_calls" => {
                let list = List { reading, each: Object::<CallFields>::new(reading), max: None };
                self.tool_calls = reading.maybe(map, "tool_calls", list)?;
            }
            "tool_call_id" => self.tool_call_id = reading.maybe(map, "tool_call_id", Id::new(reading))?,
            "error" => self.error = reading.value(map, "error")?,
            "name" => self.name = reading.value(map, "name")?,
            "activity_type" => self.activity_type = reading.value(map, "activity_type")?,
            "encrypted_value" => self.encrypted_value = reading.value(map, "encrypted_value")?,
            "metadata" => self.metadata = reading.json(map, "metadata")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Message, E> {
        let Some(role) = self.role else {
            return Err(reading.refuse_field("role", Code::BadRequest, format_args!("a message needs a role; allowed: {ROLES}")));
        };
        let message = Message {
            id: self.id,
            role,
            content: self.content,
            tool_calls: self.tool_calls.unwrap_or_default(),
            tool_call_id: self.tool_call_id,
            error: self.error,
            name: self.name,
            activity_type: self.activity_type,
            encrypted_value: self.encrypted_value,
            metadata: self.metadata,
        };
        check(reading, &message)?;
        // What a provider gets back as its own comes from its replies alone.
        Ok(message.without_encrypted())
    }
}

/// Whether the fields are those that the role has.
pub(super) fn check<E: de::Error>(reading: &Reading<'_>, message: &Message) -> Result<(), E> {
    let refuse = |field, what: &str| Err(reading.refuse_field(field, Code::BadRequest, what));
    let is = |role| message.role == role;
    if message.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
        return refuse("metadata", "an object is expected");
    }
    if !message.tool_calls.is_empty() && !is(Role::Assistant) {
        return refuse("tool_calls", "only an assistant message has it");
    }
    if message.tool_call_id.is_some() != is(Role::Tool) {
        let missing = is(Role::Tool);
        return refuse(
            "tool_call_id",
            if missing { "a tool message names the call that it answers" } else { "only a tool message has it" },
        );
    }
    if message.error.is_some() && !is(Role::Tool) {
        return refuse("error", "only a tool message has it");
    }
    if message.activity_type.is_some() && !is(Role::Activity) {
        return refuse("activity_type", "only an activity has it");
    }
    if is(Role::Activity) && message.activity_type.as_ref().is_none_or(String::is_empty) {
        return refuse("activity_type", "an activity says what it is");
    }
    if is(Role::Activity) && message.content.is_none() {
        return refuse("content", "an activity needs content, an object");
    }
    let error_bytes = message.error.as_ref().map_or(0, String::len);
    let max = reading.limits.content_bytes_max;
    if error_bytes > max {
        let what = format_args!("{error_bytes} bytes are more than the {max} that a message may have");
        return Err(reading.refuse_field("error", Code::ContentTooLarge, what));
    }
    check_content(reading, message.role, message.content.as_ref(), message.error.is_some())?;
    check_parts(reading, message)
}

/// Only replies think and call.
fn check_parts<E: de::Error>(reading: &Reading<'_>, message: &Message) -> Result<(), E> {
    let (Some(Content::Parts(parts)), false) = (&message.content, message.role == Role::Assistant) else { return Ok(()) };
    let reply_only = parts.iter().position(|part| matches!(part.kind, PartKind::Reasoning | PartKind::ToolCall));
    let Some(index) = reply_only else { return Ok(()) };
    reading.within("content", || {
        reading.within_element(index, || Err(reading.refuse_field("type", Code::BadRequest, "only an assistant message has such parts")))
    })
}

/// `client.message` takes what a user says.
pub(super) fn expect_users<E: de::Error>(reading: &Reading<'_>, message: &Message) -> Result<(), E> {
    if message.role == Role::User {
        return Ok(());
    }
    let what = "client.message takes a message of role user; client.append takes others";
    Err(reading.refuse_field("role", Code::BadRequest, what))
}

/// `client.append` takes what may become a node.
pub(super) fn expect_appendable<E: de::Error>(reading: &Reading<'_>, message: &Message) -> Result<(), E> {
    let what = match message.role {
        Role::User | Role::Assistant | Role::Tool | Role::Activity => return Ok(()),
        Role::System | Role::Developer => "instructions are never part of a conversation; they belong to the agent's configuration",
        Role::Reasoning => "reasoning belongs to a reply: as a part of type reasoning in its content",
    };
    Err(reading.refuse_field("role", Code::BadRequest, what))
}
