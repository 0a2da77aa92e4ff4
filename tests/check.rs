//! `headwater check` as a person uses it: what it prints and how it ends.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `check` on a file of this text, in a folder of its own.
fn check(text: &str, prepare: impl FnOnce(&Path), key: Option<&str>) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bot.toml"), text).unwrap();
    prepare(folder.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["check", "bot.toml"]).current_dir(folder.path()).env_clear();
    command.envs(key.map(|key| ("BOT_KEY", key))).output().unwrap()
}

fn printed(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const BOT: &str = "[llm.main]\nkind = \"openai\"\nmodel = \"m\"\napi_key = { env = \"BOT_KEY\" }\n[agent.bot]\nllm = \"main\"\n";

#[test]
fn a_good_file_is_summed_up() {
    let output = check(BOT, |_| {}, Some("sk-test"));
    assert_eq!(printed(&output.stderr), "");
    assert_eq!(
        printed(&output.stdout),
        "bot.toml is good\n\
         listen  127.0.0.1:8080\n\
         store   sqlite in headwater-data\n\
         llm     demo: script, built in\n\
         llm     main: openai, m at https://api.openai.com/v1\n\
         agent   bot: answers with main, at /agents/bot\n"
    );
    assert!(output.status.success());
}

#[test]
fn each_kind_of_service_is_named_with_its_address() {
    let llm = |kind: &str| format!("[llm.{kind}]\nkind = \"{kind}\"\nmodel = \"m\"\n");
    let text = ["anthropic", "gemini", "openai"].map(llm).concat() + "[agent.bot]\nllm = \"gemini\"\n";
    let output = check(&text, |_| {}, None);
    for line in [
        "llm     anthropic: anthropic, m at https://api.anthropic.com/v1\n",
        "llm     gemini: gemini, m at https://generativelanguage.googleapis.com/v1beta\n",
        "llm     openai: openai, m at https://api.openai.com/v1\n",
    ] {
        assert!(printed(&output.stdout).contains(line), "{}", printed(&output.stdout));
    }
    let wrong = check(&text.replace("\"m\"", "\"m\"\nextra.contents = []"), |_| {}, None);
    assert!(printed(&wrong.stderr).contains("extra.contents: is set by Headwater"), "{}", printed(&wrong.stderr));
}

#[test]
fn a_bad_file_is_refused_with_its_place() {
    let output = check("[agent.bot]\nllm = \"mian\"\n[llm.main]\nkind = \"script\"\n", |_| {}, None);
    assert_eq!(
        printed(&output.stderr),
        "error: bot.toml:2:7: there is no [llm.mian] for the agent `bot`\n  |\n2 | llm = \"mian\"\n  |       ^^^^^^\ndid you mean `main`?\n"
    );
    assert_eq!((printed(&output.stdout), output.status.code()), ("", Some(1)));
}

#[test]
fn a_secret_that_is_not_there_is_named() {
    let output = check(BOT, |_| {}, None);
    assert_eq!(
        printed(&output.stderr),
        "error: [llm.main] can't be used\n  because: api_key = { env = \"BOT_KEY\" }: the environment variable BOT_KEY is not set\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn scripts_are_read_too() {
    let text = "[llm.demo]\nkind = \"script\"\nfile = \"rules.toml\"\n";
    let missing = check(text, |_| {}, None);
    assert!(printed(&missing.stderr).contains("can't read the script rules.toml"), "{}", printed(&missing.stderr));
    let wrong = check(text, |folder| std::fs::write(folder.join("rules.toml"), "[[rule]]\ntxet = \"x\"\n").unwrap(), None);
    assert!(printed(&wrong.stderr).contains("rules.toml:2:1: "), "{}", printed(&wrong.stderr));
    assert_eq!((missing.status.code(), wrong.status.code()), (Some(1), Some(1)));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater")).args(["check", "no-such.toml"]).output().unwrap();
    assert!(printed(&output.stderr).starts_with("error: can't read the configuration file no-such.toml\n  because: "));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn who_decides_is_told_and_must_be_usable() {
    let of = |worker: &str| format!("[agent.bot]\nllm = \"demo\"\n[agent.bot.worker]\n{worker}\n");
    let output = check(&of("kind = \"http\"\nurl = \"http://127.0.0.1:8100/decide?key=canary\""), |_| {}, None);
    let line = "agent   bot: answers with demo, decides at http://127.0.0.1:8100/decide, at /agents/bot\n";
    assert!(printed(&output.stdout).contains(line), "{}", printed(&output.stdout));
    let wrong = check(&of("kind = \"http\"\nurl = \"127.0.0.1/decide\""), |_| {}, None);
    let said = "error: [agent.bot.worker] can't be used\n  because: url: ";
    assert!(printed(&wrong.stderr).starts_with(said), "{}", printed(&wrong.stderr));
    let secret = check(
        &of("kind = \"http\"\nurl = \"http://x.y\"\nsecret = { file = \"key\" }"),
        |folder| std::fs::write(folder.join("key"), "whsec_!canary").unwrap(),
        None,
    );
    let said = "error: [agent.bot.worker] can't be used\n  because: secret: begins with whsec_ and isn't base64 after that\n";
    assert_eq!(printed(&secret.stderr), said);
}
