//! What clients say over a socket: `{type, ref?, session_id?, …}`. What a route has in its path or query is a field here, and its
//! body is `body`. May not know sockets.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{self, MapAccess};
use serde_json::value::RawValue;

use super::{NativeInput, fork, head_move, update};
use crate::ids::{SessionId, TurnId};
use crate::protocol::reading::{Fields, Id, Limits, Reading, clip};
use crate::protocol::{Code, Cursor, ForkInput, HeadMove, Refusal, SessionUpdate};

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketFrame {
    /// How the client calls it; the answer repeats it.
    pub reference: Option<String>,
    /// What it asks.
    pub ask: Ask,
}

/// A frame that can't be taken.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameRefused {
    /// How the client calls it, if that could be read.
    pub reference: Option<String>,
    /// Why.
    pub refusal: Refusal,
}

/// What a frame asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// A session's events from a place on.
    Subscribe {
        /// Which session.
        session: SessionId,
        /// After what; from now on when absent.
        after: Option<Cursor>,
    },
    /// No more of them.
    Unsubscribe {
        /// Which session.
        session: SessionId,
    },
    /// A native input.
    Input {
        /// To which session, if it isn't said in the input, or isn't a new one.
        session: Option<SessionId>,
        /// What.
        input: Box<NativeInput>,
    },
    /// The head goes elsewhere, or a node gets a name.
    Head {
        /// Of which session.
        session: SessionId,
        /// Where.
        to: HeadMove,
    },
    /// A turn is to be stopped.
    Cancel {
        /// Of which session.
        session: SessionId,
        /// Which; the one that is there when absent.
        turn: Option<TurnId>,
    },
    /// The page is to say something else.
    Update {
        /// Of which session.
        session: SessionId,
        /// What.
        update: SessionUpdate,
    },
    /// A path as a session of its own.
    Fork {
        /// Of which session.
        session: SessionId,
        /// What is forked.
        fork: ForkInput,
    },
    /// Is anybody there?
    Ping,
}

impl SocketFrame {
    /// Reads a text frame.
    pub fn decode(text: &str, limits: &Limits) -> Result<Self, Box<FrameRefused>> {
        Reading::strict(limits).whole::<FrameFields<'_>>(text).and_then(|raw| raw.frame(&NATIVE, limits)).map_err(|refusal| {
            let reference = Reading::new(limits).whole::<ReferenceField>(text).ok().flatten();
            Box::new(FrameRefused { reference, refusal })
        })
    }
}

/// How the fields are spelled.
pub(crate) struct Spelling {
    session: &'static str,
    turn: &'static str,
}

const NATIVE: Spelling = Spelling { session: "session_id", turn: "turn_id" };

/// AG-UI's spelling of the same frames.
pub(crate) const AG_UI: Spelling = Spelling { session: "threadId", turn: "runId" };

/// The types there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Subscribe,
    Unsubscribe,
    Input,
    Head,
    Cancel,
    Update,
    Fork,
    Ping,
}

impl Kind {
    const ALL: [Self; 8] =
        [Self::Subscribe, Self::Unsubscribe, Self::Input, Self::Head, Self::Cancel, Self::Update, Self::Fork, Self::Ping];

    /// The type of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Every name.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    fn name(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
            Self::Input => "input",
            Self::Head => "head",
            Self::Cancel => "cancel",
            Self::Update => "update",
            Self::Fork => "fork",
            Self::Ping => "ping",
        }
    }

    /// Which of a session, a place, a turn and a body it may have.
    fn takes(self) -> [bool; 4] {
        match self {
            Self::Subscribe => [true, true, false, false],
            Self::Unsubscribe => [true, false, false, false],
            Self::Input | Self::Head | Self::Update | Self::Fork => [true, false, false, true],
            Self::Cancel => [true, false, true, false],
            Self::Ping => [false, false, false, false],
        }
    }
}

/// The fields of a frame, whatever its type.
#[derive(Debug, Default)]
pub(crate) struct RawFrame<'de> {
    pub(crate) reference: Option<String>,
    pub(crate) kind: Option<Cow<'de, str>>,
    pub(crate) session: Option<SessionId>,
    pub(crate) after: Option<Cow<'de, str>>,
    pub(crate) turn: Option<TurnId>,
    pub(crate) body: Option<&'de RawValue>,
}

impl RawFrame<'_> {
    /// The frame that they make.
    pub(crate) fn frame(self, spelling: &Spelling, limits: &Limits) -> Result<SocketFrame, Refusal> {
        let Some(name) = &self.kind else {
            return Err(refuse("type", &format!("a frame needs a type; allowed: {}", Kind::names())));
        };
        let Some(kind) = Kind::named(name) else {
            return Err(refuse("type", &format!("`{}` is no type of frame; allowed: {}", clip(name), Kind::names())));
        };
        self.expect(kind, spelling)?;
        let ask = self.ask(kind, spelling, limits)?;
        Ok(SocketFrame { reference: self.reference, ask })
    }

    /// Refuses what a frame of that type doesn't have.
    fn expect(&self, kind: Kind, spelling: &Spelling) -> Result<(), Refusal> {
        let [session, after, turn, body] = kind.takes();
        let fields = [
            (spelling.session, session, self.session.is_some()),
            ("after", after, self.after.is_some()),
            (spelling.turn, turn, self.turn.is_some()),
            ("body", body, self.body.is_some()),
        ];
        let Some((field, ..)) = fields.iter().find(|(_, takes, has)| *has && !takes) else { return Ok(()) };
        let takes: Vec<&str> = fields.iter().filter(|(_, takes, _)| *takes).map(|(field, ..)| *field).collect();
        let allowed = ["type", "ref"].into_iter().chain(takes).collect::<Vec<_>>().join(", ");
        Err(refuse(field, &format!("{} has no such field; allowed: {allowed}", kind.name())))
    }

    fn ask(&self, kind: Kind, spelling: &Spelling, limits: &Limits) -> Result<Ask, Refusal> {
        let required = |field| refuse(field, &format!("{} needs it", kind.name()));
        let session = || self.session.clone().ok_or_else(|| required(spelling.session));
        let body = || self.body.map(|body| body.get().as_bytes()).ok_or_else(|| required("body"));
        Ok(match kind {
            Kind::Subscribe => Ask::Subscribe { session: session()?, after: self.after()? },
            Kind::Unsubscribe => Ask::Unsubscribe { session: session()? },
            Kind::Input => {
                let input = Box::new(NativeInput::decode(body()?, limits).map_err(in_body)?);
                Ask::Input { session: self.session.clone(), input }
            }
            Kind::Head => Ask::Head { session: session()?, to: head_move(body()?, limits).map_err(in_body)? },
            Kind::Cancel => Ask::Cancel { session: session()?, turn: self.turn.clone() },
            Kind::Update => Ask::Update { session: session()?, update: update(body()?, limits).map_err(in_body)? },
            Kind::Fork => {
                let body = self.body.map(|body| body.get().as_bytes()).unwrap_or_default();
                Ask::Fork { session: session()?, fork: fork(body, limits).map_err(in_body)? }
            }
            Kind::Ping => Ask::Ping,
        })
    }

    fn after(&self) -> Result<Option<Cursor>, Refusal> {
        let after = self.after.as_deref().map(str::parse::<Cursor>).transpose();
        after.map_err(|error| refuse("after", &error.to_string()))
    }
}

fn refuse(field: &str, what: &str) -> Refusal {
    Refusal::new(Code::BadRequest, format!("{field}: {what}")).with("at", field)
}

/// What is wrong in the body, as seen from the frame.
fn in_body(mut refusal: Refusal) -> Refusal {
    let at = refusal.details.get("at").and_then(|at| at.as_str());
    let (at, dot) = at.map_or_else(|| ("body".to_owned(), ": "), |at| (format!("body.{at}"), "."));
    refusal.message = format!("body{dot}{}", refusal.message);
    refusal.with("at", at)
}

/// A text, borrowed where it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

#[derive(Default)]
struct FrameFields<'de>(RawFrame<'de>);

impl<'de> Fields<'de> for FrameFields<'de> {
    type Value = RawFrame<'de>;

    const EXPECTED: &'static str = "a frame (an object)";
    const ALLOWED: &'static [&'static str] = &["type", "ref", NATIVE.session, "after", NATIVE.turn, "body"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.0.kind = reading.value::<Option<Text<'de>>, A>(map, "type")?.map(|kind| kind.0),
            "ref" => self.0.reference = reading.maybe(map, "ref", Id::new(reading))?,
            "session_id" => self.0.session = reading.maybe(map, NATIVE.session, Id::new(reading))?,
            "after" => self.0.after = reading.value::<Option<Text<'de>>, A>(map, "after")?.map(|after| after.0),
            "turn_id" => self.0.turn = reading.maybe(map, NATIVE.turn, Id::new(reading))?,
            "body" => self.0.body = reading.value(map, "body")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, _: &Reading<'_>) -> Result<RawFrame<'de>, E> {
        Ok(self.0)
    }
}

/// Only how the client calls a frame.
#[derive(Default)]
pub(crate) struct ReferenceField(Option<String>);

impl<'de> Fields<'de> for ReferenceField {
    type Value = Option<String>;

    const EXPECTED: &'static str = "a frame (an object)";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name == "ref" {
            self.0 = reading.maybe(map, "ref", Id::new(reading))?;
        }
        Ok(name == "ref")
    }

    fn finish<E: de::Error>(self, _: &Reading<'_>) -> Result<Option<String>, E> {
        Ok(self.0)
    }
}
