//! Interrupts: what pauses a turn until a person or an outside system has answered, and the answers. May not know who raised one, or
//! what an answer comes to.

use serde::{Deserialize, Serialize};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Digest, Json, hash_value};
use crate::ids::{InterruptId, Millis, ToolCallId};

/// Something that only a person or an outside system can go on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Which; unique in a session.
    pub id: InterruptId,
    /// Why, in a word: `approval`, say.
    pub reason: String,
    /// What a person reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The tool call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// What a front end needs besides, to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The JSON Schema that an answer's payload fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Json>,
    /// From this time on it can only be cancelled; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// What whoever raised it adds for front ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// An interrupt as a worker raises it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Raise {
    /// Its id; a fresh one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<InterruptId>,
    /// Why, in a word: `approval`, say.
    pub reason: String,
    /// What a person reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The tool call that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<ToolCallId>,
    /// What a front end needs besides, to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The JSON Schema that an answer's payload fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Json>,
    /// From this time on it can only be cancelled; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// For front ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl Raise {
    /// The interrupt, under its own id or `fresh`.
    pub fn named(self, fresh: impl FnOnce() -> InterruptId) -> Interrupt {
        let Self { id, reason, message, tool_call_id, payload, response_schema, expires_at, metadata } = self;
        let id = id.unwrap_or_else(fresh);
        Interrupt { id, reason, message, tool_call_id, payload, response_schema, expires_at, metadata }
    }
}

impl From<Interrupt> for Raise {
    fn from(interrupt: Interrupt) -> Self {
        let Interrupt { id, reason, message, tool_call_id, payload, response_schema, expires_at, metadata } = interrupt;
        Self { id: Some(id), reason, message, tool_call_id, payload, response_schema, expires_at, metadata }
    }
}

/// So many answers come at once.
pub const ANSWERS_MAX: usize = 100;

/// An answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Which one it answers.
    pub interrupt_id: InterruptId,
    /// How.
    pub status: ResumeStatus,
    /// With what; nothing when it is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

/// How an interrupt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeStatus {
    /// It was answered.
    Resolved,
    /// It wasn't answered, and never will be.
    Cancelled,
}

impl ResumeStatus {
    /// Its words.
    pub const WORDS: [(&str, Self); 2] = [("resolved", Self::Resolved), ("cancelled", Self::Cancelled)];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Something that paused a turn, and how it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Which.
    pub interrupt_id: InterruptId,
    /// How it was answered.
    pub status: ResumeStatus,
    /// With what; nothing when it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// What it was.
    pub interrupt: Interrupt,
}

/// What a turn waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Calls that a client, or somebody outside, carries out.
    pub calls: Vec<ToolCallId>,
    /// What pauses it.
    pub interrupts: Vec<Interrupt>,
}

impl Waits {
    /// Whether it waits for nothing.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.interrupts.is_empty()
    }
}

impl Interrupt {
    /// From when on it can only be cancelled. Nothing: never, or nobody can read when.
    pub fn expires(&self) -> Option<Millis> {
        self.expires_at.as_deref().and_then(instant)
    }
}

/// The time that `text` says, as in RFC 3339. One before 1970 is long over.
pub fn instant(text: &str) -> Option<Millis> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let millis = at.unix_timestamp_nanos().div_euclid(1_000_000).max(0);
    Millis::try_from(millis).ok()
}

impl Resume {
    /// A hash over what it answers, and with what. How the JSON was written makes no difference.
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.status.as_str().as_bytes());
        if let Some(value) = self.payload.as_ref().and_then(|payload| serde_json::from_str(payload.get()).ok()) {
            hash_value(&mut hasher, &value);
        }
        Digest::of(&hasher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let at = 1_767_225_600_000; // 2026-01-01T00:00:00Z
        for (text, expected) in [
            ("2026-01-01T00:00:00Z", Some(at)),
            ("2026-01-01T00:00:00.25Z", Some(at + 250)),
            ("2026-01-01T02:00:00+02:00", Some(at)),
            ("1969-12-31T23:59:59Z", Some(0)),
            ("2026-01-01", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(instant(text), expected, "{text}");
        }
    }

    #[test]
    fn the_same_answer_is_the_same_however_it_is_written() {
        let digest = |status, payload: Option<&str>| {
            let payload = payload.map(|text| serde_json::from_str(text).unwrap());
            Resume { interrupt_id: "i1".into(), status, payload }.digest()
        };
        let resolved = |payload| digest(ResumeStatus::Resolved, Some(payload));
        assert_eq!(resolved(r#"{"a": 1, "b": [true, "x"]}"#), resolved(r#"{"b":[true,"x"],"a":1}"#));
        let all = [r#"{"a":1}"#, r#"{"a":"1"}"#, r#"{"a":[1]}"#, r#"["a",1]"#, "1", "[]", "{}", "null", r#"[["a"],[]]"#, r#"[["a",[]]]"#];
        for (index, one) in all.iter().enumerate() {
            for other in &all[index + 1..] {
                assert_ne!(resolved(one), resolved(other), "{one} {other}");
            }
        }
        assert_ne!(digest(ResumeStatus::Cancelled, None), digest(ResumeStatus::Resolved, None));
    }
}
