//! Services that run models. A provider makes one attempt of one call and streams what comes; retries, back-off and records
//! are the engine's. Streams live on the worker thread that asked: they need not be `Send`. May not know the engine, stores, the web.

pub mod anthropic;
mod error;
mod factory;
pub mod gemini;
pub mod http;
mod json;
mod media;
mod opaque;
pub mod openai;
mod options;
pub mod script;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use factory::{attempts, factory, install_tls};
pub use options::{Abilities, AnthropicOptions, GeminiOptions, OpenaiOptions, Options, ScriptOptions, Secret};

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;

use crate::ids::ToolCallId;
use crate::protocol::{CallError, CallRequest, Finish, Usage};

/// A piece of a model's answer. Text, reasoning and arguments come in pieces of any size; `Finished` comes once, last.
#[derive(Clone, Debug, PartialEq)]
pub enum Chunk {
    /// Text for the reader.
    Text(String),
    /// What the model thinks.
    Reasoning(String),
    /// A tool call begins. `index` tells interleaved calls apart.
    ToolCall {
        /// Which of the reply's calls.
        index: u32,
        /// The provider's name for it, when it has one.
        id: Option<ToolCallId>,
        /// Which tool.
        name: String,
    },
    /// More of a call's arguments.
    ToolArguments {
        /// Which of the reply's calls.
        index: u32,
        /// What is added.
        delta: String,
    },
    /// The provider's opaque form of what it names, which goes back on later calls. It ends the reasoning or the text that it is
    /// of: what follows is another part.
    Encrypted {
        /// What it is of.
        of: EncryptedOf,
        /// It, as `maker:value`: only its maker gets it back.
        value: String,
    },
    /// Tokens, as reported so far; the last report counts.
    Usage(Usage),
    /// The model is done.
    Finished(Finish),
}

/// What an opaque form is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptedOf {
    /// The reasoning that is open; when none is, of reasoning that has no text.
    Reasoning,
    /// The text that came last; when none did, of one without a character.
    Text,
    /// The call with this index.
    ToolCall(u32),
}

/// One attempt: pieces until `Chunk::Finished` or an error, then nothing. Dropping it closes the connection.
pub type Attempt = Pin<Box<dyn Stream<Item = Result<Chunk, CallError>>>>;

/// A configured provider and model. Each worker thread has its own.
pub trait Provider {
    /// Begins one attempt. Nothing is sent before the stream is polled. A stream that ends without `Finished` is a bug of the
    /// provider's: it reports [`CallErrorKind::Cut`](crate::protocol::CallErrorKind::Cut) itself.
    fn start(&self, request: CallRequest) -> Attempt;
}

/// Makes a worker thread's own [`Provider`].
pub type Factory = Arc<dyn Fn() -> Box<dyn Provider> + Send + Sync>;
