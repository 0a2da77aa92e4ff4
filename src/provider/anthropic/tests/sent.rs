//! What goes out: the body of a request, and options that can't be used.

use serde_json::{Value, json};

use super::super::{Anthropic, request};
use super::options;
use crate::protocol::{CallRequest, Message};
use crate::provider::{AnthropicOptions, Error};

fn body_with(options: &AnthropicOptions, request: &CallRequest) -> Value {
    let anthropic = Anthropic::new(options, None).unwrap();
    serde_json::from_slice(&request::body(&anthropic, request).unwrap()).unwrap()
}

/// The messages that go out.
fn sent(messages: Value) -> Value {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let call = CallRequest { messages: messages.into_iter().map(Into::into).collect(), ..super::request("") };
    body_with(&options("http://localhost/v1"), &call)["messages"].take()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

#[test]
fn a_plain_call_has_nothing_else_in_it() {
    let expected = json!({"model": "river-1", "max_tokens": 8192, "messages": [user(&json!([text("q")]))], "stream": true});
    assert_eq!(body_with(&options("http://localhost/v1"), &super::request("q")), expected);
}

#[test]
fn options_tools_and_the_system_prompt_go_along() {
    let mut options = options("http://localhost/v1");
    (options.temperature, options.max_tokens) = (Some(0.5), 100);
    let extra = "tool_choice = { type = 'any' }\nthinking = { type = 'enabled', budget_tokens = 2000 }\ncache_control = { type = 'ephemeral' }\n\
        stop_sequences = ['x']\ntools = [{ type = 'web_search_20250305', name = 'web_search', max_uses = 5 }]";
    options.extra = toml::from_str(extra).unwrap();
    let tools = json!([
        {"name": "weather", "description": "Knows it", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}, "metadata": {"a": 1}},
        {"name": "bare"},
    ]);
    let mut request = CallRequest {
        model: Some("river-2".to_owned()),
        system: Some("Be brief.".to_owned()),
        tools: serde_json::from_value(tools).unwrap(),
        ..super::request("q")
    };
    let kind: Message = serde_json::from_value(json!({"role": "developer", "content": "Be kind."})).unwrap();
    request.messages.push(kind.into());
    let expected = json!({
        "model": "river-2",
        "max_tokens": 100,
        "system": "Be brief.\n\nBe kind.",
        "messages": [user(&json!([text("q")]))],
        "tools": [
            {"name": "weather", "description": "Knows it", "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}}},
            {"name": "bare", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        ],
        "stream": true,
        "temperature": 0.5,
        "tool_choice": {"type": "any"},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "cache_control": {"type": "ephemeral"},
        "stop_sequences": ["x"],
    });
    assert_eq!(body_with(&options, &request), expected);
    options.extra = toml::from_str("max_tokens = 7\ntemperature = 1.0").unwrap();
    let body = body_with(&options, &super::request("q"));
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(7), &json!(1.0)));
}

#[test]
fn thinking_goes_back_in_its_place_to_its_maker_alone() {
    let value = |kind: &str| format!("anthropic:{kind}");
    let messages = json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "reasoning", "text": "hm", "encrypted_value": value("thinking:c2ln:1")},
            {"type": "reasoning", "encrypted_value": value("redacted:ZGF0YQ==")},
            {"type": "reasoning", "encrypted_value": value("thinking:c2ln")},
            {"type": "reasoning", "encrypted_value": value("block:{\"type\":\"server_tool_use\",\"id\":\"s\",\"input\":{\"q\":1.50}}")},
            {"type": "reasoning", "encrypted_value": value("block:{\"type\":\"image\",\"source\":{\"type\":\"file\",\"file_id\":\"f\"}}")},
            {"type": "reasoning", "text": "of another's", "encrypted_value": "gemini:c2ln"},
            {"type": "reasoning", "text": "unsigned"},
            {"type": "reasoning", "text": "of a later version", "encrypted_value": value("later:c2ln")},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_call", "tool_call_id": "c2"},
            {"type": "reasoning", "text": "hmm", "encrypted_value": value("thinking:c2ln")},
            {"type": "text", "text": " \n"},
        ], "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": ""}, "encrypted_value": "gemini:x"},
            {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": " {\"z\":1, \"a\":2} "}},
        ]},
    ]);
    let expected = json!([user(&json!([text("q")])), {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln:1"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
        {"type": "server_tool_use", "id": "s", "input": {"q": 1.50}},
        text("Let me look."),
        {"type": "tool_use", "id": "c2", "name": "clock", "input": {"z": 1, "a": 2}},
        {"type": "thinking", "thinking": "hmm", "signature": "c2ln"},
        {"type": "tool_use", "id": "c1", "name": "clock", "input": {}},
    ]}, user(&json!([text("[Go on.]")]))]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn results_follow_their_calls_in_one_message() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    let messages = json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call("c1", "{\"a\":1}"), call("c2", "[1]"), call("c3", "{\"a\":"), call("look:0", "{}"), call("c5", "")]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "tool", "tool_call_id": "c2", "content": "", "error": "no network"},
        {"role": "tool", "tool_call_id": "c3", "content": "half", "error": "no network"},
        {"role": "tool", "tool_call_id": "look:0", "content": [
            {"type": "text", "text": "a photo"}, {"type": "image", "source": {"type": "data", "value": "/9j/4AAQ"}}], "error": "blurred"},
        {"role": "tool", "tool_call_id": "c5", "content": "gone", "error": "gone"},
        {"role": "user", "content": "and now?"},
    ]);
    let hashed = format!("call_{}", &blake3::hash(b"look:0").to_hex()[..32]);
    let used = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "look", "input": input});
    let failed = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": true});
    let photo = json!({"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/4AAQ"}});
    let expected = json!([
        user(&json!([text("q")])),
        {"role": "assistant", "content": [used("c1", json!({"a": 1})), used("c2", json!({"arguments": "[1]"})), used("c3", json!({"arguments": "{\"a\":"})), used(&hashed, json!({})), used("c5", json!({}))]},
        user(&json!([
            {"type": "tool_result", "tool_use_id": "c1", "content": [text("rain")]},
            failed("c2", json!([text("no network")])),
            failed("c3", json!([text("half"), text("no network")])),
            failed(&hashed, json!([text("a photo"), photo, text("blurred")])),
            failed("c5", json!([text("gone")])),
            text("and now?"),
        ])),
    ]);
    assert_eq!(sent(messages), expected);
}

/// The API takes no calls of tools that it isn't told of; a front end may have stopped offering them.
#[test]
fn tools_that_were_called_stay_known() {
    let call = |name: &str| json!({"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let messages: Vec<Message> = serde_json::from_value(json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call("look"), call("clock")]},
        {"role": "assistant", "tool_calls": [call("look"), call("look.up ż")]},
    ]))
    .unwrap();
    let mut request = CallRequest { messages: messages.into_iter().map(Into::into).collect(), ..super::request("") };
    let mut options = options("http://localhost/v1");
    options.extra = toml::from_str("tool_choice = { type = 'any' }").unwrap();
    let body = body_with(&options, &request);
    let bare = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    assert_eq!(
        (&body["tools"], &body["tool_choice"]),
        (&json!([bare("clock"), bare("look"), bare("look_up__")]), &json!({"type": "none"}))
    );
    request.tools = serde_json::from_value(json!([{"name": "paint"}])).unwrap();
    let body = body_with(&options, &request);
    assert_eq!((&body["tools"], &body["tool_choice"]), (&json!([bare("paint")]), &json!({"type": "any"})));
}

#[test]
fn roles_alternate_and_nothing_is_empty() {
    let messages = json!([
        {"role": "assistant", "content": "Welcome."},
        {"role": "user", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": ""}]},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "nothing to say"}]},
        {"role": "activity", "activity_type": "plan", "content": {"a": 1}},
        {"role": "reasoning", "content": "hm"},
        {"role": "user", "content": "  "},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "tool", "tool_call_id": "c1", "content": ""},
    ]);
    let expected = json!([
        user(&json!([text("[The conversation begins with your message.]")])),
        {"role": "assistant", "content": [text("Welcome.")]},
        user(&json!([text("one"), text("[an empty message]"), text("[an empty message]")])),
        {"role": "assistant", "content": [text("a"), text("b")]},
        user(&json!([{"type": "tool_result", "tool_use_id": "c1"}])),
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn media_become_what_the_api_takes() {
    let part = |kind: &str, source: Value| json!({"type": kind, "source": source});
    let messages = json!([{"role": "user", "name": "Ann", "content": [
        text("Look"),
        part("image", json!({"type": "url", "value": "https://example.com/a.png"})),
        part("image", json!({"type": "data", "value": "aGk=", "mime_type": "image/webp"})),
        part("image", json!({"type": "data", "value": "iVBORw0KGgoAAA"})),
        part("image", json!({"type": "data", "value": "aGk=", "mime_type": "image/tiff"})),
        part("image", json!({"type": "data", "value": "aGk="})),
        part("image", json!({"type": "file", "value": "f1", "provider": "anthropic"})),
        part("image", json!({"type": "file", "value": "f1", "provider": "openai"})),
        part("document", json!({"type": "data", "value": "aGk=", "mime_type": "application/pdf"})),
        part("document", json!({"type": "url", "value": "https://example.com/a.pdf"})),
        part("document", json!({"type": "url", "value": "https://example.com/a", "mime_type": "text/html"})),
        part("document", json!({"type": "url", "value": "data:application/pdf;base64,aGk="})),
        part("document", json!({"type": "data", "value": "aGk=", "mime_type": "text/csv"})),
        part("document", json!({"type": "data", "value": "aGk=", "mime_type": "application/zip"})),
        part("audio", json!({"type": "data", "value": "aGk=", "mime_type": "audio/wav"})),
        part("video", json!({"type": "url", "value": "https://example.com/a.mp4"})),
    ]}]);
    let note = |what: &str, place: &str| text(&format!("[{what} that can't be given to this model{place}]"));
    let base64 = |kind: &str, data: &str| json!({"type": "base64", "media_type": kind, "data": data});
    let expected = json!([user(&json!([
        text("Look"),
        part("image", json!({"type": "url", "url": "https://example.com/a.png"})),
        part("image", base64("image/webp", "aGk=")),
        part("image", base64("image/png", "iVBORw0KGgoAAA")),
        note("an image", ""),
        note("an image", ""),
        part("image", json!({"type": "file", "file_id": "f1"})),
        note("an image", ""),
        part("document", base64("application/pdf", "aGk=")),
        part("document", json!({"type": "url", "url": "https://example.com/a.pdf"})),
        note("a document", ": https://example.com/a"),
        part("document", base64("application/pdf", "aGk=")),
        text("[a document]\nhi"),
        note("a document", ""),
        note("a recording", ""),
        note("a video", ": https://example.com/a.mp4"),
    ]))]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn options_that_cannot_be_used_are_named() {
    let fault = |change: fn(&mut AnthropicOptions)| {
        let mut options = options("https://api.example.com/v1/");
        change(&mut options);
        match Anthropic::new(&options, None) {
            Err(Error::Option(wrong)) => wrong.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for (fault, expected) in [
        (fault(|options| options.model.clear()), "model: is empty"),
        (fault(|options| options.max_tokens = 0), "max_tokens: is 0; at least 1 is needed"),
        (fault(|options| options.base_url = "https://api.example.com/v1#a".to_owned()), "base_url: has no ?"),
        (fault(|options| options.idle_secs = 0), "idle_secs: is 0; 1 to 86400 are allowed"),
        (fault(|options| options.temperature = Some(f64::NAN)), "temperature: must be a finite number"),
        (fault(|options| options.extra = toml::from_str("system = 'x'").unwrap()), "extra.system: is set by Headwater"),
        (fault(|options| options.extra = toml::from_str("tools = 1").unwrap()), "extra.tools: a list of tools is expected"),
        (fault(|options| options.headers = toml::from_str("x-api-key = 'secret'").unwrap()), "headers.x-api-key: is set by Headwater"),
        (
            fault(|options| options.headers = toml::from_str("Authorization = 'secret'").unwrap()),
            "headers.Authorization: is set by Headwater",
        ),
        (fault(|options| options.headers = toml::from_str("content-type = 'x'").unwrap()), "headers.content-type: is set by Headwater"),
        (fault(|options| options.headers = toml::from_str("'a b' = 'x'").unwrap()), "headers.a b: is no name of an HTTP header"),
        (fault(|options| options.headers = toml::from_str("a = \"x\\n\"").unwrap()), "headers.a: has characters that can't stand"),
    ] {
        assert!(fault.starts_with(expected) && !fault.contains("secret"), "{fault}");
    }
}
