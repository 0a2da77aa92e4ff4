//! A worker's answer, read strictly: `{messages?, actions?}`. May not know what was asked, or how the answer came.

use serde::de::{self, MapAccess};

use super::message::MessageFields;
use crate::ids::{CallId, ToolCallId};
use crate::protocol::reading::{self, Fields, Id, Limits, List, Object, Reading, clip};
use crate::protocol::{Action, Code, ContextReplace, DecisionAnswer, LlmCall, Message, Refusal};

/// So many actions an answer may have.
const ACTIONS_MAX: usize = 256;

const ACTIONS: [&str; 4] = ["llm.call", "context.replace", "tool.call", "done"];
/// Actions that the specification names and that aren't built yet.
const LATER: [&str; 8] =
    ["tool.result", "tool.error", "message.send", "interrupt", "interrupt.resolve", "custom", "activity", "sub_agent.spawn"];

impl DecisionAnswer {
    /// Reads an answer.
    pub fn decode(body: &[u8], limits: &Limits) -> Result<Self, Refusal> {
        Reading::strict(limits).whole::<AnswerFields>(reading::text(body)?)
    }
}

#[derive(Default)]
struct AnswerFields {
    messages: Option<Vec<Message>>,
    actions: Option<Vec<Action>>,
    later: Option<&'static str>,
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
            "state" => self.later = later(reading, map, "state")?.or(self.later),
            "state_patch" => self.later = later(reading, map, "state_patch")?.or(self.later),
            "agent" => self.later = later(reading, map, "agent")?.or(self.later),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish<E: de::Error>(self, reading: &Reading<'_>) -> Result<DecisionAnswer, E> {
        refuse_later(reading, self.later, "an answer")?;
        Ok(DecisionAnswer { messages: self.messages.unwrap_or_default(), actions: self.actions.unwrap_or_default() })
    }
}

/// The fields of all actions; which are there is compared with the type.
#[derive(Default)]
struct ActionFields {
    present: Vec<&'static str>,
    kind: Option<String>,
    id: Option<String>,
    llm: Option<String>,
    model: Option<String>,
    messages: Option<Vec<Message>>,
    stream: Option<bool>,
    summary: Option<String>,
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
        "arguments",
        "data",
        // Of actions that come later.
        "result",
        "error",
        "retryable",
        "session_id",
        "message",
        "reason",
        "payload",
        "response_schema",
        "value",
        "content",
        "agent_id",
        "interrupt_id",
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
            _ => Action::Done,
        })
    }
}
