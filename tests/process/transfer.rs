//! `export | import`: the same session comes out, whatever is in it, and nothing comes of a file that isn't whole.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::gateway::Gateway;
use super::rules::{headwater, home};

/// A server that holds session `s`: branches, other replies, copies, a stopped reply, tools, labels, a fork's nodes.
fn talked(home: &Path) -> Gateway {
    let gateway = Gateway::start(home);
    let said = "one\n/edit two\n/regenerate\n/label \"here\"\n/goto 2\ntool\nthink\n/label end\n";
    let chat = pipe(home, &gateway, &["chat", "--session", "origin"], said.as_bytes());
    assert!(chat.status.success(), "{chat:?}");
    let (status, forked) = gateway.post("/v1/sessions/origin/fork", &json!({ "session_id": "s" }));
    assert_eq!(status, 201, "{forked}");
    let submit = |input: Value| {
        let (status, answer) = gateway.post("/v1/sessions/s/inputs", &input);
        assert_eq!(status, 202, "{answer}");
        answer
    };
    submit(json!({ "type": "client.message", "agent_id": "bot", "message": { "id": "slow", "role": "user", "content": "slow" } }));
    // Something of it must have been said before it is stopped.
    let mut events = gateway.stream("/v1/sessions/s/events?after=0");
    events.until("drip ");
    gateway.post("/v1/sessions/s/inputs", &json!({ "type": "client.cancel" }));
    let page = gateway.until_idle("s").unwrap();
    let first = page["messages"][0].clone();
    // A message of another branch in a new one is a copy.
    submit(json!({ "type": "client.messages", "agent_id": "bot", "partial_view": "root", "messages": [
        { "id": "root", "role": "user", "content": "a new beginning" }, first, { "id": "u-ü\n", "role": "user", "content": "\u{1b}[2J\r\n" },
    ] }));
    gateway.until_idle("s").unwrap();
    gateway
}

/// Runs a command with the server to its end.
fn pipe(home: &Path, gateway: &Gateway, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = headwater(home, arguments);
    command.env("HEADWATER_SERVER", gateway.address());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that ends early doesn't read all of it.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Everything that a server says of a session, under one name.
fn all_of(gateway: &Gateway, session: &str) -> Vec<Value> {
    let paths = ["", "/tree", "/tree?view=raw", "/records"].map(|part| format!("/v1/sessions/{session}{part}"));
    let named = |path: String| {
        let mut page = gateway.get(&path).unwrap();
        page["session_id"] = json!("s");
        page
    };
    paths.map(named).to_vec()
}

#[test]
fn an_export_makes_the_same_session() {
    let (home, elsewhere) = (home(), super::rules::home());
    let (here, there) = (talked(home.path()), Gateway::start(elsewhere.path()));
    let export = pipe(home.path(), &here, &["export", "s"], b"");
    assert!(export.status.success(), "{export:?}");
    let tree = all_of(&here, "s")[2].to_string();
    for sort in ["\"partial\":true", "copied_from", "tool_calls", "\"role\":\"tool\""] {
        assert!(tree.contains(sort), "{sort} is in it: {tree}");
    }

    let import = pipe(elsewhere.path(), &there, &["import"], &export.stdout);
    assert!(String::from_utf8_lossy(&import.stderr).starts_with("s is imported: "), "{import:?}");
    assert_eq!(all_of(&there, "s"), all_of(&here, "s"));
    let again = pipe(elsewhere.path(), &there, &["export", "s"], b"");
    assert_eq!(again.stdout, export.stdout, "byte by byte");
    let twice = pipe(elsewhere.path(), &there, &["import", "-"], &export.stdout);
    assert!(String::from_utf8_lossy(&twice.stderr).starts_with("s was there already, the very same: "), "{twice:?}");

    let file = home.path().join("s.jsonl");
    std::fs::write(&file, &export.stdout).unwrap();
    let named = pipe(home.path(), &here, &["import", "s.jsonl", "--session", "s2"], b"");
    assert!(named.status.success(), "{named:?}");
    assert_eq!(all_of(&here, "s2"), all_of(&here, "s"));
    let drawn = |session| pipe(home.path(), &here, &["tree", session], b"").stdout;
    assert_eq!(drawn("s"), drawn("s2"));
    // Both go on by themselves, in the same way.
    for (gateway, session) in [(&there, "s"), (&here, "s2")] {
        let chat = pipe(home.path(), gateway, &["chat", "--session", session], b"still there?\n");
        assert!(String::from_utf8_lossy(&chat.stdout).starts_with("You said: still there?."), "{chat:?}");
    }
}

#[test]
fn a_reply_that_was_being_written_is_ended() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let input = json!({ "type": "client.message", "agent_id": "bot", "message": { "id": "u", "role": "user", "content": "slow" } });
    assert_eq!(gateway.post("/v1/sessions/s/inputs", &input).0, 202);
    let queued =
        json!({ "type": "client.message", "agent_id": "bot", "queue": true, "message": { "id": "q", "role": "user", "content": "next" } });
    assert_eq!(gateway.post("/v1/sessions/s/inputs", &queued).0, 202);
    let export = pipe(home.path(), &gateway, &["export", "s"], b"");
    let import = pipe(home.path(), &gateway, &["import", "--session", "s2"], &export.stdout);
    assert!(import.status.success(), "{import:?}");
    let page = gateway.get("/v1/sessions/s2").unwrap();
    assert_eq!(
        (&page["status"], &page["queue"], page["messages"].as_array().map(Vec::len)),
        (&json!("idle"), &json!([]), Some(1)),
        "{page}"
    );
    assert_eq!(gateway.get("/v1/sessions/s").unwrap()["status"], "running");
}

#[test]
fn a_file_that_is_not_whole_is_refused() {
    let home = home();
    let gateway = talked(home.path());
    let export = pipe(home.path(), &gateway, &["export", "s"], b"").stdout;
    let lines: Vec<&[u8]> = export.split_inclusive(|&byte| byte == b'\n').collect();
    let text = String::from_utf8(export.clone()).unwrap();
    let cases = [
        (lines[..lines.len() - 1].concat(), "the file is cut: it has "),
        (export[..export.len() / 2].to_vec(), "line "),
        ([&export[..], &export[..]].concat(), "something follows the last line"),
        ([&lines[..3], &lines[2..]].concat().concat(), "line 4: record 3 is expected, and this is 2: it is there twice"),
        ([&lines[..2], &lines[3..]].concat().concat(), "line 3: record 2 is expected, and this is 3: records are missing"),
        (text.replace("a new beginning", "an old beginning").into_bytes(), "the records were changed"),
        (text.replace("\"version\":1,", "\"version\":2,").into_bytes(), "the export has version 2, and this Headwater reads 1"),
        (b"Dear diary\n".to_vec(), "line 1: "),
        (Vec::new(), "the file is empty"),
    ];
    for (file, expected) in cases {
        let import = pipe(home.path(), &gateway, &["import", "--session", "new"], &file);
        let said = String::from_utf8_lossy(&import.stderr).into_owned();
        assert!(said.starts_with("error: standard input is not imported: ") && said.contains(expected), "{expected}: {said}");
        assert_eq!((import.status.code(), gateway.get("/v1/sessions/new")), (Some(1), None), "{expected}");
    }
    let other = pipe(home.path(), &gateway, &["import", "--session", "origin"], &export);
    assert!(String::from_utf8_lossy(&other.stderr).starts_with("error: the session origin is there already"), "{other:?}");
    assert_eq!(other.status.code(), Some(1));
}

#[test]
fn files_are_not_overwritten_and_pipes_share_a_store() {
    let home = home();
    let command = |arguments: &[&str]| headwater(home.path(), arguments);
    let mut chat = command(&["chat", "--session", "s"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"hi\n").unwrap();
    assert!(chat.wait().unwrap().success());
    assert!(command(&["export", "s", "s.jsonl"]).output().unwrap().status.success());
    let again = command(&["export", "s", "s.jsonl"]).output().unwrap();
    let expected = "error: can't make the file s.jsonl\n  because: File exists (os error 17)\n";
    assert_eq!((String::from_utf8_lossy(&again.stderr).as_ref(), again.status.code()), (expected, Some(1)));
    assert!(!command(&["export", "nothing", "n.jsonl"]).output().unwrap().status.success());
    assert!(!home.path().join("n.jsonl").exists());
    // No server: each brings its own, one after the other.
    let mut export = command(&["export", "s"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let import = command(&["import", "--session", "s2"]).stdin(export.stdout.take().unwrap()).output().unwrap();
    assert!(export.wait().unwrap().success() && import.status.success(), "{import:?}");
    let drawn = |session| command(&["tree", session]).output().unwrap().stdout;
    assert_eq!(drawn("s"), drawn("s2"));
}
