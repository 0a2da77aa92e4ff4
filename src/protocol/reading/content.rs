//! What messages consist of, as far as every spelling has it the same: roles, contents, tool calls. May not know how parts are spelled.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Fields, Id, List, Object, Reading, clip};
use crate::ids::ToolCallId;
use crate::protocol::{Code, Content, FunctionCall, Json, Part, Role, ToolCall};

/// The roles there are.
pub(crate) const ROLES: &str = "user, assistant, tool, system, developer, reasoning, activity";

/// Whether a message of `role` can say `content`.
pub(crate) fn check_content<E: de::Error>(reading: &Reading<'_>, role: Role, content: Option<&Content>, error: bool) -> Result<(), E> {
    let refuse = |what: &str| Err(reading.refuse_field("content", Code::BadRequest, what));
    match (role, content) {
        (Role::User, None) => return refuse("a user message needs content"),
        (Role::Tool, None) if !error => return refuse("a tool message needs content or an error"),
        (Role::Activity, Some(Content::Text(_) | Content::Parts(_))) => return refuse("an activity's content is an object"),
        (Role::User | Role::Assistant | Role::Tool | Role::System | Role::Developer | Role::Reasoning, Some(Content::Object(_))) => {
            return refuse("a string or a list of parts is expected; only an activity's content is an object");
        }
        (Role::Tool | Role::Assistant | Role::System | Role::Developer | Role::Reasoning | Role::Activity, None)
        | (Role::User | Role::Assistant | Role::Tool | Role::System | Role::Developer | Role::Reasoning, Some(_))
        | (Role::Activity, Some(Content::Object(_))) => {}
    }
    check_size(reading, role, content)
}

/// Refuses a content that is too large. Replies are exempt: they are Headwater's own, sent back.
fn check_size<E: de::Error>(reading: &Reading<'_>, role: Role, content: Option<&Content>) -> Result<(), E> {
    let max = reading.limits.content_bytes_max;
    let bytes = match role {
        Role::Assistant | Role::Reasoning => 0,
        Role::User | Role::Tool | Role::System | Role::Developer | Role::Activity => content.map_or(0, content_bytes),
    };
    if bytes > max {
        let what = format_args!("{bytes} bytes are more than the {max} that a message may have");
        return Err(reading.refuse_field("content", Code::ContentTooLarge, what));
    }
    Ok(())
}

fn content_bytes(content: &Content) -> usize {
    let of_part = |part: &Part| part.text.as_ref().map_or(0, String::len) + part.source.as_ref().map_or(0, |source| source.get().len());
    match content {
        Content::Text(text) => text.len(),
        Content::Parts(parts) => parts.iter().map(of_part).sum(),
        Content::Object(object) => object.get().len(),
    }
}

/// Reads a role.
#[derive(Clone, Copy)]
pub(crate) struct RoleSeed<'c>(&'c Reading<'c>);

impl<'c> RoleSeed<'c> {
    pub(crate) fn new(reading: &'c Reading<'c>) -> Self {
        Self(reading)
    }
}

impl<'de> DeserializeSeed<'de> for RoleSeed<'_> {
    type Value = Role;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Role, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for RoleSeed<'_> {
    type Value = Role;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a role (a string)")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Role, E> {
        match text {
            "user" => Ok(Role::User),
            "assistant" => Ok(Role::Assistant),
            "tool" => Ok(Role::Tool),
            "system" => Ok(Role::System),
            "developer" => Ok(Role::Developer),
            "reasoning" => Ok(Role::Reasoning),
            "activity" => Ok(Role::Activity),
            _ => Err(self.0.refuse(Code::BadRequest, format_args!("`{}` is no role; allowed: {ROLES}", clip(text)))),
        }
    }
}

/// Reads a content in whatever shape it has; which one it may have, its role says. `P` reads its parts.
pub(crate) struct ContentSeed<'c, P>(&'c Reading<'c>, PhantomData<P>);

impl<'c, P> ContentSeed<'c, P> {
    pub(crate) fn new(reading: &'c Reading<'c>) -> Self {
        Self(reading, PhantomData)
    }
}

impl<'de, P: Fields<'de, Value = Part>> DeserializeSeed<'de> for ContentSeed<'_, P> {
    type Value = Content;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A key of an object that is only relayed.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, P: Fields<'de, Value = Part>> Visitor<'de> for ContentSeed<'_, P> {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of parts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Content, A::Error> {
        let list = List { reading: self.0, each: Object::<P>::new(self.0), max: None };
        list.deserialize(SeqAccessDeserializer::new(seq)).map(Content::Parts)
    }

    /// An activity's object, put together again from its values as they were written.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut text = String::from("{");
        while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(&key).map_err(de::Error::custom)?);
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        let raw = RawValue::from_string(text).map_err(de::Error::custom)?;
        Json::checked(&raw).map(Content::Object).map_err(|error| self.0.refuse(Code::BadJson, error))
    }
}

/// Reads a tool call.
#[derive(Default)]
pub(crate) struct CallFields {
    id: Option<ToolCallId>,
    kind: Option<String>,
    function: Option<FunctionCall>,
}

impl<'de> Fields<'de> for CallFields {
    type Value = ToolCall;

    const EXPECTED: &'static str = "a tool call (an object)";
    const ALLOWED: &'static [&'static str] = &["id", "type", "function"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "id" => self.id = reading.maybe(map, "id", Id::new(reading))?,
            "type" => self.kind = reading.value(map, "type")?,
            "function" => self.function = reading.maybe(map, "function", Object::<FunctionFields>::new(reading))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<ToolCall, E> {
        let required = |field| reading.refuse_field(field, Code::BadRequest, "a tool call needs it");
        if self.kind.as_ref().is_some_and(|kind| kind != "function") {
            return Err(reading.refuse_field("type", Code::BadRequest, "the only kind of tool call is `function`"));
        }
        let id = self.id.ok_or_else(|| required("id"))?;
        let FunctionCall { name, arguments } = self.function.ok_or_else(|| required("function"))?;
        Ok(ToolCall::new(id, name, arguments))
    }
}

#[derive(Default)]
struct FunctionFields {
    name: Option<String>,
    arguments: Option<String>,
}

impl<'de> Fields<'de> for FunctionFields {
    type Value = FunctionCall;

    const EXPECTED: &'static str = "a function call (an object)";
    const ALLOWED: &'static [&'static str] = &["name", "arguments"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "name" => self.name = reading.value(map, "name")?,
            "arguments" => self.arguments = reading.value(map, "arguments")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<FunctionCall, E> {
        let required = |field| reading.refuse_field(field, Code::BadRequest, "a function call needs it");
        let name = self.name.ok_or_else(|| required("name"))?;
        let arguments = self.arguments.ok_or_else(|| required("arguments"))?;
        Ok(FunctionCall { name, arguments })
    }
}

/// A media source in native JSON.
#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
}

/// A media source, always written the same way.
pub(crate) fn source<E: de::Error>(
    reading: &Reading<'_>,
    kind: Option<&str>,
    value: Option<String>,
    mime_type: Option<String>,
    provider: Option<String>,
) -> Result<Json, E> {
    let Some(kind @ ("data" | "url" | "file")) = kind else {
        return Err(reading.refuse_field("type", Code::BadRequest, "a source is `data`, `url` or `file`"));
    };
    let Some(value) = value else {
        return Err(reading.refuse_field("value", Code::BadRequest, "a source needs it"));
    };
    Json::from_value(&Source { kind, value, mime_type, provider }).map_err(E::custom)
}
