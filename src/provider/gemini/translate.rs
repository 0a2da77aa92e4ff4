//! From events to chunks: text, reasoning, calls that come whole, opaque parts, usage, the end. May not know the network.

use std::collections::VecDeque;

use super::event::{self, Candidate, Event, Feedback, Part};
use super::opaque::Marks;
use super::{SERVICE, kept};
use crate::ids::ToolCallId;
use crate::protocol::{CallError, CallErrorKind, Finish, Usage};
use crate::provider::http::halves::Halves;
use crate::provider::http::usage::Count;
use crate::provider::http::{Progress, Size, Translate, cut, failure, nonsense};
use crate::provider::{Chunk, EncryptedOf};

/// The most tool calls of one reply.
const TOOL_CALLS_MAX: u32 = 256;

/// One reply in the making.
#[derive(Debug, Default)]
pub struct Translator {
    text: Halves,
    reasoning: Halves,
    calls: u32,
    finish: Option<Result<Finish, CallError>>,
    usage: event::Usage,
    model: Option<String>,
    /// Whether parts came that replies here don't have.
    has_foreign: bool,
    size: Size,
}

impl Translate for Translator {
    const SERVICE: &'static str = SERVICE;

    fn read(&mut self, _: &str, data: &str, chunks: &mut VecDeque<Chunk>) -> Result<Progress, CallError> {
        let event: Event<'_> = match serde_json::from_str(data) {
            Ok(event) => event,
            Err(_) if is_list_of_errors(data) => return Err(failure::of_event(data)),
            Err(error) => return Err(nonsense(format!("an event can't be understood: {error}"))),
        };
        if event.error.is_some() {
            return Err(failure::of_event(data));
        }
        if let Some(usage) = event.usage_metadata.0 {
            self.usage = merged(self.usage, usage);
        }
        self.model = self.model.take().or(event.model_version);
        for candidate in event.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            self.candidate(candidate, chunks)?;
        }
        match event.prompt_feedback.and_then(blocked) {
            Some(error) => Err(error),
            None => Ok(Progress::More),
        }
    }

    fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn take_usage(&mut self) -> Option<Usage> {
        Some(reported(&self.usage, self.model.take()))
    }

    fn end(&mut self, _: bool, _: &mut VecDeque<Chunk>) -> Result<Finish, CallError> {
        match self.finish.take() {
            None => Err(cut()),
            Some(Ok(_)) if self.size.is_zero() && self.has_foreign => {
                Err(nonsense("the model answered with nothing but parts that are no text and no calls"))
            }
            Some(Ok(Finish::Stop)) if self.calls > 0 => Ok(Finish::ToolCalls),
            Some(end) => end,
        }
    }
}

impl Translator {
    fn candidate(&mut self, candidate: Candidate<'_>, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        for part in candidate.content.parts {
            self.part(part, chunks)?;
        }
        if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(finish(&reason, candidate.finish_message.as_deref()));
        }
        Ok(())
    }

    fn part(&mut self, part: Part<'_>, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        if part.is_foreign() {
            self.has_foreign = true;
            return Ok(());
        }
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        self.size.add(signature.as_ref().map_or(0, String::len))?;
        if let Some(call) = part.function_call {
            return self.call(call, signature, chunks);
        }
        let halves = if part.thought { &mut self.reasoning } else { &mut self.text };
        let text = halves.join(part.text.unwrap_or_default());
        self.size.add(text.len())?;
        let marks = signature.and_then(|signature| Marks { id: None, signature: Some(signature), last: Some(text.len()) }.written());
        let (chunk, of): (fn(String) -> Chunk, _) =
            if part.thought { (Chunk::Reasoning, EncryptedOf::Reasoning) } else { (Chunk::Text, EncryptedOf::Text) };
        chunks.extend(Some(text).filter(|text| !text.is_empty()).map(chunk));
        chunks.extend(marks.map(|marks| Chunk::Encrypted { of, value: kept(&marks) }));
        Ok(())
    }

    fn call(&mut self, call: event::FunctionCall<'_>, signature: Option<String>, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        let Some(name) = call.name.filter(|name| !name.is_empty()) else { return Err(nonsense("a tool call has no name")) };
        if self.calls == TOOL_CALLS_MAX {
            return Err(nonsense(format!("the reply has more than {TOOL_CALLS_MAX} tool calls")));
        }
        let index = self.calls;
        self.calls += 1;
        let id = call.id.filter(|id| !id.is_empty());
        let arguments = call.args.map_or("{}", |arguments| arguments.get());
        self.size.add(name.len() + arguments.len() + id.as_ref().map_or(0, String::len))?;
        chunks.push_back(Chunk::ToolCall { index, id: id.as_deref().map(ToolCallId::from), name });
        chunks.push_back(Chunk::ToolArguments { index, delta: arguments.to_owned() });
        let marks = Marks { id, signature, last: None }.written();
        chunks.extend(marks.map(|marks| Chunk::Encrypted { of: EncryptedOf::ToolCall(index), value: kept(&marks) }));
        Ok(())
    }
}

/// Each report counts from the start: the last one holds; what it leaves out, or doesn't count, stays as it was.
fn merged(last: event::Usage, next: event::Usage) -> event::Usage {
    event::Usage {
        prompt: next.prompt.or(last.prompt),
        tool_use_prompt: next.tool_use_prompt.or(last.tool_use_prompt),
        cached: next.cached.or(last.cached),
        candidates: next.candidates.or(last.candidates),
        thoughts: next.thoughts.or(last.thoughts),
    }
}

/// In our own sense: what the model read for its built-in tools is input, what it thought is output.
fn reported(usage: &event::Usage, model: Option<String>) -> Usage {
    let sum = |a: Count, b: Count| a.0.map(|a| a + b.get()).or(b.0);
    Usage {
        input_tokens: sum(usage.prompt, usage.tool_use_prompt),
        output_tokens: sum(usage.candidates, usage.thoughts),
        cached_input_tokens: usage.cached.0,
        reasoning_tokens: usage.thoughts.0,
        model,
        ..Usage::default()
    }
}

/// Some answers of the service's are lists.
fn is_list_of_errors(data: &str) -> bool {
    serde_json::from_str::<Vec<Event<'_>>>(data).is_ok_and(|list| list.iter().any(|event| event.error.is_some()))
}

/// A request that the service won't answer.
fn blocked(feedback: Feedback) -> Option<CallError> {
    let reason = feedback.block_reason.filter(|reason| !reason.is_empty() && reason != "BLOCK_REASON_UNSPECIFIED")?;
    let message = feedback.block_reason_message.map(|message| format!(": {message}")).unwrap_or_default();
    Some(CallError::new(CallErrorKind::Refused, format!("the provider's filter blocks the request ({reason}){message}")))
}

fn finish(reason: &str, message: Option<&str>) -> Result<Finish, CallError> {
    let explained = |what: &str| {
        let message = message.map(|message| format!(": {message}")).unwrap_or_default();
        format!("{what} ({reason}){message}")
    };
    match reason {
        "MAX_TOKENS" => Ok(Finish::Length),
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Ok(Finish::Filtered),
        // By chance; another attempt mostly goes well.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
            Err(CallError::new(CallErrorKind::Unavailable, explained("the model wrote a call that the provider can't read")))
        }
        "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" | "FINISH_REASON_UNSPECIFIED" => {
            Err(CallError::new(CallErrorKind::Unavailable, explained("the provider stopped the reply")))
        }
        "MISSING_THOUGHT_SIGNATURE" | "TOO_MANY_TOOL_CALLS" => {
            Err(CallError::new(CallErrorKind::Refused, explained("the provider refuses the conversation")))
        }
        // "STOP", and what services call it otherwise.
        _ => Ok(Finish::Stop),
    }
}
