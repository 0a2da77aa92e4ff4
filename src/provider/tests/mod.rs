//! What holds for every kind of provider that is reached over HTTP, as cases in files: each goes through the provider that the
//! configuration makes, over a real connection.

mod hidden;
mod refusals;
mod usage;

use std::path::Path;

use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::http::recorded::Items;
use super::http::upstream::PATIENCE;
use super::{Provider, factory};
use crate::protocol::{CallRequest, Message, Role};

/// The kinds of providers that are reached over HTTP.
const KINDS: [&str; 3] = ["openai", "anthropic", "gemini"];

/// What the configuration makes for a service at `base_url`.
fn provider(kind: &str, base_url: &str) -> Box<dyn Provider> {
    provider_with(kind, base_url, "")
}

/// The same with more options.
fn provider_with(kind: &str, base_url: &str, more: &str) -> Box<dyn Provider> {
    let options = format!("kind = '{kind}'\nmodel = 'river-1'\nbase_url = '{base_url}'\n{more}");
    factory(&toml::from_str(&options).unwrap(), Path::new(".")).unwrap()()
}

/// A call that reads one message.
fn request() -> CallRequest {
    let messages = vec![Message::text(Role::User, "q").into()];
    CallRequest { model: None, system: None, messages, tools: Vec::new(), index: 0, hidden: false, occasion: None }
}

async fn asked(provider: &dyn Provider, request: CallRequest) -> Items {
    tokio::time::timeout(PATIENCE, provider.start(request).collect()).await.expect("an end")
}

/// The cases of a file under `tests/fixtures`, one a line.
fn cases<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let case = |(number, line)| serde_json::from_str(line).unwrap_or_else(|error| panic!("{file}:{}: {error}", number + 1));
    text.lines().enumerate().map(case).collect()
}

/// The first events of a stream of this kind: it begins, and says `One`.
fn beginning(kind: &str) -> String {
    match kind {
        "openai" => "data: {\"model\":\"river-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"One\"}}]}\n\n".to_owned(),
        "anthropic" => [
            r#"{"type":"message_start","message":{"model":"river-1","usage":{"input_tokens":1,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"One"}}"#,
        ]
        .map(|data| format!("data: {data}\n\n"))
        .concat(),
        "gemini" => "data: {\"candidates\": [{\"index\": 0, \"content\": {\"parts\": [{\"text\": \"One\"}]}}]}\n\n".to_owned(),
        other => panic!("no kind {other}"),
    }
}

/// The last events of a stream of this kind: it is done.
fn ending(kind: &str) -> String {
    match kind {
        "openai" => "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_owned(),
        "anthropic" => [
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
            r#"{"type":"message_stop"}"#,
        ]
        .map(|data| format!("data: {data}\n\n"))
        .concat(),
        "gemini" => "data: {\"candidates\": [{\"index\": 0, \"finishReason\": \"STOP\"}]}\n\n".to_owned(),
        other => panic!("no kind {other}"),
    }
}
