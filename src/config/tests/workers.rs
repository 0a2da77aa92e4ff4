//! `[agent.<id>.worker]`: bad input, with the text that is printed.

use super::refused::assert_refused;
use super::*;

#[test]
fn a_worker_has_the_keys_of_its_kind() {
    let of = |worker: &str| format!("[agent.bot]\nllm = \"demo\"\n[agent.bot.worker]\n{worker}");
    assert_refused(
        &of("kind = \"http\"\nurl = \"http://127.0.0.1:1\"\ntoken = { env = \"X\" }"),
        r#"
bot.toml:6:1: `token` is not a key of [agent.bot.worker]
  |
6 | token = { env = "X" }
  | ^^^^^
the keys are `url`, `secret`, `old_secret`, `triggers`, `connect_secs`, `attempt_secs`, `attempts`, `within_secs`, `answer_bytes_max`, `breaker_failures`, `breaker_secs`"#,
    );
    assert_refused(
        &of("kind = \"http\""),
        r"
bot.toml:3:1: [agent.bot.worker] needs the key `url`
  |
3 | [agent.bot.worker]
  | ^^^^^^^^^^^^^^^^^^",
    );
    assert_refused(
        &of("kind = \"htpp\""),
        r#"
bot.toml:4:8: `htpp` is not a kind of worker
  |
4 | kind = "htpp"
  |        ^^^^^^
did you mean `http`?"#,
    );
    assert_refused(
        &of("kind = \"none\"\nurl = \"http://127.0.0.1:1\""),
        r#"
bot.toml:5:1: `url` is not a key of [agent.bot.worker]
  |
5 | url = "http://127.0.0.1:1"
  | ^^^
there are no keys"#,
    );
    assert_refused(
        "[agent.bot]\nllm = \"demo\"\nwroker = {}",
        r"
bot.toml:3:1: `wroker` is not a key of [agent.bot]
  |
3 | wroker = {}
  | ^^^^^^
did you mean `worker`?",
    );
    assert_refused(
        "[agent.bot]\nllm = \"demo\"\nworker = \"http\"",
        r#"
bot.toml:3:10: `agent.bot.worker` is a table, written [agent.bot.worker]
  |
3 | worker = "http"
  |          ^^^^^^"#,
    );
}

#[test]
fn a_workers_secret_that_is_written_into_the_file_is_not_shown() {
    for key in ["secret", "old_secret", "token"] {
        let kind = if key == "token" { "kind = \"socket\"" } else { "kind = \"http\"\nurl = \"http://127.0.0.1:1\"" };
        let text = format!("[agent.bot]\nllm = \"demo\"\n[agent.bot.worker]\n{kind}\n{key} = \"whsec_canary\"\n");
        let error = File::new(&text).load(&[]).unwrap_err().to_string();
        assert!(error.contains("a secret is named, never written here") && error.contains(&format!("{key} = …")), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}
