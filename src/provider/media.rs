//! Media in messages: what a part is, where it is, and what a model reads in its place when its API can't take it. Each provider
//! decides what it takes. May not know any API.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::protocol::{Part, PartKind};

/// So much of an address is told to a model that can't be given what is there.
const ADDRESS_CHARS_MAX: usize = 2000;

/// What images begin with, in base64.
const IMAGE_STARTS: [(&str, &str); 4] =
    [("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp")];

/// A part that is an image, a recording, a video or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Media {
    /// What it is, in words.
    pub noun: &'static str,
    /// Where it is.
    pub place: Place,
    /// Its type as it was given, in lower case and without parameters; empty when nothing was said.
    pub mime_type: String,
    /// What is assumed when nothing was said.
    mime_type_default: &'static str,
    /// The name of its file.
    pub name: Option<String>,
}

/// Where media are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Here, in base64.
    Data(String),
    /// At this address.
    Url(String),
    /// With a provider, under this name.
    File {
        /// The file's name there.
        id: String,
        /// Whose name it is, when that was said.
        provider: Option<String>,
    },
    /// Nowhere that can be understood.
    Unknown,
}

#[derive(Default, Deserialize)]
struct Source {
    #[serde(rename = "type")]
    kind: String,
    value: String,
    mime_type: Option<String>,
    provider: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    filename: Option<String>,
}

impl Media {
    /// Reads a part; nothing for text, reasoning and places of calls.
    pub fn of(part: &Part) -> Option<Self> {
        let (noun, mime_type_default) = match part.kind {
            PartKind::Image => ("an image", "image/png"),
            PartKind::Audio => ("a recording", "audio/wav"),
            PartKind::Video => ("a video", "video/mp4"),
            PartKind::Document => ("a document", "application/pdf"),
            PartKind::Text | PartKind::Reasoning | PartKind::ToolCall => return None,
        };
        let source = part.source.as_ref().and_then(|source| serde_json::from_str::<Source>(source.get()).ok()).unwrap_or_default();
        let metadata = part.metadata.as_ref().and_then(|metadata| serde_json::from_str::<Metadata>(metadata.get()).ok());
        let (place, said) = placed(source);
        let mime_type = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Some(Self { noun, place, mime_type, mime_type_default, name: metadata.and_then(|metadata| metadata.filename) })
    }

    /// Its type, as it was said or as an image's first bytes say.
    pub fn known_type(&self) -> Option<&str> {
        match &self.place {
            _ if !self.mime_type.is_empty() => Some(&self.mime_type),
            Place::Data(data) => IMAGE_STARTS.into_iter().find(|(start, _)| data.starts_with(start)).map(|(_, kind)| kind),
            Place::Url(_) | Place::File { .. } | Place::Unknown => None,
        }
    }

    /// Its type, assumed when nothing is known.
    pub fn mime_type(&self) -> &str {
        self.known_type().unwrap_or(self.mime_type_default)
    }

    /// The name of the file that one of these providers keeps. One whose provider nobody named is theirs.
    pub fn file_of(&self, providers: &[&str]) -> Option<&str> {
        match &self.place {
            Place::File { id, provider } if provider.as_deref().is_none_or(|provider| providers.contains(&provider)) => Some(id),
            Place::File { .. } | Place::Data(_) | Place::Url(_) | Place::Unknown => None,
        }
    }

    /// Of a text that is here: its name and what it says. Every model reads that.
    pub fn text(&self) -> Option<String> {
        let Place::Data(data) = &self.place else { return None };
        let is_text = self.mime_type.starts_with("text/") || matches!(self.mime_type.as_str(), "application/json" | "application/xml");
        let text = String::from_utf8(BASE64_STANDARD.decode(data).ok().filter(|_| is_text)?).ok()?;
        let name = self.name.as_deref().map_or_else(|| "[a document]".to_owned(), |name| format!("[the document {name}]"));
        Some(format!("{name}\n{text}"))
    }

    /// What a model reads when it can't be given this: that there was something, never silence.
    pub fn note(&self) -> String {
        let noun = self.noun;
        match &self.place {
            Place::Url(url) => {
                let url: String = url.chars().take(ADDRESS_CHARS_MAX).collect();
                format!("[{noun} that can't be given to this model: {url}]")
            }
            Place::Data(_) | Place::File { .. } | Place::Unknown => format!("[{noun} that can't be given to this model]"),
        }
    }
}

/// Where the source is, and the type that it gives.
fn placed(source: Source) -> (Place, String) {
    let mime_type = source.mime_type.unwrap_or_default();
    match source.kind.as_str() {
        "data" => (Place::Data(source.value), mime_type),
        "url" => match source.value.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
            Some((kind, data)) => (Place::Data(data.to_owned()), if mime_type.is_empty() { kind.to_owned() } else { mime_type }),
            None => (Place::Url(source.value), mime_type),
        },
        "file" => (Place::File { id: source.value, provider: source.provider }, mime_type),
        _ => (Place::Unknown, mime_type),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn media(part: Value) -> Media {
        Media::of(&serde_json::from_value(part).unwrap()).unwrap()
    }

    fn document(source: &Value) -> Media {
        media(json!({"type": "document", "source": source, "metadata": {"filename": "a.txt", "size": 1}}))
    }

    #[test]
    fn every_place_is_found() {
        let place = |source: Value| document(&source).place;
        assert_eq!(place(json!({"type": "data", "value": "aGk="})), Place::Data("aGk=".to_owned()));
        assert_eq!(place(json!({"type": "url", "value": "https://a.example"})), Place::Url("https://a.example".to_owned()));
        assert_eq!(place(json!({"type": "url", "value": "data:text/plain;base64,aGk="})), Place::Data("aGk=".to_owned()));
        let file = |provider: Option<&str>| Place::File { id: "f1".to_owned(), provider: provider.map(str::to_owned) };
        assert_eq!(place(json!({"type": "file", "value": "f1", "provider": "google"})), file(Some("google")));
        assert_eq!(place(json!({"type": "file", "value": "f1"})), file(None));
        for odd in [json!({"type": "blob", "value": "x"}), json!({"type": "data"}), json!({}), json!("x"), json!(null)] {
            assert_eq!(place(odd), Place::Unknown);
        }
    }

    #[test]
    fn types_are_said_or_assumed() {
        let kind = |source: Value| document(&source).mime_type().to_owned();
        assert_eq!(kind(json!({"type": "data", "value": "", "mime_type": "Text/Plain; charset=utf-8"})), "text/plain");
        assert_eq!(kind(json!({"type": "url", "value": "data:text/css;base64,"})), "text/css");
        assert_eq!(kind(json!({"type": "url", "value": "x"})), "application/pdf");
        assert_eq!(kind(json!({"type": "data", "value": "/9j/4AAQ"})), "image/jpeg");
        assert_eq!(document(&json!({"type": "data", "value": "aGk="})).known_type(), None);
    }

    #[test]
    fn files_are_given_to_their_provider_alone() {
        let file = |provider: Value| document(&json!({"type": "file", "value": "f1", "provider": provider}));
        let given = |provider: Value| file(provider).file_of(&["google", "gemini"]).map(str::to_owned);
        assert_eq!([given(json!("google")), given(json!(null))], [Some("f1".to_owned()), Some("f1".to_owned())]);
        assert_eq!(given(json!("openai")), None);
    }

    #[test]
    fn texts_that_are_here_can_be_read() {
        let text = |data: &str, kind: &str| document(&json!({"type": "data", "value": data, "mime_type": kind})).text();
        assert_eq!(text("xbx5xbxlciE=", "text/plain; charset=utf-8").as_deref(), Some("[the document a.txt]\nżyżer!"));
        assert_eq!(text("e30=", "application/json").as_deref(), Some("[the document a.txt]\n{}"));
        assert_eq!(text("aGk=", "application/pdf"), None);
        assert_eq!(text("not base64", "text/plain"), None);
        assert_eq!(text("//8=", "text/plain"), None);
    }

    #[test]
    fn notes_say_what_was_there() {
        let note = |kind: &str, source: Value| media(json!({"type": kind, "source": source})).note();
        assert_eq!(note("video", json!({"type": "data", "value": "aGk="})), "[a video that can't be given to this model]");
        assert_eq!(
            note("image", json!({"type": "url", "value": "https://a.example/a.png"})),
            "[an image that can't be given to this model: https://a.example/a.png]"
        );
        assert!(note("audio", json!({"type": "url", "value": "x".repeat(9000)})).len() < 2100);
    }
}
