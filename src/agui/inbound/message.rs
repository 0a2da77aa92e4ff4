//! AG-UI's messages, read into native ones. May not know which of them become nodes.

use serde::de::{self, MapAccess};

use super::part::PartFields;
use super::reading::{CallFields, ContentSeed, Fields, Id, List, Object, ROLES, Reading, RoleSeed, check_content};
use crate::ids::{NodeId, ToolCallId};
use crate::protocol::{Code, Content, Json, Message, Role, ToolCall};

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

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "id" => self.id = reading.maybe(map, "id", Id::new(reading))?,
            "role" => self.role = reading.maybe(map, "role", RoleSeed::new(reading))?,
            "content" => self.content = reading.maybe(map, "content", ContentSeed::<PartFields>::new(reading))?,
            "toolCalls" => {
                let list = List { reading, each: Object::<CallFields>::new(reading), max: None };
                self.tool_calls = reading.maybe(map, "toolCalls", list)?;
            }
            "toolCallId" => self.tool_call_id = reading.maybe(map, "toolCallId", Id::new(reading))?,
            "error" => self.error = reading.value(map, "error")?,
            "name" => self.name = reading.value(map, "name")?,
            "activityType" => self.activity_type = reading.value(map, "activityType")?,
            "encryptedValue" => self.encrypted_value = reading.value(map, "encryptedValue")?,
            "metadata" => self.metadata = reading.json(map, "metadata")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Message, E> {
        let Some(role) = self.role else {
            return Err(reading.refuse_field("role", Code::BadRequest, format_args!("a message needs a role; allowed: {ROLES}")));
        };
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
            return Err(reading.refuse_field("metadata", Code::BadRequest, "an object is expected"));
        }
        check_content(reading, role, self.content.as_ref(), self.error.is_some())?;
        let is = |wanted| role == wanted;
        let message = Message {
            id: self.id,
            role,
            content: self.content,
            tool_calls: self.tool_calls.filter(|_| is(Role::Assistant)).unwrap_or_default(),
            tool_call_id: self.tool_call_id.filter(|_| is(Role::Tool)),
            error: self.error.filter(|_| is(Role::Tool)),
            name: self.name,
            activity_type: self.activity_type.filter(|_| is(Role::Activity)),
            encrypted_value: self.encrypted_value,
            metadata: self.metadata,
        };
        if is(Role::Tool) && message.tool_call_id.is_none() {
            return Err(reading.refuse_field("toolCallId", Code::BadRequest, "a tool message names the call that it answers"));
        }
        Ok(message)
    }
}
