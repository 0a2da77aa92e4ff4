//! A file of rules: what may stand in it, checked with the place of each fault. May not know calls.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::condition::Condition;
use super::template::Template;
use crate::ids::ToolCallId;
use crate::protocol::{CallError, CallErrorKind, Finish};
use crate::provider::json;

const TIMES_MAX: u32 = 10_000;
const PAUSE_MAX: Duration = Duration::from_hours(1);

/// A fault in a file, and the byte where it is.
pub(super) struct Fault {
    pub at: usize,
    pub message: String,
}

impl Fault {
    fn new(span: &Range<usize>, message: impl Into<String>) -> Self {
        Self { at: span.start, message: message.into() }
    }
}

/// A checked rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// When it fits.
    pub condition: Condition,
    /// How often it may still answer, wherever; always when nothing is given.
    left: Option<AtomicU32>,
    /// What is thought before anything is said.
    pub reasoning: Template,
    /// What is said.
    pub text: Template,
    /// How often it is said.
    pub repeat: u32,
    /// What is called after that.
    pub tool_calls: Vec<ToolCall>,
    /// Between tokens.
    pub pace: Pace,
    /// Overrides the count of tokens; nothing when no tokens are to be reported.
    pub usage: Option<Usage>,
    /// How it ends.
    pub end: End,
}

impl Rule {
    /// Whether it answers a call that it fits; one that answers only so often has answered once more then.
    pub fn takes(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.left.as_ref().is_none_or(|left| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok())
    }
}

/// A tool call of an answer.
#[derive(Debug)]
pub(super) struct ToolCall {
    pub name: String,
    pub id: Option<ToolCallId>,
    pub arguments: Arguments,
}

/// Arguments: text as it is, or a table that becomes JSON.
#[derive(Debug)]
pub(super) enum Arguments {
    Text(Template),
    Table(Value),
}

/// JSON whose strings are templates.
#[derive(Debug)]
pub(super) enum Value {
    Text(Template),
    List(Vec<Value>),
    Table(Vec<(String, Value)>),
    Other(serde_json::Value),
}

/// How fast an answer comes; without anything all at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Before the first token.
    pub first: Option<Duration>,
    /// Between two.
    pub between: Option<Duration>,
}

/// How an answer ends.
#[derive(Debug)]
pub(super) enum End {
    Finished(Option<Finish>),
    Failed {
        /// All that there are when nothing is given.
        after_tokens: Option<usize>,
        error: CallError,
    },
}

/// `usage`: what is given here counts, the rest is counted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the names are the file's, and the protocol's")]
pub(super) struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cached_input_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
}

/// Reads and checks a file.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, Fault> {
    let file: File = toml::from_str(text)
        .map_err(|error| Fault { at: error.span().map_or(0, |span| span.start), message: error.message().trim_end().to_owned() })?;
    if file.rule.is_empty() {
        return Err(Fault { at: 0, message: "a script needs at least one [[rule]]".to_owned() });
    }
    file.rule.into_iter().map(RuleFields::check).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Spanned<RuleFields>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFields {
    #[serde(default)]
    when: Condition,
    times: Option<Spanned<u32>>,
    text: Option<Spanned<String>>,
    reasoning: Option<Spanned<String>>,
    repeat: Option<Spanned<u32>>,
    #[serde(default)]
    tool_calls: Vec<ToolCallFields>,
    pace: Option<Spanned<PaceFields>>,
    usage: Option<Usage>,
    report_usage: Option<bool>,
    error: Option<CallErrorKind>,
    after_tokens: Option<Spanned<usize>>,
    retry_after_ms: Option<Spanned<u64>>,
    message: Option<Spanned<String>>,
    finish: Option<Spanned<Finish>>,
}

impl RuleFields {
    fn check(fields: Spanned<Self>) -> Result<Rule, Fault> {
        let span = fields.span();
        let mut fields = fields.into_inner();
        let says_something = fields.text.is_some() || fields.reasoning.is_some() || !fields.tool_calls.is_empty() || fields.error.is_some();
        if !says_something {
            return Err(Fault::new(
                &span,
                "this rule has no answer: give it `text` (\"\" is an empty reply), `reasoning`, `tool_calls` or `error`",
            ));
        }
        let repeat = fields.repeat.as_ref().map_or(Ok(1), |repeat| checked(repeat, "repeat"))?;
        let times = fields.times.as_ref().map(|times| checked(times, "times")).transpose()?;
        let usage = fields.report_usage.unwrap_or(true).then(|| fields.usage.unwrap_or_default());
        Ok(Rule {
            left: times.map(AtomicU32::new),
            repeat,
            usage,
            end: fields.end()?,
            reasoning: template(fields.reasoning.as_ref())?,
            text: template(fields.text.as_ref())?,
            tool_calls: fields.tool_calls.into_iter().map(ToolCallFields::check).collect::<Result<_, _>>()?,
            pace: fields.pace.as_ref().map_or(Ok(Pace::default()), checked_pace)?,
            condition: fields.when,
        })
    }

    fn end(&mut self) -> Result<End, Fault> {
        let Some(kind) = self.error else {
            return match (&self.after_tokens, &self.retry_after_ms, &self.message) {
                (Some(field), _, _) => Err(Fault::new(&field.span(), "`after_tokens` needs `error`: what happens after them")),
                (_, Some(field), _) => Err(Fault::new(&field.span(), "`retry_after_ms` needs `error = \"rate_limited\"`")),
                (_, _, Some(field)) => Err(Fault::new(&field.span(), "`message` is an error's; what the model says is `text`")),
                (None, None, None) => Ok(End::Finished(self.finish.take().map(Spanned::into_inner))),
            };
        };
        if let Some(finish) = &self.finish {
            return Err(Fault::new(&finish.span(), "a rule has `error` or `finish`, not both"));
        }
        if let Some(field) = self.retry_after_ms.as_ref().filter(|_| kind != CallErrorKind::RateLimited) {
            return Err(Fault::new(&field.span(), "`retry_after_ms` needs `error = \"rate_limited\"`"));
        }
        let message = self.message.take().map_or_else(|| default_message(kind).to_owned(), Spanned::into_inner);
        let mut error = CallError::new(kind, message);
        error.retry_after_ms = self.retry_after_ms.take().map(Spanned::into_inner);
        Ok(End::Failed { after_tokens: self.after_tokens.take().map(Spanned::into_inner), error })
    }
}

fn default_message(kind: CallErrorKind) -> &'static str {
    match kind {
        CallErrorKind::TooLong => "the script says: this is too long",
        CallErrorKind::RateLimited => "the script says: too many requests",
        CallErrorKind::Unavailable => "the script says: out of service",
        CallErrorKind::Cut => "the script cut the answer",
        CallErrorKind::TimedOut => "the script was silent for too long",
        CallErrorKind::Refused => "the script refuses this call",
        CallErrorKind::Nonsense => "the script says something that nobody understands",
    }
}

fn checked(count: &Spanned<u32>, key: &str) -> Result<u32, Fault> {
    match *count.get_ref() {
        allowed @ 1..=TIMES_MAX => Ok(allowed),
        refused => Err(Fault::new(&count.span(), format!("`{key}` is {refused}; 1 to {TIMES_MAX} are allowed"))),
    }
}

fn template(text: Option<&Spanned<String>>) -> Result<Template, Fault> {
    text.map_or(Ok(Template::default()), |text| Template::parse(text.get_ref()).map_err(|message| Fault::new(&text.span(), message)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaceFields {
    tokens_per_sec: Option<f64>,
    delay_ms: Option<u64>,
    first_ms: Option<u64>,
}

fn checked_pace(fields: &Spanned<PaceFields>) -> Result<Pace, Fault> {
    let fault = |message: &str| Fault::new(&fields.span(), message);
    let between = match (fields.get_ref().tokens_per_sec, fields.get_ref().delay_ms) {
        (Some(_), Some(_)) => return Err(fault("`pace` has `tokens_per_sec` or `delay_ms`, not both")),
        (Some(rate), None) if (0.001..=1_000_000.0).contains(&rate) => Some(Duration::from_secs_f64(1.0 / rate)),
        (Some(_), None) => return Err(fault("`tokens_per_sec` must be from 0.001 to 1000000")),
        (None, delay) => delay.map(Duration::from_millis),
    };
    let first = fields.get_ref().first_ms.map(Duration::from_millis);
    if between.max(first).is_some_and(|pause| pause > PAUSE_MAX) {
        return Err(fault("a pause may last 3600000 ms, an hour"));
    }
    Ok(Pace { first, between: between.filter(|between| !between.is_zero()) })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCallFields {
    name: Spanned<String>,
    id: Option<String>,
    arguments: Option<Spanned<toml::Value>>,
}

impl ToolCallFields {
    fn check(self) -> Result<ToolCall, Fault> {
        if self.name.get_ref().is_empty() {
            return Err(Fault::new(&self.name.span(), "a tool's name can't be empty"));
        }
        let arguments = match self.arguments {
            None => Arguments::Table(Value::Table(Vec::new())),
            Some(given) => {
                let span = given.span();
                checked_arguments(given.into_inner()).map_err(|message| Fault::new(&span, message))?
            }
        };
        Ok(ToolCall { name: self.name.into_inner(), id: self.id.map(ToolCallId::from), arguments })
    }
}

fn checked_arguments(given: toml::Value) -> Result<Arguments, String> {
    match given {
        toml::Value::String(text) => Ok(Arguments::Text(Template::parse(&text)?)),
        toml::Value::Table(_) => Ok(Arguments::Table(templates(json::from_toml(given)?)?)),
        other => Err(format!(
            "`arguments` is a table, which becomes JSON, or a text, which is sent as it is (valid or not); this is a {}",
            other.type_str()
        )),
    }
}

fn templates(value: serde_json::Value) -> Result<Value, String> {
    use serde_json::Value as Json;
    Ok(match value {
        Json::String(text) => Value::Text(Template::parse(&text)?),
        Json::Array(list) => Value::List(list.into_iter().map(templates).collect::<Result<_, _>>()?),
        Json::Object(fields) => {
            let field = |(name, value)| templates(value).map(|value| (name, value));
            Value::Table(fields.into_iter().map(field).collect::<Result<_, _>>()?)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => Value::Other(value),
    })
}
