//! Who may use a server without authentication, and that it says so.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn serve(home: &std::path::Path, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["serve", "--listen", listen]).current_dir(home).env("HEADWATER__STORE__KIND", "memory").stderr(Stdio::piped());
    command
}

#[test]
fn an_address_that_others_reach_is_refused_at_start() {
    let home = tempfile::tempdir().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"] {
        let output = serve(home.path(), listen).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("can be reached from other machines"), "{listen}: {said}");
        assert!(said.contains("listen on 127.0.0.1, or say `allow_open = true` in [auth]"), "{listen}: {said}");
    }
}

#[test]
fn a_server_without_authentication_says_who_may_use_it() {
    let home = tempfile::tempdir().unwrap();
    let mut child = serve(home.path(), "127.0.0.1:0").spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let lines: Vec<String> = lines.take(2).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines[0].contains("no authentication") && lines[0].contains("no other machine can connect"), "{lines:?}");
    assert!(lines[1].contains("listening"), "{lines:?}");
}
