//! A rule's answer to one call, as a stream: token by token, at the rule's pace. May not know files.

use futures_util::{StreamExt, stream};
use tokio::time::Interval;

use super::reading::Reading;
use super::rules::{Arguments, End, Pace, Rule, ToolCall, Usage, Value};
use crate::protocol::{self, CallError, Finish};
use crate::provider::{Attempt, Chunk};

/// Arguments come in pieces of so many characters.
const ARGUMENT_PIECE: usize = 12;

type Tokens = Box<dyn Iterator<Item = Chunk>>;

/// What `rule` answers to a call that reads `reading`.
pub(super) fn stream(rule: &Rule, reading: &Reading, model: Option<String>) -> Attempt {
    let answer = Answer {
        tokens: tokens(rule, reading),
        sent: 0,
        pace: rule.pace,
        ticks: None,
        ending: ending(rule, reading, model.unwrap_or_else(|| "script".to_owned())),
    };
    stream::unfold(answer, Answer::next).boxed_local()
}

/// An attempt that fails at once.
pub(super) fn failed(error: CallError) -> Attempt {
    stream::iter([Err(error)]).boxed_local()
}

struct Answer {
    tokens: Tokens,
    sent: usize,
    pace: Pace,
    ticks: Option<Interval>,
    ending: Ending,
}

/// What comes after the tokens.
enum Ending {
    Usage(Counted, Finish),
    Finish(Finish),
    Failed(CallError),
    Over,
}

struct Counted {
    given: Usage,
    input_tokens: u64,
    model: String,
}

impl Answer {
    async fn next(mut self) -> Option<(Result<Chunk, CallError>, Self)> {
        if let Some(token) = self.tokens.next() {
            self.pause().await;
            self.sent += 1;
            return Some((Ok(token), self));
        }
        self.first_pause().await;
        self.end().map(|item| (item, self))
    }

    /// Waits until the next token may be sent. Ticks keep the average, also when a pause is shorter than the timer's step.
    async fn pause(&mut self) {
        self.first_pause().await;
        if let Some(between) = self.pace.between {
            self.ticks.get_or_insert_with(|| tokio::time::interval(between)).tick().await;
        }
    }

    async fn first_pause(&mut self) {
        if let Some(first) = self.pace.first.take() {
            tokio::time::sleep(first).await;
        }
    }

    fn end(&mut self) -> Option<Result<Chunk, CallError>> {
        match std::mem::replace(&mut self.ending, Ending::Over) {
            Ending::Usage(counted, finish) => {
                self.ending = Ending::Finish(finish);
                Some(Ok(Chunk::Usage(counted.report(self.sent))))
            }
            Ending::Finish(finish) => Some(Ok(Chunk::Finished(finish))),
            Ending::Failed(error) => Some(Err(error)),
            Ending::Over => None,
        }
    }
}

impl Counted {
    fn report(self, sent: usize) -> protocol::Usage {
        protocol::Usage {
            input_tokens: self.given.input_tokens.or(Some(self.input_tokens)),
            output_tokens: self.given.output_tokens.or(u64::try_from(sent).ok()),
            cached_input_tokens: self.given.cached_input_tokens,
            reasoning_tokens: self.given.reasoning_tokens,
            model: Some(self.model),
            ..protocol::Usage::default()
        }
    }
}

fn ending(rule: &Rule, reading: &Reading, model: String) -> Ending {
    let finish = match &rule.end {
        End::Failed { error, .. } => return Ending::Failed(error.clone()),
        End::Finished(Some(finish)) => *finish,
        End::Finished(None) if rule.tool_calls.is_empty() => Finish::Stop,
        End::Finished(None) => Finish::ToolCalls,
    };
    match rule.usage {
        Some(given) => Ending::Usage(Counted { given, input_tokens: reading.size.tokens(), model }, finish),
        None => Ending::Finish(finish),
    }
}

fn tokens(rule: &Rule, reading: &Reading) -> Tokens {
    let reasoning = Words::new(rule.reasoning.render(reading), 1).map(Chunk::Reasoning);
    let text = Words::new(rule.text.render(reading), rule.repeat).map(Chunk::Text);
    let calls: Vec<Chunk> = rule.tool_calls.iter().zip(0..).flat_map(|(call, index)| call_chunks(call, index, reading)).collect();
    let tokens = reasoning.chain(text).chain(calls);
    match rule.end {
        End::Failed { after_tokens: Some(count), .. } => Box::new(tokens.take(count)),
        End::Failed { after_tokens: None, .. } | End::Finished(_) => Box::new(tokens),
    }
}

fn call_chunks(call: &ToolCall, index: u32, reading: &Reading) -> Vec<Chunk> {
    let arguments = match &call.arguments {
        Arguments::Text(text) => text.render(reading),
        Arguments::Table(table) => render(table, reading).to_string(),
    };
    let characters: Vec<char> = arguments.chars().collect();
    let pieces = characters.chunks(ARGUMENT_PIECE).map(|piece| Chunk::ToolArguments { index, delta: piece.iter().collect() });
    std::iter::once(Chunk::ToolCall { index, id: call.id.clone(), name: call.name.clone() }).chain(pieces).collect()
}

fn render(value: &Value, reading: &Reading) -> serde_json::Value {
    match value {
        Value::Text(text) => text.render(reading).into(),
        Value::List(list) => list.iter().map(|value| render(value, reading)).collect(),
        Value::Table(fields) => fields.iter().map(|(name, value)| (name.clone(), render(value, reading))).collect(),
        Value::Other(value) => value.clone(),
    }
}

/// The words of a text, each with the white space after it, the whole text so many times over. Joined they are the text.
struct Words {
    text: String,
    at: usize,
    times: u32,
}

impl Words {
    fn new(text: String, times: u32) -> Self {
        let times = if text.is_empty() { 0 } else { times };
        Self { text, at: 0, times }
    }
}

impl Iterator for Words {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.times == 0 {
            return None;
        }
        let rest = &self.text[self.at..];
        let space = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let end = rest[space..].find(|character: char| !character.is_whitespace()).map_or(rest.len(), |after| space + after);
        let word = rest[..end].to_owned();
        self.at += end;
        if self.at == self.text.len() {
            self.at = 0;
            self.times -= 1;
        }
        Some(word)
    }
}
