//! From events to chunks: text, reasoning, tool calls that come in pieces, usage, the end. May not know the network.

use std::collections::VecDeque;

use super::event::{self, Choice, Delta, Event};
use crate::ids::ToolCallId;
use crate::protocol::{CallError, CallErrorKind, Finish, Usage};
use crate::provider::Chunk;
use crate::provider::http::halves::{Halves, Units};
use crate::provider::http::{Progress, Size, Translate, cut, failure, nonsense};

/// The most tool calls of one reply.
const TOOL_CALLS_MAX: usize = 256;

/// What the data of the last event is.
const DONE: &str = "[DONE]";

/// One reply in the making.
#[derive(Debug, Default)]
pub struct Translator {
    text: Halves,
    reasoning: Halves,
    tool_calls: Vec<ToolCall>,
    finish: Option<Finish>,
    usage: Option<Usage>,
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
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| nonsense(format!("an event can't be understood: {error}")))?;
        if event.error.is_some() || name == "error" || event.object.is_some_and(|object| object.get() == "\"error\"") {
            return Err(failure::of_event(data));
        }
        if let (None, Some(model)) = (&self.model, event.model) {
            self.model = serde_json::from_str(model.get()).ok();
        }
        if let Some(usage) = event.usage {
            self.usage = Some(reported(usage));
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
        let model = self.model.take();
        self.usage.take().map(|usage| Usage { model, ..usage })
    }

    fn end(&mut self, said_done: bool, _: &mut VecDeque<Chunk>) -> Result<Finish, CallError> {
        let calls = !self.tool_calls.is_empty();
        let finish = match self.finish {
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

/// Whether nothing can follow these arguments.
fn is_complete(arguments: &str) -> bool {
    arguments.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

fn reported(usage: event::Usage) -> Usage {
    Usage {
        input_tokens: usage.prompt_tokens,
        output_tokens: usage.completion_tokens,
        cached_input_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens).or(usage.prompt_cache_hit_tokens),
        reasoning_tokens: usage.completion_tokens_details.and_then(|details| details.reasoning_tokens),
        ..Usage::default()
    }
}

fn finish(reason: &str) -> Result<Finish, CallError> {
    match reason {
        "tool_calls" | "function_call" => Ok(Finish::ToolCalls),
        "length" | "max_tokens" => Ok(Finish::Length),
        "content_filter" => Ok(Finish::Filtered),
        "error" => Err(CallError::new(CallErrorKind::Unavailable, "the provider stopped the reply with an error that it doesn't explain")),
        // "stop", and what services call it otherwise.
        _ => Ok(Finish::Stop),
    }
}
