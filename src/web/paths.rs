//! Ids and limits that come in a path, a query or a small body: not empty, not too long, not too many.

use crate::ids::{ID_BYTES_MAX, SessionId};
use crate::protocol::{Code, Refusal};

/// The id of the session that a path of the native API names.
pub(super) fn session_id(text: &str) -> Result<SessionId, Refusal> {
    id("the session's id", text).map(SessionId::from)
}

/// The path of a session's page.
pub(super) fn of_session(id: &SessionId) -> String {
    use std::fmt::Write as _;
    let mut path = String::from("/v1/sessions/");
    for &byte in id.as_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

/// How many of something a page has.
pub(super) fn limit(asked: Option<usize>, default: usize, max: usize) -> Result<usize, Refusal> {
    match asked.unwrap_or(default) {
        limit if (1..=max).contains(&limit) => Ok(limit),
        _ => Err(Refusal::new(Code::BadRequest, format!("limit is between 1 and {max}")).with("at", "limit")),
    }
}

/// A session's id.
pub(super) fn session(text: &str) -> Result<SessionId, Refusal> {
    id("threadId", text).map(SessionId::from)
}

/// Any id; `field` is what it is called where it came from.
pub(super) fn id<'a>(field: &str, text: &'a str) -> Result<&'a str, Refusal> {
    match text.len() {
        0 => Err(Refusal::new(Code::BadId, format!("{field} is empty"))),
        1..=ID_BYTES_MAX => Ok(text),
        length => Err(Refusal::new(Code::BadId, format!("{field} has {length} bytes; {ID_BYTES_MAX} are allowed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_carries_any_id() {
        assert_eq!(of_session(&"s 1/ä".into()), "/v1/sessions/s%201%2F%C3%A4");
    }

    #[test]
    fn ids_have_a_length() {
        assert_eq!(id("id", "").unwrap_err().code, Code::BadId);
        assert_eq!(id("id", &"x".repeat(129)).unwrap_err().code, Code::BadId);
        assert_eq!(id("id", &"x".repeat(128)).unwrap().len(), 128);
    }
}
