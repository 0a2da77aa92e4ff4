//! The parts of a content in native JSON. May not know whose content it is.

use serde::de::{self, MapAccess};

use crate::ids::ToolCallId;
use crate::protocol::reading::{Fields, Id, Object, Reading, clip, source};
use crate::protocol::{Code, Json, Part, PartKind};

const PARTS: &str = "text, image, audio, video, document; in replies also reasoning, tool_call";

#[derive(Default)]
pub(super) struct PartFields {
    kind: Option<String>,
    text: Option<String>,
    source: Option<Json>,
    tool_call_id: Option<ToolCallId>,
    encrypted_value: Option<String>,
    id: Option<String>,
    metadata: Option<Json>,
}

impl<'de> Fields<'de> for PartFields {
    type Value = Part;

    const EXPECTED: &'static str = "a part (an object)";
    const ALLOWED: &'static [&'static str] = &["type", "text", "source", "tool_call_id", "encrypted_value", "id", "metadata"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.kind = reading.value(map, "type")?,
            "text" => self.text = reading.value(map, "text")?,
            "source" => self.source = reading.maybe(map, "source", Object::<SourceFields>::new(reading))?,
            "tool_call_id" => self.tool_call_id = reading.maybe(map, "tool_call_id", Id::new(reading))?,
            "encrypted_value" => self.encrypted_value = reading.value(map, "encrypted_value")?,
            "id" => self.id = reading.value(map, "id")?,
            "metadata" => self.metadata = reading.json(map, "metadata")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Part, E> {
        let refuse = |field, what: &str| Err(reading.refuse_field(field, Code::BadRequest, what));
        let kind = match self.kind.as_deref() {
            Some("text") => PartKind::Text,
            Some("image") => PartKind::Image,
            Some("audio") => PartKind::Audio,
            Some("video") => PartKind::Video,
            Some("document") => PartKind::Document,
            Some("reasoning") => PartKind::Reasoning,
            Some("tool_call") => PartKind::ToolCall,
            Some(other) => return refuse("type", &format!("`{}` is no part; allowed: {PARTS}", clip(other))),
            None => return refuse("type", &format!("a part needs a type; allowed: {PARTS}")),
        };
        let (text, source, call, encrypted) = match kind {
            PartKind::Text => (true, false, false, false),
            PartKind::Image | PartKind::Audio | PartKind::Video | PartKind::Document => (false, true, false, false),
            PartKind::Reasoning => (true, false, false, true),
            PartKind::ToolCall => (false, false, true, false),
        };
        let is_present = [
            ("text", self.text.is_some(), text),
            ("source", self.source.is_some(), source),
            ("tool_call_id", self.tool_call_id.is_some(), call),
            ("encrypted_value", self.encrypted_value.is_some(), encrypted),
        ];
        for (field, present, wanted) in is_present {
            if present && !wanted {
                return refuse(field, "a part of this type has no such field");
            }
            // What was thought may be there in the provider's form alone.
            let is_enough = kind == PartKind::Reasoning && (self.text.is_some() || self.encrypted_value.is_some());
            if wanted && !present && !is_enough {
                return refuse(field, "a part of this type needs it");
            }
        }
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.is_object()) {
            return refuse("metadata", "an object is expected");
        }
        let Self { kind: _, text, source, tool_call_id, encrypted_value, id, metadata } = self;
        Ok(Part { kind, text, source, tool_call_id, encrypted_value, id, metadata })
    }
}

#[derive(Default)]
pub(super) struct SourceFields {
    kind: Option<String>,
    value: Option<String>,
    mime_type: Option<String>,
    provider: Option<String>,
}

impl<'de> Fields<'de> for SourceFields {
    type Value = Json;

    const EXPECTED: &'static str = "a source (an object)";
    const ALLOWED: &'static [&'static str] = &["type", "value", "mime_type", "provider"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.kind = reading.value(map, "type")?,
            "value" => self.value = reading.value(map, "value")?,
            "mime_type" => self.mime_type = reading.value(map, "mime_type")?,
            "provider" => self.provider = reading.value(map, "provider")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Json, E> {
        source(reading, self.kind.as_deref(), self.value, self.mime_type, self.provider)
    }
}
