//! Chat completions against recorded bytes, and against a real HTTP upstream.

mod connection;
mod recorded;
mod sent;
mod wire;

use crate::protocol::{CallRequest, Message, Role};
use crate::provider::{OpenaiOptions, Options};

/// Options of a provider at `base_url`.
fn options(base_url: &str) -> OpenaiOptions {
    let options = format!("kind = 'openai'\nmodel = 'river-1'\nbase_url = '{base_url}'");
    match toml::from_str(&options).unwrap() {
        Options::Openai(options) => options,
        other => panic!("{other:?}"),
    }
}

/// A call that reads one message.
fn request(text: &str) -> CallRequest {
    let messages = vec![Message::text(Role::User, text).into()];
    CallRequest { model: None, system: None, messages, tools: Vec::new(), index: 0, hidden: false, occasion: None }
}
