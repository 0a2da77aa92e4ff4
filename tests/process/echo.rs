//! A worker that repeats what it is sent, in all the ways that a worker may fail.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::canary::{CANARY, KEY, post, request};
use super::gateway::Gateway;

/// The agent that it decides for.
pub fn config(worker: SocketAddr) -> String {
    format!(
        "[agent.decided]\nllm = \"main\"\nsystem = \"You are the decided-{CANARY}-prompt.\"\n[agent.decided.worker]\nkind = \"http\"\n\
         url = \"http://{worker}/decide?key=ask-{KEY}\"\nsecret = {{ file = \"key\" }}\nattempts = 4\nwithin_secs = 20\n"
    )
}

/// Starts it. It repeats everything: as an error, as a page, as an answer that is none, as one that can't be carried out.
pub fn worker() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let count = AtomicUsize::new(0);
        for mut stream in listener.incoming().map_while(Result::ok) {
            let asked = request(&mut stream);
            let told = asked.replace("\r\n", " ");
            let whole = |status: &str, kind: &str, body: &str| {
                format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            };
            let actions = |action: Value| json!({ "actions": [action] }).to_string();
            let answer = match count.fetch_add(1, Ordering::Relaxed) {
                0 => whole("500 Oh", "text/plain", &format!("{KEY} {told}")),
                1 => whole("200 OK", &format!("text/{CANARY}"), &told),
                2 => whole("200 OK", "application/json", &actions(json!({ "type": CANARY, CANARY: KEY }))),
                3 => whole("200 OK", "application/json", &actions(json!({ "type": "llm.call", "llm": CANARY }))),
                4 => whole("200 OK", "application/json", &json!({ CANARY: KEY }).to_string()),
                _ => whole("202 Accepted", "text/plain", &told),
            };
            // Whoever asked may be gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// A turn whose worker never decides, and one that is answered by somebody else: wrongly, twice, well.
pub fn talk(gateway: &Gateway) {
    let say = |session: &str| {
        let message = json!({ "role": "user", "content": format!("my secret-{CANARY}-word, mode-plain") });
        let said = json!({ "type": "client.message", "agent_id": "decided", "message": message, "stream": false });
        let told = post(gateway, &format!("/v1/sessions/{session}/inputs"), &said.to_string());
        assert!(told.starts_with("HTTP/1.1 202"), "{told}");
    };
    let records = |session: &str| {
        gateway.ask(&format!("GET /v1/sessions/{session}/records HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
    };
    say("d-never");
    gateway.until_idle("d-never");
    let told = records("d-never");
    assert_eq!(told.matches("\"type\":\"decision.failed\"").count(), 4, "{told}");
    assert!(told.contains("the worker answered 500; it says") && !told.contains(KEY), "{told}");
    say("d-later");
    let told = records("d-later");
    let (_, rest) = told.split_once("\"decision_id\":\"").expect("a decision is asked");
    let decision = rest.split('"').next().unwrap();
    for body in [
        json!({ "session_id": "d-later", "actions": [{ "type": CANARY, CANARY: CANARY }] }),
        json!({ "session_id": "d-later", "actions": [{ "type": "llm.call", "llm": CANARY }] }),
        json!({ "session_id": "d-later", CANARY: CANARY }),
        json!({ "session_id": "d-later" }),
        json!({ "session_id": "d-later" }),
        json!({ "session_id": "nowhere" }),
    ] {
        let told = post(gateway, &format!("/v1/decisions/{decision}"), &body.to_string());
        let status = if body.as_object().is_some_and(|body| body.len() > 1) { "HTTP/1.1 422" } else { "HTTP/1.1 " };
        assert!(told.starts_with(status), "{body}: {told}");
    }
    assert!(post(gateway, &format!("/v1/decisions/{CANARY}"), &format!("{{\"{CANARY}")).starts_with("HTTP/1.1 4"));
    gateway.until_idle("d-later");
}
