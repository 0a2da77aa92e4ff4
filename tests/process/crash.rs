//! `kill -9` at many points of a turn, with the real program and the embedded store: what was acknowledged is there after the
//! restart, no half reply is, and the turn goes on.

use std::time::Duration;

use headwater::clock;

use super::gateway::Gateway;
use serde_json::Value;

/// What the model says, in full.
const REPLY: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";
/// Kills while the answer is being read, spread over its length.
const KILLS_READING: usize = 44;
/// Kills a little after the request was sent, before anything is read.
const KILLS_BEFORE: u32 = 12;

const CONFIG: &str = r#"
[server]
drain_secs = 1
[llm.slow]
kind = "script"
file = "rules.toml"
[agent.bot]
llm = "slow"
"#;

#[test]
fn what_was_acknowledged_survives_kill_9_at_any_point() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), CONFIG).unwrap();
    let rules = format!("[[rule]]\ntext = \"{REPLY}\"\npace = {{ tokens_per_sec = 300 }}\n");
    std::fs::write(home.path().join("rules.toml"), rules).unwrap();

    let mut gateway = Gateway::start(home.path());
    let whole = gateway.run("whole").read(usize::MAX);
    check("whole", &whole, &gateway);
    let kill_points = (0..KILLS_READING).map(|n| Kill::AfterBytes(n * whole.len() / (KILLS_READING - 1)));
    let kill_points = kill_points.chain((0..KILLS_BEFORE).map(|n| Kill::After(Duration::from_micros(u64::from(n) * 400))));
    for (n, kill) in kill_points.enumerate() {
        let session = format!("s{n}");
        // Held until the kill: a client that goes away stops its turn.
        let mut run = gateway.run(&session);
        let seen = match kill {
            Kill::AfterBytes(bytes) => run.read(bytes),
            Kill::After(pause) => {
                let until = clock::instant() + pause;
                while clock::instant() < until {
                    std::hint::spin_loop();
                }
                String::new()
            }
        };
        gateway.kill();
        gateway = Gateway::start(home.path());
        check(&session, &seen, &gateway);
    }
}

enum Kill {
    AfterBytes(usize),
    After(Duration),
}

/// Checks a session against what its client had `seen`.
fn check(session: &str, seen: &str, gateway: &Gateway) {
    let events: Vec<Value> = seen.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let saw = |kind: &str| events.iter().find(|event| event["type"] == kind);
    let Some(page) = gateway.until_idle(session) else {
        assert!(saw("RUN_STARTED").is_none(), "{session}: the run was acknowledged and is lost");
        return;
    };
    let tree = gateway.get(&format!("/v1/sessions/{session}/tree")).expect("a session has a tree");
    let nodes = tree["nodes"].as_array().unwrap();
    assert_eq!(nodes[0]["id"], "u1", "{session}: {tree}");
    assert_eq!(nodes.len(), 2, "{session}: the turn went on to its one reply: {tree}");
    assert_eq!(nodes[1]["message"]["content"], REPLY, "{session}");
    assert!(nodes[1].get("partial").is_none(), "{session}");
    assert_eq!(page["head_id"], nodes[1]["id"], "{session}");
    if let Some(end) = saw("TEXT_MESSAGE_END") {
        assert_eq!(nodes[1]["id"], end["messageId"], "{session}: a reply whose end was seen is a node");
        let text: String =
            events.iter().filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT").filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(text, REPLY, "{session}");
    }
}
