//! The smaller bodies: a head's move, a session's change, a fork.

use serde::de::{self, MapAccess};

use crate::ids::{NodeId, SessionId};
use crate::protocol::reading::{self, Fields, Id, Limits, Reading};
use crate::protocol::{Code, ForkInput, HeadMove, HeadTo, Refusal, SessionUpdate};

/// The longest title that any configuration allows, in bytes.
pub const TITLE_BYTES_MAX: usize = 64 << 10;

/// `{node_id, label?}`, `{to_label, label?}` or `{label}`.
pub fn head_move(body: &[u8], limits: &Limits) -> Result<HeadMove, Refusal> {
    Reading::strict(limits).whole::<HeadFields>(reading::text(body)?)
}

/// `{title?, archived?}`.
pub fn update(body: &[u8], limits: &Limits) -> Result<SessionUpdate, Refusal> {
    Reading::strict(limits).whole::<UpdateFields>(reading::text(body)?)
}

/// `{session_id?, at?}`; an empty body says nothing either.
pub fn fork(body: &[u8], limits: &Limits) -> Result<ForkInput, Refusal> {
    let text = reading::text(body)?;
    if text.trim_ascii().is_empty() { Ok(ForkInput::default()) } else { Reading::strict(limits).whole::<ForkFields>(text) }
}

#[derive(Default)]
struct HeadFields {
    /// Null is a place too: the empty path.
    #[expect(clippy::option_option, reason = "absent and null are different")]
    node: Option<Option<NodeId>>,
    to_label: Option<String>,
    label: Option<String>,
}

impl<'de> Fields<'de> for HeadFields {
    type Value = HeadMove;

    const EXPECTED: &'static str = "a move of the head (an object)";
    const ALLOWED: &'static [&'static str] = &["node_id", "to_label", "label"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "node_id" => self.node = Some(reading.maybe(map, "node_id", Id::new(reading))?),
            "to_label" => self.to_label = reading.value(map, "to_label")?,
            "label" => self.label = reading.value(map, "label")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<HeadMove, E> {
        let Self { node, to_label, label } = self;
        let to = match (node, to_label) {
            (Some(node), None) => HeadTo::Node(node),
            (None, Some(label)) => HeadTo::Label(label),
            (None, None) if label.is_some() => HeadTo::Stay,
            (None, None) => {
                let what = "say where: node_id (null: before the first message) or to_label; or label, to name the head";
                return Err(reading.refuse(Code::BadRequest, what));
            }
            (Some(_), Some(_)) => {
                return Err(reading.refuse_field("to_label", Code::BadRequest, "node_id says already where; give one of them"));
            }
        };
        Ok(HeadMove { to, label })
    }
}

#[derive(Default)]
struct UpdateFields(SessionUpdate);

impl<'de> Fields<'de> for UpdateFields {
    type Value = SessionUpdate;

    const EXPECTED: &'static str = "a session's changes (an object)";
    const ALLOWED: &'static [&'static str] = &["title", "archived"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "title" => self.0.title = Some(reading.value(map, "title")?),
            "archived" => self.0.archived = Some(reading.value(map, "archived")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<SessionUpdate, E> {
        let SessionUpdate { title, archived } = &self.0;
        if title.is_none() && archived.is_none() {
            return Err(reading.refuse(Code::BadRequest, "nothing is to change; say title (null: none any more) or archived"));
        }
        let length = title.iter().flatten().map(String::len).next().unwrap_or(0);
        let max = reading.limits.title_bytes_max;
        if length > max {
            let what = format_args!("{length} bytes are more than the {max} that a title may have");
            return Err(reading.refuse_field("title", Code::BadRequest, what));
        }
        Ok(self.0)
    }
}

#[derive(Default)]
struct ForkFields(ForkInput);

impl<'de> Fields<'de> for ForkFields {
    type Value = ForkInput;

    const EXPECTED: &'static str = "what a fork is made of (an object)";
    const ALLOWED: &'static [&'static str] = &["session_id", "at"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "session_id" => self.0.session_id = reading.maybe::<_, A>(map, "session_id", Id::<SessionId>::new(reading))?,
            "at" => self.0.at = reading.maybe(map, "at", Id::new(reading))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, _: &Reading<'_>) -> Result<ForkInput, E> {
        Ok(self.0)
    }
}
