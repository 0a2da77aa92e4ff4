//! The relay towards agents: recorded runs, hostile ones, real connections, what is sent.

mod connection;
mod hostile;
mod interrupts;
mod random;
mod recorded;
mod sent;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Relay;
use crate::ids::SessionKey;
use crate::protocol::{CallRequest, Client, Message, Occasion, Role};
use crate::provider::http::Http;
use crate::provider::{AguiOptions, UpstreamThread};
use crate::service::Given;

/// An agent at this address.
fn options(url: &str, upstream_thread: UpstreamThread) -> AguiOptions {
    let headers = BTreeMap::from([("x-agent-key".to_owned(), Given::Text("sk-canary-0123456789".to_owned()))]);
    AguiOptions { url: url.to_owned(), headers, upstream_thread, connect_secs: 10, idle_secs: 60, attempts: None }
}

fn relay(options: &AguiOptions) -> Result<Relay, crate::provider::Error> {
    Relay::new(options, std::path::Path::new("."))
}

/// The same as a provider.
fn provider(url: &str) -> Http<Relay> {
    let relay = relay(&options(url, UpstreamThread::Run)).unwrap();
    let client = crate::provider::http::Api::connection(&relay).client().unwrap();
    Http::new(Arc::new(relay), client)
}

fn occasion() -> Occasion {
    Occasion {
        session: SessionKey { tenant: "t".into(), session: "s".into() },
        turn: "turn-1".into(),
        call: "call-1".into(),
        attempt: 1,
        branch: Some("u1".into()),
        client: Client::default(),
        state: None,
        resumed: Vec::new(),
    }
}

fn request(text: &str) -> CallRequest {
    let messages = vec![Message::text(Role::User, text).with_id("u1".into()).into()];
    CallRequest { messages, occasion: Some(Box::new(occasion())), ..CallRequest::default() }
}
