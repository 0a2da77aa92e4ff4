//! Ids that come in a path, a query or a small body: not empty, not too long.

use crate::ids::{ID_BYTES_MAX, SessionId};
use crate::protocol::{Code, Refusal};

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
    fn ids_have_a_length() {
        assert_eq!(id("id", "").unwrap_err().code, Code::BadId);
        assert_eq!(id("id", &"x".repeat(129)).unwrap_err().code, Code::BadId);
        assert_eq!(id("id", &"x".repeat(128)).unwrap().len(), 128);
    }
}
