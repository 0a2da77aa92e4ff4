//! What front ends send over a WebSocket. May not know sockets.

use serde::de::{self, MapAccess};
use serde_json::value::RawValue;

use super::Limits;
use super::reading::{Fields, Id, Reading, clip};
use super::run::{self, RunInput};
use crate::ids::TurnId;
use crate::protocol::native::frame::Kind;
use crate::protocol::{Code, Refusal};

const ALLOWED: &str = "none or `INIT` (a RunAgentInput), `abort`, `ping`";

/// One text frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A run is asked for.
    Run(Box<RunInput>),
    /// A run is to be stopped.
    Abort {
        /// Which one; the socket's running one when absent.
        run_id: Option<TurnId>,
    },
    /// Is anybody there?
    Ping,
}

impl Frame {
    /// Reads a text frame.
    pub fn decode(text: &str, limits: &Limits) -> Result<Self, Refusal> {
        let read = run::read(text, limits);
        let kind = match &read {
            Ok(read) => KindRead { kind: read.kind.clone(), run_id: Some(read.run.run_id.clone()) },
            // A frame of another type is no RunAgentInput.
            Err(_) => Reading::new(limits).whole::<KindFields>(text).unwrap_or_default(),
        };
        match kind.kind.as_deref() {
            None | Some("INIT") => read.map(|read| Self::Run(Box::new(read.run))),
            Some("abort") => Ok(Self::Abort { run_id: kind.run_id }),
            Some("ping") => Ok(Self::Ping),
            Some(shared) if Kind::named(shared).is_some() => {
                let what = format!("frames of type `{shared}` need the subprotocol ag-ui.ws.v1; allowed: {ALLOWED}");
                Err(Refusal::new(Code::NotAvailable, what).with("at", "type"))
            }
            Some(other) => {
                Err(Refusal::new(Code::BadRequest, format!("`{}` is no type of frame; allowed: {ALLOWED}", clip(other))).with("at", "type"))
            }
        }
    }
}

#[derive(Default)]
pub(super) struct KindRead {
    pub(super) kind: Option<String>,
    pub(super) run_id: Option<TurnId>,
}

/// Only what a frame is, and which run it names.
#[derive(Default)]
pub(super) struct KindFields(KindRead);

impl<'de> Fields<'de> for KindFields {
    type Value = KindRead;

    const EXPECTED: &'static str = "an object";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.0.kind = reading.value::<Option<&RawValue>, A>(map, "type")?.map(run::kind_text),
            "runId" => self.0.run_id = reading.maybe(map, "runId", Id::new(reading))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, _: &Reading<'_>) -> Result<KindRead, E> {
        Ok(self.0)
    }
}
