//! The shape of a summary call: no UI sees it, it has instructions, one message and no tools. What goes out to each kind of service.

use serde_json::{Value, json};

use super::{KINDS, asked, beginning, ending, provider_with, request};
use crate::protocol::{CallRequest, Finish, Message, Role};
use crate::provider::Chunk;
use crate::provider::http::upstream::{Step, Upstream, streamed};

const SYSTEM: &str = "Write a summary.";
const TEXT: &str = "[User]\nWhere does it begin?\n\n[Assistant]\nAt the headwater.";

/// Fields that are configured for an agent's tools.
fn extra(kind: &str) -> &'static str {
    match kind {
        "openai" => "extra = { tool_choice = 'auto', parallel_tool_calls = false, seed = 7 }",
        "anthropic" => {
            "extra = { tools = [{ type = 'web_search_20250305', name = 'web_search' }], tool_choice = { type = 'auto' }, top_k = 7 }"
        }
        "gemini" => {
            "extra = { tools = [{ googleSearch = {} }], toolConfig = { functionCallingConfig = { mode = 'ANY' } }, cachedContent = 'c' }"
        }
        other => panic!("no kind {other}"),
    }
}

fn sent(kind: &str) -> Value {
    match kind {
        "openai" => json!({
            "model": "small", "stream": true, "stream_options": {"include_usage": true}, "seed": 7,
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TEXT}],
        }),
        "anthropic" => json!({
            "model": "small", "stream": true, "max_tokens": 8192, "top_k": 7,
            "system": SYSTEM, "messages": [{"role": "user", "content": [{"type": "text", "text": TEXT}]}],
        }),
        "gemini" => json!({
            "systemInstruction": {"parts": [{"text": SYSTEM}]}, "cachedContent": "c",
            "contents": [{"role": "user", "parts": [{"text": TEXT}]}],
        }),
        other => panic!("no kind {other}"),
    }
}

#[tokio::test]
async fn each_service_is_asked_for_a_summary() {
    for kind in KINDS {
        let whole = beginning(kind) + &ending(kind);
        let mut upstream = Upstream::start(vec![vec![Step::Write(streamed([whole.as_bytes()]))]]).await;
        let messages = vec![Message::text(Role::User, TEXT).into()];
        let call = CallRequest { model: Some("small".to_owned()), system: Some(SYSTEM.to_owned()), messages, hidden: true, ..request() };
        let items = asked(&*provider_with(kind, &upstream.base_url, extra(kind)), call).await;
        let request = upstream.request().await;
        assert_eq!(request.body, sent(kind), "{kind}");
        assert!(kind != "gemini" || request.head.contains("/models/small:stream"), "{}", request.head);
        let said: Vec<_> = items.into_iter().filter(|item| !matches!(item, Ok(Chunk::Usage(_)))).collect();
        assert_eq!(said, [Ok(Chunk::Text("One".to_owned())), Ok(Chunk::Finished(Finish::Stop))], "{kind}");
    }
}
