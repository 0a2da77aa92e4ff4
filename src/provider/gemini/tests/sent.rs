//! What goes out: addresses, bodies, and options that can't be used.

use serde_json::{Value, json};

use super::super::{Gemini, request as bodies};
use super::{gemini, options, reading, request};
use crate::protocol::CallRequest;
use crate::provider::http::Api;
use crate::provider::{Error, GeminiOptions};

fn body_of(gemini: &Gemini, request: &CallRequest) -> Value {
    serde_json::from_slice(&bodies::body(gemini, request).unwrap()).unwrap()
}

/// The contents that go out.
fn sent(messages: Value) -> Value {
    body_of(&gemini(), &reading(messages))["contents"].take()
}

/// The same to a model that wants signatures.
fn sent_to_3(messages: Value) -> Value {
    let request = CallRequest { model: Some("gemini-3-pro-preview".to_owned()), ..reading(messages) };
    body_of(&gemini(), &request)["contents"].take()
}

fn changed(change: impl FnOnce(&mut GeminiOptions)) -> Result<Gemini, Error> {
    let mut options = options("https://api.example.com/v1beta/");
    change(&mut options);
    Gemini::new(&options, None)
}

fn calls(calls: &[(&str, &str, &str)]) -> Value {
    let call = |&(id, name, arguments): &(&str, &str, &str)| json!({"id": id, "function": {"name": name, "arguments": arguments}});
    calls.iter().map(call).collect()
}

#[test]
fn a_plain_call_has_nothing_else_in_it() {
    let request = request("q");
    assert_eq!(body_of(&gemini(), &request), json!({"contents": [{"role": "user", "parts": [{"text": "q"}]}]}));
    let url = gemini().outgoing(&request).unwrap().url;
    assert_eq!(url.as_str(), "http://localhost/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
}

#[test]
fn models_are_addressed_by_name() {
    let gemini = changed(|_| {}).unwrap();
    for (model, path) in [
        ("gemini-3-pro", "models/gemini-3-pro:streamGenerateContent"),
        ("tunedModels/mine", "tunedModels/mine:streamGenerateContent"),
        ("a?b#c d", "models/a%3Fb%23c%20d:streamGenerateContent"),
    ] {
        let request = CallRequest { model: Some(model.to_owned()), ..request("q") };
        let url = gemini.outgoing(&request).unwrap().url;
        assert_eq!(url.as_str(), format!("https://api.example.com/v1beta/{path}?alt=sse"));
    }
}

#[test]
fn options_tools_and_the_system_prompt_go_along() {
    let gemini = changed(|options| {
        options.temperature = Some(0.5);
        options.max_tokens = Some(100);
        options.extra = toml::from_str(
            "cachedContent = 'c'\ntools = [{ googleSearch = {} }]\ntoolConfig.functionCallingConfig.mode = 'ANY'\n\
             [generationConfig]\nmaxOutputTokens = 7\nthinkingConfig = { includeThoughts = true }",
        )
        .unwrap();
    })
    .unwrap();
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {"n": {"type": ["integer", "null"], "const": 12}}, "additionalProperties": false});
    let tools = json!([{"name": "weather", "description": "Knows it", "parameters": schema, "metadata": {"a": 1}}, {"name": "bare"}]);
    let messages = json!([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "q"}]);
    let request = CallRequest { system: Some("Be brief.".to_owned()), tools: serde_json::from_value(tools).unwrap(), ..reading(messages) };
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
        "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        "tools": [
            {"functionDeclarations": [
                {"name": "weather", "description": "Knows it", "parametersJsonSchema": schema},
                {"name": "bare", "description": ""},
            ]},
            {"googleSearch": {}},
        ],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 7, "thinkingConfig": {"includeThoughts": true}},
        "cachedContent": "c",
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    });
    assert_eq!(body_of(&gemini, &request), expected);
}

#[test]
fn tables_of_options_are_merged_to_any_depth() {
    let merged = |fields: Value, more: Value| {
        let (Value::Object(mut fields), Value::Object(more)) = (fields, more) else { panic!() };
        super::super::merge(&mut fields, &more);
        Value::Object(fields)
    };
    let fields = json!({"a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": [1]});
    let more = json!({"a": {"b": {"c": 7, "g": 8}}, "f": [2], "h": {}});
    assert_eq!(merged(fields, more), json!({"a": {"b": {"c": 7, "d": 2, "g": 8}, "e": 3}, "f": [2], "h": {}}));
}

#[test]
fn parallel_calls_have_their_results_together_and_neighbours_are_merged() {
    let messages = json!([
        {"role": "user", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "Let me look.", "tool_calls": calls(&[("c1", "weather", "{\"a\":1.10}"), ("c2", "time", "")])},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "tool", "tool_call_id": "c2", "content": "", "error": "no clock"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "tool_calls": calls(&[("c3", "weather", "not json"), ("c4", "weather", "[1]")])},
        {"role": "tool", "tool_call_id": "c3", "content": "half", "error": "no network"},
        {"role": "tool", "tool_call_id": "c4", "content": "same", "error": "same"},
        {"role": "reasoning", "content": "hm"},
        {"role": "activity", "activity_type": "plan", "content": {"a": 1}},
        {"role": "assistant", "content": "Wet."},
        {"role": "assistant", "content": "Very."},
    ]);
    let expected = json!([
        {"role": "user", "parts": [{"text": "one"}, {"text": "two"}]},
        {"role": "model", "parts": [
            {"text": "Let me look."},
            {"functionCall": {"name": "weather", "args": {"a": 1.10}}},
            {"functionCall": {"name": "time", "args": {}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "weather", "response": {"output": "rain"}}},
            {"functionResponse": {"name": "time", "response": {"error": "no clock"}}},
            {"text": "and?"},
        ]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "weather", "args": {"arguments": "not json"}}},
            {"functionCall": {"name": "weather", "args": {"arguments": "[1]"}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "weather", "response": {"output": "half", "error": "no network"}}},
            {"functionResponse": {"name": "weather", "response": {"error": "same"}}},
        ]},
        {"role": "model", "parts": [{"text": "Wet."}, {"text": "Very."}]},
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn signatures_and_ids_go_back_on_the_part_they_came_with() {
    let marks = |signature: &str, last: usize| json!(format!("gemini:{}", json!({"signature": signature, "last": last})));
    let call = |id: &str, value: Option<&str>| json!({"id": id, "function": {"name": "look", "arguments": "{}"}, "encrypted_value": value});
    let messages = json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [
            {"type": "reasoning", "text": "unsigned"},
            {"type": "reasoning", "text": "signed", "encrypted_value": marks("s1", 6)},
            {"type": "text", "text": "One."},
            {"type": "text", "text": "Two. Żet.", "encrypted_value": marks("s2", 5)},
            {"type": "tool_call", "tool_call_id": "c2"},
            {"type": "text", "text": "Three.", "encrypted_value": "anthropic:s3"},
            {"type": "tool_call", "tool_call_id": "c9"},
            {"type": "text", "text": "Four.", "encrypted_value": marks("s4", 0)},
            {"type": "text", "text": "", "encrypted_value": "other:s5"},
            {"type": "reasoning", "text": "", "encrypted_value": "anthropic:s6"},
        ], "tool_calls": [call("c1", Some("anthropic:s7")), call("c2", Some("gemini:{\"id\":\"f-1\",\"signature\":\"s8\"}")), call("c3", None)]},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
        {"role": "tool", "tool_call_id": "c3", "content": "c"},
    ]);
    let plain = json!({"functionCall": {"name": "look", "args": {}}});
    let expected = json!([
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [
            {"text": "signed", "thought": true, "thoughtSignature": "s1"},
            {"text": "One."},
            {"text": "Two. "},
            {"text": "Żet.", "thoughtSignature": "s2"},
            {"functionCall": {"id": "f-1", "name": "look", "args": {}}, "thoughtSignature": "s8"},
            {"text": "Three."},
            {"text": "Four."},
            {"text": "", "thoughtSignature": "s4"},
            plain,
            plain,
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "look", "response": {"output": "a"}}},
            {"functionResponse": {"id": "f-1", "name": "look", "response": {"output": "b"}}},
            {"functionResponse": {"name": "look", "response": {"output": "c"}}},
        ]},
    ]);
    assert_eq!(sent(messages.clone()), expected);
    assert_eq!(sent_to_3(messages), expected);
}

#[test]
fn calls_that_another_model_made_are_let_pass_by_models_that_want_signatures() {
    let messages = json!([
        {"role": "assistant", "tool_calls": calls(&[("c1", "look", "{}"), ("c2", "look", "{}")])},
        {"role": "tool", "tool_call_id": "c1", "content": "a"},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
    ]);
    let parts = sent_to_3(messages.clone())[1]["parts"].take();
    assert_eq!(parts[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[1]["thoughtSignature"], Value::Null);
    assert_eq!(sent(messages)[1]["parts"][0]["thoughtSignature"], Value::Null);
}

#[test]
fn media_go_by_data_address_and_file() {
    let part = |kind: &str, source: Value| json!({"type": kind, "source": source});
    let messages = json!([{"role": "user", "name": "Ann", "content": [
        {"type": "text", "text": "Look"},
        part("image", json!({"type": "data", "value": "aGk=", "mime_type": "image/jpeg"})),
        part("image", json!({"type": "data", "value": "aGk="})),
        part("image", json!({"type": "url", "value": "https://example.com/a.png"})),
        part("audio", json!({"type": "data", "value": "aGk=", "mime_type": "audio/ogg"})),
        part("video", json!({"type": "url", "value": "https://example.com/a.mp4", "mime_type": "video/mp4"})),
        part("video", json!({"type": "file", "value": "https://files.example/v1", "mime_type": "video/mp4", "provider": "google"})),
        part("document", json!({"type": "data", "value": "aGk=", "mime_type": "text/plain"})),
        part("document", json!({"type": "file", "value": "file-1", "provider": "openai"})),
        part("document", json!({"type": "nowhere"})),
        {"type": "text", "text": ""},
    ]}]);
    let expected = json!([
        {"text": "Look"},
        {"inlineData": {"mimeType": "image/jpeg", "data": "aGk="}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"fileData": {"fileUri": "https://example.com/a.png"}},
        {"inlineData": {"mimeType": "audio/ogg", "data": "aGk="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/a.mp4"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://files.example/v1"}},
        {"inlineData": {"mimeType": "text/plain", "data": "aGk="}},
        {"text": "[a document that can't be given to this model]"},
        {"text": "[a document that can't be given to this model]"},
    ]);
    assert_eq!(sent(messages)[0]["parts"], expected);
}

#[test]
fn media_of_results_follow_all_results_of_a_reply() {
    let image = json!({"type": "image", "source": {"type": "data", "value": "aGk=", "mime_type": "image/png"}});
    let messages = json!([
        {"role": "assistant", "tool_calls": calls(&[("c1", "look", "{}"), ("c2", "look", "{}")])},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "seen"}, image]},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
        {"role": "user", "content": "so?"},
    ]);
    let expected = json!([
        {"functionResponse": {"name": "look", "response": {"output": "seen"}}},
        {"functionResponse": {"name": "look", "response": {"output": "b"}}},
        {"text": "[of the result of look:]"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "so?"},
    ]);
    assert_eq!(sent(messages)[2]["parts"], expected);
}

#[test]
fn messages_that_say_nothing() {
    let messages = json!([{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, {"role": "user", "content": []}]);
    assert_eq!(sent(messages), json!([{"role": "user", "parts": [{"text": " "}, {"text": " "}]}]));
}

#[test]
fn a_conversation_that_the_model_began() {
    let sent = sent(json!([{"role": "assistant", "content": "Welcome."}, {"role": "user", "content": "hi"}]));
    assert_eq!(sent[0], json!({"role": "user", "parts": [{"text": "[The conversation begins with your message.]"}]}));
    assert_eq!(sent[1], json!({"role": "model", "parts": [{"text": "Welcome."}]}));
}

#[test]
fn options_that_cannot_be_used_are_named() {
    let fault = |change: fn(&mut GeminiOptions)| match changed(change) {
        Err(Error::Option(wrong)) => wrong.to_string(),
        other => panic!("{other:?}"),
    };
    for (fault, expected) in [
        (fault(|options| options.model.clear()), "model: is empty"),
        (fault(|options| options.base_url = "api.example.com".to_owned()), "base_url: "),
        (fault(|options| options.idle_secs = 0), "idle_secs: is 0; 1 to 86400 are allowed"),
        (fault(|options| options.temperature = Some(f64::NAN)), "temperature: must be a finite number"),
        (fault(|options| options.extra = toml::from_str("contents = []").unwrap()), "extra.contents: is set by Headwater"),
        (fault(|options| options.extra = toml::from_str("tools = 1").unwrap()), "extra.tools: is a list of tools"),
        (fault(|options| options.extra = toml::from_str("generationConfig = 1").unwrap()), "extra.generationConfig: is a table"),
    ] {
        assert!(fault.starts_with(expected), "{fault}");
    }
}
