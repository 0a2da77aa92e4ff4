//! `RunAgentInput`: one run that a front end asks for. May not know how it came.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{self, MapAccess};
use serde_json::value::RawValue;

use super::forwarded::{self, Forwarded};
use super::message::MessageFields;
use super::reading::{Fields, List, Object, Reading};
use super::resume::ResumeFields;
use super::tool::ToolFields;
use super::{Limits, reading};
use crate::agui::Dialect;
use crate::ids::{AgentId, SessionId, TurnId};
use crate::protocol::interrupt::ANSWERS_MAX;
use crate::protocol::{Client, Code, Input, InputBody, Json, Message, OnBusy, Refusal, Resume, Tool, ViewOptions};

/// One run that a front end asks for, in native terms.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInput {
    /// `threadId`.
    pub thread_id: SessionId,
    /// `runId`: a name of the turn, and the idempotency key.
    pub run_id: TurnId,
    /// What the caller reads.
    pub dialect: Dialect,
    /// The view, instructions and reasoning included: the engine passes over what isn't a node.
    pub messages: Vec<Message>,
    /// Tools, context, state and forwarded properties.
    pub client: Client,
    /// Answers to what pauses the turn; they are taken first.
    pub resume: Vec<Resume>,
    /// `forwardedProps.headwater`.
    pub headwater: Forwarded,
}

impl RunInput {
    /// Reads the body of a POST.
    pub fn decode(body: &[u8], limits: &Limits) -> Result<Self, Refusal> {
        Self::decode_text(reading::text(body)?, limits)
    }

    /// Reads the text of a body.
    pub fn decode_text(body: &str, limits: &Limits) -> Result<Self, Refusal> {
        read(body, limits).map(|read| read.run)
    }

    /// The engine's input: the view, for `agent_id`, with the agent's defaults where the run says nothing.
    pub fn into_input(self, agent_id: AgentId, defaults: ViewOptions, on_busy: OnBusy) -> Input {
        let options = ViewOptions {
            partial_view: self.headwater.partial_view.unwrap_or(defaults.partial_view),
            same_id_edit: self.headwater.same_id_edit.unwrap_or(defaults.same_id_edit),
        };
        Input {
            on_busy: self.headwater.on_busy.unwrap_or(on_busy),
            agent_id,
            turn_id: Some(self.run_id),
            run: self.headwater.run,
            client: self.client,
            body: if self.resume.is_empty() {
                InputBody::Messages { messages: self.messages, options }
            } else {
                InputBody::Resume { interrupts: self.resume, view: Some((self.messages, options)) }
            },
        }
    }
}

/// A run, and the `type` that stood beside its fields.
pub(super) struct Read {
    pub(super) kind: Option<String>,
    pub(super) run: RunInput,
}

pub(super) fn read(body: &str, limits: &Limits) -> Result<Read, Refusal> {
    Reading::new(limits).whole::<RunFields>(body)
}

#[derive(Default)]
struct RunFields<'de> {
    kind: Option<&'de RawValue>,
    thread_id: Option<SessionId>,
    run_id: Option<TurnId>,
    version: Option<Version<'de>>,
    messages: Option<Vec<Message>>,
    tools: Option<Vec<Tool>>,
    context: Option<Json>,
    state: Option<Json>,
    forwarded_props: Option<Json>,
    resume: Option<Vec<Resume>>,
}

#[derive(Deserialize)]
struct Version<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Fields<'de> for RunFields<'de> {
    type Value = Read;

    const EXPECTED: &'static str = "a RunAgentInput object";

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "threadId" => self.thread_id = reading.maybe(map, "threadId", reading::Id::new(reading))?,
            "runId" => self.run_id = reading.maybe(map, "runId", reading::Id::new(reading))?,
            "protocolVersion" => self.version = reading.value(map, "protocolVersion")?,
            "messages" => {
                let max = Some((reading.limits.view_messages_max, Code::ViewTooLong));
                let list = List { reading, each: Object::<MessageFields>::new(reading), max };
                self.messages = reading.maybe(map, "messages", list)?;
            }
            "tools" => {
                let list = List {
                    reading,
                    each: Object::<ToolFields>::new(reading),
                    max: Some((reading.limits.tools_max, Code::ContentTooLarge)),
                };
                self.tools = reading.maybe(map, "tools", list)?;
            }
            "context" => self.context = reading.json(map, "context")?,
            "state" => self.state = reading.json(map, "state")?,
            "forwardedProps" => self.forwarded_props = reading.json(map, "forwardedProps")?,
            "resume" => {
                let max = Some((ANSWERS_MAX, Code::BadRequest));
                self.resume = reading.maybe(map, "resume", List { reading, each: Object::<ResumeFields>::new(reading), max })?;
            }
            "type" => self.kind = reading.value(map, "type")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Read, E> {
        let required = |field| reading.refuse_field(field, Code::BadRequest, "a RunAgentInput needs it");
        let thread_id = self.thread_id.ok_or_else(|| required("threadId"))?;
        let run_id = self.run_id.ok_or_else(|| required("runId"))?;
        let messages = self.messages.ok_or_else(|| required("messages"))?;
        let context = match self.context {
            Some(context) if !context.get().starts_with('[') => {
                return Err(reading.refuse_field("context", Code::BadRequest, "a list is expected"));
            }
            Some(context) if context.get() == "[]" => None,
            context => context,
        };
        let headwater = match &self.forwarded_props {
            Some(props) => reading.within("forwardedProps", || forwarded::read(reading, props))?,
            None => Forwarded::default(),
        };
        let client = Client { tools: self.tools, context, state: self.state, forwarded_props: self.forwarded_props };
        reading.expect_client(&client)?;
        let dialect = Dialect::of_version(self.version.as_ref().map(|version| &*version.0));
        let kind = self.kind.map(kind_text);
        let resume = self.resume.unwrap_or_default();
        Ok(Read { kind, run: RunInput { thread_id, run_id, dialect, messages, client, resume, headwater } })
    }
}

/// A frame's type: the string, or whatever stands there instead.
pub(super) fn kind_text(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}
