//! What front ends send over a socket that several sessions share: runs, and the native frames in AG-UI's spelling. May not know
//! sockets.

use serde::de::{self, MapAccess};

use super::Limits;
use super::frame::KindFields;
use super::reading::{Fields, Id, Reading, clip};
use super::run::{self, Read, RunInput};
use crate::agui::Dialect;
use crate::ids::{SessionId, TurnId};
use crate::protocol::native::frame::{AG_UI, Kind, RawFrame, ReferenceField, Text};
use crate::protocol::native::{Ask, SocketFrame};
use crate::protocol::{Code, Refusal};

/// One text frame.
#[derive(Clone, Debug, PartialEq)]
pub enum SharedFrame {
    /// A run is asked for.
    Run {
        /// How the client calls the frame.
        reference: Option<String>,
        /// What is asked.
        input: Box<RunInput>,
    },
    /// A run is to be stopped.
    Abort {
        /// How the client calls the frame.
        reference: Option<String>,
        /// Whose; that of the run, when the socket asked for it.
        thread: Option<SessionId>,
        /// Which.
        run: TurnId,
    },
    /// What the native API offers.
    Ask {
        /// How the client calls the frame.
        reference: Option<String>,
        /// What is asked.
        ask: Ask,
        /// How the client wants to be told of a session, if it says so.
        dialect: Option<Dialect>,
    },
}

/// A frame that can't be taken.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedRefused {
    /// How the client calls it, if that could be read.
    pub reference: Option<String>,
    /// Which run it asked for, if that could be read.
    pub run: Option<TurnId>,
    /// Why.
    pub refusal: Refusal,
}

impl SharedFrame {
    /// Reads a text frame.
    pub fn decode(text: &str, limits: &Limits) -> Result<Self, Box<SharedRefused>> {
        let read = run::read(text, limits);
        let named = match &read {
            Ok(Read { kind, .. }) => kind.clone(),
            Err(_) => Reading::new(limits).whole::<KindFields>(text).ok().and_then(|read| read.kind),
        };
        let decoded = match named.as_deref() {
            None | Some("INIT") => read.map(|read| Self::Run { reference: reference(text, limits), input: Box::new(read.run) }),
            Some("abort") => Reading::strict(limits).whole::<AbortFields>(text),
            Some(name) if Kind::named(name).is_some() => {
                Reading::strict(limits).whole::<SharedFields<'_>>(text).and_then(|fields| fields.frame(limits))
            }
            Some(other) => {
                let what = format!(
                    "type: `{}` is no type of frame; allowed: none or INIT (a RunAgentInput), abort, {}",
                    clip(other),
                    Kind::names()
                );
                Err(Refusal::new(Code::BadRequest, what).with("at", "type"))
            }
        };
        decoded.map_err(|refusal| {
            let run = Reading::new(limits).whole::<KindFields>(text).ok().and_then(|read| read.run_id);
            Box::new(SharedRefused { reference: reference(text, limits), run, refusal })
        })
    }
}

fn reference(text: &str, limits: &Limits) -> Option<String> {
    Reading::new(limits).whole::<ReferenceField>(text).ok().flatten()
}

/// The fields of a frame that is no run.
#[derive(Default)]
struct SharedFields<'de> {
    raw: RawFrame<'de>,
    version: Option<Text<'de>>,
}

impl SharedFields<'_> {
    fn frame(self, limits: &Limits) -> Result<SharedFrame, Refusal> {
        let dialect = self.version.map(|version| Dialect::of_version(Some(&version.0)));
        let SocketFrame { reference, ask } = self.raw.frame(&AG_UI, limits)?;
        if dialect.is_some() && !matches!(ask, Ask::Subscribe { .. }) {
            let what = "protocolVersion: only subscribe has such a field";
            return Err(Refusal::new(Code::BadRequest, what).with("at", "protocolVersion"));
        }
        Ok(SharedFrame::Ask { reference, ask, dialect })
    }
}

impl<'de> Fields<'de> for SharedFields<'de> {
    type Value = Self;

    const EXPECTED: &'static str = "a frame (an object)";
    const ALLOWED: &'static [&'static str] = &["type", "ref", "threadId", "after", "runId", "body", "protocolVersion"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.raw.kind = reading.value::<Option<Text<'de>>, A>(map, "type")?.map(|kind| kind.0),
            "ref" => self.raw.reference = reading.maybe(map, "ref", Id::new(reading))?,
            "threadId" => self.raw.session = reading.maybe(map, "threadId", Id::new(reading))?,
            "after" => self.raw.after = reading.value::<Option<Text<'de>>, A>(map, "after")?.map(|after| after.0),
            "runId" => self.raw.turn = reading.maybe(map, "runId", Id::new(reading))?,
            "body" => self.raw.body = reading.value(map, "body")?,
            "protocolVersion" => self.version = reading.value(map, "protocolVersion")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, _: &Reading<'_>) -> Result<Self, E> {
        Ok(self)
    }
}

#[derive(Default)]
struct AbortFields {
    reference: Option<String>,
    thread: Option<SessionId>,
    run: Option<TurnId>,
}

impl<'de> Fields<'de> for AbortFields {
    type Value = SharedFrame;

    const EXPECTED: &'static str = "a frame (an object)";
    const ALLOWED: &'static [&'static str] = &["type", "ref", "threadId", "runId"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "ref" => self.reference = reading.maybe(map, "ref", Id::new(reading))?,
            "threadId" => self.thread = reading.maybe(map, "threadId", Id::new(reading))?,
            "runId" => self.run = reading.maybe(map, "runId", Id::new(reading))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<SharedFrame, E> {
        let needed = || reading.refuse_field("runId", Code::BadRequest, "abort needs it: several runs may share the socket");
        Ok(SharedFrame::Abort { reference: self.reference, thread: self.thread, run: self.run.ok_or_else(needed)? })
    }
}
