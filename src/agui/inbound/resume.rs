//! `resume[]`: answers to what a run was interrupted by. May not know what they answer.

use serde::de::{self, MapAccess};

use super::reading::{Fields, Id, Reading};
use crate::ids::InterruptId;
use crate::protocol::{Code, Json, Resume, ResumeStatus};

#[derive(Default)]
pub(super) struct ResumeFields {
    interrupt_id: Option<InterruptId>,
    status: Option<ResumeStatus>,
    payload: Option<Json>,
}

impl<'de> Fields<'de> for ResumeFields {
    type Value = Resume;

    const EXPECTED: &'static str = "an answer to an interrupt (an object)";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "interruptId" => self.interrupt_id = reading.maybe(map, "interruptId", Id::new(reading))?,
            "status" => self.status = reading.word(map, "status", &ResumeStatus::WORDS)?,
            "payload" => self.payload = reading.json(map, "payload")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Resume, E> {
        let required = |field, what: &str| reading.refuse_field(field, Code::BadRequest, what);
        let interrupt_id = self.interrupt_id.ok_or_else(|| required("interruptId", "an answer names its interrupt"))?;
        let status = self.status.ok_or_else(|| required("status", "an interrupt is `resolved` or `cancelled`"))?;
        Ok(Resume { interrupt_id, status, payload: self.payload })
    }
}
