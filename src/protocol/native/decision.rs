//! A worker's answer, read strictly: `{messages?, actions?, state?, state_patch?, agent?}`. May not know what was asked, or how the answer came.

mod raise;

use serde::de::{self, MapAccess};

use super::message::{self, MessageFields};
use super::part::PartFields;
use crate::ids::{CallId, NodeId, ToolCallId};
use crate::protocol::reading::{self, ContentSeed, Fields, Id, Limits, List, Object, Reading, clip};
use crate::protocol::{Action, AgentChanges, Code, Content, ContextReplace, DecisionAnswer, Json, LlmCall, Message, Refusal, Role};

/// So many actions an answer may have.
const ACTIONS_MAX: usize = 256;

const ACTIONS: [&str; 10] = [
    "llm.call",
    "context.replace",
    "tool.call",
    "tool.result",
    "tool.error",
    "interrupt",
    "interrupt.resolve",
    "custom",
    "activity",
    "done",
];
/// Actions that the specification names and that aren't built yet.
const LATER: [&str; 2] = ["message.send", "sub_agent.spawn"];

impl DecisionAnswer {
    /// Reads an answer.
    pub fn decode(body: &[u8], limits: &Limits) -> Result<Self, Refusal> {
        Reading::strict(limits).whole::<AnswerFields>(reading::text(body)?)
    }
}

#[derive(Default)]
pub(super) struct AnswerFields {
    messages: Option<Vec<Message>>,
    actions: Option<Vec<Action>>,
    state: Option<Json>,
    state_patch: Option<Json>,
    agent: Option<AgentChanges>,
}

fn messages<'c>(reading: &'c Reading<'c>) -> List<'c, Object<'c, MessageFields>> {
    let max = Some((reading.limits.view_messages_max, Code::ViewTooLong));
    List { reading, each: Object::<MessageFields>::new(reading), max }
}

/// Passes over a field that comes later, unless it is null; its name.
fn later<'de, A: MapAccess<'de>>(reading: &Reading<'_>, map: &mut A, name: &'static str) -> Result<Option<&'static str>, A::Error> {
    reading.json(map, name).map(|value| value.map(|_| name))
}

fn refuse_later<E: de::Error>(reading: &Reading<'_>, field: Option<&'static str>, what: &str) -> Result<(), E> {
    let refuse = |field| Err(reading.refuse_field(field, Code::NotAvailable, format_args!("this isn't available yet in {what}")));
    field.map_or(Ok(()), refuse)
}

impl<'de> Fields<'de> for AnswerFields {
    type Value = DecisionAnswer;

    const EXPECTED: &'static str = "an answer to a decision (an object)";
    const ALLOWED: &'static [&'static str] = &["messages", "actions", "state", "state_patch", "agent"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "messages" => self.messages = reading.maybe(map, "messages", messages(reading))?,
            "actions" => {
                let list = List { reading, each: Object::<ActionFields>::new(reading), max: Some((ACTIONS_MAX, Code::BadRequest)) };
                self.actions = reading.maybe(map, "actions", list)?;
            }
            "state" => self.state = reading.json(map, "state")?,
            "state_patch" => self.state_patch = reading.json(map, "state_patch")?,
            "agent" => self.agent = reading.maybe(map, "agent", Object::<ChangesFields>::new(reading))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<DecisionAnswer, E> {
        let Self { messages, actions, state, state_patch, agent } = self;
        if state.is_some() && state_patch.is_some() {
            let what = "an answer has the whole state or what changes of it, not both";
            return Err(reading.refuse_field("state_patch", Code::BadRequest, what));
        }
        Ok(DecisionAnswer { messages: messages.unwrap_or_default(), actions: actions.unwrap_or_default(), state, state_patch, agent })
    }
}

/// What changes of an agent's configuration: null takes one back.
#[derive(Default)]
struct ChangesFields(AgentChanges);

impl<'de> Fields<'de> for ChangesFields {
    type Value = AgentChanges;

    const EXPECTED: &'static str = "what is overridden of the agent (an object)";
    const ALLOWED: &'static [&'static str] = &["system", "llm", "model", "tools"];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "system" => self.0.system = Some(reading.value(map, "system")?),
            "llm" => self.0.llm = Some(reading.value(map, "llm")?),
            "model" => self.0.model = Some(reading.value(map, "model")?),
            "tools" => self.0.tools = Some(reading.value(map, "tools")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, _: &Reading<'_>) -> Result<AgentChanges, E> {
        Ok(self.0)
    }
}

/// The fields of all actions; which are there is compared with the type.
#[derive(Default)]
pub(super) struct ActionFields {
    present: Vec<&'static str>,
    kind: Option<String>,
    id: Option<String>,
    llm: Option<String>,
    model: Option<String>,
    messages: Option<Vec<Message>>,
    stream: Option<bool>,
    summary: Option<String>,
    name: Option<String>,
    value: Option<Json>,
    activity_type: Option<String>,
    content: Option<Content>,
    result: Option<Json>,
    error: Option<String>,
    retryable: Option<bool>,
    reason: Option<String>,
    message: Option<Json>,
    tool_call_id: Option<String>,
    payload: Option<Json>,
    response_schema: Option<Json>,
    expires_at: Option<String>,
    metadata: Option<Json>,
    interrupt_id: Option<String>,
    later: Option<&'static str>,
}

impl ActionFields {
    fn there<T>(&mut self, name: &'static str, value: Option<T>) -> Option<T> {
        if value.is_some() {
            self.present.push(name);
        }
        value
    }
}

/// Names of Headwater's own.
const OWN_NAMES: [&str; 2] = ["headwater.", "context."];

impl ActionFields {
    fn custom<E: de::Error>(self, reading: &Reading<'_>) -> Result<Action, E> {
        let refuse = |field, what: String| Err(reading.refuse_field(field, Code::BadRequest, what));
        let Some(name) = self.name.filter(|name| !name.is_empty()) else {
            return refuse("name", "a custom has a name, by which the application knows it".to_owned());
        };
        if let Some(own) = OWN_NAMES.iter().find(|own| name.starts_with(**own)) {
            return refuse("name", format!("names that begin with `{own}` are Headwater's own"));
        }
        match self.value {
            Some(value) => Ok(Action::Custom { name, value }),
            None => refuse("value", "a custom has a value: anything but null".to_owned()),
        }
    }

    fn activity<E: de::Error>(self, reading: &Reading<'_>) -> Result<Action, E> {
        let Some(activity_type) = self.activity_type.filter(|kind| !kind.is_empty()) else {
            return Err(reading.refuse_field("activity_type", Code::BadRequest, "an activity needs activity_type"));
        };
        match self.content {
            Some(Content::Object(content)) => Ok(Action::Activity { id: self.id.map(NodeId::from), activity_type, content }),
            Some(_) | None => Err(reading.refuse_field("content", Code::BadRequest, "an activity's content is an object")),
        }
    }
}

impl ActionFields {
    /// Its content is as it is, or any JSON as its text.
    fn tool_result<E: de::Error>(self, reading: &Reading<'_>) -> Result<Action, E> {
        let refuse = |field, what: &str| Err(reading.refuse_field(field, Code::BadRequest, what));
        let content = match (self.content, self.result) {
            (Some(Content::Object(_)), _) => return refuse("content", "a tool.result's content is text or parts; result takes any JSON"),
            (Some(_), Some(_)) => return refuse("result", "a tool.result has content or result, not both"),
            (Some(content), None) => content,
            (None, Some(result)) => Content::Text(serde_json::from_str(result.get()).unwrap_or_else(|_| result.get().to_owned())),
            (None, None) => return refuse("content", "a tool.result needs content (text or parts), or result (any JSON)"),
        };
        let id = self.id.map(ToolCallId::from);
        let read =
            Message { tool_call_id: Some(id.clone().unwrap_or_else(|| "".into())), content: Some(content), ..Message::empty(Role::Tool) };
        message::check(reading, &read)?;
        let content = read.content.unwrap_or_else(|| Content::Text(String::new()));
        Ok(Action::ToolResult { id, content })
    }

    fn tool_error<E: de::Error>(self, reading: &Reading<'_>) -> Result<Action, E> {
        match self.error {
            Some(error) => Ok(Action::ToolError { id: self.id.map(ToolCallId::from), error, retryable: self.retryable.unwrap_or(false) }),
            None => Err(reading.refuse_field("error", Code::BadRequest, "a tool.error says what is wrong")),
        }
    }
}

impl<'de> Fields<'de> for ActionFields {
    type Value = Action;

    const EXPECTED: &'static str = "an action (an object)";
    const ALLOWED: &'static [&'static str] = &[
        "type",
        "id",
        "llm",
        "model",
        "messages",
        "stream",
        "summary",
        "tools",
        "temperature",
        "max_tokens",
        "reasoning",
        "name",
        "value",
        "activity_type",
        "content",
        "arguments",
        "data",
        "reason",
        "message",
        "tool_call_id",
        "payload",
        "response_schema",
        "expires_at",
        "metadata",
        "interrupt_id",
        // Of actions that come later.
        "result",
        "error",
        "retryable",
        // Of actions that come later.
        "session_id",
        "agent_id",
    ];

    fn field<A: MapAccess<'de>>(&mut self, reading: &Reading<'_>, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "type" => self.kind = reading.value(map, "type")?,
            "id" => {
                let id = reading.maybe(map, "id", Id::<String>::new(reading))?;
                self.id = self.there("id", id);
            }
            "llm" => {
                let llm = reading.value(map, "llm")?;
                self.llm = self.there("llm", llm);
            }
            "model" => {
                let model = reading.value(map, "model")?;
                self.model = self.there("model", model);
            }
            "messages" => {
                let list = reading.maybe(map, "messages", messages(reading))?;
                self.messages = self.there("messages", list);
            }
            "stream" => {
                let stream = reading.value(map, "stream")?;
                self.stream = self.there("stream", stream);
            }
            "summary" => {
                let summary = reading.value(map, "summary")?;
                self.summary = self.there("summary", summary);
            }
            "content" => {
                let content = reading.maybe(map, "content", ContentSeed::<PartFields>::new(reading))?;
                self.content = self.there("content", content);
            }
            "result" => {
                // A tool may well give null.
                let result = reading.json(map, "result")?.or_else(|| Json::from_value(&()).ok());
                self.result = self.there("result", result);
            }
            "error" => {
                let error = reading.value(map, "error")?;
                self.error = self.there("error", error);
            }
            "retryable" => {
                let retryable = reading.value(map, "retryable")?;
                self.retryable = self.there("retryable", retryable);
            }
            "name" => {
                let called = reading.value(map, "name")?;
                self.name = self.there("name", called);
            }
            "value" => {
                let value = reading.json(map, "value")?;
                self.value = self.there("value", value);
            }
            "activity_type" => {
                let kind = reading.value(map, "activity_type")?;
                self.activity_type = self.there("activity_type", kind);
            }
            "reason" => {
                let reason = reading.value(map, "reason")?;
                self.reason = self.there("reason", reason);
            }
            "message" => {
                let message = reading.json(map, "message")?;
                self.message = self.there("message", message);
            }
            "tool_call_id" => {
                let id = reading.maybe(map, "tool_call_id", Id::<String>::new(reading))?;
                self.tool_call_id = self.there("tool_call_id", id);
            }
            "payload" => {
                let payload = reading.json(map, "payload")?;
                self.payload = self.there("payload", payload);
            }
            "response_schema" => {
                let schema = reading.json(map, "response_schema")?;
                self.response_schema = self.there("response_schema", schema);
            }
            "expires_at" => {
                let at = reading.value(map, "expires_at")?;
                self.expires_at = self.there("expires_at", at);
            }
            "metadata" => {
                let metadata = reading.json(map, "metadata")?;
                self.metadata = self.there("metadata", metadata);
            }
            "interrupt_id" => {
                let id = reading.maybe(map, "interrupt_id", Id::<String>::new(reading))?;
                self.interrupt_id = self.there("interrupt_id", id);
            }
            other => {
                let Some(name) = Self::ALLOWED.iter().find(|known| **known == other) else { return Ok(false) };
                self.later = later(reading, map, name)?.or(self.later);
            }
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<Action, E> {
        let refuse = |field, code, what: String| Err(reading.refuse_field(field, code, what));
        let known = || ACTIONS.map(|name| format!("`{name}`")).join(", ");
        let kind = match self.kind.as_deref() {
            None => return refuse("type", Code::BadRequest, format!("an action needs a type; allowed: {}", known())),
            Some(kind) if LATER.contains(&kind) => {
                return refuse("type", Code::NotAvailable, format!("`{kind}` isn't available yet; allowed: {}", known()));
            }
            Some(kind) => kind,
        };
        let (allowed, later): (&[&str], &[&str]) = match kind {
            "llm.call" => (&["id", "llm", "model", "messages", "stream"], &["tools", "temperature", "max_tokens", "reasoning"]),
            "context.replace" => (&["summary", "messages"], &[]),
            "tool.call" => (&["id"], &["name", "arguments"]),
            "tool.result" => (&["id", "content", "result"], &[]),
            "tool.error" => (&["id", "error", "retryable"], &[]),
            "interrupt" => (&["id", "reason", "message", "tool_call_id", "payload", "response_schema", "expires_at", "metadata"], &[]),
            "interrupt.resolve" => (&["interrupt_id", "payload"], &[]),
            "custom" => (&["name", "value"], &[]),
            "activity" => (&["id", "activity_type", "content"], &[]),
            "done" => (&[], &["data"]),
            other => return refuse("type", Code::BadRequest, format!("`{}` is no action; allowed: {}", clip(other), known())),
        };
        let foreign = self.present.iter().copied().chain(self.later).find(|name| !allowed.contains(name) && !later.contains(name));
        if let Some(field) = foreign {
            return refuse(field, Code::BadRequest, format!("`{kind}` has no such field; allowed: {}", allowed.join(", ")));
        }
        refuse_later(reading, self.later, &format!("`{kind}`"))?;
        Ok(match kind {
            "llm.call" => Action::LlmCall(LlmCall {
                id: self.id.map(CallId::from),
                llm: self.llm,
                model: self.model,
                messages: self.messages,
                stream: self.stream,
            }),
            "context.replace" => {
                Action::ContextReplace(ContextReplace { summary: self.summary, messages: self.messages.unwrap_or_default() })
            }
            "tool.call" => {
                let Some(id) = self.id else {
                    return refuse("id", Code::BadRequest, "a tool.call names a call of the reply".to_owned());
                };
                Action::ToolCall { id: ToolCallId::from(id) }
            }
            "tool.result" => self.tool_result(reading)?,
            "tool.error" => self.tool_error(reading)?,
            "interrupt" => self.interrupt(reading)?,
            "interrupt.resolve" => self.interrupt_resolve(reading)?,
            "custom" => self.custom(reading)?,
            "activity" => self.activity(reading)?,
            _ => Action::Done,
        })
    }
}
