//! One native input: `{type, agent_id, …}`.

use serde::de::{self, MapAccess};
use serde_json::value::RawValue;

use super::client::ClientFields;
use super::event;
use super::interrupt;
use super::message::{self, MessageFields};
use super::part::PartFields;
use crate::ids::{AgentId, NodeId, SessionId, ToolCallId, TurnId};
use crate::protocol::reading::{self, ContentSeed, Fields, Id, Limits, List, Object, Reading, clip};
use crate::protocol::{
    Client, ClientAction, Code, Content, Input, InputBody, Json, Message, OnBusy, PartialView, Refusal, Resume, Role, SameIdEdit,
    ViewOptions,
};

/// A native input as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeInput {
    /// Where; when its route doesn't say it.
    pub session_id: Option<SessionId>,
    /// Who answers; always there where a turn may start.
    pub agent_id: Option<AgentId>,
    /// The idempotency key; of a `client.cancel` the turn that is meant.
    pub turn_id: Option<TurnId>,
    /// Whether the caller would read a stream.
    pub stream: bool,
    /// What.
    pub asked: Asked,
}

/// What a native input asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Something is submitted.
    Submit(Box<Submission>),
    /// `client.cancel`: a turn is to be stopped.
    Cancel,
}

/// What is submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// What becomes of it when a turn is there already; the agent's default when absent.
    pub on_busy: Option<OnBusy>,
    /// Overrides whether a reply is due.
    pub run: Option<bool>,
    /// What the client offers.
    pub client: Client,
    /// The messages.
    pub body: NativeBody,
}

/// The kinds of native input that bring messages.
#[derive(Clone, Debug, PartialEq)]
pub enum NativeBody {
    /// `client.messages`.
    Messages {
        /// In the client's order.
        messages: Vec<Message>,
        /// Instead of the agent's default.
        partial_view: Option<PartialView>,
        /// Instead of the agent's default.
        same_id_edit: Option<SameIdEdit>,
    },
    /// `client.message`.
    Message(Message),
    /// `client.append`.
    Append(Vec<Message>),
    /// `tool.result`, `tool.error`: a message of role tool.
    Result(Message),
    /// `session.event`.
    Event {
        /// Of role user, named after what happened.
        message: Message,
        /// Whether readers see it.
        show: bool,
    },
    /// `client.action`.
    Action(ClientAction),
    /// `interrupt.resume`.
    Resume(Vec<Resume>),
}

impl NativeInput {
    /// Reads a body.
    pub fn decode(body: &[u8], limits: &Limits) -> Result<Self, Refusal> {
        let text = reading::text(body)?;
        Reading::strict(limits).whole::<InputFields>(text)
    }
}

impl Submission {
    /// The engine's input: for `agent_id`, with the agent's defaults where it says nothing itself.
    pub fn into_input(self, agent_id: AgentId, turn_id: Option<TurnId>, defaults: ViewOptions, on_busy: OnBusy) -> Input {
        let Self { on_busy: own, run, client, body } = self;
        let body = match body {
            NativeBody::Messages { messages, partial_view, same_id_edit } => {
                let options = ViewOptions {
                    partial_view: partial_view.unwrap_or(defaults.partial_view),
                    same_id_edit: same_id_edit.unwrap_or(defaults.same_id_edit),
                };
                InputBody::Messages { messages, options }
            }
            NativeBody::Message(message) => InputBody::Message { message },
            NativeBody::Append(messages) => InputBody::Append { messages },
            NativeBody::Result(message) => InputBody::Result { message },
            NativeBody::Event { message, show } => InputBody::Event { message, show },
            NativeBody::Action(action) => InputBody::Action(action),
            NativeBody::Resume(interrupts) => InputBody::Resume { interrupts, view: None },
        };
        Input { agent_id, turn_id, run, client, on_busy: own.unwrap_or(on_busy), body }
    }
}

/// The types there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Append,
    Messages,
    Cancel,
    Result,
    Error,
    Event,
    Action,
    Resume,
}

impl Kind {
    const ALL: [Self; 9] =
        [Self::Message, Self::Append, Self::Messages, Self::Cancel, Self::Result, Self::Error, Self::Event, Self::Action, Self::Resume];

    fn name(self) -> &'static str {
        match self {
            Self::Message => "client.message",
            Self::Append => "client.append",
            Self::Messages => "client.messages",
            Self::Cancel => "client.cancel",
            Self::Result => "tool.result",
            Self::Error => "tool.error",
            Self::Event => "session.event",
            Self::Action => "client.action",
            Self::Resume => "interrupt.resume",
        }
    }

    /// Its fields.
    fn allowed(self) -> &'static [&'static str] {
        match self {
            Self::Message => &["type", "session_id", "agent_id", "turn_id", "stream", "queue", "run", "client", "message"],
            Self::Append => &["type", "session_id", "agent_id", "turn_id", "stream", "queue", "run", "client", "messages"],
            Self::Messages => &[
                "type",
                "session_id",
                "agent_id",
                "turn_id",
                "stream",
                "queue",
                "run",
                "client",
                "messages",
                "partial_view",
                "same_id_edit",
            ],
            Self::Cancel => &["type", "session_id", "agent_id", "turn_id", "stream"],
            Self::Result => &["type", "session_id", "agent_id", "turn_id", "stream", "client", "tool_call_id", "content", "id"],
            Self::Error => &["type", "session_id", "agent_id", "turn_id", "stream", "client", "tool_call_id", "error", "id"],
            Self::Action => &["type", "session_id", "agent_id", "turn_id", "stream", "client", "name", "args"],
            Self::Resume => &["type", "session_id", "agent_id", "turn_id", "stream", "run", "client", "interrupts"],
            Self::Event => {
                &["type", "session_id", "agent_id", "turn_id", "stream", "run", "client", "name", "content", "payload", "show", "id"]
            }
        }
    }
}

fn kinds() -> String {
    Kind::ALL.map(Kind::name).join(", ")
}

#[derive(Default)]
struct InputFields {
    /// Which of them were there.
    present: Vec<&'static str>,
    kind: Option<String>,
    session_id: Option<SessionId>,
    agent_id: Option<AgentId>,
    turn_id: Option<TurnId>,
    stream: Option<bool>,
    on_busy: Option<OnBusy>,
    run: Option<bool>,
    client: Option<Client>,
    message: Option<Message>,
    messages: Option<Vec<Message>>,
    partial_view: Option<PartialView>,
    same_id_edit: Option<SameIdEdit>,
    tool_call_id: Option<ToolCallId>,
    content: Option<Content>,
    error: Option<String>,
    id: Option<NodeId>,
    name: Option<String>,
    args: Option<Json>,
    payload: Option<Json>,
    show: Option<bool>,
    interrupts: Option<Vec<Resume>>,
}

impl<'de> Fields<'de> for InputFields {
    type Value = NativeInput;

    const EXPECTED: &'static str = "an input (an object)";
    const ALLOWED: &'static [&'static str] = &[
        "type",
        "session_id",
        "agent_id",
        "turn_id",
        "stream",
        "queue",
        "run",
        "client",
        "message",
        "messages",
        "partial_view",
        "same_id_edit",
        "tool_call_id",
        "content",
        "error",
        "id",
        "name",
        "args",
        "payload",
        "show",
        "interrupts",
    ];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.kind = reading.value(map, "type")?,
            "session_id" => self.session_id = reading.maybe(map, "session_id", Id::new(reading))?,
            "agent_id" => self.agent_id = reading.maybe(map, "agent_id", Id::new(reading))?,
            "turn_id" => self.turn_id = reading.maybe(map, "turn_id", Id::new(reading))?,
            "stream" => self.stream = reading.value(map, "stream")?,
            "queue" => self.on_busy = queue(reading, map)?,
            "run" => self.run = reading.value(map, "run")?,
            "client" => self.client = reading.maybe(map, "client", Object::<ClientFields>::new(reading))?,
            "message" => self.message = reading.maybe(map, "message", Object::<MessageFields>::new(reading))?,
            "messages" => {
                let max = Some((reading.limits.view_messages_max, Code::ViewTooLong));
                let list = List { reading, each: Object::<MessageFields>::new(reading), max };
                self.messages = reading.maybe(map, "messages", list)?;
            }
            "partial_view" => self.partial_view = reading.word(map, "partial_view", &PartialView::WORDS)?,
            "same_id_edit" => self.same_id_edit = reading.word(map, "same_id_edit", &SameIdEdit::WORDS)?,
            "tool_call_id" => self.tool_call_id = reading.maybe(map, "tool_call_id", Id::new(reading))?,
            "content" => self.content = reading.maybe(map, "content", ContentSeed::<PartFields>::new(reading))?,
            "error" => self.error = reading.value(map, "error")?,
            "id" => self.id = reading.maybe(map, "id", Id::new(reading))?,
            "name" => self.name = reading.value(map, "name")?,
            "args" => self.args = reading.json(map, "args")?,
            "payload" => self.payload = reading.json(map, "payload")?,
            "show" => self.show = reading.value(map, "show")?,
            "interrupts" => self.interrupts = reading.maybe(map, "interrupts", interrupt::answers(reading))?,
            _ => return Ok(false),
        }
        self.present.extend(Self::ALLOWED.iter().find(|known| **known == name));
        Ok(true)
    }

    fn finish<E: de::Error>(mut self, reading: &Reading<'_>) -> Result<NativeInput, E> {
        let kind = self.read_kind(reading)?;
        if let Some(other) = self.present.iter().find(|field| !kind.allowed().contains(field)) {
            let what = format_args!("{} has no such field; allowed: {}", kind.name(), kind.allowed().join(", "));
            return Err(reading.refuse_field(other, Code::BadRequest, what));
        }
        let needs_agent = match kind {
            Kind::Message | Kind::Append | Kind::Messages | Kind::Event | Kind::Action => true,
            Kind::Cancel | Kind::Result | Kind::Error | Kind::Resume => false,
        };
        if needs_agent && self.agent_id.is_none() {
            return Err(required(reading, kind, "agent_id"));
        }
        let (session_id, agent_id, turn_id) = (self.session_id.take(), self.agent_id.take(), self.turn_id.take());
        let stream = self.stream.unwrap_or(true);
        let asked = self.asked(reading, kind)?;
        Ok(NativeInput { session_id, agent_id, turn_id, stream, asked })
    }
}

impl InputFields {
    fn read_kind<E: de::Error>(&self, reading: &Reading<'_>) -> Result<Kind, E> {
        let refuse = |code, what: String| Err(reading.refuse_field("type", code, what));
        let Some(name) = &self.kind else {
            return refuse(Code::BadRequest, format!("an input needs a type; allowed: {}", kinds()));
        };
        match Kind::ALL.into_iter().find(|kind| kind.name() == name) {
            Some(kind) => Ok(kind),
            None => refuse(Code::BadRequest, format!("`{}` is no type of input; allowed: {}", clip(name), kinds())),
        }
    }

    fn asked<E: de::Error>(self, reading: &Reading<'_>, kind: Kind) -> Result<Asked, E> {
        let missing = |field| required(reading, kind, field);
        let body = match kind {
            Kind::Cancel => return Ok(Asked::Cancel),
            Kind::Message => {
                let message = self.message.ok_or_else(|| missing("message"))?;
                reading.within("message", || message::expect_users(reading, &message))?;
                NativeBody::Message(message)
            }
            Kind::Append => {
                let messages = self.messages.ok_or_else(|| missing("messages"))?;
                reading.within("messages", || {
                    let mut messages = messages.iter().enumerate();
                    messages.try_for_each(|(index, message)| reading.within_element(index, || message::expect_appendable(reading, message)))
                })?;
                NativeBody::Append(messages)
            }
            Kind::Messages => NativeBody::Messages {
                messages: self.messages.ok_or_else(|| missing("messages"))?,
                partial_view: self.partial_view,
                same_id_edit: self.same_id_edit,
            },
            Kind::Result | Kind::Error => {
                let tool_call_id = self.tool_call_id.ok_or_else(|| missing("tool_call_id"))?;
                let (content, error) = match kind {
                    Kind::Error => (None, Some(self.error.ok_or_else(|| missing("error"))?)),
                    Kind::Message
                    | Kind::Append
                    | Kind::Messages
                    | Kind::Cancel
                    | Kind::Result
                    | Kind::Event
                    | Kind::Action
                    | Kind::Resume => (Some(self.content.ok_or_else(|| missing("content"))?), None),
                };
                let result = Message { id: self.id, tool_call_id: Some(tool_call_id), content, error, ..Message::empty(Role::Tool) };
                message::check(reading, &result)?;
                NativeBody::Result(result)
            }
            Kind::Action => {
                let name = self.name.filter(|name| !name.is_empty()).ok_or_else(|| missing("name"))?;
                NativeBody::Action(ClientAction { name, args: self.args })
            }
            Kind::Resume => NativeBody::Resume(self.interrupts.ok_or_else(|| missing("interrupts"))?),
            Kind::Event => {
                let name = self.name.ok_or_else(|| missing("name"))?;
                let message = event::message(reading, self.id, name, self.content, self.payload)?;
                NativeBody::Event { message, show: self.show.unwrap_or(false) }
            }
        };
        let Self { on_busy, run, client, .. } = self;
        Ok(Asked::Submit(Box::new(Submission { on_busy, run, client: client.unwrap_or_default(), body })))
    }
}

fn required<E: de::Error>(reading: &Reading<'_>, kind: Kind, field: &'static str) -> E {
    reading.refuse_field(field, Code::BadRequest, format_args!("{} needs it", kind.name()))
}

fn queue<'de, A: MapAccess<'de>>(reading: &Reading<'_>, map: &mut A) -> Result<Option<OnBusy>, A::Error> {
    let Some(json) = reading.value::<Option<&RawValue>, A>(map, "queue")? else { return Ok(None) };
    let on_busy = OnBusy::from_queue(json.get());
    on_busy.map(Some).map_err(|refusal| reading.refuse_field("queue", refusal.code, &refusal.message))
}
