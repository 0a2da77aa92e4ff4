//! A worker's answer that comes by a request of its own: `{session_id}` and the answer. May not know what was asked.

use serde::de::{self, MapAccess};

use super::decision::AnswerFields;
use crate::ids::SessionId;
use crate::protocol::reading::{self, Fields, Id, Limits, Reading};
use crate::protocol::{Code, DecisionAnswer, Refusal};

/// An answer, and in which session.
#[derive(Clone, Debug, PartialEq)]
pub struct OutsideAnswer {
    /// In which session the decision was asked.
    pub session_id: SessionId,
    /// The answer.
    pub answer: DecisionAnswer,
}

impl OutsideAnswer {
    /// Reads one.
    pub fn decode(body: &[u8], limits: &Limits) -> Result<Self, Refusal> {
        Reading::strict(limits).whole::<OutsideFields>(reading::text(body)?)
    }
}

#[derive(Default)]
struct OutsideFields {
    session_id: Option<SessionId>,
    answer: AnswerFields,
}

impl<'de> Fields<'de> for OutsideFields {
    type Value = OutsideAnswer;

    const EXPECTED: &'static str = "an answer to a decision with its `session_id` (an object)";
    const ALLOWED: &'static [&'static str] = &["session_id", "messages", "actions", "state", "state_patch", "agent"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name == "session_id" {
            self.session_id = reading.maybe(map, "session_id", Id::new(reading))?;
            return Ok(true);
        }
        self.answer.field(reading, name, map)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<OutsideAnswer, E> {
        let Some(session_id) = self.session_id else {
            let what = "an answer that comes by itself names the session of its decision";
            return Err(reading.refuse_field("session_id", Code::BadRequest, what));
        };
        Ok(OutsideAnswer { session_id, answer: self.answer.finish(reading)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Action;

    fn read(text: &str) -> Result<OutsideAnswer, Refusal> {
        OutsideAnswer::decode(text.as_bytes(), &Limits::DEFAULT)
    }

    #[test]
    fn an_answer_comes_with_its_session() {
        let read = read(r#"{"actions": [{"type": "done"}], "session_id": "s1"}"#).unwrap();
        assert_eq!((read.session_id.as_str(), read.answer), ("s1", vec![Action::Done].into()));
    }

    #[test]
    fn it_has_the_fields_of_an_answer() {
        assert_eq!(OutsideFields::ALLOWED, [&["session_id"], AnswerFields::ALLOWED].concat());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, at) in [
            (r#"{"actions": []}"#, "session_id"),
            (r#"{"session_id": ""}"#, "session_id"),
            (r#"{"session_id": "s1", "actions": [{"type": "dance"}]}"#, "actions[0].type"),
            (r#"{"session_id": "s1", "actions": [{"type": "llm.call", "summary": "x"}]}"#, "actions[0].summary"),
        ] {
            assert_eq!(read(text).unwrap_err().details["at"], at, "{text}");
        }
    }
}
