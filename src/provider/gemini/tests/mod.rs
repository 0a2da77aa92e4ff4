//! Gemini against recorded bytes and a real HTTP upstream, and what goes out to it.

mod answers;
mod hostile;
mod recorded;
mod sent;
mod wire;

use serde_json::Value;

use super::Gemini;
use crate::protocol::{CallRequest, Message, Role};
use crate::provider::{GeminiOptions, Options};

/// Options of a provider at `base_url`.
fn options(base_url: &str) -> GeminiOptions {
    let options = format!("kind = 'gemini'\nmodel = 'gemini-2.5-flash'\nbase_url = '{base_url}'");
    match toml::from_str(&options).unwrap() {
        Options::Gemini(options) => options,
        other => panic!("{other:?}"),
    }
}

fn gemini() -> Gemini {
    Gemini::new(&options("http://localhost/v1beta"), None).unwrap()
}

/// A call that reads one message.
fn request(text: &str) -> CallRequest {
    let messages = vec![Message::text(Role::User, text).into()];
    CallRequest { model: None, system: None, messages, tools: Vec::new(), index: 0, hidden: false, occasion: None }
}

/// A call that reads these.
fn reading(messages: Value) -> CallRequest {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    CallRequest { messages: messages.into_iter().map(Into::into).collect(), ..request("") }
}
