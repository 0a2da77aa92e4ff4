//! From events to chunks: text, reasoning, tool calls that come in pieces, usage, the end. May not know the network.

use std::collections::VecDeque;

use super::event::{self, Choice, Delta, Event};
use crate::ids::ToolCallId;
use crate::protocol::{CallError, CallErrorKind, Finish, Usage};
use crate::provider::Chunk;
use crate::provider::http::halves::{Halves, Units};
use crate::provider::http::usage::{Count, Lenient};
use crate::provider::http::{Progress, Size, Translate, cut, failure, no_room, nonsense};

/// The most tool calls of one reply.
const TOOL_CALLS_MAX: usize = 256;

/// What the data of the last event is.
const DONE: &str = "[DONE]";

/// Why a model stops whose window is full.
const WINDOW_FULL: &str = "model_context_window_exceeded";

/// One reply in the making.
#[derive(Debug, Default)]
pub struct Translator {
    text: Halves,
    reasoning: Halves,
    tool_calls: Vec<ToolCall>,
    finish: Option<Finish>,
    is_window_full: bool,
    usage: event::Usage,
    model: Option<String>,
    size: Size,
}

/// A tool call in the making; its place in the list is its index in the chunks.
#[derive(Debug, Default)]
struct ToolCall {
    /// The provider's index.
    index: Option<u64>,
    id: Option<String>,
    is_named: bool,
    halves: Halves,
    /// Arguments that came before the name.
    early: String,
    /// All arguments, of a call without an id: when they are complete, a name begins another call.
    unnamed: String,
}

impl Translate for Translator {
    const SERVICE: &'static str = "openai";

    fn read(&mut self, name: &str, data: &str, chunks: &mut VecDeque<Chunk>) -> Result<Progress, CallError> {
        if data.trim() == DONE {
            return Ok(Progress::Done);
        }
        let event: Event<'_> = match serde_json::from_str(data) {
            Ok(event) => event,
            Err(_) if name == "error" && is_text(data) => return Err(failure::of_event(data)),
            Err(error) => return Err(nonsense(format!("an event can't be understood: {error}"))),
        };
        if event.error.is_some() || name == "error" || event.object.is_some_and(|object| object.get() == "\"error\"") {
            return Err(failure::of_event(data));
        }
        if let (None, Some(model)) = (&self.model, event.model) {
            self.model = serde_json::from_str(model.get()).ok();
        }
        let passed = event.x_groq.0.and_then(|inside| inside.usage.0);
        for usage in passed.into_iter().chain(event.usage.0) {
            self.usage = merged(self.usage, usage);
        }
        for choice in event.choices.into_iter().filter(|choice| choice.index == 0) {
            self.choice(choice, chunks)?;
        }
        Ok(Progress::More)
    }

    fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn take_usage(&mut self) -> Option<Usage> {
        Some(Usage { model: self.model.take(), ..reported(std::mem::take(&mut self.usage)) })
    }

    fn end(&mut self, said_done: bool, _: &mut VecDeque<Chunk>) -> Result<Finish, CallError> {
        let calls = !self.tool_calls.is_empty();
        let finish = match self.finish {
            Some(_) if self.is_window_full && self.size.is_zero() => return Err(no_room()),
            // Some services report calls and "stop".
            Some(Finish::Stop) if calls => Finish::ToolCalls,
            Some(finish) => finish,
            None if said_done && calls => Finish::ToolCalls,
            None if said_done && !self.size.is_zero() => Finish::Stop,
            None => return Err(cut()),
        };
        if self.tool_calls.iter().any(|call| !call.is_named) {
            return Err(nonsense("a tool call has no name"));
        }
        Ok(finish)
    }
}

impl Translator {
    fn choice(&mut self, choice: Choice, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        if let Some(usage) = choice.usage.0 {
            self.usage = merged(self.usage, usage);
        }
        let Delta { content, refusal, reasoning_content, reasoning, tool_calls } = choice.delta;
        if let Some(units) = reasoning_content.filter(|units| !units.is_empty()).or(reasoning) {
            let text = self.reasoning.join(units);
            self.add(text, Chunk::Reasoning, chunks)?;
        }
        for units in content.into_iter().chain(refusal) {
            let text = self.text.join(units);
            self.add(text, Chunk::Text, chunks)?;
        }
        for call in tool_calls {
            self.tool_call(call, chunks)?;
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.is_window_full = reason == WINDOW_FULL;
            self.finish = Some(finish(&reason)?);
        }
        Ok(())
    }

    fn add(&mut self, text: String, chunk: impl FnOnce(String) -> Chunk, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        self.size.add(text.len())?;
        if !text.is_empty() {
            chunks.push_back(chunk(text));
        }
        Ok(())
    }

    fn tool_call(&mut self, wire: event::ToolCall, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        let event::ToolCall { index, id, function } = wire;
        let id = id.filter(|id| !id.is_empty());
        let name = function.name.filter(|name| !name.is_empty());
        let at = self.place(index, id.as_deref(), name.is_some(), function.arguments.as_ref());
        if at == self.tool_calls.len() {
            if at == TOOL_CALLS_MAX {
                return Err(nonsense(format!("the reply has more than {TOOL_CALLS_MAX} tool calls")));
            }
            self.tool_calls.push(ToolCall { index, ..ToolCall::default() });
        }
        let call = &mut self.tool_calls[at];
        if call.id.is_none() {
            self.size.add(id.as_ref().map_or(0, String::len))?;
            call.id = id;
        }
        let index = u32::try_from(at).unwrap_or(u32::MAX);
        let mut arguments = call.halves.join(function.arguments.unwrap_or_default());
        if let (false, Some(name)) = (call.is_named, name) {
            call.is_named = true;
            self.size.add(name.len())?;
            chunks.push_back(Chunk::ToolCall { index, id: call.id.as_deref().map(ToolCallId::from), name });
            arguments.insert_str(0, &std::mem::take(&mut call.early));
        }
        if call.id.is_none() {
            call.unnamed.push_str(&arguments);
        }
        if call.is_named {
            return self.add(arguments, |delta| Chunk::ToolArguments { index, delta }, chunks);
        }
        call.early.push_str(&arguments);
        self.size.add(arguments.len())
    }

    /// Which call a piece belongs to; the list's length for a new one. Services leave out the index, give all calls the same
    /// one, or repeat id and name with each piece.
    fn place(&self, index: Option<u64>, id: Option<&str>, has_name: bool, arguments: Option<&Units>) -> usize {
        let calls = &self.tool_calls;
        let known =
            id.and_then(|id| calls.iter().rposition(|call| call.id.as_deref() == Some(id) && (index.is_none() || call.index == index)));
        let is_other = |call: &ToolCall| match (id, &call.id) {
            (Some(_), Some(_)) => has_name,
            (None, None) => has_name && call.is_named && is_complete(&call.unnamed) && arguments.is_some_and(|more| !more.is_empty()),
            (Some(_), None) | (None, Some(_)) => false,
        };
        let found = known.or_else(|| match (index, id) {
            (Some(_), _) => calls.iter().rposition(|call| call.index == index).filter(|&at| !is_other(&calls[at])),
            (None, Some(_)) => None,
            (None, None) => calls.iter().rposition(|call| !(has_name && call.is_named)).filter(|&at| at + 1 == calls.len()),
        });
        found.unwrap_or(calls.len())
    }
}

/// Whether it is nothing but words, not half of something else.
fn is_text(data: &str) -> bool {
    data.trim_start().chars().next().is_some_and(char::is_alphabetic)
}

/// Whether nothing can follow these arguments.
fn is_complete(arguments: &str) -> bool {
    arguments.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

/// Each report counts from the start: the last one holds; what it leaves out, or doesn't count, stays as it was.
fn merged(last: event::Usage, next: event::Usage) -> event::Usage {
    event::Usage {
        prompt_tokens: next.prompt_tokens.or(last.prompt_tokens),
        completion_tokens: next.completion_tokens.or(last.completion_tokens),
        total_tokens: next.total_tokens.or(last.total_tokens),
        prompt_tokens_details: Lenient(next.prompt_tokens_details.0.or(last.prompt_tokens_details.0)),
        prompt_cache_hit_tokens: next.prompt_cache_hit_tokens.or(last.prompt_cache_hit_tokens),
        cached_tokens: next.cached_tokens.or(last.cached_tokens),
        completion_tokens_details: Lenient(next.completion_tokens_details.0.or(last.completion_tokens_details.0)),
    }
}

/// In our own sense. The API counts cached tokens and thoughts in; some services don't, which the figures show.
fn reported(usage: event::Usage) -> Usage {
    let details = usage.prompt_tokens_details.0.unwrap_or_default();
    let cached = details.cached_tokens.or(usage.prompt_cache_hit_tokens).or(usage.cached_tokens);
    let reasoning = usage.completion_tokens_details.0.unwrap_or_default().reasoning_tokens;
    let [prompt, completion] = [usage.prompt_tokens, usage.completion_tokens].map(Count::get);
    let beside = cached.get() + details.cache_write_tokens.get();
    let is_beside = usage.prompt_tokens.is_some() && cached.get() > prompt;
    let all = prompt + completion + reasoning.get();
    let thought_beside = reasoning.get() > completion || (reasoning.is_some() && usage.total_tokens == Count(Some(all)));
    Usage {
        input_tokens: usage.prompt_tokens.0.map(|prompt| if is_beside { prompt + beside } else { prompt }),
        output_tokens: usage.completion_tokens.0.map(|completion| if thought_beside { completion + reasoning.get() } else { completion }),
        cached_input_tokens: cached.0,
        cache_write_input_tokens: details.cache_write_tokens.0,
        reasoning_tokens: reasoning.0,
        ..Usage::default()
    }
}

fn finish(reason: &str) -> Result<Finish, CallError> {
    match reason {
        "tool_calls" | "function_call" => Ok(Finish::ToolCalls),
        "length" | "max_tokens" | WINDOW_FULL => Ok(Finish::Length),
        "content_filter" => Ok(Finish::Filtered),
        "error" => Err(CallError::new(CallErrorKind::Unavailable, "the provider stopped the reply with an error that it doesn't explain")),
        // "stop", and what services call it otherwise.
        _ => Ok(Finish::Stop),
    }
}
