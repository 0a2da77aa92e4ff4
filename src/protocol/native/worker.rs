//! What a worker says over its socket: `{type, ref?, …}`, read strictly. The text of an answer is read later, once it is known what it
//! answers. May not know sockets, or what was asked.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, MapAccess};
use serde_json::value::RawValue;

use super::frame::{FrameRefused, ReferenceField, Text};
use crate::ids::{AgentId, DecisionId};
use crate::protocol::Code;
use crate::protocol::reading::{Fields, Id, Limits, List, Reading, clip};

/// So many agents a worker may serve over one socket.
const AGENTS_MAX: usize = 64;
/// No more of what a worker says of its failure is kept.
const MESSAGE_CHARS_MAX: usize = 1000;

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerFrame<'t> {
    /// How the worker calls it; a refusal repeats it.
    pub reference: Option<String>,
    /// What it says.
    pub says: WorkerSays<'t>,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerSays<'t> {
    /// Who it is. The first frame, and only the first.
    Hello(Hello),
    /// An answer.
    Answer {
        /// To which decision.
        decision: DecisionId,
        /// Its JSON.
        answer: &'t str,
    },
    /// There is no answer.
    Failed {
        /// To which decision.
        decision: DecisionId,
        /// Why.
        message: String,
    },
    /// So many decisions it takes at once from now on.
    Credit(u32),
    /// Is anybody there?
    Ping,
}

/// Who a worker is.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    /// The agents that it decides for.
    pub agents: Vec<AgentId>,
    /// So many decisions it takes at once.
    pub credit: u32,
    /// What shows that it may.
    pub token: Option<Token>,
    /// What logs call it.
    pub name: Option<String>,
}

/// A credential, which nothing shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Token {
    /// Whether it is `other`, told in the same time however much of it fits.
    pub fn fits(&self, other: &Self) -> bool {
        // Hashes compare in constant time.
        blake3::hash(self.0.as_bytes()) == blake3::hash(other.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl<'t> WorkerFrame<'t> {
    /// Reads a text frame.
    pub fn decode(text: &'t str, limits: &Limits) -> Result<Self, Box<FrameRefused>> {
        Reading::strict(limits).whole::<FrameFields<'_>>(text).map_err(|refusal| {
            let reference = Reading::new(limits).whole::<ReferenceField>(text).ok().flatten();
            Box::new(FrameRefused { reference, refusal })
        })
    }
}

const KINDS: [&str; 5] = ["hello", "answer", "failed", "credit", "ping"];

/// The fields of a frame, whatever its type.
#[derive(Default)]
struct FrameFields<'de> {
    kind: Option<Cow<'de, str>>,
    reference: Option<String>,
    agents: Option<Vec<AgentId>>,
    credit: Option<u32>,
    token: Option<Token>,
    name: Option<String>,
    decision: Option<DecisionId>,
    answer: Option<&'de RawValue>,
    message: Option<String>,
}

impl FrameFields<'_> {
    /// Which of the fields are there, besides the type and the name of the frame.
    fn present(&self) -> [(&'static str, bool); 7] {
        [
            ("agent_ids", self.agents.is_some()),
            ("credit", self.credit.is_some()),
            ("token", self.token.is_some()),
            ("name", self.name.is_some()),
            ("decision_id", self.decision.is_some()),
            ("answer", self.answer.is_some()),
            ("message", self.message.is_some()),
        ]
    }

    /// Refuses what a frame of that type doesn't have, or lacks.
    fn expect<E: de::Error>(&self, reading: &Reading<'_>, kind: &str, required: &[&str], optional: &[&str]) -> Result<(), E> {
        for (field, is_there) in self.present() {
            if is_there && !required.contains(&field) && !optional.contains(&field) {
                let allowed = ["type", "ref"].iter().chain(required).chain(optional).copied().collect::<Vec<_>>().join(", ");
                return Err(reading.refuse_field(field, Code::BadRequest, format_args!("{kind} has no such field; allowed: {allowed}")));
            }
            if !is_there && required.contains(&field) {
                return Err(reading.refuse_field(field, Code::BadRequest, format_args!("{kind} needs it")));
            }
        }
        Ok(())
    }

    fn hello<E: de::Error>(self, reading: &Reading<'_>) -> Result<Hello, E> {
        let mut agents = self.agents.unwrap_or_default();
        if agents.is_empty() {
            return Err(reading.refuse_field("agent_ids", Code::BadRequest, "name at least one agent"));
        }
        agents.sort();
        agents.dedup();
        Ok(Hello { agents, credit: self.credit.unwrap_or(1), token: self.token, name: self.name })
    }
}

impl<'de> Fields<'de> for FrameFields<'de> {
    type Value = WorkerFrame<'de>;

    const EXPECTED: &'static str = "a worker's frame (an object)";
    const ALLOWED: &'static [&'static str] = &["type", "ref", "agent_ids", "credit", "token", "name", "decision_id", "answer", "message"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        let text = |text: Option<Text<'de>>| text.map(|text| text.0);
        match name {
            "type" => self.kind = text(reading.value(map, "type")?),
            "ref" => self.reference = reading.maybe(map, "ref", Id::new(reading))?,
            "agent_ids" => {
                let list = List { reading, each: Id::<AgentId>::new(reading), max: Some((AGENTS_MAX, Code::BadRequest)) };
                self.agents = reading.maybe(map, "agent_ids", list)?;
            }
            "credit" => self.credit = reading.value(map, "credit")?,
            "token" => self.token = text(reading.value(map, "token")?).map(|token| Token::from(&*token)),
            "name" => self.name = reading.maybe(map, "name", Id::new(reading))?,
            "decision_id" => self.decision = reading.maybe(map, "decision_id", Id::new(reading))?,
            "answer" => self.answer = reading.value(map, "answer")?,
            "message" => {
                let message = text(reading.value(map, "message")?);
                self.message = message.map(|message| message.chars().take(MESSAGE_CHARS_MAX).collect());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(mut self, reading: &Reading<'_>) -> Result<WorkerFrame<'de>, E> {
        let known = || KINDS.join(", ");
        let Some(kind) = self.kind.take() else {
            return Err(reading.refuse_field("type", Code::BadRequest, format_args!("a frame needs a type; allowed: {}", known())));
        };
        let (required, optional): (&[&str], &[&str]) = match &*kind {
            "hello" => (&["agent_ids"], &["credit", "token", "name"]),
            "answer" => (&["decision_id", "answer"], &[]),
            "failed" => (&["decision_id"], &["message"]),
            "credit" => (&["credit"], &[]),
            "ping" => (&[], &[]),
            other => {
                let what = format_args!("`{}` is no type of frame; allowed: {}", clip(other), known());
                return Err(reading.refuse_field("type", Code::BadRequest, what));
            }
        };
        self.expect(reading, &kind, required, optional)?;
        let reference = self.reference.take();
        let says = match (&*kind, self.decision.take(), self.answer) {
            ("answer", Some(decision), Some(answer)) => WorkerSays::Answer { decision, answer: answer.get() },
            ("failed", Some(decision), _) => {
                let message = self.message.unwrap_or_else(|| "the worker failed".to_owned());
                WorkerSays::Failed { decision, message }
            }
            ("credit", ..) => WorkerSays::Credit(self.credit.unwrap_or_default()),
            ("hello", ..) => WorkerSays::Hello(self.hello(reading)?),
            _ => WorkerSays::Ping,
        };
        Ok(WorkerFrame { reference, says })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Refusal;

    fn read(text: &str) -> Result<WorkerFrame<'_>, Refusal> {
        WorkerFrame::decode(text, &Limits::DEFAULT).map_err(|refused| refused.refusal)
    }

    #[test]
    fn each_frame_is_read() {
        let hello = read(r#"{"type":"hello","agent_ids":["b","a","b"],"credit":4,"token":"s3cret","name":"laptop"}"#).unwrap();
        let said = Hello { agents: vec!["a".into(), "b".into()], credit: 4, token: Some("s3cret".into()), name: Some("laptop".to_owned()) };
        assert!(!format!("{hello:?}").contains("s3cret"));
        assert_eq!(hello.says, WorkerSays::Hello(said));
        let answer = read(r#"{"type":"answer","ref":"7","decision_id":"d1","answer":{"actions":[ ]}}"#).unwrap();
        assert_eq!(answer.reference.as_deref(), Some("7"));
        assert_eq!(answer.says, WorkerSays::Answer { decision: "d1".into(), answer: r#"{"actions":[ ]}"# });
        let failed = read(r#"{"type":"failed","decision_id":"d1","message":"no \u0041"}"#).unwrap();
        assert_eq!(failed.says, WorkerSays::Failed { decision: "d1".into(), message: "no A".to_owned() });
        assert_eq!(read(r#"{"type":"credit","credit":0}"#).unwrap().says, WorkerSays::Credit(0));
        assert_eq!(read(r#"{"type":"ping"}"#).unwrap().says, WorkerSays::Ping);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, code, at) in [
            ("{", Code::BadJson, None),
            ("[]", Code::BadRequest, None),
            ("{}", Code::BadRequest, Some("type")),
            (r#"{"type":"dance"}"#, Code::BadRequest, Some("type")),
            (r#"{"type":"hello"}"#, Code::BadRequest, Some("agent_ids")),
            (r#"{"type":"hello","agent_ids":[]}"#, Code::BadRequest, Some("agent_ids")),
            (r#"{"type":"hello","agent_ids":["a",""]}"#, Code::BadId, Some("agent_ids[1]")),
            (r#"{"type":"hello","agent_ids":["a"],"credit":-1}"#, Code::BadRequest, Some("credit")),
            (r#"{"type":"hello","agent_ids":["a"],"decision_id":"d"}"#, Code::BadRequest, Some("decision_id")),
            (r#"{"type":"answer","decision_id":"d"}"#, Code::BadRequest, Some("answer")),
            (r#"{"type":"answer","answer":{}}"#, Code::BadRequest, Some("decision_id")),
            (r#"{"type":"answer","decision_id":"d","answer":{},"extra":1}"#, Code::BadRequest, Some("extra")),
            (r#"{"type":"credit"}"#, Code::BadRequest, Some("credit")),
            (r#"{"type":"ping","credit":1}"#, Code::BadRequest, Some("credit")),
        ] {
            let refusal = read(text).unwrap_err();
            assert_eq!((refusal.code, refusal.details.get("at").and_then(|at| at.as_str())), (code, at), "{text}: {refusal:?}");
        }
        let many = vec!["\"a\""; AGENTS_MAX + 1].join(",");
        assert!(read(&format!(r#"{{"type":"hello","agent_ids":[{many}]}}"#)).is_err());
    }

    #[test]
    fn a_refusal_repeats_the_frames_name() {
        let refused = WorkerFrame::decode(r#"{"type":"dance","ref":"9"}"#, &Limits::DEFAULT).unwrap_err();
        assert_eq!(refused.reference.as_deref(), Some("9"));
    }
}
