//! What a service said about an error: the many shapes of it, read into one. May not know what any of it means.

use serde_json::Value;

use crate::service::millis;

/// An error that one service passes on for another is read so deep.
const DEPTH_MAX: usize = 3;

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// In words, for people.
    pub message: String,
    /// Whether it is called an error.
    pub is_error: bool,
    /// `code`, `type`, `status`: whatever there is, in lower case; of what was passed on, too.
    pub codes: Vec<String>,
    /// Codes that are numbers of HTTP's, the outermost first.
    pub statuses: Vec<u16>,
    /// The pause that is asked for.
    pub retry_after_ms: Option<u64>,
}

impl Said {
    /// Reads a body or an event's data. Nothing when it says nothing, or is a page for people.
    pub fn read(body: &str) -> Option<Self> {
        let body = body.trim();
        if body.is_empty() || body.starts_with('<') {
            return None;
        }
        // A service that streams may stream an error, whatever its status is.
        let event = body.lines().find_map(|line| line.strip_prefix("data:"));
        let value = [Some(body), event].into_iter().flatten().find_map(|text| serde_json::from_str::<Value>(text).ok());
        let said = value.map(|value| Self::of(&value, 0)).unwrap_or_default();
        // What has no place for words is shown as it is.
        Some(if said.message.is_empty() { Self { message: body.to_owned(), ..said } } else { said })
    }

    /// Reads `{"error": {…}}`, `{"error": "…"}`, `[{"error": …}]`, `{"object": "error", …}`, `{"detail": …}`.
    fn of(value: &Value, depth: usize) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let texts = [error.get("message"), error.get("detail"), value.get("message"), value.get("detail"), Some(error)];
        let message = texts.into_iter().flatten().find_map(|text| text.as_str().filter(|text| !text.is_empty()));
        let raw = error.pointer("/metadata/raw").and_then(|raw| Self::passed_on(raw, depth, true));
        let inner = raw.or_else(|| texts.into_iter().flatten().find_map(|text| Self::passed_on(text, depth, false)));
        let mut said = Self {
            is_error: value.get("error").is_some() || value.get("object").and_then(Value::as_str) == Some("error"),
            retry_after_ms: error.get("details").and_then(retry_delay_ms),
            ..Self::default()
        };
        said.add_codes(value);
        said.add_codes(error);
        // One that is nothing but the other's JSON says no more than that.
        let own = message.filter(|message| inner.is_none() || !is_json(message));
        said.message = match (own, &inner) {
            (None, None) => String::new(),
            (Some(own), None) => own.to_owned(),
            (None, Some(inner)) => inner.message.clone(),
            (Some(own), Some(inner)) => format!("{own}: {}", inner.message),
        };
        if let Some(inner) = inner {
            said.codes.extend(inner.codes);
            said.statuses.extend(inner.statuses);
            said.retry_after_ms = said.retry_after_ms.or(inner.retry_after_ms);
        }
        said
    }

    /// What another service said: as JSON, as JSON in a text, or (when that may be) as a text alone.
    fn passed_on(place: &Value, depth: usize, may_be_text: bool) -> Option<Self> {
        if depth == DEPTH_MAX {
            return None;
        }
        let said = match place {
            Value::String(text) if is_json(text) => Self::of(&serde_json::from_str(text).ok()?, depth + 1),
            Value::String(text) if may_be_text => Self { message: text.clone(), ..Self::default() },
            Value::Object(_) if may_be_text || place.get("error").is_some_and(|error| !error.is_null()) => Self::of(place, depth + 1),
            Value::String(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        Some(said).filter(|said| !said.message.is_empty())
    }

    fn add_codes(&mut self, place: &Value) {
        let codes = ["code", "type", "status", "error_type", "__type"].map(|name| place.get(name).and_then(Value::as_str));
        self.codes.extend(codes.into_iter().flatten().map(str::to_lowercase));
        let statuses = ["code", "status_code", "http_status_code", "status"].map(|name| place.get(name).and_then(number));
        self.statuses.extend(statuses.into_iter().flatten().filter(|status| (300..600).contains(status)));
    }
}

fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('{') || text.starts_with('[')
}

/// A status as a number or as its digits.
fn number(code: &Value) -> Option<u16> {
    match code {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The pause that Google's services ask for: one of the details has a `retryDelay`, as `"28.5s"`.
fn retry_delay_ms(details: &Value) -> Option<u64> {
    let delay = details.as_array()?.iter().find_map(|detail| detail.get("retryDelay"))?.as_str()?;
    millis(delay.strip_suffix('s')?.parse::<f64>().ok()? * 1000.0)
}
