//! The configuration and the script model of the commands' tests.

use std::path::Path;
use std::process::Command;

/// Listens on any port, so that commands find no server by themselves.
const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
[llm.script]
kind = "script"
file = "rules.toml"
[agent.bot]
llm = "script"
"#;

const RULES: &str = r#"
[[rule]]
when = { tool_result = true }
text = "The tool said: {result}"

[[rule]]
when = { starts_with = "slow" }
text = "drip "
repeat = 400
pace = { delay_ms = 20 }

[[rule]]
when = { starts_with = "think" }
reasoning = "A deep thought."
text = "A short answer."

[[rule]]
when = { starts_with = "tool" }
text = "I look it up."
tool_calls = [{ name = "look_up", arguments = { what = "rivers" } }]

[[rule]]
when = { starts_with = "fail" }
text = "I was about to "
error = "refused"
message = "The model refuses."

[[rule]]
when = { starts_with = "evil" }
text = "\u001b[2J\u001b]0;owned\u0007\u009b31mgone\r"

[[rule]]
text = "You said: {last}. I have read {count}."
"#;

/// A folder with the configuration; commands run there.
pub fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("headwater.toml"), CONFIG).unwrap();
    std::fs::write(home.path().join("rules.toml"), RULES).unwrap();
    home
}

/// The program with `arguments`, in `home`, with nothing of the environment that it could listen to.
pub fn headwater(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(arguments).current_dir(home).env_clear().env("HEADWATER_CONFIG", "headwater.toml");
    command
}
