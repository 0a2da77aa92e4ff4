//! README's terminal session, run again: what stands there is what a person sees.

use std::path::Path;
use std::process::Command;

use super::terminal::Terminal;

/// A command with the built-in configuration, where no server is found.
fn headwater(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(arguments).current_dir(home).env_clear().env("HEADWATER__SERVER__LISTEN", "127.0.0.1:0");
    command
}

/// What a chat shows when these lines are written in it.
fn chat(home: &Path, arguments: &[&str], lines: &[&str]) -> String {
    let mut terminal = Terminal::start(&headwater(home, arguments), 80, 40);
    for line in lines {
        terminal.until_last(">");
        terminal.say(line);
        // The next prompt, not the one that the line was written at.
        terminal.until("the line", |rows| rows.contains(&format!("> {line}\n")));
    }
    let (status, rows, _) = terminal.end();
    assert!(status.success(), "{rows}");
    rows
}

#[test]
fn readmes_terminal_session_is_what_happens() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let session = readme.split("\n```console\n").nth(1).and_then(|rest| rest.split("\n```").next()).expect("README shows a session");
    let home = tempfile::tempdir().unwrap();
    let mut happened = String::new();
    for shown in session.split("$ headwater ").skip(1) {
        let (arguments, output) = shown.trim_end().split_once('\n').unwrap_or((shown.trim_end(), ""));
        let words: Vec<&str> = arguments.split(' ').collect();
        let lines: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("> ")).collect();
        let output = if words[0] == "chat" {
            chat(home.path(), &words, &lines)
        } else {
            let output = headwater(home.path(), &words).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap().trim_end().to_owned()
        };
        happened = format!("{happened}$ headwater {arguments}\n{output}\n");
    }
    assert_eq!(happened.trim_end(), session, "README shows:\n{session}\n\nthis happened:\n{happened}");
}
