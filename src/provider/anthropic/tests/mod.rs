//! The messages API against recorded bytes, hostile ones, and a real HTTP upstream.

mod connection;
mod hostile;
mod recorded;
mod sent;
mod wire;

use crate::protocol::{CallRequest, Message, Role};
use crate::provider::{AnthropicOptions, Options};

/// Options of a provider at `base_url`.
fn options(base_url: &str) -> AnthropicOptions {
    let options = format!("kind = 'anthropic'\nmodel = 'river-1'\nbase_url = '{base_url}'");
    match toml::from_str(&options).unwrap() {
        Options::Anthropic(options) => options,
        other => panic!("{other:?}"),
    }
}

/// A call that reads one message.
fn request(text: &str) -> CallRequest {
    let messages = vec![Message::text(Role::User, text).into()];
    CallRequest { model: None, system: None, messages, tools: Vec::new(), index: 0, hidden: false, occasion: None }
}
