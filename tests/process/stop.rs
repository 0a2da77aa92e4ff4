//! SIGTERM while many clients go on asking: it ends well and soon, nobody is told of a fault, nothing acknowledged is lost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::gateway::Gateway;

/// Clients that ask all the time.
const CLIENTS: usize = 16;
/// Turns that each client has at least finished before the process is asked to stop.
const TURNS_BEFORE: usize = 3;
/// Turns last a few milliseconds, so that it must end long before the graces for turns and sessions run out.
const ENDS_WITHIN: Duration = Duration::from_secs(4);

const CONFIG: &str = r#"
[server]
drain_secs = 3
[llm.paced]
kind = "script"
file = "rules.toml"
[agent.bot]
llm = "paced"
"#;

#[test]
fn sigterm_under_load_ends_soon_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), CONFIG).unwrap();
    std::fs::write(home.path().join("rules.toml"), "[[rule]]\ntext = \"one two three\"\npace = { tokens_per_sec = 300 }\n").unwrap();
    let mut gateway = Gateway::start(home.path());
    let address = gateway.address().to_owned();
    let over = AtomicBool::new(false);
    let (warm, warmed) = std::sync::mpsc::channel();
    let clients: Vec<Vec<Told>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let (address, over, warm) = (&address, &over, warm.clone());
                scope.spawn(move || client(n, address, over, &warm))
            })
            .collect();
        for _ in 0..CLIENTS {
            warmed.recv_timeout(Duration::from_secs(20)).expect("turns are finished");
        }
        let (code, took) = gateway.terminate();
        over.store(true, Ordering::Relaxed);
        assert_eq!(code, Some(0));
        assert!(took < ENDS_WITHIN, "it took {took:?}");
        clients.into_iter().map(|client| client.join().expect("the client ends")).collect()
    });

    let gateway = Gateway::start(home.path());
    for (n, told) in clients.iter().enumerate() {
        let page = gateway.until_idle(&format!("c{n}")).expect("the session is there");
        let kept: Vec<&str> = page["messages"].as_array().unwrap().iter().filter_map(|message| message["id"].as_str()).collect();
        for told in told {
            match told {
                Told::Accepted(id) => assert!(kept.contains(&id.as_str()), "c{n}: {id} was acknowledged and is lost: {page}"),
                Told::Refused(answer) => assert!(answer.starts_with("HTTP/1.1 503 "), "c{n}: {answer}"),
            }
        }
    }
}

/// What a client was told of a request.
enum Told {
    /// A run with this message started.
    Accepted(String),
    /// Something else, in full.
    Refused(String),
}

/// Sends one message after another, each below the head, until the process is gone.
fn client(n: usize, address: &str, over: &AtomicBool, warm: &std::sync::mpsc::Sender<()>) -> Vec<Told> {
    let mut told = Vec::new();
    for turn in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("u{turn}");
        let answer = ask(address, n, &id);
        let Some(answer) = answer.filter(|answer| !answer.is_empty()) else { continue };
        told.push(if answer.contains("RUN_STARTED") { Told::Accepted(id) } else { Told::Refused(answer) });
        if told.len() == TURNS_BEFORE {
            warm.send(()).expect("the test waits");
        }
    }
    told
}

/// The whole answer; nothing when there is no connection.
fn ask(address: &str, client: usize, id: &str) -> Option<String> {
    let body = json!({
        "threadId": format!("c{client}"),
        "runId": id,
        "messages": [{ "id": id, "role": "user", "content": "count" }],
        "forwardedProps": { "headwater": { "partial_view": "append" } },
    });
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(stream, "POST /agents/bot HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .ok()?;
    let mut answer = Vec::new();
    // A process that is gone cuts what it didn't take.
    let _ = stream.read_to_end(&mut answer);
    Some(String::from_utf8_lossy(&answer).into_owned())
}
