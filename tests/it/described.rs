//! The server's own description, held against every exchange of these tests: what it answers is described, and what it took
//! is too.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::http::dechunk;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("../../src/web/openapi.json")).unwrap());

/// Every terminal of a submit's stream.
const TERMINALS: &[&str] = &["turn.completed", "turn.failed", "turn.cancelled", "turn.waiting"];

/// What was asked.
pub struct Asked {
    pub method: String,
    /// With its query.
    pub path: String,
    pub body: Vec<u8>,
}

/// What came back, as far as it has come.
pub struct Answered<'a> {
    pub status: u16,
    pub headers: &'a HashMap<String, String>,
    pub body: &'a [u8],
    /// Whether all of it has come.
    pub whole: bool,
}

/// Holds an exchange against the description; panics where they differ.
pub fn check(asked: &Asked, answered: &Answered<'_>) {
    let faults = faults(asked, answered);
    let body = String::from_utf8_lossy(answered.body);
    assert!(faults.is_empty(), "{} {} → {} isn't as described:\n{}\n{body}", asked.method, asked.path, answered.status, faults.join("\n"));
}

/// What is wrong with an exchange.
fn faults(asked: &Asked, answered: &Answered<'_>) -> Vec<String> {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let Some(item) = item(path) else {
        return refused(answered, &[404]);
    };
    let method = if asked.method == "HEAD" { "get".to_owned() } else { asked.method.to_ascii_lowercase() };
    if method == "options" && answered.status < 300 {
        return Vec::new();
    }
    let Some(operation) = item.get(&method) else {
        return refused(answered, &[405]);
    };
    let response = &operation["responses"][answered.status.to_string()];
    if response.is_null() {
        return if answered.status >= 400 { refused(answered, &[]) } else { vec!["the status isn't described".to_owned()] };
    }
    let mut faults = took(operation, query, &asked.body);
    let kind = answered.headers.get("content-type").map_or("", |kind| kind.split(';').next().unwrap_or_default());
    let content = &response["content"];
    match (kind, &content[kind]) {
        ("", Value::Null) if content.is_null() && answered.body.is_empty() => {}
        ("", Value::Null) if content.is_null() => faults.push("a body isn't described".to_owned()),
        (_, Value::Null) if answered.status != 101 => faults.push(format!("content of type {kind:?} isn't described")),
        ("application/json", content) if answered.whole && asked.method != "HEAD" => {
            faults.extend(invalid_text(&content["schema"], answered.body));
        }
        ("text/event-stream", content) => faults.extend(stream(&content["x-events"], answered)),
        _ => {}
    }
    faults
}

/// The item of the path that fits; one without parameters first.
fn item(path: &str) -> Option<&'static Value> {
    let fits = |template: &str| {
        let (mut ours, mut theirs) = (template.split('/'), path.split('/'));
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some(one), Some(other)) if one == other || (one.starts_with('{') && !other.is_empty()) => {}
                _ => return false,
            }
        }
    };
    DOCUMENT["paths"].as_object()?.iter().find(|(template, _)| fits(template)).map(|(_, item)| item)
}

/// What is wrong with a refusal, of one of the `statuses` if any are given and the request got so far.
fn refused(answered: &Answered<'_>, statuses: &[u16]) -> Vec<String> {
    if !answered.whole {
        return Vec::new();
    }
    let mut faults = invalid_text(&json!({"$ref": "#/components/schemas/Error"}), answered.body);
    let body: Value = serde_json::from_slice(answered.body).unwrap_or_default();
    let code = body["error"].as_str().unwrap_or_default();
    let status = &DOCUMENT["components"]["schemas"]["ErrorCode"]["x-status"][code];
    if *status != answered.status {
        faults.push(format!("the status of {code} is {status}"));
    }
    if !statuses.is_empty() && !statuses.contains(&answered.status) && code != "origin_refused" {
        faults.push(format!("{statuses:?} is expected"));
    }
    let has = |header: &str| answered.headers.contains_key(header);
    if has("allow") != (answered.status == 405) {
        faults.push("405, and nothing else, says what is allowed".to_owned());
    }
    if has("retry-after") != (matches!(answered.status, 429 | 503) && code != "newer_version") {
        faults.push("what passes by itself, and nothing else, says when to come back".to_owned());
    }
    faults
}

/// What is wrong with a request that was taken.
fn took(operation: &Value, query: &str, body: &[u8]) -> Vec<String> {
    let mut faults = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let Some(parameter) = parameters.clone().find(|parameter| parameter["in"] == "query" && parameter["name"] == name) else {
            faults.push(format!("the parameter {name} isn't described"));
            continue;
        };
        let schema = &parameter["schema"];
        let value =
            if schema["type"] == "integer" { value.parse::<u64>().map_or(json!(value), |number| json!(number)) } else { json!(value) };
        faults.extend(invalid(schema, &value));
    }
    let described = &operation["requestBody"];
    if let Some(schema) = described.pointer("/content/application~1json/schema")
        && !(body.is_empty() && described["required"] == false)
    {
        faults.extend(invalid_text(schema, body).into_iter().map(|fault| format!("the request: {fault}")));
    }
    if described.is_null() && !body.is_empty() {
        faults.push("no body is described for the request".to_owned());
    }
    faults
}

/// What is wrong with frames.
fn stream(events: &Value, answered: &Answered<'_>) -> Vec<String> {
    let text = String::from_utf8_lossy(answered.body);
    let mut faults = Vec::new();
    let mut told = Vec::new();
    // What follows the last empty line hasn't come whole.
    let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    for frame in whole.split("\n\n").filter(|frame| !frame.is_empty()) {
        let (mut name, mut data) = ("", None);
        for line in frame.lines() {
            match line.split_once(':').map(|(field, value)| (field, value.trim_start())) {
                Some(("event", value)) => name = value,
                Some(("data", value)) if data.is_none() => data = Some(value),
                Some(("id", value)) => faults.extend(invalid(&json!({"$ref": "#/components/schemas/Cursor"}), &json!(value))),
                Some(("" | "retry", _)) => {}
                _ => faults.push(format!("a line of no kind: {line:?}")),
            }
        }
        let Some(data) = data else { continue };
        if events[name].is_null() {
            faults.push(format!("an event named {name:?} isn't described"));
        } else {
            faults.extend(invalid_text(&events[name], data.as_bytes()));
        }
        let kind = serde_json::from_str::<Value>(data).ok().and_then(|event| event["type"].as_str().map(str::to_owned));
        told.push(if name.is_empty() { kind.unwrap_or_default() } else { name.to_owned() });
    }
    if events.get("accepted").is_some() {
        faults.extend(submit(&told, answered.whole));
    }
    faults
}

/// A submit's stream begins with `accepted`; when it is whole, it ends with its one terminal. Turns before and after it have theirs.
fn submit(told: &[String], whole: bool) -> Option<String> {
    let ends = |last: &String| TERMINALS.contains(&last.as_str()) || last == "refusal";
    let first_is_right = told.first().is_none_or(|first| first == "accepted");
    let last_is_right = !whole || told.last().is_some_and(ends);
    let once = told.iter().filter(|name| *name == "accepted").count() <= 1;
    (!(first_is_right && last_is_right && once)).then(|| format!("a submit's stream has a beginning and an end: {told:?}"))
}

fn invalid_text(schema: &Value, text: &[u8]) -> Vec<String> {
    match serde_json::from_slice(text) {
        Ok(value) => invalid(schema, &value),
        Err(error) => vec![format!("not JSON: {error}")],
    }
}

/// What is wrong with a value.
pub fn invalid(schema: &Value, value: &Value) -> Vec<String> {
    let schema = chosen(schema, value);
    validator(&schema).iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Of several schemas that are told apart by a property the one that is meant: its faults say more.
fn chosen(schema: &Value, value: &Value) -> Value {
    let target = schema["$ref"].as_str().and_then(|target| DOCUMENT.pointer(target.trim_start_matches('#'))).unwrap_or(schema);
    let discriminator = &target["discriminator"];
    let meant = discriminator["propertyName"].as_str().and_then(|name| discriminator["mapping"][value[name].as_str()?].as_str());
    meant.map_or_else(|| schema.clone(), |meant| json!({ "$ref": meant }))
}

fn validator(schema: &Value) -> Arc<Validator> {
    static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let mut validators = VALIDATORS.lock().unwrap();
    let entry = validators.entry(schema.to_string()).or_insert_with(|| {
        let mut whole = schema.clone();
        whole["components"] = DOCUMENT["components"].clone();
        Arc::new(jsonschema::validator_for(&whole).unwrap_or_else(|error| panic!("{schema}: {error}")))
    });
    entry.clone()
}

/// An exchange of which only the bytes are known.
pub fn check_bytes(asked: &Asked, got: &[u8], whole: bool) {
    let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") else { return };
    let head = String::from_utf8_lossy(&got[..end]);
    let Some(status) = head.split(' ').nth(1).and_then(|status| status.parse().ok()) else { return };
    let headers: HashMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = &got[end + 4..];
    let body = if headers.contains_key("transfer-encoding") { dechunk(rest).0 } else { rest.to_vec() };
    check(asked, &Answered { status, headers: &headers, body: &body, whole });
}

fn answered<'a>(status: u16, headers: &'a HashMap<String, String>, body: &'a str) -> Answered<'a> {
    Answered { status, headers, body: body.as_bytes(), whole: true }
}

#[test]
fn the_check_fails_on_what_is_not_described() {
    let asked = |method: &str, path: &str, body: &str| Asked { method: method.into(), path: path.into(), body: body.into() };
    let kind = |kind: &str| HashMap::from([("content-type".to_owned(), kind.to_owned())]);
    let json = kind("application/json");
    let page = r#"{"sessions": []}"#;
    assert_eq!(faults(&asked("GET", "/v1/sessions?limit=3", ""), &answered(200, &json, page)), Vec::<String>::new());
    let cancel = r#"{"type": "client.cancel"}"#;
    assert_eq!(faults(&asked("POST", "/v1/inputs", cancel), &answered(200, &json, r#"{"cancelled": true}"#)), Vec::<String>::new());
    for (method, path, body, status, headers, answer) in [
        ("GET", "/v1/sessions", "", 200, &json, r#"{"sessions": [], "more": 1}"#),
        ("GET", "/v1/sessions", "", 200, &json, "{}"),
        ("GET", "/v1/sessions", "", 201, &json, page),
        ("GET", "/v1/sessions", "", 200, &kind("text/plain"), page),
        ("GET", "/v1/sessions?more=1", "", 200, &json, page),
        ("GET", "/v1/sessions?limit=0", "", 200, &json, page),
        ("GET", "/v1/sessions", "{}", 200, &json, page),
        ("GET", "/nowhere", "", 200, &json, "{}"),
        ("PUT", "/v1/sessions", "", 200, &json, page),
        ("GET", "/v1/sessions", "", 404, &json, r#"{"error": "session_not_found"}"#),
        ("GET", "/v1/sessions", "", 409, &json, r#"{"error": "session_not_found", "message": "no"}"#),
        ("GET", "/v1/sessions", "", 404, &json, r#"{"error": "some_code", "message": "no"}"#),
        ("GET", "/v1/sessions", "", 503, &json, r#"{"error": "shutting_down", "message": "no"}"#),
        ("PUT", "/v1/sessions", "", 405, &json, r#"{"error": "method_not_allowed", "message": "no"}"#),
        ("POST", "/v1/inputs", r#"{"type": "client.stop"}"#, 200, &json, r#"{"cancelled": true}"#),
        ("POST", "/v1/inputs", r#"{"type": "client.cancel", "run": true}"#, 200, &json, r#"{"cancelled": true}"#),
        (
            "POST",
            "/v1/inputs",
            cancel,
            200,
            &kind("text/event-stream"),
            "data: {\"type\":\"turn.completed\",\"at\":1,\"turn_id\":\"t\"}\n\n",
        ),
        ("GET", "/v1/sessions/s1/events", "", 200, &kind("text/event-stream"), "data: {\"type\":\"turn.completed\",\"at\":1}\n\n"),
        ("GET", "/v1/sessions/s1/events", "", 200, &kind("text/event-stream"), "event: other\ndata: {}\n\n"),
        (
            "GET",
            "/v1/sessions/s1/events",
            "",
            200,
            &kind("text/event-stream"),
            "id: x\ndata: {\"type\":\"session.created\",\"at\":1,\"agent_id\":\"a\"}\n\n",
        ),
        ("DELETE", "/v1/sessions/s1", "", 204, &json, "{}"),
    ] {
        let found = faults(&asked(method, path, body), &answered(status, headers, answer));
        assert!(!found.is_empty(), "{method} {path} {body} → {status} {answer}");
    }
}

/// The files of a folder of wire fixtures.
fn fixtures(folder: &str) -> Vec<(String, Value)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire").join(folder);
    let read = |path: std::path::PathBuf| {
        let value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        (path.display().to_string(), value)
    };
    std::fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap().path())).collect()
}

#[test]
fn what_the_wire_fixtures_hold_is_described() {
    let mut kinds = std::collections::BTreeSet::new();
    for (name, event) in fixtures("events") {
        let found = invalid(&json!({"$ref": "#/components/schemas/Event"}), &event);
        // What only models read is told to nobody, but for what it cost.
        let is_told = event["hidden"] != true || event["type"] == "llm.call.completed";
        assert_eq!(found.is_empty(), is_told, "{name}: {found:?}");
        kinds.extend(event["type"].as_str().map(str::to_owned));
    }
    let mapping = DOCUMENT["components"]["schemas"]["Event"]["discriminator"]["mapping"].as_object().unwrap();
    let described: std::collections::BTreeSet<_> = mapping.keys().cloned().collect();
    assert_eq!(kinds, described, "each type of event has a fixture and a schema");
    for (folder, schema) in [("messages", "Message"), ("records", "Record")] {
        for (name, value) in fixtures(folder) {
            let found = invalid(&json!({"$ref": format!("#/components/schemas/{schema}")}), &value);
            assert!(found.is_empty(), "{name}: {found:?}");
        }
    }
}
