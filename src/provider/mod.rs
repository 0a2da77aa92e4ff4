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
mod relay;
pub mod script;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use factory::{attempts, factory, relay as relay_factory};
pub use options::{Abilities, AguiOptions, AnthropicOptions, GeminiOptions, OpenaiOptions, Options, ScriptOptions, UpstreamThread};

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;

use crate::ids::ToolCallId;
use crate::protocol::{CallError, CallRequest, Finish, Interrupt, Json, Usage};

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
    /// Of an agent: the result of a call that it carried out itself.
    ToolResult {
        /// Which call.
        of: CallOf,
        /// What came of it.
        content: String,
        /// What went wrong.
        error: Option<String>,
    },
    /// Of an agent: the state as it has become.
    State(Json),
    /// Of an agent: it goes on only when a person or an outside system has answered this.
    Interrupt {
        /// The call of the reply's that it is about.
        of: Option<u32>,
        /// What it asks.
        interrupt: Box<Interrupt>,
    },
    /// Of an agent: the reply is whole, with the results of its calls, and what follows is another one.
    Next,
    /// The model is done.
    Finished(Finish),
}

/// Which call a result is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOf {
    /// That one of the reply's.
    Reply(u32),
    /// One of a reply before it, by its name in the session.
    Before(ToolCallId),
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

/// One attempt: pieces until `Chunk::Finished` or an error, then nothing. Dropping it closes the connection. An agent's goes on after
/// `Chunk::Next`, whoever still wants to hear it.
pub type Attempt = Pin<Box<dyn Stream<Item = Result<Chunk, CallError>>>>;

/// A configured provider and model. Each worker thread has its own.
pub trait Provider {
    /// Begins one attempt. Nothing is sent before the stream is polled. A stream that ends without `Finished` is a bug of the
    /// provider's: it reports [`CallErrorKind::Cut`](crate::protocol::CallErrorKind::Cut) itself.
    fn start(&self, request: CallRequest) -> Attempt;

    /// Whether it is an agent that stands in a model's place: it is told the [occasion](CallRequest::occasion), carries out calls itself,
    /// and may say several things one after another.
    fn is_agent(&self) -> bool {
        false
    }

    /// Whether it wants to know the [branch](crate::protocol::Occasion::branch), whose name takes a look at the whole tree.
    fn asks_for_branch(&self) -> bool {
        false
    }
}

/// Makes a worker thread's own [`Provider`].
pub type Factory = Arc<dyn Fn() -> Box<dyn Provider> + Send + Sync>;
