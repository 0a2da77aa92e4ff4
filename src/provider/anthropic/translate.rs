//! From events to chunks. A reply is a list of blocks, whose pieces may come in any order: text and thinking are told in the
//! order of the blocks, calls that follow each other as they come. May not know the network.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::block::{Block, Kind};
use super::event::{self, Event};
use crate::protocol::{CallError, Finish, Usage};
use crate::provider::Chunk;
use crate::provider::http::usage::{Count, Lenient};
use crate::provider::http::{Progress, Size, Translate, cut, failure, no_room, nonsense};

/// The most blocks of one reply.
const BLOCKS_MAX: usize = 1024;

/// The most tool calls of one reply.
const TOOL_CALLS_MAX: u32 = 256;

/// One reply in the making.
#[derive(Debug, Default)]
pub struct Translator {
    blocks: Vec<Block>,
    /// All blocks before this one have been told.
    front: usize,
    calls: u32,
    stop_reason: Option<String>,
    usage: event::Usage,
    model: Option<String>,
    size: Size,
}

impl Translate for Translator {
    const SERVICE: &'static str = super::MAKER;

    fn read(&mut self, name: &str, data: &str, chunks: &mut VecDeque<Chunk>) -> Result<Progress, CallError> {
        let event: Event<'_> = parsed(data)?;
        // Types have no escapes.
        let kind: &str = event.kind.and_then(|kind| serde_json::from_str(kind.get()).ok()).unwrap_or(name);
        match kind {
            "content_block_delta" => {
                let delta = needed(kind, "delta", event.delta)?;
                self.piece(index(kind, event.index)?, delta, chunks)?;
            }
            "content_block_start" => {
                let whole: &RawValue = needed(kind, "content_block", event.content_block)?;
                let block = event::Block { whole, ..parsed(whole.get())? };
                self.begin(index(kind, event.index)?, block, chunks)?;
            }
            "content_block_stop" => self.stop(index(kind, event.index)?, chunks)?,
            "message_start" => {
                let start: event::Start = needed(kind, "message", event.message)?;
                self.model = self.model.take().or(start.model);
                self.count(start.usage.0);
            }
            "message_delta" => {
                let end: event::End = needed(kind, "delta", event.delta)?;
                self.stop_reason = end.stop_reason.or(self.stop_reason.take());
                if let Some(usage) = event.usage {
                    self.count(parsed::<Lenient<event::Usage>>(usage.get())?.0);
                }
            }
            "message_stop" => return Ok(Progress::Done),
            _ if kind == "error" || event.error.is_some_and(|error| error.get() != "null") => return Err(failure::of_event(data)),
            "" => return Err(nonsense("an event has no type")),
            // `ping`, and what later versions of the API bring.
            _ => {}
        }
        Ok(Progress::More)
    }

    /// Only the service's own end counts, so nothing is waited for more shortly before.
    fn has_finished(&self) -> bool {
        false
    }

    fn take_usage(&mut self) -> Option<Usage> {
        let event::Usage { input_tokens, cache_read_input_tokens: cached, cache_creation_input_tokens: written, .. } = self.usage;
        let reasoning = self.usage.output_tokens_details.0.unwrap_or_default().thinking_tokens;
        Some(Usage {
            input_tokens: Some([input_tokens, cached, written].map(Count::get).iter().sum()),
            output_tokens: self.usage.output_tokens.0,
            cached_input_tokens: cached.0,
            cache_write_input_tokens: written.0,
            reasoning_tokens: reasoning.0,
            model: self.model.take(),
            provider: None,
        })
    }

    fn end(&mut self, said_done: bool, chunks: &mut VecDeque<Chunk>) -> Result<Finish, CallError> {
        if !said_done {
            return Err(cut());
        }
        for at in 0..self.blocks.len() {
            self.close(at, chunks)?;
        }
        Ok(match self.stop_reason.as_deref() {
            Some("model_context_window_exceeded") if self.size.is_zero() => return Err(no_room()),
            // At a pause, tools of the service's own want more time than it gives: the reply ends there, as it would at a limit.
            Some("max_tokens" | "model_context_window_exceeded" | "pause_turn") => Finish::Length,
            Some("refusal") => Finish::Filtered,
            // "end_turn", "stop_sequence", "tool_use", and what services call it otherwise.
            Some(_) | None if self.calls > 0 => Finish::ToolCalls,
            None if self.blocks.is_empty() => return Err(cut()),
            Some(_) | None => Finish::Stop,
        })
    }
}

impl Translator {
    fn begin(&mut self, index: u64, wire: event::Block<'_>, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        if self.open(index).is_some() {
            return Err(nonsense(format!("the block {index} begins twice")));
        }
        if self.blocks.len() == BLOCKS_MAX {
            return Err(nonsense(format!("the reply has more than {BLOCKS_MAX} blocks")));
        }
        let at = self.blocks.len();
        let mut told = Vec::new();
        let block = Block::begin(index, wire, self.calls, &mut self.size, &mut told)?;
        if let Kind::Call { .. } = block.kind {
            self.calls += 1;
            if self.calls > TOOL_CALLS_MAX {
                return Err(nonsense(format!("the reply has more than {TOOL_CALLS_MAX} tool calls")));
            }
        }
        self.blocks.push(block);
        self.tell(at, told, chunks);
        Ok(())
    }

    fn piece(&mut self, index: u64, delta: event::Delta<'_>, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        let Some(at) = self.open(index) else { return Err(nonsense(format!("a piece of the block {index} comes while it isn't open"))) };
        let told = self.blocks[at].add(delta, &mut self.size)?;
        self.tell(at, told, chunks);
        Ok(())
    }

    fn stop(&mut self, index: u64, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        // One that ended already is nobody's loss.
        self.open(index).map_or(Ok(()), |at| self.close(at, chunks))
    }

    fn open(&self, index: u64) -> Option<usize> {
        self.blocks.iter().rposition(|block| block.index == index && block.is_open)
    }

    fn close(&mut self, at: usize, chunks: &mut VecDeque<Chunk>) -> Result<(), CallError> {
        if self.blocks[at].is_open {
            let told = self.blocks[at].close(&mut self.size)?;
            self.tell(at, told, chunks);
            self.advance(chunks);
        }
        Ok(())
    }

    /// Tells what is new of a block, when it is its turn.
    fn tell(&mut self, at: usize, told: impl IntoIterator<Item = Chunk>, chunks: &mut VecDeque<Chunk>) {
        if self.is_told(at) {
            chunks.extend(told);
        } else {
            self.blocks[at].held.extend(told);
        }
    }

    /// Whether nothing that comes before a block is still to come; the order of calls is no matter.
    fn is_told(&self, at: usize) -> bool {
        let is_call = |block: &Block| matches!(block.kind, Kind::Call { .. });
        let before = self.blocks.get(self.front..at).unwrap_or_default();
        before.iter().all(|block| block.is_over() || (is_call(block) && is_call(&self.blocks[at])))
    }

    /// Tells what was held back and has its turn now.
    fn advance(&mut self, chunks: &mut VecDeque<Chunk>) {
        for at in self.front..self.blocks.len() {
            if self.is_told(at) {
                chunks.extend(self.blocks[at].held.drain(..));
            }
            if self.front == at && self.blocks[at].is_over() {
                self.front += 1;
            }
        }
    }

    /// Each report counts from the start. What was read may be told anew, divided otherwise between the cache and the rest; a
    /// report that counts nothing of it changes nothing of it.
    fn count(&mut self, next: Option<event::Usage>) {
        let Some(next) = next else { return };
        let usage = &mut self.usage;
        if [next.input_tokens, next.cache_read_input_tokens, next.cache_creation_input_tokens].iter().any(|count| count.is_some()) {
            let told = |next: Count, last: Count| if next.0.is_some() { next } else { last };
            usage.input_tokens = told(next.input_tokens, usage.input_tokens);
            usage.cache_read_input_tokens = told(next.cache_read_input_tokens, usage.cache_read_input_tokens);
            usage.cache_creation_input_tokens = told(next.cache_creation_input_tokens, usage.cache_creation_input_tokens);
        }
        usage.output_tokens = usage.output_tokens.max(next.output_tokens);
        usage.output_tokens_details = Lenient(next.output_tokens_details.0.or(usage.output_tokens_details.0));
    }
}

fn parsed<'de, T: Deserialize<'de>>(data: &'de str) -> Result<T, CallError> {
    serde_json::from_str(data).map_err(|error| nonsense(format!("an event can't be understood: {error}")))
}

fn needed<'de, T: Deserialize<'de>>(kind: &str, field: &str, value: Option<&'de RawValue>) -> Result<T, CallError> {
    let value = value.ok_or_else(|| nonsense(format!("an event of type {kind} has no {field}")))?;
    parsed(value.get())
}

fn index(kind: &str, value: Option<&RawValue>) -> Result<u64, CallError> {
    needed(kind, "index", value)
}
