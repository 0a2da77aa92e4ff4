//! One block of a reply in the making: what its pieces tell. May not know the other blocks.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::content::{BLOCK, REDACTED, THINKING};
use super::{MAKER, event};
use crate::ids::ToolCallId;
use crate::protocol::{CallError, Json};
use crate::provider::http::Size;
use crate::provider::http::halves::Halves;
use crate::provider::http::nonsense;
use crate::provider::{Chunk, EncryptedOf, opaque};

/// A block.
#[derive(Debug)]
pub(super) struct Block {
    /// The service's number of it.
    pub index: u64,
    pub kind: Kind,
    pub is_open: bool,
    /// What is told when its turn comes.
    pub held: VecDeque<Chunk>,
    halves: Halves,
}

/// What it is.
#[derive(Debug)]
pub(super) enum Kind {
    Text,
    Thinking {
        signature: String,
    },
    Redacted {
        data: String,
    },
    Call {
        /// Its index in the chunks.
        number: u32,
        /// Arguments that came with its beginning.
        given: Option<String>,
        has_arguments: bool,
    },
    /// A tool of the service's own, or its result: kept as it is, and sent back.
    Opaque {
        begun: String,
        input: String,
    },
    /// One that this version doesn't know.
    Unknown,
}

impl Block {
    /// A block that begins; `number` is the next call's index. What it tells is added to `told`.
    pub fn begin(index: u64, wire: event::Block<'_>, number: u32, size: &mut Size, told: &mut Vec<Chunk>) -> Result<Self, CallError> {
        let mut halves = Halves::default();
        let kind = match wire.kind.as_str() {
            "text" => {
                told.extend(piece(halves.join(wire.text), Chunk::Text, size)?);
                Kind::Text
            }
            "thinking" => {
                told.extend(piece(halves.join(wire.thinking), Chunk::Reasoning, size)?);
                size.add(wire.signature.len())?;
                Kind::Thinking { signature: wire.signature }
            }
            "redacted_thinking" => {
                size.add(wire.data.len())?;
                Kind::Redacted { data: wire.data }
            }
            "tool_use" => {
                let name = wire.name.filter(|name| !name.is_empty()).ok_or_else(|| nonsense("a tool call has no name"))?;
                let id = wire.id.filter(|id| !id.is_empty());
                let given = wire.input.map(|input| input.get().trim().to_owned()).filter(|input| is_filled(input));
                size.add(name.len() + id.as_ref().map_or(0, String::len) + given.as_ref().map_or(0, String::len))?;
                told.push(Chunk::ToolCall { index: number, id: id.map(ToolCallId::from), name });
                Kind::Call { number, given, has_arguments: false }
            }
            kind if is_of_the_service(kind) => {
                size.add(wire.whole.get().len())?;
                // One that can't be read can't be sent back either.
                match Json::checked(wire.whole) {
                    Ok(begun) => Kind::Opaque { begun: begun.get().to_owned(), input: String::new() },
                    Err(_) => Kind::Unknown,
                }
            }
            _ => Kind::Unknown,
        };
        Ok(Self { index, kind, is_open: true, held: VecDeque::new(), halves })
    }

    /// What a piece tells. Pieces that such a block doesn't have (citations, what later versions bring) tell nothing.
    pub fn add(&mut self, delta: event::Delta<'_>, size: &mut Size) -> Result<Option<Chunk>, CallError> {
        match (&mut self.kind, &*delta.kind) {
            (Kind::Text, "text_delta") => piece(self.halves.join(delta.text), Chunk::Text, size),
            (Kind::Thinking { .. }, "thinking_delta") => piece(self.halves.join(delta.thinking), Chunk::Reasoning, size),
            (Kind::Thinking { signature }, "signature_delta") => {
                size.add(delta.signature.len())?;
                signature.push_str(&delta.signature);
                Ok(None)
            }
            (Kind::Call { number, has_arguments, .. }, "input_json_delta") => {
                let index = *number;
                let told = piece(self.halves.join(delta.partial_json), |delta| Chunk::ToolArguments { index, delta }, size)?;
                *has_arguments |= told.is_some();
                Ok(told)
            }
            (Kind::Opaque { input, .. }, "input_json_delta") => {
                let more = self.halves.join(delta.partial_json);
                size.add(more.len())?;
                input.push_str(&more);
                Ok(None)
            }
            (Kind::Text | Kind::Thinking { .. } | Kind::Redacted { .. } | Kind::Call { .. } | Kind::Opaque { .. } | Kind::Unknown, _) => {
                Ok(None)
            }
        }
    }

    /// What its end tells.
    pub fn close(&mut self, size: &mut Size) -> Result<Option<Chunk>, CallError> {
        self.is_open = false;
        match &mut self.kind {
            Kind::Thinking { signature } if !signature.is_empty() => Ok(Some(kept(THINKING, signature))),
            Kind::Redacted { data } => Ok(Some(kept(REDACTED, data))),
            Kind::Opaque { begun, input } => Ok(Some(kept(BLOCK, &with_input(begun, input)))),
            Kind::Call { number, given, has_arguments: false } => {
                let delta = given.take().unwrap_or_else(|| "{}".to_owned());
                size.add(delta.len())?;
                Ok(Some(Chunk::ToolArguments { index: *number, delta }))
            }
            Kind::Text | Kind::Thinking { .. } | Kind::Call { .. } | Kind::Unknown => Ok(None),
        }
    }

    /// Whether everything of it was told.
    pub fn is_over(&self) -> bool {
        !self.is_open && self.held.is_empty()
    }
}

fn piece(text: String, chunk: impl FnOnce(String) -> Chunk, size: &mut Size) -> Result<Option<Chunk>, CallError> {
    size.add(text.len())?;
    Ok((!text.is_empty()).then(|| chunk(text)))
}

fn kept(kind: &str, value: &str) -> Chunk {
    Chunk::Encrypted { of: EncryptedOf::Reasoning, value: opaque::kept(MAKER, &format!("{kind}:{value}")) }
}

/// A block with the input that came after its beginning.
fn with_input(begun: &str, input: &str) -> String {
    let whole = || {
        let (mut block, input): (Map<String, Value>, Map<String, Value>) =
            (serde_json::from_str(begun).ok()?, serde_json::from_str(input).ok()?);
        block.insert("input".to_owned(), Value::Object(input));
        serde_json::to_string(&block).ok()
    };
    whole().unwrap_or_else(|| begun.to_owned())
}

/// Whether the service carries the block out itself, so that it wants it back.
pub(super) fn is_of_the_service(kind: &str) -> bool {
    matches!(kind, "server_tool_use" | "mcp_tool_use") || kind.ends_with("_tool_result")
}

/// Whether arguments that came with a call's beginning say anything.
fn is_filled(input: &str) -> bool {
    input.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(|inside| !inside.trim().is_empty())
}
