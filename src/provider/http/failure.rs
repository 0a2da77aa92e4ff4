//! What failed, in our own kinds. May not know any service.

mod said;
#[cfg(test)]
mod tests;
mod wordings;

use reqwest::header::{CONTENT_TYPE, HeaderMap};

use crate::protocol::{CallError, CallErrorKind};
use crate::service::{reasons, retry_after_ms};
use said::Said;

/// A service that was not reached, or whose answer isn't HTTP.
pub(super) fn of_connection(error: &reqwest::Error) -> CallError {
    let reason = reasons(error);
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
        (200..=299, Some(said)) if said.is_error => wordings::kind(said, None),
        (200..=299, _) => return CallError::new(CallErrorKind::Nonsense, no_stream(status, headers)),
        (_, Some(said)) => wordings::kind(said, Some(status)),
        (_, None) => wordings::kind(&Said::default(), Some(status)),
    };
    let pause = retry_after_ms(headers).or_else(|| said.as_ref()?.retry_after_ms);
    let explanation = match said {
        Some(said) => said.message,
        None if (300..400).contains(&status) => "redirects are not followed; give base_url the address that it points to".to_owned(),
        None if body.trim().is_empty() => "without an explanation".to_owned(),
        None => "with a page for people, not with an answer of the API's".to_owned(),
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
    let said = Said::read(data).unwrap_or_default();
    let message = if said.message.is_empty() { "without an explanation" } else { &said.message };
    let mut error = CallError::new(wordings::kind(&said, None), format!("the provider reported an error: {message}"));
    error.retry_after_ms = said.retry_after_ms;
    error
}
