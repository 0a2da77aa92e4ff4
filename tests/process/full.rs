//! A disk that takes no more, seen from outside: what can't be written is refused and nothing else, the probe says so, and with room
//! again everything that was acknowledged is there.

use std::time::Duration;

use headwater::clock;
use serde_json::json;

use super::gateway::Gateway;

/// Everything here must happen within so long.
const PATIENCE: Duration = Duration::from_secs(30);

const CONFIG: &str = "[llm.quick]\nkind = \"script\"\nfile = \"rules.toml\"\n[agent.bot]\nllm = \"quick\"\n";

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer}"))
}

fn ready(gateway: &Gateway) -> u16 {
    status(&gateway.ask("GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

/// Says something of `size` bytes; whether it was taken.
fn say(gateway: &Gateway, id: &str, size: usize) -> bool {
    let message = json!({ "id": id, "role": "user", "content": "x".repeat(size) });
    let body = json!({ "type": "client.append", "agent_id": "bot", "turn_id": format!("t-{id}"), "stream": false, "run": false,
        "messages": [message] });
    let body = body.to_string();
    let head =
        format!("POST /v1/sessions/s1/inputs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    let answer = gateway.ask(&(head + &body));
    match status(&answer) {
        200..=299 => true,
        503 | 507 => {
            assert!(answer.contains("store_unavailable") || answer.contains("store_full"), "{answer}");
            false
        }
        other => panic!("{other}: {answer}"),
    }
}

#[test]
fn a_full_disk_is_told_by_the_probe_and_costs_nothing_that_was_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), CONFIG).unwrap();
    std::fs::write(home.path().join("rules.toml"), "[[rule]]\ntext = \"Yes.\"\n").unwrap();
    let mut gateway = Gateway::start_where_files_end(home.path(), 800);
    assert_eq!(ready(&gateway), 200);
    let mut taken = Vec::new();
    for (size, most) in [(30_000, 20), (500, 100)] {
        for n in 0.. {
            assert!(n < most, "it gets full: {taken:?}");
            let id = format!("u{size}-{n}");
            if !say(&gateway, &id, size) {
                break;
            }
            taken.push(id);
        }
    }
    assert!(taken.len() > 3, "{taken:?}");
    let began = clock::instant();
    while ready(&gateway) != 503 {
        assert!(clock::instant().duration_since(began) < PATIENCE, "the probe must notice");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(gateway.get("/v1/sessions/s1").is_some(), "what is there is read");
    gateway.kill();

    let gateway = Gateway::start(home.path());
    assert_eq!(ready(&gateway), 200);
    let page = gateway.get("/v1/sessions/s1").expect("the session is there");
    let kept: Vec<&str> = page["messages"].as_array().unwrap().iter().filter_map(|message| message["id"].as_str()).collect();
    assert!(taken.iter().all(|id| kept.contains(&id.as_str())), "{taken:?}, {kept:?}");
    assert!(say(&gateway, "after", 500), "with room it goes on");
}
