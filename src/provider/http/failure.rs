//! What failed, in our own kinds: by status, by code, and by the words that services use. May not know the network.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::Value;

use crate::protocol::{CallError, CallErrorKind};

/// An error's text has at most so many characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// Codes and types that say that the request has more tokens than the model reads.
const TOO_LONG_CODES: [&str; 5] =
    ["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "request_too_large", "string_above_max_length"];

/// The same in words: all of a line stand in the message, in lower case.
const TOO_LONG_WORDS: [&[&str]; 18] = [
    &["context_length_exceeded"],
    &["maximum context length"],
    &["maximum prompt length"],
    &["prompt is too long"],
    &["prompt too long"],
    &["input is too long"],
    &["exceed", "context window"],
    &["exceed", "context limit"],
    &["exceed", "context length"],
    &["exceed", "context size"],
    &["exceed", "model token limit"],
    &["exceed", "input token count"],
    &["exceed", "prompt", "max length"],
    &["greater than", "context length"],
    &["reduce the length of the messages"],
    &["reduce the length of the prompt"],
    &["too large for model", "context"],
    &["too many tokens", "prompt"],
];

/// A service that was not reached, or whose answer isn't HTTP.
pub(super) fn of_connection(error: &reqwest::Error) -> CallError {
    let reason = chain(error);
    let (kind, what) = if error.is_timeout() {
        (CallErrorKind::TimedOut, "the provider could not be reached in time")
    } else if reason.contains("invalid HTTP") || reason.contains("message head is too large") {
        (CallErrorKind::Nonsense, "the provider's answer isn't HTTP")
    } else if error.is_connect() {
        (CallErrorKind::Unavailable, "the provider can't be reached")
    } else {
        (CallErrorKind::Unavailable, "the provider closed the connection before it answered")
    };
    CallError::new(kind, format!("{what}: {reason}"))
}

/// An answer that is no stream: its status, its headers, its body.
pub(super) fn of_answer(status: u16, headers: &HeaderMap, body: &str) -> CallError {
    let said = Said::read(body);
    let kind = match (status, &said) {
        (200..=299, Some(said)) if said.is_error => said.kind(None),
        (200..=299, _) => return CallError::new(CallErrorKind::Nonsense, no_stream(status, headers)),
        (_, Some(said)) => said.kind(Some(status)),
        (_, None) => Said::default().kind(Some(status)),
    };
    let pause = retry_after_ms(headers).or_else(|| said.as_ref()?.retry_after_ms);
    let explanation = match said {
        Some(said) => said.message,
        None if (300..400).contains(&status) => "redirects are not followed; give base_url the address that it points to".to_owned(),
        None if is_markup(body) => "with a page for people, not with an answer of the API's".to_owned(),
        None if body.trim().is_empty() => "without an explanation".to_owned(),
        None => body.trim().to_owned(),
    };
    let mut error = CallError::new(kind, format!("the provider answered {status}: {explanation}"));
    error.retry_after_ms = pause;
    error
}

fn no_stream(status: u16, headers: &HeaderMap) -> String {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("something");
    format!("the provider answered {status} with {kind} instead of a stream of events")
}

/// An event that reports an error in the middle of a stream.
pub(in crate::provider) fn of_event(data: &str) -> CallError {
    let said = Said::read(data).unwrap_or_else(|| Said { message: data.trim().to_owned(), ..Said::default() });
    let mut error = CallError::new(said.kind(None), format!("the provider reported an error: {}", said.message));
    error.retry_after_ms = said.retry_after_ms;
    error
}

/// An error and what caused it, in one line, without the address (which may hold more than people should see).
pub(super) fn chain(error: &reqwest::Error) -> String {
    let mut reasons = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        reasons.push(error.to_string());
        source = error.source();
    }
    // Each names the next one now and then.
    reasons.dedup_by(|next, reason| reason.ends_with(&**next));
    if reasons.is_empty() { "no reason is known".to_owned() } else { reasons.join(": ") }
}

/// At most 500 characters, in one line.
pub(super) fn clipped(message: &str) -> String {
    let line = |character: char| if character.is_control() { ' ' } else { character };
    if message.chars().count() <= MESSAGE_CHARS_MAX {
        return message.chars().map(line).collect();
    }
    message.chars().take(MESSAGE_CHARS_MAX - 1).map(line).chain(['…']).collect()
}

/// What a service said about an error.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// Whether it calls that an error.
    is_error: bool,
    /// `code`, `type`, `status`: whatever it has.
    codes: Vec<String>,
    /// A code that is a number.
    status: Option<u16>,
    /// What another service said, when this one passes it on.
    passed_on: String,
    /// The pause that it asks for.
    retry_after_ms: Option<u64>,
}

impl Said {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, `[{"error": …}]`, `{"object": "error", …}`, `{"detail": …}`.
    fn read(body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let value = value.get(0).unwrap_or(&value);
        let error = value.get("error").unwrap_or(value);
        let message = [error.get("message"), error.get("detail"), value.get("message"), Some(error)];
        let message = message.into_iter().flatten().find_map(|message| match message {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        })?;
        let is_error = value.get("error").is_some() || value.get("object").and_then(Value::as_str) == Some("error");
        let codes = [error.get("code"), error.get("type"), error.get("status")];
        Some(Self {
            message,
            is_error,
            codes: codes.into_iter().flatten().filter_map(Value::as_str).map(str::to_ascii_lowercase).collect(),
            status: error.get("code").and_then(number),
            passed_on: error.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default().to_owned(),
            retry_after_ms: error.get("details").and_then(retry_delay_ms),
        })
    }

    /// The kind of error; a status that HTTP gave goes before one that the body gives.
    fn kind(&self, status: Option<u16>) -> CallErrorKind {
        let status = status.or(self.status).filter(|status| (300..600).contains(status));
        let words = format!("{} {}", self.message, self.passed_on).to_lowercase();
        // A limit of tokens a minute speaks of tokens too.
        if status == Some(429) || (status.is_none() && (self.has_code("rate_limit") || words.contains("rate limit"))) {
            return CallErrorKind::RateLimited;
        }
        if status == Some(413) || self.is_too_long(&words) {
            return CallErrorKind::TooLong;
        }
        if status.is_none() && self.has_code("timeout") {
            return CallErrorKind::TimedOut;
        }
        match status {
            Some(408) => CallErrorKind::TimedOut,
            Some(500..) => CallErrorKind::Unavailable,
            Some(_) => CallErrorKind::Refused,
            None if self.has_code("invalid")
                || self.has_code("authentication")
                || self.has_code("permission")
                || self.has_code("billing")
                || self.has_code("not_found") =>
            {
                CallErrorKind::Refused
            }
            None => CallErrorKind::Unavailable,
        }
    }

    fn has_code(&self, part: &str) -> bool {
        self.codes.iter().any(|code| code.contains(part))
    }

    fn is_too_long(&self, words: &str) -> bool {
        let coded = self.codes.iter().any(|code| TOO_LONG_CODES.contains(&code.as_str()));
        coded || TOO_LONG_WORDS.iter().any(|line| line.iter().all(|part| words.contains(part)))
    }
}

/// A status as a number or as its digits.
fn number(code: &Value) -> Option<u16> {
    match code {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_markup(body: &str) -> bool {
    body.trim_start().starts_with('<')
}

/// The pause that Google's services ask for: one of the details has a `retryDelay`, as `"28.5s"`.
fn retry_delay_ms(details: &Value) -> Option<u64> {
    let delay = details.as_array()?.iter().find_map(|detail| detail.get("retryDelay"))?.as_str()?;
    millis(delay.strip_suffix('s')?.parse::<f64>().ok()? * 1000.0)
}

/// The pause that is asked for: `retry-after-ms`, or `retry-after` in seconds.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    number("retry-after-ms").and_then(millis).or_else(|| number("retry-after").and_then(|seconds| millis(seconds * 1000.0)))
}

/// A pause that somebody may mean.
fn millis(millis: f64) -> Option<u64> {
    let pause = Some(millis).filter(|millis| (0.0..1e12).contains(millis)).map(|millis| Duration::from_secs_f64(millis / 1000.0))?;
    u64::try_from(pause.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> (CallErrorKind, String) {
        let error = of_answer(status, &HeaderMap::new(), body);
        (error.kind, error.message)
    }

    #[test]
    fn every_way_to_say_too_long() {
        for message in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens",
            "Your input exceeds the context window of this model.",
            "prompt is too long: 213462 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Please reduce the length of the messages or completion.",
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            "Input is too long for requested model.",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "Invalid request: Your request exceeded model token limit: 131072",
            "invalid params, context window exceeds limit",
            "Prompt exceeds max length",
        ] {
            let body = serde_json::json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string();
            assert_eq!(answer(400, &body), (CallErrorKind::TooLong, format!("the provider answered 400: {message}")));
            assert_eq!(of_event(&body).kind, CallErrorKind::TooLong, "{message}");
            assert_eq!(answer(429, &body).0, CallErrorKind::RateLimited, "{message}");
        }
        assert_eq!(answer(400, r#"{"error":{"message":"no","code":"context_length_exceeded"}}"#).0, CallErrorKind::TooLong);
        assert_eq!(answer(400, r#"{"error":{"message":"no","type":"exceed_context_size_error","code":400}}"#).0, CallErrorKind::TooLong);
        assert_eq!(answer(413, "").0, CallErrorKind::TooLong);
        let passed_on =
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"prompt is too long\"}"}}}"#;
        assert_eq!(answer(400, passed_on).0, CallErrorKind::TooLong);
    }

    #[test]
    fn what_only_sounds_like_too_long() {
        for message in [
            "max_tokens is too large: 99999. This model supports at most 16384 completion tokens",
            "Invalid 'tools[0].function.name': string does not match pattern",
            "The image is too large.",
        ] {
            let body = serde_json::json!({"error": {"message": message, "type": "invalid_request_error"}}).to_string();
            assert_eq!(answer(400, &body).0, CallErrorKind::Refused, "{message}");
        }
        let a_minute = "Rate limit reached for tokens per min: requested exceeds the context window";
        assert_eq!(of_event(&serde_json::json!({"error": {"message": a_minute}}).to_string()).kind, CallErrorKind::RateLimited);
    }

    #[test]
    fn statuses_have_kinds() {
        for (status, kind) in [
            (302, CallErrorKind::Refused),
            (400, CallErrorKind::Refused),
            (401, CallErrorKind::Refused),
            (403, CallErrorKind::Refused),
            (404, CallErrorKind::Refused),
            (408, CallErrorKind::TimedOut),
            (422, CallErrorKind::Refused),
            (429, CallErrorKind::RateLimited),
            (500, CallErrorKind::Unavailable),
            (503, CallErrorKind::Unavailable),
            (529, CallErrorKind::Unavailable),
        ] {
            let error = of_answer(status, &HeaderMap::new(), "<html><body>Some page</body></html>");
            assert_eq!(error.kind, kind, "{status}");
            assert!(!error.message.contains("body"), "{}", error.message);
            let explanation = if status == 302 { "redirects are not followed" } else { "without an explanation" };
            assert!(answer(status, "").1.starts_with(&format!("the provider answered {status}: {explanation}")));
        }
    }

    #[test]
    fn errors_are_read_in_every_shape() {
        for body in [
            r#"{"error":{"message":"why"}}"#,
            r#"{"error":"why"}"#,
            r#"[{"error":{"message":"why","status":"INVALID_ARGUMENT"}}]"#,
            r#"{"object":"error","message":"why","code":400}"#,
            r#"{"detail":"why"}"#,
            r#"{"error":null,"message":"why"}"#,
            "why",
        ] {
            assert_eq!(answer(400, body).1, "the provider answered 400: why", "{body}");
        }
        assert_eq!(answer(400, r#"{"error":{}}"#).1, r#"the provider answered 400: {"error":{}}"#);
    }

    #[test]
    fn errors_inside_a_stream_have_kinds() {
        for (data, kind) in [
            (r#"{"error":{"message":"x","code":429}}"#, CallErrorKind::RateLimited),
            (r#"{"error":{"message":"x","code":"429"}}"#, CallErrorKind::RateLimited),
            (r#"{"error":{"message":"x","type":"rate_limit_error"}}"#, CallErrorKind::RateLimited),
            (r#"{"error":{"message":"x","code":502}}"#, CallErrorKind::Unavailable),
            (r#"{"error":{"message":"x","type":"server_error"}}"#, CallErrorKind::Unavailable),
            (r#"{"error":{"message":"x","type":"overloaded_error"}}"#, CallErrorKind::Unavailable),
            (r#"{"type":"error","error":{"message":"x","type":"api_error"},"request_id":"req_1"}"#, CallErrorKind::Unavailable),
            (r#"{"type":"error","error":{"message":"x","type":"timeout_error"}}"#, CallErrorKind::TimedOut),
            (r#"{"type":"error","error":{"message":"x","type":"billing_error"}}"#, CallErrorKind::Refused),
            (r#"{"error":{"message":"x","type":"invalid_request_error"}}"#, CallErrorKind::Refused),
            (r#"{"object":"error","message":"x","code":400}"#, CallErrorKind::Refused),
            (r#"{"error":"x"}"#, CallErrorKind::Unavailable),
        ] {
            let error = of_event(data);
            assert_eq!((error.kind, error.message.as_str()), (kind, "the provider reported an error: x"), "{data}");
        }
    }

    #[test]
    fn pauses_are_read_in_seconds_and_milliseconds() {
        let pause = |headers: &[(&'static str, &str)]| {
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            of_answer(429, &headers, "").retry_after_ms
        };
        assert_eq!(pause(&[("retry-after", "2")]), Some(2000));
        assert_eq!(pause(&[("retry-after", "1.5")]), Some(1500));
        assert_eq!(pause(&[("retry-after", "9"), ("retry-after-ms", "350")]), Some(350));
        for none in ["Wed, 21 Oct 2026 07:28:00 GMT", "-1", "nan", "1e99", ""] {
            assert_eq!(pause(&[("retry-after", none)]), None, "{none}");
        }
    }

    #[test]
    fn messages_are_clipped_to_one_line() {
        assert_eq!(clipped("a\nb"), "a b");
        let clipped = clipped(&"ż".repeat(501));
        assert_eq!((clipped.chars().count(), clipped.ends_with("ż…")), (500, true));
    }
}
