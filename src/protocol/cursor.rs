//! The one cursor of a session: how far a reader has read.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `seq` of the last record delivered; inside a running call also `.attempt.n`, `n` counting the characters and marks of the
/// call's stream already sent. The same on every instance. As text: `"12"` or `"12.1.45"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cursor {
    /// Position in the session's log; 0 is before the first record.
    pub seq: u64,
    /// Inside a running call: its attempt (from 1), and how much of its stream was sent.
    pub within: Option<(u32, u64)>,
}

impl Cursor {
    /// The cursor after a whole record.
    pub fn after(seq: u64) -> Self {
        Self { seq, within: None }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.within {
            None => write!(f, "{}", self.seq),
            Some((attempt, n)) => write!(f, "{}.{attempt}.{n}", self.seq),
        }
    }
}

/// The text is not a cursor.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a cursor; it has the form 12 or 12.1.45")]
pub struct CursorError(String);

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let number = |part: &str| part.parse::<u64>().ok();
        let mut parts = text.split('.').map(number);
        let cursor = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(seq)), None, None, None) => Some(Self::after(seq)),
            (Some(Some(seq)), Some(Some(attempt)), Some(Some(n)), None) => {
                u32::try_from(attempt).ok().map(|attempt| Self { seq, within: Some((attempt, n)) })
            }
            _ => None,
        };
        // One place has one name: no signs, no leading zeros.
        let cursor = cursor.filter(|cursor| cursor.to_string() == text);
        cursor.ok_or_else(|| CursorError(text.chars().take(64).collect()))
    }
}

impl TryFrom<String> for Cursor {
    type Error = CursorError;

    fn try_from(text: String) -> Result<Self, CursorError> {
        text.parse()
    }
}

impl From<Cursor> for String {
    fn from(cursor: Cursor) -> Self {
        cursor.to_string()
    }
}
