//! Which kind of failure it is, by status, by code, and by the words that services use: above all, which refusals mean that the
//! request has more tokens than the model reads. `tests/fixtures/refusals` holds what services really say. May not know shapes of
//! bodies.

use super::Said;
use crate::protocol::CallErrorKind;

/// Codes and types that say that the request has more tokens than the model reads.
const TOO_LONG_CODES: [&str; 6] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "context_exceeded",
    "request_too_large",
    "prompt_too_long",
    "model_max_prompt_tokens_exceeded",
];

/// The same in words: all of a line stand in the message, in lower case. What a model may write at most is another matter, and so is
/// what a field, a file, a minute may hold.
const TOO_LONG_WORDS: [&[&str]; 46] = [
    &["context_length_exceeded"],
    &["model_context_window_exceeded"],
    &["maximum context length"],
    &["maximum prompt length"],
    &["prompt is too long"],
    &["prompt too long"],
    &["input is too long"],
    &["too long to fit into the model"],
    &["length of all messages is too long"],
    &["prompt_tokens", "must be less than max_seq_len"],
    &["prompt length", "exceeds maximum"],
    &["exceed", "context window"],
    &["exceed", "context limit"],
    &["exceed", "context length"],
    &["exceed", "context size"],
    &["exceed", "model token limit"],
    &["exceed", "input token count"],
    &["exceed", "prompt token count"],
    &["exceed", "maximum allowed input length"],
    &["exceed", "prompt", "max length"],
    &["exceed", "request payload size"],
    &["input tokens exceed"],
    &["input token count", "only supports up to"],
    &["too many input tokens"],
    &["too many tokens", "prompt"],
    &["too many tokens", "size limit"],
    &["tokens in request more than max tokens"],
    &["greater than", "context length"],
    &["longer than", "context length"],
    &["longer than", "maximum model length"],
    &["context length is only"],
    &["context length of only"],
    &["reached context length"],
    &["configured context size"],
    &["too large for model", "context"],
    &["n_keep", "n_ctx"],
    &["reduce the length of the messages"],
    &["reduce the length of the prompt"],
    &["current length is", "while limit is"],
    &["range of input length should be"],
    &["`inputs` must have less than"],
    &["`inputs` tokens", "must be <="],
    // What is left for the reply is less than nothing.
    &["max_tokens must be at least 1", "got -"],
    // The text of a message, not one of its other fields.
    &["string too long", "].content'"],
    &["string too long", "].text'"],
    &["string too long", "'input'"],
];

/// Codes that ask for a pause: all of a code.
const LIMITED_WHOLE_CODES: [&str; 2] = ["tokens", "requests"];

/// Codes that ask for a pause: a part of a code.
const LIMITED_CODES: [&str; 5] = ["rate_limit", "ratelimit", "throttl", "too_many_requests", "resource_exhausted"];

/// The same in words. Limits of tokens a minute speak of long requests, too.
const LIMITED_WORDS: [&str; 13] = [
    "rate limit",
    "rate-limit",
    "rate_limit",
    "ratelimit",
    "throttl",
    "too many requests",
    "tokens per min",
    "tokens per day",
    "requests per min",
    "requests per day",
    "(tpm)",
    "per-minute",
    "please wait before trying again",
];

/// Codes (a part of one) of what no shorter request changes.
const REFUSED_CODES: [&str; 11] = [
    "authentication",
    "permission",
    "billing",
    "quota",
    "insufficient",
    "payment",
    "credit",
    "not_found",
    "content_filter",
    "content_policy",
    "moderation",
];

/// The same in words.
const REFUSED_WORDS: [&str; 4] = ["quota", "billing", "credits", "content management policy"];

/// What may be too large for itself.
const MEDIA_WORDS: [&str; 6] = ["image", "audio", "video", "file", "document", "pdf"];

/// The kind of failure, with the status that HTTP gave; it goes before one that the body gives.
pub(super) fn kind(said: &Said, http: Option<u16>) -> CallErrorKind {
    let status = http.or(said.statuses.first().copied()).filter(|status| (300..600).contains(status));
    let words = said.message.to_lowercase();
    let is_too_long = is_too_long(said, &words);
    if is_limited(said, status, &words, is_too_long) {
        return CallErrorKind::RateLimited;
    }
    let is_refused = is_refused(said, status, &words);
    if !is_refused && (is_too_long || (status == Some(413) && !has_any(&words, &MEDIA_WORDS))) {
        return CallErrorKind::TooLong;
    }
    match status {
        Some(408) => CallErrorKind::TimedOut,
        Some(500..) => CallErrorKind::Unavailable,
        Some(_) => CallErrorKind::Refused,
        None if has_code(said, "timeout") => CallErrorKind::TimedOut,
        None if has_any_code(said, &["invalid", "bad_request", "badrequest"]) || has_any_code(said, &REFUSED_CODES) => {
            CallErrorKind::Refused
        }
        None => CallErrorKind::Unavailable,
    }
}

/// Whether a pause is asked for. A 429 always does, whoever says it and whatever else is said; so does a limit that calls itself one
/// under another status. Words alone may be about something else where HTTP says so.
fn is_limited(said: &Said, status: Option<u16>, words: &str, is_too_long: bool) -> bool {
    let is_coded = said.codes.iter().any(|code| LIMITED_WHOLE_CODES.contains(&code.as_str())) || has_any_code(said, &LIMITED_CODES);
    let counts = is_too_long || matches!(status, None | Some(413));
    status == Some(429) || said.statuses.contains(&429) || is_coded || (counts && has_any(words, &LIMITED_WORDS))
}

/// Whether it is about who asks, or about what is said, not about how much.
fn is_refused(said: &Said, status: Option<u16>, words: &str) -> bool {
    matches!(status, Some(401..=404)) || has_any_code(said, &REFUSED_CODES) || has_any(words, &REFUSED_WORDS)
}

fn is_too_long(said: &Said, words: &str) -> bool {
    let coded = said.codes.iter().any(|code| TOO_LONG_CODES.contains(&code.as_str()));
    coded || TOO_LONG_WORDS.iter().any(|line| line.iter().all(|part| words.contains(part)))
}

fn has_code(said: &Said, part: &str) -> bool {
    said.codes.iter().any(|code| code.contains(part))
}

fn has_any_code(said: &Said, parts: &[&str]) -> bool {
    parts.iter().any(|part| has_code(said, part))
}

fn has_any(words: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| words.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no service is known to say isn't looked for.
    #[test]
    fn each_wording_is_shown_by_a_case() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/refusals/too_long.jsonl");
        let cases = std::fs::read_to_string(path).unwrap().to_lowercase();
        let is_shown = |parts: &[&str]| cases.lines().any(|case| parts.iter().all(|part| case.contains(part)));
        for parts in TOO_LONG_WORDS {
            assert!(is_shown(parts), "{parts:?}");
        }
        for code in TOO_LONG_CODES {
            assert!(is_shown(&[&format!("\"{code}\"")]), "{code}");
        }
    }
}
