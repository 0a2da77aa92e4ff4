//! Log lines hold nothing of what people, models and tools say, no system prompt and no key: at every level, in both formats, through
//! failures that repeat them, a crash, and a damaged log. Everything secret here has a word in it that nothing else has.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use headwater::clock;

use super::echo;
use super::gateway::Gateway;
use super::rules::headwater;

/// In every prompt, answer, argument, result, title and fault.
pub const CANARY: &str = "canary";
/// In the key.
pub const KEY: &str = "sk-kanarie9f8e7d6c5b4a3";
/// In a header, which says who pays.
const HEADER: &str = "payer-kanarie-5d6e7f8a";

/// How the model behind the gateway fails, or answers.
const MODES: [&str; 10] = ["key401", "part401", "text400", "page500", "limit429", "nostream", "event", "cut", "garbage", "fine"];

/// Agents that have their history summed up, how the model behind the gateway does that, and the record that says what came of it.
const SUMMARIES: [(&str, &str, bool, &str); 4] = [
    ("summing", "plain", false, "context.replaced"),
    ("failing", "page500", false, "context.kept"),
    ("foreseeing", "plain", true, "context.job.finished"),
    ("erring", "text400", true, "context.job.failed"),
];

/// What is configured of those.
fn summaries() -> String {
    let agent = |(agent, mode, background, _): (&str, &str, bool, &str)| {
        format!(
            "[agent.{agent}]\nllm = \"main\"\n[[agent.{agent}.context.strategy]]\nuse = \"summarize\"\nover_tokens = 600\nkeep_turns = 0\n\
             background = {background}\nprompt = \"sumup-{mode} what the {CANARY} said\"\n"
        )
    };
    SUMMARIES.map(agent).concat()
}

fn config(model: SocketAddr) -> String {
    let summaries = summaries();
    format!(
        "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"http://{model}/v1\"\napi_key = {{ file = \"key\" }}\nattempts = 1\n\
         [llm.paid]\nkind = \"anthropic\"\nmodel = \"m\"\nbase_url = \"http://{model}/v1\"\napi_key = {{ file = \"key\" }}\nattempts = 1\n\
         headers = {{ X-Payer = \"Payer {HEADER}\" }}\n\
         [agent.paid]\nllm = \"paid\"\n[agent.bot]\nllm = \"main\"\nsystem = \"You are the system-{CANARY}-prompt.\"\n{summaries}{}",
        echo::config(echo::worker())
    )
}

/// A model that repeats what it is sent, in all the ways that services have.
fn model() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let asked = request(&mut stream);
    let (head, body) = asked.split_once("\r\n\r\n").unwrap_or((&asked, ""));
    let key = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
    let payer = head.lines().find_map(|line| line.strip_prefix("x-payer: ")).unwrap_or_default();
    let last = body.rsplit("mode-").next();
    let last = body.split("sumup-").nth(1).or(last).and_then(|rest| rest.split(['"', ' ', '\\']).next()).unwrap_or_default();
    let error = |message: String| json!({ "error": { "message": message, "type": "invalid_request_error" } }).to_string();
    let whole = |status: &str, kind: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let told = format!("you sent {}", body.chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect::<String>());
    let stream_of = |events: &str| format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}");
    let text = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"the {CANARY} sings\"}}}}]}}\n\n");
    let answer = match last {
        "key401" => whole("401 Unauthorized", "application/json", &error(format!("wrong key {key}; {told}"))),
        "payer403" => whole("403 Forbidden", "application/json", &error(format!("{payer} may not, nor {}; {told}", &HEADER[..17]))),
        "part401" => {
            whole("401 Unauthorized", "application/json", &error(format!("Incorrect API key provided: sk-kanarie9f8*****b4a3. {told}")))
        }
        "text400" => whole("400 Bad Request", "text/plain", &format!("{key} {told}")),
        "page500" => whole("500 Oh", "text/html", &format!("<html>{told}</html>")),
        "limit429" => whole("429 Slow", "application/json", &error(told)),
        "nostream" => whole("200 OK", &format!("text/{CANARY}"), &told),
        "event" => stream_of(&format!("{text}data: {}\n\n", error(told))),
        "cut" => stream_of(&text),
        "plain" => {
            let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
            stream_of(&format!("{text}{end}"))
        }
        "garbage" => format!("{key} {body}\r\n\r\n"),
        _ => {
            let call = format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c1\",\"function\":{{\"name\":\"paint\",\"arguments\":\"{{\\\"what\\\":\\\"{CANARY}\\\"}}\"}}}}]}}}}]}}\n\n"
            );
            let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
            stream_of(&format!("{text}{call}{end}"))
        }
    };
    // Whoever asked may be gone.
    let _ = stream.write_all(answer.as_bytes());
}

pub fn request(stream: &mut TcpStream) -> String {
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&got).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|length| length.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => got.extend_from_slice(&buffer[..read]),
            Ok(0) | Err(_) => return text,
        }
    }
}

fn run_input(session: &str, mode: &str) -> Value {
    let tools = json!([{ "name": "paint", "description": format!("a {CANARY} tool"), "parameters": { "title": CANARY } }]);
    let text = format!("my secret-{CANARY}-word, mode-{mode}");
    json!({ "threadId": session, "runId": format!("{session}-r"), "messages": [{ "id": "u1", "role": "user", "content": text }],
            "tools": tools, "context": [{ "description": CANARY, "value": CANARY }], "state": { "x": CANARY }, "forwardedProps": { "y": CANARY } })
}

pub fn post(gateway: &Gateway, path: &str, body: &str) -> String {
    gateway.ask(&format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

/// Everything that a client can do, right and wrong.
fn talk(gateway: &Gateway) {
    for mode in MODES {
        let seen = post(gateway, "/agents/bot", &run_input(&format!("s-{mode}"), mode).to_string());
        assert!(seen.contains("RUN_ERROR") != (mode == "fine"), "{mode}: {seen}");
        // What a service says of its failure people may read, but no key.
        assert!(!seen.to_lowercase().contains("kanarie") && !seen.contains("b4a3"), "{mode}: {seen}");
    }
    let seen = post(gateway, "/agents/paid", &run_input("s-payer403", "payer403").to_string());
    assert!(seen.contains("may not") && !seen.to_lowercase().contains("kanarie"), "{seen}");
    let page = gateway.get("/v1/sessions/s-fine").expect("it is there");
    let call =
        page["open_calls"][0].as_str().map_or_else(|| page["open_calls"][0]["id"].as_str().unwrap_or("c1").to_owned(), str::to_owned);
    for (path, body) in [
        (
            "/v1/sessions/s-fine/inputs",
            json!({ "type": "tool.result", "tool_call_id": call, "content": format!("{CANARY} mode-cut"), "stream": false }).to_string(),
        ),
        ("/v1/sessions/s-fine/inputs", json!({ "type": CANARY }).to_string()),
        ("/v1/sessions/s-fine/head", json!({ "label": CANARY }).to_string()),
        ("/v1/sessions/s-fine/head", json!({ "to_label": format!("{CANARY}!") }).to_string()),
        ("/v1/sessions/s-fine/records", format!("{{\"format\":\"{CANARY}\"}}\n")),
        ("/agents/bot", format!("{{\"threadId\": \"{CANARY}")),
        ("/agents/bot", format!("{{\"threadId\": \"s9\", \"runId\": \"r\", \"messages\": [{{\"role\": \"{CANARY}\"}}]}}")),
        ("/agents/bot/connect", format!("{{\"threadId\": [\"{CANARY}\"]}}")),
        ("/agents/bot", "[".repeat(10_000) + CANARY),
    ] {
        assert!(post(gateway, path, &body).starts_with("HTTP/1.1 "), "{path}");
    }
    let patch = json!({ "title": CANARY }).to_string();
    let head =
        format!("PATCH /v1/sessions/s-fine HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", patch.len());
    assert!(gateway.ask(&(head + &patch)).contains("200 OK"));
    for path in [format!("/v1/sessions/s-fine/events?after={CANARY}"), format!("/agents/{CANARY}"), format!("/{CANARY}?{CANARY}")] {
        let answer = gateway.ask(&format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\nx-{CANARY}: {CANARY}\r\nconnection: close\r\n\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    gateway.ask(&format!("GET /{CANARY} HTTP/9.9\r\n{CANARY}\r\n\r\n"));
    compact(gateway);
    echo::talk(gateway);
    let metrics = gateway.ask("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(metrics.contains("headwater_refusals_total") && !metrics.contains(CANARY), "{metrics}");
}

/// Long talks that are summed up, at once and in the background, well and badly.
fn compact(gateway: &Gateway) {
    let words = format!("a long secret-{CANARY}-word ").repeat(100);
    for (agent, _, _, comes) in SUMMARIES {
        let deadline = clock::instant() + Duration::from_secs(30);
        let get = |what: &str| format!("GET /v1/sessions/c-{agent}/{what} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut session = "/v1/inputs";
        let path = format!("/v1/sessions/c-{agent}/inputs");
        loop {
            let message = json!({ "role": "user", "content": format!("{words} mode-plain") });
            let said = json!({ "type": "client.message", "session_id": format!("c-{agent}"), "agent_id": agent, "message": message });
            let told = post(gateway, std::mem::replace(&mut session, &path), &said.to_string());
            assert!(told.starts_with("HTTP/1.1 202"), "{told}");
            gateway.until_idle(&format!("c-{agent}"));
            if gateway.ask(&get("records")).contains(&format!("\"type\":\"{comes}\"")) {
                break;
            }
            assert!(clock::instant() < deadline, "no {comes}: {}", gateway.ask(&get("records")));
        }
    }
}

/// The same over sockets.
async fn talk_on_sockets(gateway: &Gateway) {
    let (mut socket, _) = connect_async(format!("ws://{}/agents/bot", gateway.address())).await.unwrap();
    let runs = ["key401", "cut", "fine"].map(|mode| run_input(&format!("w-{mode}"), mode).to_string());
    for frame in runs.into_iter().chain([format!("{{\"{CANARY}"), format!("{{\"type\": \"{CANARY}\"}}")]) {
        socket.send(Message::text(frame)).await.unwrap();
        while let Some(Ok(came)) = socket.next().await {
            if came.to_text().is_ok_and(|text| text.contains("RUN_ERROR") || text.contains("RUN_FINISHED")) {
                break;
            }
        }
    }
    socket.send(Message::binary(CANARY.as_bytes().to_vec())).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
}

/// Damages a record of a session so that what is wrong with it is what it says.
fn damage(home: &std::path::Path) {
    let database = std::fs::read_dir(home.join("headwater-data")).unwrap().map_while(Result::ok).map(|file| file.path());
    let database = database.into_iter().find(|path| path.extension().is_some_and(|end| end == "db" || end == "sqlite" || end == "sqlite3"));
    let connection = rusqlite::Connection::open(database.expect("a database")).unwrap();
    let bad =
        format!("{{\"v\":1,\"type\":\"message.new\",\"at\":\"{CANARY}\",\"must_understand\":true,\"data\":{{\"id\":[\"{CANARY}\"]}}}}");
    let changed = connection
        .execute(
            "UPDATE records SET bytes = ?1 WHERE seq = 2 AND session IN (SELECT id FROM sessions WHERE session = 's-cut')",
            [bad.as_bytes()],
        )
        .unwrap();
    assert_eq!(changed, 1);
}

fn tell(format: &str, level: &str) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), config(model())).unwrap();
    std::fs::write(home.path().join("key"), KEY).unwrap();
    let environment = [("HEADWATER__LOG__FORMAT", format), ("HEADWATER__LOG__LEVEL", level), ("RUST_LOG", "trace")];
    let mut gateway = Gateway::start_with(home.path(), "127.0.0.1:0", &environment);
    talk(&gateway);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(talk_on_sockets(&gateway));
    // A turn that waits for its model when the process dies.
    let mut run = gateway.run("s-killed");
    run.until("RUN_STARTED");
    let mut lines = gateway.kill_and_tell();
    damage(home.path());
    gateway = Gateway::start_with(home.path(), "127.0.0.1:0", &environment);
    let answer = gateway.ask("GET /v1/sessions/s-cut HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(answer.contains("session_corrupt"), "{answer}");
    lines.extend(gateway.kill_and_tell());
    lines
}

#[track_caller]
fn assert_silent(lines: &[String]) {
    for line in lines {
        let lower = line.to_lowercase();
        assert!(!lower.contains(CANARY) && !lower.contains("kanarie"), "a log line holds what nobody may read: {line}");
    }
}

#[test]
fn no_log_line_holds_what_was_said_or_a_key() {
    for format in ["text", "json"] {
        let lines = tell(format, "trace");
        assert_silent(&lines);
        let told = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        assert!(told("a model call failed") >= MODES.len() - 1, "{lines:#?}");
        for line in [
            "the provider answered 401",
            "request ended",
            "run ended",
            "socket ended",
            "turn ended",
            "a model call ended",
            "damaged",
            "a background summary was written",
            "a background summary failed",
            "a worker gave no answer that can be carried out",
            "an answer that came by itself isn't carried out",
            "a worker decided by itself",
        ] {
            assert!(told(line) > 0, "no line has {line:?}: {lines:#?}");
        }
    }
}

#[test]
fn commands_tell_no_secrets_beside_what_they_show() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), config(model())).unwrap();
    std::fs::write(home.path().join("key"), KEY).unwrap();
    let mut command = headwater(home.path(), &["chat", "--agent", "bot"]);
    command.env("RUST_LOG", "trace").env("HEADWATER__LOG__LEVEL", "trace");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "secret {CANARY}, mode-part401").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("error: the reply failed (llm_refused)"), "{said}");
    assert!(!said.contains("kanarie") && said.lines().count() == 1, "what the provider said, and no log line: {said}");
}
