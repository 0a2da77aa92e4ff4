//! What goes out: the body of a request, and options that can't be used.

use serde_json::{Value, json};

use super::super::{Openai, request};
use super::options;
use crate::protocol::{CallRequest, Message};
use crate::provider::{Error, OpenaiOptions};

fn body_with(options: &OpenaiOptions, request: &CallRequest) -> Value {
    let openai = Openai::new(options, None).unwrap();
    serde_json::from_slice(&request::body(&openai, request).unwrap()).unwrap()
}

fn call(messages: Value) -> CallRequest {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    CallRequest { messages: messages.into_iter().map(Into::into).collect(), ..super::request("") }
}

/// The messages that go out.
fn sent(messages: Value) -> Value {
    body_with(&options("http://localhost/v1"), &call(messages))["messages"].take()
}

#[test]
fn a_plain_call_has_nothing_else_in_it() {
    let expected = json!({
        "model": "river-1",
        "messages": [{"role": "user", "content": "q"}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(body_with(&options("http://localhost/v1"), &super::request("q")), expected);
}

#[test]
fn options_tools_and_the_system_prompt_go_along() {
    let mut options = options("http://localhost/v1");
    options.temperature = Some(0.5);
    options.max_tokens = Some(100);
    options.extra =
        toml::from_str("reasoning_effort = 'low'\nmax_tokens = 7\nstream_options = {}\nstop = ['a']\nwhen = 2026-11-30").unwrap();
    let tools = json!([
        {"name": "weather", "description": "Knows it", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}, "metadata": {"a": 1}},
        {"name": "bare"},
    ]);
    let request = CallRequest {
        model: Some("river-2".to_owned()),
        system: Some("Be brief.".to_owned()),
        tools: serde_json::from_value(tools).unwrap(),
        ..super::request("q")
    };
    let expected = json!({
        "model": "river-2",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "q"}],
        "tools": [
            {"type": "function", "function": {"name": "weather", "description": "Knows it", "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}},
            {"type": "function", "function": {"name": "bare"}},
        ],
        "stream": true,
        "temperature": 0.5,
        "max_tokens": 7,
        "reasoning_effort": "low",
        "stream_options": {},
        "stop": ["a"],
        "when": "2026-11-30",
    });
    assert_eq!(body_with(&options, &request), expected);
}

#[test]
fn replies_go_without_their_reasoning_and_with_their_calls() {
    let call = |arguments: &str| json!([{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]);
    let messages = json!([
        {"id": "a1", "role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Let me "}, {"type": "tool_call", "tool_call_id": "c1"}, {"type": "text", "text": "look."}], "tool_calls": call("{\"a\":1}")},
        {"id": "t1", "role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"id": "a2", "role": "assistant", "tool_calls": call("")},
        {"id": "t2", "role": "tool", "tool_call_id": "c1", "content": "", "error": "no network"},
        {"id": "t3", "role": "tool", "tool_call_id": "c1", "content": "half", "error": "no network"},
        {"id": "a3", "role": "assistant", "content": [{"type": "reasoning", "text": "nothing to say"}]},
    ]);
    let expected = json!([
        {"role": "assistant", "content": "Let me look.", "tool_calls": call("{\"a\":1}")},
        {"role": "tool", "content": "rain", "tool_call_id": "c1"},
        {"role": "assistant", "content": null, "tool_calls": call("{}")},
        {"role": "tool", "content": "Error: no network", "tool_call_id": "c1"},
        {"role": "tool", "content": "half\nError: no network", "tool_call_id": "c1"},
        {"role": "assistant", "content": ""},
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn media_become_what_the_api_takes() {
    let part = |kind: &str, source: Value| json!({"type": kind, "source": source});
    let messages = json!([{"id": "u1", "role": "user", "name": "Ann", "content": [
        {"type": "text", "text": "Look"},
        part("image", json!({"type": "url", "value": "https://example.com/a.png"})),
        part("image", json!({"type": "data", "value": "aGk=", "mime_type": "image/jpeg"})),
        part("image", json!({"type": "file", "value": "f1"})),
        part("audio", json!({"type": "data", "value": "aGk=", "mime_type": "audio/mpeg"})),
        part("audio", json!({"type": "data", "value": "aGk=", "mime_type": "audio/ogg"})),
        part("document", json!({"type": "data", "value": "aGk=", "mime_type": "application/pdf"})),
        part("video", json!({"type": "url", "value": "https://example.com/a.mp4"})),
        {"type": "document", "source": {"type": "data", "value": "aGk=", "mime_type": "application/pdf"}, "metadata": {"filename": "a.pdf"}},
        part("document", json!({"type": "data", "value": "aGk=", "mime_type": "text/plain"})),
        part("document", json!({"type": "file", "value": "file-1"})),
        part("document", json!({"type": "file", "value": "file-2", "provider": "google"})),
        part("document", json!({"type": "url", "value": "https://example.com/a.pdf"})),
        part("audio", json!({"type": "url", "value": "https://example.com/a.mp3"})),
        part("image", json!({"type": "url", "value": "data:image/webp;base64,aGk="})),
    ]}, {"id": "u2", "role": "user", "content": [{"type": "text", "text": "alone"}]}]);
    let note = |what: &str| json!({"type": "text", "text": format!("[{what} that can't be given to this model]")});
    let at = |what: &str, file: &str| json!({"type": "text", "text": format!("[{what} that can't be given to this model: https://example.com/{file}]")});
    let expected = json!([{"role": "user", "content": [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,aGk="}},
        note("an image"),
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        note("a recording"),
        {"type": "file", "file": {"filename": "document", "file_data": "data:application/pdf;base64,aGk="}},
        at("a video", "a.mp4"),
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
        {"type": "text", "text": "[a document]\nhi"},
        {"type": "file", "file": {"file_id": "file-1"}},
        note("a document"),
        at("a document", "a.pdf"),
        at("a recording", "a.mp3"),
        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,aGk="}},
    ]}, {"role": "user", "content": "alone"}]);
    assert_eq!(sent(messages), expected);
}

/// A result can have nothing but text, and the results of a reply stand together.
#[test]
fn media_of_results_follow_as_a_users_message() {
    let image = json!({"type": "image", "source": {"type": "data", "value": "aGk=", "mime_type": "image/png"}});
    let video = json!({"type": "video", "source": {"type": "url", "value": "https://example.com/a.mp4"}});
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let round = json!([
        {"role": "assistant", "tool_calls": [call("c1"), call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "seen"}, image, video]},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
    ]);
    let messages = |rounds: usize| -> Value { std::iter::repeat_n(round.as_array().unwrap().clone(), rounds).flatten().collect() };
    let sent_round = json!([
        {"role": "assistant", "content": null, "tool_calls": [call("c1"), call("c2")]},
        {"role": "tool", "content": "seen", "tool_call_id": "c1"},
        {"role": "tool", "content": "b", "tool_call_id": "c2"},
        {"role": "user", "content": [
            {"type": "text", "text": "[of the result of c1:]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "text", "text": "[a video that can't be given to this model: https://example.com/a.mp4]"},
        ]},
    ]);
    assert_eq!(sent(messages(1)), sent_round);
    assert_eq!(sent(messages(2)).as_array().unwrap()[4..], *sent_round.as_array().unwrap());
}

#[test]
fn what_no_model_reads_stays_here() {
    let messages = json!([
        {"id": "s", "role": "developer", "content": "Be kind."},
        {"id": "r", "role": "reasoning", "content": "hm"},
        {"id": "x", "role": "activity", "activity_type": "plan", "content": {"a": 1}},
        {"id": "u", "role": "user", "content": "q"},
    ]);
    assert_eq!(sent(messages), json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "q"}]));
}

#[test]
fn options_that_cannot_be_used_are_named() {
    let fault = |change: fn(&mut OpenaiOptions)| {
        let mut options = options("https://api.example.com/v1/");
        change(&mut options);
        match Openai::new(&options, None) {
            Err(Error::Option(wrong)) => wrong.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for (fault, expected) in [
        (fault(|options| options.model.clear()), "model: is empty"),
        (fault(|options| options.base_url = "api.example.com".to_owned()), "base_url: "),
        (fault(|options| options.base_url = "ftp://api.example.com".to_owned()), "base_url: begins with http:// or https://"),
        (fault(|options| options.base_url = "https://me:secret@api.example.com".to_owned()), "base_url: has no user and no password"),
        (fault(|options| options.base_url = "https://api.example.com/v1?a=b".to_owned()), "base_url: has no ?"),
        (fault(|options| options.idle_secs = 0), "idle_secs: is 0; 1 to 86400 are allowed"),
        (fault(|options| options.connect_secs = 100_000), "connect_secs: is 100000"),
        (fault(|options| options.temperature = Some(f64::NAN)), "temperature: must be a finite number"),
        (fault(|options| options.extra = toml::from_str("stream = false").unwrap()), "extra.stream: is set by Headwater"),
        (fault(|options| options.extra = toml::from_str("top_p = inf").unwrap()), "extra.top_p: JSON has no number inf"),
    ] {
        assert!(fault.starts_with(expected) && !fault.contains("secret@"), "{fault}");
    }
}
