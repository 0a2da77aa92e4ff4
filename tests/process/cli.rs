//! Commands in pipes, against the real program: what goes to which stream, and how they end.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use super::gateway::Gateway;
use super::rules::{headwater, home};

/// Runs a command to its end with `input`.
fn run(home: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = headwater(home, arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that ends early doesn't read all of it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Standard output, standard error, exit code.
fn told(output: &Output) -> (&str, &str, Option<i32>) {
    (std::str::from_utf8(&output.stdout).unwrap(), std::str::from_utf8(&output.stderr).unwrap(), output.status.code())
}

#[test]
fn each_line_of_a_pipe_waits_for_the_reply_before() {
    let home = home();
    let talk = run(home.path(), &["chat"], "hi\nmore\r\n\nlast without end");
    let expected = "You said: hi. I have read 1.\nYou said: more. I have read 3.\nYou said: last without end. I have read 5.\n";
    assert_eq!(told(&talk), (expected, "", Some(0)));
}

#[test]
fn only_replies_go_to_standard_output() {
    let home = home();
    let talk = run(home.path(), &["chat"], "think\ntool\nevil\n");
    let (replies, asides, code) = told(&talk);
    let expected = "A short answer.\nI look it up.\nThe tool said: ";
    assert!(replies.starts_with(expected), "{replies}");
    assert!(replies.ends_with("\n\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\u{9b}31mgone\\u{d}\n"), "{replies}");
    assert!(!replies.contains('\x1b') && !asides.contains('\x1b'), "nothing that a terminal obeys");
    assert!(asides.starts_with("(thinks) A deep thought.\n[calls look_up {\"what\":\"rivers\"}]\n[look_up failed: "), "{asides}");
    assert_eq!(code, Some(0));
}

#[test]
fn a_failure_ends_a_pipe() {
    let home = home();
    let talk = run(home.path(), &["chat"], "hi\nfail now\nnever said\n");
    let expected =
        ("You said: hi. I have read 1.\nI was about to \n", "error: the reply failed (llm_refused): The model refuses.\n", Some(1));
    assert_eq!(told(&talk), expected);
    let talk = run(home.path(), &["chat"], "/nonsense\nnever said\n");
    let expected = "error: there is no /nonsense; /help lists what there is, and a message that begins with / is written //nonsense\n";
    assert_eq!(told(&talk), ("", expected, Some(1)));
    let talk = run(home.path(), &["chat", "--agent", "nobody"], "hi\n");
    assert_eq!(told(&talk), ("", "error: no agent \"nobody\" is configured; there is bot\n", Some(1)));
}

#[test]
fn commands_work_in_pipes() {
    let home = home();
    let talk = run(home.path(), &["chat", "--session", "s"], "one\n/edit two\n/regenerate\n/tree\n/goto 2\n/label mark\nnext\n/branch\n");
    let (replies, asides, code) = told(&talk);
    let said = "You said: one. I have read 1.\nYou said: two. I have read 1.\nYou said: two. I have read 1.\n";
    let drawn = "├─ 1 user: one\n│  2 assistant: You said: one. I have read 1.\n└─ 3 user: two\n   \
         ├─ 4 assistant: You said: two. I have read 1.\n   └─ 5 assistant: You said: two. I have read 1.  <- head\n";
    let branches = "At the start:\n* 1 user: one\n  3 user: two\n";
    assert_eq!(replies, format!("{said}{drawn}You said: next. I have read 3.\n{branches}"));
    assert_eq!(
        asides,
        "This is after 2 assistant: You said: one. I have read 1.\nThis place is \"mark\" now; /goto mark comes back to it.\n"
    );
    assert_eq!(code, Some(0));
    let tree = run(home.path(), &["tree", "s"], "");
    let (drawn, _, code) = told(&tree);
    assert_eq!((drawn.lines().count(), code), (7, Some(0)), "{drawn}");
    assert!(drawn.contains("  <- \"mark\"\n"), "{drawn}");
}

#[test]
fn a_running_server_is_used() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let server = format!("http://{}", gateway.address());
    let talk = run(home.path(), &["chat", "--server", &server, "--session", "s/ä ?"], "hi\n");
    assert_eq!(told(&talk), ("You said: hi. I have read 1.\n", "", Some(0)));
    let page = gateway.until_idle("s%2F%C3%A4%20%3F").unwrap();
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(2));
    let mut command = headwater(home.path(), &["tree", "s/ä ?"]);
    let tree = command.env("HEADWATER_SERVER", gateway.address()).output().unwrap();
    assert_eq!((tree.status.code(), tree.stdout.is_empty()), (Some(0), false));
    let raw = run(home.path(), &["tree", "--raw", "--server", &server, "s/ä ?"], "");
    assert_eq!(told(&raw).0, told(&tree).0, "nothing is hidden here");
    // The configuration says where it listens.
    std::fs::write(home.path().join("other.toml"), format!("[server]\nlisten = \"{}\"\n", gateway.address())).unwrap();
    let found = run(home.path(), &["tree", "--config", "other.toml", "s/ä ?"], "");
    assert_eq!(told(&found).0, told(&tree).0);
}

#[test]
fn what_is_wrong_says_where_and_what_instead() {
    let home = home();
    let empty = tempfile::tempdir().unwrap();
    let tree = headwater(empty.path(), &["tree", "s", "--config", "none.toml"]).output().unwrap();
    assert!(told(&tree).1.starts_with("error: can't read the configuration file none.toml\n"), "{:?}", told(&tree));
    let mut command = headwater(empty.path(), &["export", "s"]);
    let nothing = command.env_remove("HEADWATER_CONFIG").env("HEADWATER__SERVER__LISTEN", "127.0.0.1:0").output().unwrap();
    let expected = "error: no server runs at http://127.0.0.1:0, and there is no store at headwater-data; name the server with --server, or the \
         configuration with --config\n";
    assert_eq!(told(&nothing), ("", expected, Some(1)));
    assert!(!empty.path().join("headwater-data").exists(), "looking makes nothing");
    let gateway = Gateway::start(home.path());
    let chat = run(home.path(), &["chat"], "hi\n");
    let (_, said, code) = told(&chat);
    assert!(said.starts_with(
        "error: no server runs at 127.0.0.1:0, and this command can't be its own; if one runs elsewhere, name it with --server\n"
    ));
    assert!(said.contains(&format!("in use by another process (process {})", gateway.pid())), "{said}");
    assert_eq!(code, Some(1));
    let server = format!("http://{}", gateway.address());
    let unknown = run(home.path(), &["tree", "--server", &server, "s"], "");
    assert_eq!(told(&unknown), ("", "error: there is no session s\n", Some(1)));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = run(home.path(), &["tree", "s", "--server", &closed.to_string()], "");
    let expected = format!(
        "error: can't reach the server at http://{closed}; is it running? (`headwater serve` starts one)\n  because: Connection refused (os error 111)\n"
    );
    assert_eq!(told(&unreachable), ("", expected.as_str(), Some(1)));
    let usage = run(home.path(), &["tree"], "");
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn another_program_is_not_taken_for_a_server() {
    let home = home();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 512];
        let _ = std::io::Read::read(&mut stream, &mut request);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\n{\"status\":\"ok\"}").unwrap();
    });
    let tree = run(home.path(), &["tree", "s", "--server", &address], "");
    server.join().unwrap();
    let expected = format!("error: what answers at http://{address} isn't Headwater: GET /healthz is answered with 200\n");
    assert_eq!(told(&tree), ("", expected.as_str(), Some(1)));
}

#[test]
fn a_server_that_is_lost_ends_a_pipe() {
    let home = home();
    let mut gateway = Gateway::start(home.path());
    let mut command = headwater(home.path(), &["chat", "--session", "s", "--server", gateway.address()]);
    let mut chat = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    chat.stdin.take().unwrap().write_all(b"slow\nnever said\n").unwrap();
    let is_running = |page: &Value| page["status"] == "running";
    while !gateway.get("/v1/sessions/s").as_ref().is_some_and(is_running) {
        std::thread::yield_now();
    }
    gateway.kill();
    let output = chat.wait_with_output().unwrap();
    let (replies, said, code) = told(&output);
    assert!(replies.is_empty() || replies.starts_with("drip "), "{replies}");
    // The turn may run before its stream has begun.
    assert!(said.starts_with("error: the connection is lost (") || said.starts_with("error: can't reach"), "{said}");
    assert!(said.contains("error: can't reach the server at http://"), "{said}");
    assert_eq!(code, Some(1));
}
