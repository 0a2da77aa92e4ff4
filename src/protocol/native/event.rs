//! `session.event`: something that happened, as the message that a model reads. May not know when it is read.

use serde::de;

use super::message;
use crate::ids::NodeId;
use crate::protocol::reading::Reading;
use crate::protocol::{Code, Content, Json, Message, Role};

/// The longest name of what happened, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The message of an event: what it says, or what it brings as JSON, or no more than its name.
pub(super) fn message<E: de::Error>(
    reading: &Reading<'_>,
    id: Option<NodeId>,
    name: String,
    content: Option<Content>,
    payload: Option<Json>,
) -> Result<Message, E> {
    let refuse = |field, what: &str| Err(reading.refuse_field(field, Code::BadRequest, what));
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
        return refuse("name", &format!("an event's name has 1 to {NAME_BYTES_MAX} bytes, none of them a control character"));
    }
    let content = match (content, payload) {
        (Some(_), Some(_)) => return refuse("payload", "an event has content or a payload, not both"),
        (content, None) => content.unwrap_or_else(|| Content::Text(String::new())),
        (None, Some(payload)) => Content::Text(payload.get().to_owned()),
    };
    let event = Message { id, name: Some(name), content: Some(content), ..Message::empty(Role::User) };
    message::check(reading, &event)?;
    Ok(event)
}
