//! Every kind of bad input, with the text that is printed.

use super::*;

/// What is printed about a bad file.
#[track_caller]
pub(super) fn assert_refused(text: &str, printed: &str) {
    let file = File::new(text);
    let error = file.load(&[]).expect_err(text).to_string();
    assert_eq!(error.replace(&file.path().display().to_string(), "bot.toml"), printed.trim_start_matches('\n'));
}

#[test]
fn keys_that_there_are_not_are_refused() {
    assert_refused(
        "[server]\nlistn = 1\n",
        r"
bot.toml:2:1: `listn` is not a key of [server]
  |
2 | listn = 1
  | ^^^^^
did you mean `listen`?",
    );
    assert_refused(
        "[serve]\n",
        r"
bot.toml:1:2: `serve` is not a section
  |
1 | [serve]
  |  ^^^^^
did you mean `server`?",
    );
    assert_refused(
        "x = 1",
        r"
bot.toml:1:1: `x` is not a section
  |
1 | x = 1
  | ^
the sections are `server`, `auth`, `store`, `log`, `llm`, `agent`",
    );
    assert_refused(
        "[llm.main]\nkind = \"script\"\nmodel = \"x\"",
        r#"
bot.toml:3:1: `model` is not a key of [llm.main]
  |
3 | model = "x"
  | ^^^^^
the keys are `file`, `attempts`"#,
    );
    assert_refused(
        "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\ntemprature = 1",
        r"
bot.toml:4:1: `temprature` is not a key of [llm.main]
  |
4 | temprature = 1
  | ^^^^^^^^^^
did you mean `temperature`?",
    );
    assert_refused(
        "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\napi_key = {evn = \"X\"}",
        r#"
bot.toml:4:12: `evn` is not a key here
  |
4 | api_key = {evn = "X"}
  |            ^^^
did you mean `env`?"#,
    );
}

#[test]
fn a_key_is_looked_for_among_those_of_all_owners_of_a_section() {
    assert_refused(
        "[server]\ndrian_secs = 1\n",
        r"
bot.toml:2:1: `drian_secs` is not a key of [server]
  |
2 | drian_secs = 1
  | ^^^^^^^^^^
did you mean `drain_secs`?",
    );
    assert_refused(
        "[server]\nreaders_max = 0\n",
        r"
bot.toml:2:15: wrong value: integer `0`, expected a whole number above 0
  |
2 | readers_max = 0
  |               ^",
    );
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    for (section, line, said) in [
        ("server", "header_bytes_max = 100", "100 is not between 1024 and 131072"),
        ("server", "header_secs = 0", "0 is not between 1 and 86400"),
        ("server", "connection_idle_secs = 86401", "86401 is not between 1 and 86400"),
        ("server", "title_bytes_max = 65537", "65537 is not between 1 and 65536"),
        ("server", "connections_max = 0", "0 would let nothing through; write a number above 0"),
        ("server", "peer_requests_per_sec = 0", "expected a whole number above 0"),
        ("server", "socket_frames_burst = 1000001", "1000001 is not between 1 and 1000000"),
        ("server", "session_inputs_per_sec = 1000001", "1000001 is not between 1 and 1000000"),
        ("server", "sessions_max = 0", "expected a whole number above 0"),
        ("server", "append_secs = 0", "expected a whole number above 0"),
        ("server", "metrics = 1", "expected a boolean"),
        ("log", "level = \"info,hyper=trace\"", "lines of hyper may hold what people say"),
    ] {
        let error = File::new(format!("[{section}]\n{line}\n")).load(&[]).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("bot.toml:2:"), "{line}: {error}");
    }
}

#[test]
fn keys_that_are_missing_are_refused() {
    assert_refused(
        "[llm.main]\nmodel = \"m\"",
        r"
bot.toml:1:1: [llm.main] needs the key `kind`
  |
1 | [llm.main]
  | ^^^^^^^^^^",
    );
    assert_refused(
        "[llm.main]\nkind = \"openai\"\n",
        r"
bot.toml:1:1: [llm.main] needs the key `model`
  |
1 | [llm.main]
  | ^^^^^^^^^^",
    );
    assert_refused(
        "[agent.bot]\nsystem = \"x\"",
        r"
bot.toml:1:1: [agent.bot] needs the key `llm`
  |
1 | [agent.bot]
  | ^^^^^^^^^^^",
    );
    assert_refused(
        "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\napi_key = {}",
        r"
bot.toml:4:11: a secret has exactly one of `env` and `file`
  |
4 | api_key = {}
  |           ^^",
    );
}

#[test]
fn what_becomes_of_a_submit_while_a_turn_is_there_is_one_of_five() {
    assert_refused(
        "[agent.bot]\nllm = \"demo\"\non_busy = \"wait\"",
        r#"
bot.toml:3:11: `wait` is not a value that this can have
  |
3 | on_busy = "wait"
  |           ^^^^^^
the values are `refuse`, `queue`, `merge`, `steer`, `cancel`"#,
    );
    assert_refused(
        "[agent.bot]\nllm = \"demo\"\non_busy = true",
        r"
bot.toml:3:11: wrong type: boolean `true`, expected a string
  |
3 | on_busy = true
  |           ^^^^",
    );
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    assert_refused(
        "[server]\nworkers = \"two\"\n",
        r#"
bot.toml:2:11: wrong type: string "two", expected a whole number
  |
2 | workers = "two"
  |           ^^^^^"#,
    );
    assert_refused(
        "[server]\norigins = \"*\"",
        r#"
bot.toml:2:11: wrong type: string "*", expected a list
  |
2 | origins = "*"
  |           ^^^"#,
    );
    assert_refused(
        "[server]\nbody_bytes_max = 0\n",
        r"
bot.toml:2:18: 0 would let nothing through; write a number above 0
  |
2 | body_bytes_max = 0
  |                  ^",
    );
    assert_refused(
        "[server]\nbody_bytes_max = -5\n",
        r"
bot.toml:2:18: wrong value: integer `-5`, expected a whole number
  |
2 | body_bytes_max = -5
  |                  ^^",
    );
    assert_refused(
        "[store]\npath = 7",
        r"
bot.toml:2:8: wrong type: integer `7`, expected a path in quotes
  |
2 | path = 7
  |        ^",
    );
    assert_refused(
        "[llm.main]\nkind = 3",
        r"
bot.toml:2:8: wrong type: integer `3`, expected a string
  |
2 | kind = 3
  |        ^",
    );
    assert_refused(
        "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\ntemperature = \"hot\"",
        r#"
bot.toml:4:15: wrong type: string "hot", expected a number
  |
4 | temperature = "hot"
  |               ^^^^^"#,
    );
}

#[test]
fn values_that_there_are_not_are_refused() {
    assert_refused(
        "[server]\nlisten = \"localhost\"\n",
        r#"
bot.toml:2:10: `localhost` is not an address; write an IP address and a port: "127.0.0.1:8080" or "[::1]:8080"
  |
2 | listen = "localhost"
  |          ^^^^^^^^^^^"#,
    );
    assert_refused(
        "[server]\norigins = [\"https://a.example\", \"https://b.example/\"]\n",
        r#"
bot.toml:2:11: `https://b.example/` is not an origin; write scheme, host and port in lower case and nothing after: "https://chat.example.com"
  |
2 | origins = ["https://a.example", "https://b.example/"]
  |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"#,
    );
    assert_refused(
        "[auth]\nmode = \"jwt\"",
        r#"
bot.toml:2:8: `jwt` is not a value that this can have
  |
2 | mode = "jwt"
  |        ^^^^^
there is only `none`"#,
    );
    assert_refused(
        "[store]\nkind = \"redis\"",
        r#"
bot.toml:2:8: `redis` is not a kind of store
  |
2 | kind = "redis"
  |        ^^^^^^^
the kinds are `memory`, `sqlite`"#,
    );
    assert_refused(
        "[log]\nlevel = \"inof\"",
        r#"
bot.toml:2:9: `inof` is not a level; write "error", "warn", "info", "debug", "trace" or "off", or by module "info,headwater::web=debug"
  |
2 | level = "inof"
  |         ^^^^^^"#,
    );
    assert_refused(
        "[log]\nformat = \"xml\"",
        r#"
bot.toml:2:10: `xml` is not a value that this can have
  |
2 | format = "xml"
  |          ^^^^^
the values are `text`, `json`"#,
    );
    assert_refused(
        "[llm.main]\nkind = \"opneai\"",
        r#"
bot.toml:2:8: `opneai` is not a kind of llm
  |
2 | kind = "opneai"
  |        ^^^^^^^^
did you mean `openai`?"#,
    );
    assert_refused(
        "[agent.bot]\nllm = \"demo\"\npartial_view = \"apend\"",
        r#"
bot.toml:3:16: `apend` is not a value that this can have
  |
3 | partial_view = "apend"
  |                ^^^^^^^
did you mean `append`?"#,
    );
}

#[test]
fn what_does_not_fit_together_is_refused() {
    assert_refused(
        "[server]\nlisten = \"0.0.0.0:8080\"",
        r#"
bot.toml:2:10: 0.0.0.0:8080 can be reached from other machines, and `mode = "none"` lets everyone in
  |
2 | listen = "0.0.0.0:8080"
  |          ^^^^^^^^^^^^^^
listen on 127.0.0.1, or say `allow_open = true` in [auth]"#,
    );
    assert_refused(
        "[agent.bot]\nllm = \"mian\"\n[llm.main]\nkind = \"script\"",
        r#"
bot.toml:2:7: there is no [llm.mian] for the agent `bot`
  |
2 | llm = "mian"
  |       ^^^^^^
did you mean `main`?"#,
    );
    assert_refused(
        "[agent.bot]\nllm=\"x\"\n",
        r#"
bot.toml:2:5: there is no [llm.x] for the agent `bot`
  |
2 | llm="x"
  |     ^^^
there is only `demo`"#,
    );
    assert_refused(
        "[store]\nkind = \"memory\"\npath = \"x\"",
        r#"
bot.toml:3:1: `path` is not a key of [store]
  |
3 | path = "x"
  | ^^^^
there are no keys"#,
    );
}

#[test]
fn a_secret_in_the_file_is_refused_and_not_repeated() {
    assert_refused(
        "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\napi_key = \"sk-secret\"",
        r#"
bot.toml:4:11: a secret is named, never written here: use `{ env = "NAME" }` or `{ file = "PATH" }`
  |
4 | api_key = …
  |           ^"#,
    );
    assert_refused(
        "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\napi_key = 5",
        r#"
bot.toml:4:11: wrong type: integer `5`, expected `{ env = "NAME" }` or `{ file = "PATH" }`
  |
4 | api_key = 5
  |           ^"#,
    );
}

#[test]
fn tables_in_the_wrong_shape_are_refused() {
    assert_refused(
        "[llm]\nkind = \"openai\"",
        r#"
bot.toml:2:1: [llm] holds tables only, written [llm.<id>]
  |
2 | kind = "openai"
  | ^^^^"#,
    );
    assert_refused(
        "llm = 3",
        r"
bot.toml:1:7: `llm` holds tables, written [llm.<id>]
  |
1 | llm = 3
  |       ^",
    );
    assert_refused(
        "server = 3",
        r"
bot.toml:1:10: `server` is a table, written [server]
  |
1 | server = 3
  |          ^",
    );
    assert_refused(
        "[[server]]\n",
        r"
bot.toml:1:1: `server` is a table, written [server]
  |
1 | [[server]]
  | ^^^^^^^^^^",
    );
    assert_refused(
        "[agent]\nbot = 3",
        r"
bot.toml:2:1: [agent] holds tables only, written [agent.<id>]
  |
2 | bot = 3
  | ^^^",
    );
    assert_refused(
        "[agent.\"a b\"]\nllm = \"demo\"",
        r#"
bot.toml:1:8: `a b` can't be the name of an agent: at most 64 letters, digits, `-`, `_` and `.`
  |
1 | [agent."a b"]
  |        ^^^^^"#,
    );
}

#[test]
fn text_that_is_not_toml_is_refused() {
    assert_refused(
        "[server\n",
        r"
bot.toml:1:8: unclosed table, expected `]`
  |
1 | [server
  |        ^",
    );
    assert_refused(
        "[server]\nworkers = 1\nworkers = 2\n",
        r"
bot.toml:3:1: duplicate key
  |
3 | workers = 2
  | ^^^^^^^",
    );
    assert_refused(
        "a = \"\\q\"",
        r#"
bot.toml:1:7: missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\`, `"`, `x`, `u`, `U`
  |
1 | a = "\q"
  |       ^"#,
    );
    assert_refused(
        "\txéé = 5\t",
        r"
bot.toml:1:3: invalid unquoted key, expected letters, numbers, `-`, `_`
  |
1 | 	xéé = 5	
  | 	 ^^",
    );
}

#[test]
fn numbers_that_are_out_of_range_are_refused() {
    assert_refused(
        "[server]\nlisten = 8080\n",
        r#"
bot.toml:2:10: `8080` is not an address; write an IP address and a port: "127.0.0.1:8080" or "[::1]:8080"
  |
2 | listen = 8080
  |          ^^^^"#,
    );
    assert_refused(
        "[server]\nlisten = \"localhost:9000\"\n",
        r#"
bot.toml:2:10: `localhost:9000` is not an address; write an IP address and a port: "127.0.0.1:9000" or "[::1]:9000"
  |
2 | listen = "localhost:9000"
  |          ^^^^^^^^^^^^^^^^"#,
    );
    assert_refused(
        "[server]\nworkers = 0\n",
        r"
bot.toml:2:11: 0 would let nothing through; write a number above 0
  |
2 | workers = 0
  |           ^",
    );
    assert_refused(
        "[server]\nbody_bytes_max = 99999999999999999999\n",
        r"
bot.toml:2:18: wrong type: integer `99999999999999999999`, expected a whole number
  |
2 | body_bytes_max = 99999999999999999999
  |                  ^^^^^^^^^^^^^^^^^^^^",
    );
}
