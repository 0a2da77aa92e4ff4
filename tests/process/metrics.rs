//! What the real program counts, after something of every kind has happened: exactly what is documented.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use headwater::meters::{ALL, Kind};
use serde_json::json;

use super::dialled::Worker;
use super::gateway::Gateway;

const CONFIG: &str = r#"
[server]
idle_secs = 1
[llm.main]
kind = "script"
file = "rules.toml"
attempts = 1
[agent.bot]
llm = "main"
[agent.asks]
llm = "main"
[agent.asks.worker]
kind = "http"
url = "http://ADDRESS/decide"
[agent.dialled]
llm = "main"
[agent.dialled.worker]
kind = "socket"
"#;

const RULES: &str = r#"
[[rule]]
when = { starts_with = "fail" }
error = "refused"
message = "no"
[[rule]]
when = { starts_with = "paint" }
tool_calls = [{ name = "paint", arguments = { what = "it" } }]
[[rule]]
when = { starts_with = "long" }
text = "word "
repeat = 2000
pace = { delay_ms = 20 }
[[rule]]
text = "fine"
usage = { input_tokens = 12, output_tokens = 3, cached_input_tokens = 4 }
"#;

/// The readout: each name with its kind, and with the labels that it has.
fn read(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut names: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(names.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new())).is_none(), "{name} stands twice");
        } else if !line.is_empty() && !line.starts_with('#') {
            let full = line.split(['{', ' ']).next().unwrap();
            let bare = ["_bucket", "_sum", "_count"].iter().find_map(|end| full.strip_suffix(end)).filter(|bare| names.contains_key(*bare));
            let (_, labels) = names.get_mut(bare.unwrap_or(full)).unwrap_or_else(|| panic!("{full} has no type"));
            let Some((_, rest)) = line.split_once('{') else { continue };
            let (inside, _) = rest.rsplit_once('}').unwrap();
            labels.extend(inside.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned()));
        }
    }
    names
}

/// A worker that has nothing done, whatever it is asked; where it is.
fn worker() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut bytes = Vec::new();
            let mut piece = [0; 4096];
            // The body is the last of it.
            while !bytes.ends_with(b"}") {
                match connection.read(&mut piece).unwrap() {
                    0 => break,
                    count => bytes.extend_from_slice(&piece[..count]),
                }
            }
            connection.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
        }
    });
    address
}

fn value(text: &str, start: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_readout_is_what_is_documented() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), CONFIG.replace("ADDRESS", &worker())).unwrap();
    std::fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let gateway = Gateway::start(home.path());
    let decided =
        json!({ "type": "client.message", "agent_id": "asks", "stream": false, "message": { "role": "user", "content": "hello" } });
    assert_eq!(gateway.post("/v1/sessions/s5/inputs", &decided).0, 202);
    gateway.until_idle("s5");
    let _dialled = Worker::dial_for(&gateway, "dialled");
    let input = |session: &str, turn: &str, text: &str| {
        let tools = json!([{ "name": "paint", "description": "", "parameters": {} }]);
        let message = json!({ "id": format!("u-{turn}"), "role": "user", "content": text });
        let body = json!({ "type": "client.message", "agent_id": "bot", "turn_id": turn, "stream": false, "queue": true, "message": message, "client": { "tools": tools } });
        gateway.post(&format!("/v1/sessions/{session}/inputs"), &body).0
    };
    assert_eq!(input("s1", "t1", "hello"), 202);
    gateway.until_idle("s1");
    assert_eq!(input("s1", "t2", "fail"), 202);
    gateway.until_idle("s1");
    assert_eq!(input("s2", "t1", "paint"), 202);
    assert_eq!(input("s3", "t1", "long"), 202);
    assert_eq!(input("s3", "t2", "waits"), 202);
    gateway.run("s4").read(usize::MAX);
    let mut events = gateway.stream("/v1/sessions/s3/events");
    events.until("retry: ");
    let text = gateway.ask("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    let (_, text) = text.split_once("\r\n\r\n").unwrap();
    assert!(value(text, "headwater_turns_running ") >= 1 && value(text, "headwater_turns_queued ") >= 1, "{text}");
    assert!(value(text, "headwater_streams ") >= 1, "{text}");
    assert_eq!(value(text, "headwater_turns_ended_total{agent=\"bot\",outcome=\"failed\"}"), 1, "{text}");
    assert_eq!(value(text, "headwater_llm_attempts_total{llm=\"main\",outcome=\"refused\"}"), 1, "{text}");
    assert!(value(text, "headwater_llm_tokens_total{llm=\"main\",kind=\"input\"}") >= 24, "{text}");
    assert_eq!(gateway.post("/v1/sessions/s3/inputs", &json!({ "type": "client.cancel", "turn_id": "t1" })).0, 200);
    assert!(gateway.get("/v1/sessions/nowhere").is_none());
    gateway.until_idle("s3");
    let text = gateway.ask("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let (_, text) = text.split_once("\r\n\r\n").unwrap();
    let told = read(text);
    let documented: BTreeMap<String, (String, BTreeSet<String>)> = ALL
        .iter()
        .map(|meter| {
            let bucket = (meter.kind == Kind::Histogram && meter.name.starts_with("headwater_")).then_some("le");
            let labels = meter.labels.iter().copied().chain(bucket).map(str::to_owned).collect();
            (meter.name.to_owned(), (meter.kind.as_str().to_owned(), labels))
        })
        .collect();
    assert_eq!(told, documented);
    assert_eq!(value(text, "headwater_refusals_total{code=\"session_not_found\"}"), 1);
    assert_eq!(value(text, "headwater_llm_attempts_total{llm=\"main\",outcome=\"voided\"}"), 1);
    assert_eq!(value(text, "headwater_turns_waiting "), 1);
    assert_eq!(value(text, "headwater_decision_attempts_total{agent=\"asks\",outcome=\"answered\"}"), 1);
    assert_eq!(value(text, "headwater_worker_breaker_open{agent=\"asks\"}"), 0);
    assert_eq!(value(text, "headwater_workers_connected{agent=\"dialled\"}"), 1);
}

#[test]
fn metrics_may_be_off() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), "[server]\nmetrics = false\n").unwrap();
    assert_eq!(Gateway::start(home.path()).get("/metrics"), None);
}
