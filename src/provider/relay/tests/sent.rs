//! What an agent is sent: a run that older agents read too.

use serde_json::{Value, json};

use super::{occasion, request};
use crate::ids::SessionKey;
use crate::protocol::{CallRequest, Client, Occasion};
use crate::provider::UpstreamThread;
use crate::provider::relay::request::body;

fn sent(thread: UpstreamThread, request: &CallRequest) -> Value {
    serde_json::from_slice(&body(thread, request).unwrap()).unwrap()
}

fn thread(kind: UpstreamThread, occasion: Occasion) -> String {
    let request = CallRequest { occasion: Some(Box::new(occasion)), ..request("q") };
    sent(kind, &request)["threadId"].as_str().unwrap().to_owned()
}

#[test]
fn the_path_is_sent_as_a_client_would() {
    let messages = json!([
        {"id": "u1", "role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "data", "value": "aGk=", "mime_type": "image/png"}}]},
        {"id": "a1", "role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Yes."}, {"type": "tool_call", "tool_call_id": "c1"}],
         "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "gone", "error": "gone"}
    ]);
    let messages: Vec<crate::protocol::Message> = serde_json::from_value(messages).unwrap();
    let client: Client = serde_json::from_value(json!({
        "tools": [{"name": "confirm", "description": "asks"}],
        "context": [{"description": "d", "value": "v"}],
        "state": {"seat": "12A"},
        "forwarded_props": {"headwater": {"queue": true}, "mine": 1}
    }))
    .unwrap();
    let request = CallRequest {
        system: Some("Be kind.".to_owned()),
        messages: messages.into_iter().map(Into::into).collect(),
        tools: client.tools.clone().unwrap(),
        occasion: Some(Box::new(Occasion { state: client.state.clone(), client, ..occasion() })),
        ..CallRequest::default()
    };
    let mut sent = sent(UpstreamThread::Session, &request);
    assert!(sent["runId"].as_str().is_some_and(|id| id.len() == 36));
    sent.as_object_mut().unwrap().remove("runId");
    let expected = json!({
        "threadId": "s",
        "state": {"seat": "12A"},
        "messages": [
            {"id": "hw_system", "role": "system", "content": "Be kind."},
            {"id": "u1", "role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}]},
            {"id": "a1", "role": "assistant", "content": "Yes.", "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"id": "c1:tool", "role": "tool", "toolCallId": "c1", "content": "gone", "error": "gone"}
        ],
        "tools": [{"name": "confirm", "description": "asks", "parameters": {"type": "object", "properties": {}}}],
        "context": [{"description": "d", "value": "v"}],
        "forwardedProps": {"mine": 1}
    });
    assert_eq!(sent, expected);
}

#[test]
fn what_a_client_does_not_say_is_there_all_the_same() {
    let sent = sent(UpstreamThread::Run, &request("q"));
    for (field, value) in [("state", json!({})), ("tools", json!([])), ("context", json!([])), ("forwardedProps", json!({}))] {
        assert_eq!(sent[field], value, "{field}");
    }
    assert!(sent.get("protocolVersion").is_none() && sent.get("resume").is_none(), "older agents refuse what they don't know");
}

#[test]
fn a_thread_is_as_long_as_it_is_asked_to_be() {
    let other = |change: fn(&mut Occasion)| {
        let mut occasion = occasion();
        change(&mut occasion);
        occasion
    };
    let later = || other(|occasion| (occasion.turn, occasion.call) = ("turn-2".into(), "call-2".into()));
    let again = || other(|occasion| occasion.attempt = 2);
    let edited = || other(|occasion| (occasion.call, occasion.branch) = ("call-3".into(), Some("u2".into())));
    let tenant = || other(|occasion| occasion.session = SessionKey { tenant: "t2".into(), session: "s".into() });
    let run = |occasion| thread(UpstreamThread::Run, occasion);
    assert_eq!(run(occasion()), run(occasion()), "the same request is the same");
    for different in [later(), again(), edited(), tenant()] {
        assert_ne!(run(occasion()), run(different));
    }
    let branch = |occasion| thread(UpstreamThread::Branch, occasion);
    assert_eq!([branch(later()), branch(again())], [branch(occasion()), branch(occasion())]);
    assert!(branch(edited()) != branch(occasion()) && branch(tenant()) != branch(occasion()));
    assert_eq!(thread(UpstreamThread::Session, edited()), "s");
}
