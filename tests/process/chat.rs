//! `headwater chat` on a real terminal: what a person sees, whatever they press and whatever happens to the server.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::gateway::Gateway;
use super::rules::{headwater, home};
use super::terminal::Terminal;

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";
const LEFT: &str = "\x1b[D";

/// A chat in session `s` on a terminal of 60 columns, once it asks.
fn chat(home: &Path, more: &[&str]) -> Terminal {
    let arguments = [&["chat", "--session", "s"], more].concat();
    on_terminal(&headwater(home, &arguments))
}

fn on_terminal(command: &Command) -> Terminal {
    let terminal = Terminal::start(command, 60, 20);
    terminal.until_last(">");
    terminal
}

/// A chat with a server.
fn with_server(home: &Path, gateway: &Gateway) -> Terminal {
    chat(home, &["--server", gateway.address()])
}

#[test]
fn a_person_talks_edits_and_branches() {
    let home = home();
    let mut terminal = chat(home.path(), &[]);
    terminal.say("hi");
    terminal.until_shown("You said: hi. I have read 1.\n>");
    terminal.say("/edit hello");
    terminal.until_shown("You said: hello. I have read 1.\n>");
    terminal.say("/regenerate");
    terminal.until("the second reply", |rows| rows.matches("You said: hello. I have read 1.").count() == 2);
    terminal.until_last(">");
    terminal.say("/branch 2");
    terminal.until_shown("This is after 2 assistant: You said: hi. I have read 1.\n>");
    terminal.say("more");
    terminal.until_shown("You said: more. I have read 3.\n>");
    terminal.say("/edit 1 earlier");
    terminal.until_shown("You said: earlier. I have read 1.\n>");
    terminal.say("/edit 2 no");
    terminal.until_shown("Only your own messages can be edited; 2 is assistant: You\nsaid: hi. I have read 1.\n>");
    terminal.say("/goto nowhere");
    terminal.until_shown("Nothing here is called \"nowhere\"; /tree shows the numbers.\n>");
    terminal.say("/fork other");
    terminal.until_shown("(this is session other now; s stays as it was)\n>");
    terminal.say("there");
    terminal.until_shown("You said: there. I have read 3.\n>");
    terminal.press(CTRL_D);
    let (status, rows, _) = terminal.end();
    assert_eq!(status.code(), Some(0), "{rows}");
    assert!(rows.ends_with("\n(headwater chat --session other goes on)"), "{rows}");

    let mut terminal = chat(home.path(), &[]);
    let rows = terminal.until_last(">");
    let expected = "(session s in this terminal; /help lists the commands)\n> earlier\nYou said: earlier. I have read 1.\n>";
    assert_eq!(rows, expected);
    terminal.say("/quit");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn what_is_typed_during_a_reply_waits_for_it() {
    let home = home();
    let mut terminal = chat(home.path(), &[]);
    terminal.say("slow");
    terminal.until_shown("drip drip");
    terminal.say("second");
    terminal.until_last("(replying, 1 waiting) >");
    terminal.say("/queue third");
    terminal.until_last("(replying, 2 waiting) >");
    terminal.say("/regenerate");
    terminal.until_shown("a reply is being written; Ctrl-C or /cancel stops it first\n");
    terminal.say("/queue");
    terminal.until_shown("1  second\n2  third\n");
    terminal.press("half a li");
    terminal.until_last("(replying, 2 waiting) > half a li");
    terminal.press(CTRL_C);
    terminal.until_last("(replying, 2 waiting) >");
    terminal.press(CTRL_C);
    let rows = terminal.until_shown("You said: third. ");
    assert!(
        rows.contains("\n(stopped; what was said is kept)\n> second\nYou said: second. I have read 3.\n> third\nYou said: third. "),
        "{rows}"
    );
    terminal.until_last(">");
    terminal.press(CTRL_C);
    terminal.until_shown("(Ctrl-C again leaves)\n>");
    terminal.press(CTRL_C);
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let mut terminal = with_server(home.path(), &gateway);
    terminal.say("slow");
    terminal.until_shown("drip drip");
    terminal.press(&CTRL_C.repeat(2));
    let (status, rows, _) = terminal.end();
    assert_eq!(status.code(), Some(0), "{rows}");
    let page = gateway.until_idle("s").unwrap();
    assert!(page["messages"][1]["content"].to_string().len() < 400 * "drip ".len(), "it was stopped: {page}");
}

#[test]
fn leaving_stops_what_only_this_chat_runs() {
    let home = home();
    let mut terminal = chat(home.path(), &[]);
    terminal.say("slow");
    terminal.until_shown("drip drip");
    terminal.say("waits");
    terminal.until_last("(replying, 1 waiting) >");
    terminal.press(CTRL_D);
    let (status, rows, _) = terminal.end();
    assert_eq!(status.code(), Some(0), "{rows}");
    let drawn = headwater(home.path(), &["tree", "s"]).output().unwrap().stdout;
    let drawn = String::from_utf8(drawn).unwrap();
    assert!(drawn.contains(" assistant (partial): drip drip"), "{drawn}");

    // A server of its own goes on without it.
    let gateway = Gateway::start(home.path());
    let mut terminal = Terminal::start(&headwater(home.path(), &["chat", "--session", "s2", "--server", gateway.address()]), 60, 20);
    terminal.until_last(">");
    terminal.say("slow");
    terminal.until_shown("drip drip");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0.code(), Some(0));
    assert_eq!(gateway.get("/v1/sessions/s2").unwrap()["status"], "running");
}

#[test]
fn lines_are_edited_and_come_back() {
    let home = home();
    let mut terminal = chat(home.path(), &[]);
    terminal.say(&format!("wrold{}\x7f\x7for", LEFT.repeat(2)));
    terminal.until_shown("You said: world. I have read 1.\n>");
    terminal.press(UP);
    terminal.until_last("> world");
    terminal.press("\x17\x1b[200~two\rlines\x1b[201~");
    terminal.until_last("> two\u{21b5}lines");
    terminal.press("\r");
    terminal.until_shown("> two\nlines\nYou said: two\nlines. I have read 3.\n>");
    // Nobody brings an orphan back, so the kernel doesn't stop it; the line must be there all the same.
    terminal.press("kept\x1a");
    terminal.press("!");
    terminal.until_last("> kept!");
    terminal.press("\x0c");
    terminal.until("an empty screen", |rows| rows.lines().last() == Some("> kept!"));
    terminal.press(&format!("{CTRL_C}{CTRL_D}"));
    assert_eq!(terminal.end().0.code(), Some(0));
    let mut terminal = chat(home.path(), &[]);
    terminal.press(UP);
    terminal.until_last("> two\u{21b5}lines");
    terminal.press(&format!("{CTRL_C}{CTRL_D}"));
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn thoughts_tools_and_failures_are_told_apart() {
    let home = home();
    let mut terminal = chat(home.path(), &[]);
    terminal.say("think");
    terminal.until_shown("A deep thought.\nA short answer.\n>");
    terminal.say("tool");
    let rows = terminal.until_shown("The tool said: ");
    assert!(rows.contains("I look it up.\n[calls look_up {\"what\":\"rivers\"}]\n[look_up failed: "), "{rows}");
    terminal.until_last(">");
    terminal.say("fail");
    terminal.until_shown("I was about to\nthe reply failed (llm_refused): The model refuses.\n>");
    terminal.press(CTRL_D);
    let (_, _, bytes) = terminal.end();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\x1b[2mA deep thought.\x1b[0m") && text.contains("\x1b[31mthe reply failed"), "{text:?}");
}

#[test]
fn without_colors_there_are_none() {
    let home = home();
    let mut command = headwater(home.path(), &["chat", "--session", "s"]);
    let mut terminal = on_terminal(command.env("NO_COLOR", "1"));
    terminal.say("think");
    terminal.until_shown("(thinks) A deep thought.\nA short answer.\n>");
    terminal.say("fail");
    terminal.until_shown("The model refuses.\n>");
    terminal.press(CTRL_D);
    let (_, _, bytes) = terminal.end();
    let text = String::from_utf8(bytes).unwrap();
    let colors =
        text.split("\x1b[").skip(1).filter(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'));
    assert_eq!(colors.count(), 0, "{text:?}");
}

#[test]
fn a_dumb_terminal_gets_plain_text() {
    let home = home();
    let mut command = headwater(home.path(), &["chat", "--session", "s"]);
    let mut terminal = on_terminal(command.env("TERM", "dumb"));
    terminal.press("think\n");
    terminal.until_shown("> think\n(thinks) A deep thought.\nA short answer.\n>");
    terminal.press("slow\n");
    terminal.until_shown("drip drip");
    terminal.press("next\n");
    terminal.until_shown("next\n(this waits for the reply)\n");
    terminal.press(CTRL_C);
    terminal.until_shown("You said: next. I have read 5.\n");
    terminal.press(CTRL_D);
    let (status, rows, bytes) = terminal.end();
    assert_eq!(status.code(), Some(0), "{rows}");
    assert!(!bytes.contains(&b'\x1b'), "{rows}");
}

#[test]
fn nothing_of_the_model_is_obeyed() {
    let home = home();
    let mut terminal = chat(home.path(), &[]);
    terminal.say("evil");
    terminal.until_shown("\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\u{9b}31mgone\\u{d}\n>");
    terminal.say("/tree");
    terminal.until_shown("2 assistant: \\u{1b}[2J\\u{1b}]0;owned\\u{7}\\u{9b}31mgone");
    terminal.press(CTRL_D);
    let (_, _, bytes) = terminal.end();
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains("\x1b[2J") && !text.contains("\x1b]") && !text.contains(['\x07', '\u{9b}']), "{text:?}");
}

#[test]
fn narrow_and_changing_terminals_are_fine() {
    let home = home();
    let mut terminal = Terminal::start(&headwater(home.path(), &["chat", "--session", "s"]), 16, 12);
    terminal.until_last(">");
    terminal.say("a narrow place");
    terminal.until_shown("> a narrow\nplace\nYou said: a\nnarrow place. I\nhave read 1.\n>");
    terminal.resize(50, 12);
    // In one row only once the program knows of the width.
    terminal.press("a wide place now");
    terminal.until_last("> a wide place now");
    terminal.press("\r");
    terminal.until_shown("> a wide place now\nYou said: a wide place now. I have read 3.\n>");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let home = home();
    let gateway = Gateway::start(home.path());
    for signal in ["-TERM", "-HUP"] {
        let mut terminal = with_server(home.path(), &gateway);
        assert!(terminal.is_raw());
        terminal.press("unsent");
        terminal.until_last("> unsent");
        Command::new("kill").args([signal, &terminal.pid().to_string()]).status().unwrap();
        let (status, rows, _) = terminal.end();
        assert_eq!(status.code(), Some(1), "{rows}");
    }
}

#[test]
fn a_server_that_is_killed_is_waited_for() {
    let home = home();
    let mut gateway = Gateway::start(home.path());
    let mut terminal = with_server(home.path(), &gateway);
    terminal.say("slow");
    terminal.until_shown("drip drip");
    gateway.kill();
    terminal.until_shown("the connection is lost (");
    terminal.until_last("(no connection) >");
    terminal.say("are you there?");
    let gateway = Gateway::start_at(home.path(), gateway.address());
    let rows = terminal.until_shown("(connected again)");
    assert!(rows.contains("; trying to come back\n"), "{rows}");
    terminal.until_shown("(the server was lost and is back; the reply goes on)\n");
    terminal.until_last("(replying, 1 waiting) >");
    terminal.press(CTRL_C);
    let rows = terminal.until_shown("You said: are you there?. I have read 3.\n>");
    assert!(rows.contains("\n(stopped; what was said is kept)\n> are you there?\n"), "{rows}");
    let page = gateway.until_idle("s").unwrap();
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(4), "nothing is lost or twice: {page}");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn what_others_say_is_shown_too() {
    let home = home();
    let gateway = Gateway::start(home.path());
    let submit = |input| assert_eq!(gateway.post("/v1/sessions/s/inputs", &input).0, 202);
    let message = |id: &str, text: &str| json!({ "id": id, "role": "user", "content": text });
    submit(json!({ "type": "client.message", "agent_id": "bot", "message": message("u1", "slow") }));
    // It is joined in the middle of a reply, and shows it from its start.
    let mut terminal = Terminal::start(&headwater(home.path(), &["chat", "--session", "s", "--server", gateway.address()]), 60, 20);
    terminal.until_shown("commands)\n> slow\ndrip drip");
    assert_eq!(gateway.post("/v1/sessions/s/inputs", &json!({ "type": "client.cancel" })), (200, json!({ "cancelled": true })));
    terminal.until_shown("(stopped; what was said is kept)\n>");
    submit(json!({ "type": "client.message", "agent_id": "bot", "message": message("u2", "from a phone") }));
    terminal.until_shown("(from somewhere else)\n> from a phone\nYou said: from a phone. I have read 3.\n>");
    // A tool of another app's: the reply waits for it, and a message goes on without it.
    let tools = json!([{ "name": "look_up", "description": "", "parameters": { "type": "object" } }]);
    submit(json!({ "type": "client.message", "agent_id": "bot", "message": message("u3", "tool"), "client": { "tools": tools } }));
    terminal.until_shown("(the reply waits for look_up, which another app carries\nout;");
    terminal.until_last("(waits for a tool) >");
    terminal.say("never mind");
    terminal.until_shown("(stopped: the conversation goes on without it)\n");
    terminal.until_last(">");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0.code(), Some(0));
}
