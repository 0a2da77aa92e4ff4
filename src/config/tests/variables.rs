//! Environment variables that can't be meant.

use super::*;

#[test]
fn variables_that_make_no_sense_are_refused() {
    for (name, value, printed) in [
        ("HEADWATER__SERVER__LISTN", "x", "HEADWATER__SERVER__LISTN: `listn` is not a key of [server]\ndid you mean `listen`?"),
        ("HEADWATER__SERVER__WORKERS", "two", "HEADWATER__SERVER__WORKERS: wrong type: string \"two\", expected a whole number"),
        ("HEADWATER__STORE__PATH", "7", "HEADWATER__STORE__PATH: wrong type: integer `7`, expected a path in quotes"),
        ("HEADWATER__SERVER", "x", "HEADWATER__SERVER: `server` is a table, written [server]"),
        (
            "HEADWATER__SERVER__LISTEN__X",
            "x",
            "HEADWATER__SERVER__LISTEN__X: wrong type: table, expected an address in quotes, as \"127.0.0.1:8080\"",
        ),
        (
            "HEADWATER__SERVER__LISTEN",
            "9000",
            "HEADWATER__SERVER__LISTEN: `9000` is not an address; write an IP address and a port: \"127.0.0.1:9000\" or \"[::1]:9000\"",
        ),
        ("HEADWATER__STOR__KIND", "memory", "HEADWATER__STOR__KIND: `stor` is not a section\ndid you mean `store`?"),
        ("HEADWATER__", "x", "HEADWATER__: `` is not a section\nthe sections are `server`, `auth`, `store`, `log`, `llm`, `agent`"),
        ("HEADWATER__LLM__MAIN__MODEL", "x", "HEADWATER__LLM__MAIN__MODEL: [llm.main] needs the key `kind`"),
        (
            "HEADWATER__AGENT__DEMO__LLM",
            "nope",
            "HEADWATER__AGENT__DEMO__LLM: there is no [llm.nope] for the agent `demo`\nthere is only `demo`",
        ),
        (
            "HEADWATER__LLM__DEMO__API_KEY",
            "sk-secret",
            "HEADWATER__LLM__DEMO__API_KEY: `api_key` is not a key of [llm.demo]\nthe keys are `file`, `attempts`",
        ),
    ] {
        assert_eq!(variables(&[(name, value)]).expect_err(name).to_string(), printed);
    }
}

#[test]
fn a_secret_in_a_variable_of_ours_is_not_repeated() {
    let layers = [("HEADWATER__LLM__A__KIND", "openai"), ("HEADWATER__LLM__A__MODEL", "m"), ("HEADWATER__LLM__A__API_KEY", "sk-secret")];
    let printed = variables(&layers).unwrap_err().to_string();
    assert_eq!(
        printed,
        "HEADWATER__LLM__A__API_KEY: a secret is named, never written here: use `{ env = \"NAME\" }` or `{ file = \"PATH\" }`"
    );
}

#[test]
fn a_variable_with_an_underscore_too_few_is_refused() {
    for name in ["HEADWATER_SERVER_LISTEN", "HEADWATER__SERVER_LISTEN", "HEADWATER_SERVER__LISTEN"] {
        assert_eq!(
            variables(&[(name, "127.0.0.1:9000")]).expect_err(name).to_string(),
            format!(
                "the variable `{name}` sets nothing\ndid you mean `HEADWATER__SERVER__LISTEN`? Sections and keys stand between two underscores"
            )
        );
    }
    for (name, right) in [
        ("HEADWATER_STORE_PATH", "HEADWATER__STORE__PATH"),
        ("HEADWATER_LOG_LEVEL", "HEADWATER__LOG__LEVEL"),
        ("HEADWATER_AUTH_MODE", "HEADWATER__AUTH__MODE"),
        ("HEADWATER_SERVER_BODY_BYTES_MAX", "HEADWATER__SERVER__BODY_BYTES_MAX"),
        ("HEADWATER_SERVER_DRAIN_SECS", "HEADWATER__SERVER__DRAIN_SECS"),
    ] {
        let printed = variables(&[(name, "x")]).expect_err(name).to_string();
        assert!(printed.contains(&format!("did you mean `{right}`?")), "{printed}");
    }
    for name in ["HEADWATER_CONFIG", "HEADWATER_KEY", "HEADWATER_LLM_MAIN_API_KEY", "HEADWATER_BIN", "HEADWATERS_SERVER_LISTEN"] {
        assert!(variables(&[(name, "x")]).is_ok(), "{name} is somebody else's");
    }
}
