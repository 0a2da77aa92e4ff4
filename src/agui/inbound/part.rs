//! The parts of a content: text, media, and the older `binary` form. May not know whose content it is.

use serde::Serialize;
use serde::de::{self, MapAccess};

use super::reading::{Fields, Object, Reading, clip, source};
use crate::protocol::{Code, Json, Part, PartKind};

const PARTS: &str = "text, image, audio, video, document, binary";

#[derive(Default)]
pub(super) struct PartFields {
    kind: Option<String>,
    text: Option<String>,
    source: Option<Json>,
    id: Option<String>,
    metadata: Option<Json>,
    mime_type: Option<String>,
    url: Option<String>,
    data: Option<String>,
    filename: Option<String>,
}

impl<'de> Fields<'de> for PartFields {
    type Value = Part;

    const EXPECTED: &'static str = "a part (an object)";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.kind = reading.value(map, "type")?,
            "text" => self.text = reading.value(map, "text")?,
            "source" => self.source = reading.maybe(map, "source", Object::<SourceFields>::new(reading))?,
            "id" => self.id = reading.value(map, "id")?,
            "metadata" => self.metadata = reading.json(map, "metadata")?,
            "mimeType" => self.mime_type = reading.value(map, "mimeType")?,
            "url" => self.url = reading.value(map, "url")?,
            "data" => self.data = reading.value(map, "data")?,
            "filename" => self.filename = reading.value(map, "filename")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(mut self, reading: &Reading<'_>) -> Result<Part, E> {
        let refuse = |field, what: &str| reading.refuse_field(field, Code::BadRequest, what);
        let kind = match self.kind.take().as_deref() {
            Some("text") => PartKind::Text,
            Some("image") => PartKind::Image,
            Some("audio") => PartKind::Audio,
            Some("video") => PartKind::Video,
            Some("document") => PartKind::Document,
            Some("binary") => return self.binary(reading),
            Some(other) => return Err(refuse("type", &format!("`{}` is no part; allowed: {PARTS}", clip(other)))),
            None => return Err(refuse("type", &format!("a part needs a type; allowed: {PARTS}"))),
        };
        if kind == PartKind::Text {
            let text = self.text.ok_or_else(|| refuse("text", "a text part needs it"))?;
            return Ok(Part { id: self.id, metadata: self.metadata, ..Part::text(kind, text) });
        }
        let source = self.source.ok_or_else(|| refuse("source", "a media part needs it"))?;
        Ok(Part { text: None, source: Some(source), id: self.id, metadata: self.metadata, ..Part::text(kind, "") })
    }
}

impl PartFields {
    /// The form of media before they had kinds: told by the MIME type.
    fn binary<E: de::Error>(self, reading: &Reading<'_>) -> Result<Part, E> {
        let mime_type = self.mime_type;
        let kind = match mime_type.as_deref().and_then(|mime| mime.split('/').next()) {
            Some("image") => PartKind::Image,
            Some("audio") => PartKind::Audio,
            Some("video") => PartKind::Video,
            Some(_) | None => PartKind::Document,
        };
        let (kind_of_source, value, id) = match (self.data, self.url, self.id) {
            (Some(data), _, id) => ("data", data, id),
            (None, Some(url), id) => ("url", url, id),
            (None, None, Some(id)) => ("file", id, None),
            (None, None, None) => return Err(reading.refuse(Code::BadRequest, "a binary part needs data, a url or an id")),
        };
        let source = source(reading, Some(kind_of_source), Some(value), mime_type, None)?;
        let metadata = match (self.metadata, self.filename) {
            (Some(metadata), _) => Some(metadata),
            (None, Some(filename)) => Some(Json::from_value(&Named { filename }).map_err(E::custom)?),
            (None, None) => None,
        };
        Ok(Part { text: None, source: Some(source), id, metadata, ..Part::text(kind, "") })
    }
}

#[derive(Serialize)]
struct Named {
    filename: String,
}

#[derive(Default)]
struct SourceFields {
    kind: Option<String>,
    value: Option<String>,
    mime_type: Option<String>,
    provider: Option<String>,
}

impl<'de> Fields<'de> for SourceFields {
    type Value = Json;

    const EXPECTED: &'static str = "a source (an object)";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.kind = reading.value(map, "type")?,
            "value" => self.value = reading.value(map, "value")?,
            "mimeType" => self.mime_type = reading.value(map, "mimeType")?,
            "provider" => self.provider = reading.value(map, "provider")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Json, E> {
        source(reading, self.kind.as_deref(), self.value, self.mime_type, self.provider)
    }
}
