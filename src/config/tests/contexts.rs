//! Room in the context window: what is refused at the start, and where.

use super::*;

const LLM: &str = "[llm.main]\nkind = \"script\"\n[agent.bot]\nllm = \"main\"\n";

/// What is printed about strategies: the line, the fault, the help.
#[track_caller]
fn assert_refused(options: &str, said: &[&str]) {
    let file = File::new(format!("{LLM}{options}"));
    let error = file.load(&[]).expect_err(options).to_string();
    let error = error.replace(&file.path().display().to_string(), "bot.toml");
    for said in said {
        assert!(error.contains(said), "{error}\n  should say: {said}");
    }
}

#[test]
fn room_is_made_as_the_file_says() {
    let text = "[agent.bot.context]\nwindow = 200_000\n[[agent.bot.context.strategy]]\nuse = \"reset\"\nidle_secs = 3600\n\
                [[agent.bot.context.strategy]]\nuse = \"summarize\"\nover_tokens = 100_000\nbackground = true\nkeep_turns = 4\n\
                [[agent.bot.context.strategy]]\nuse = \"summarize\"\nllm = \"main\"\nmodel = \"small\"\nprompt = \"Sum up.\"\n";
    let config = file(&format!("{LLM}{text}"));
    let context = &config.agents[&AgentId::from("bot")].context;
    assert_eq!(context.window.map(NonZeroU64::get), Some(200_000));
    let uses: Vec<&str> = context.strategy.iter().map(|strategy| strategy.r#use.as_str()).collect();
    assert_eq!(uses, ["reset", "summarize", "summarize"]);
    // A strategy that summarizes may wait for refusals alone.
    let context = "[[agent.bot.context.strategy]]\nuse = \"summarize\"\n";
    assert_eq!(file(&format!("{LLM}{context}")).agents.len(), 1);
    let variable = [("HEADWATER__AGENT__DEMO__CONTEXT__STRATEGY", r#"[{ use = "reset", idle_secs = 60 }]"#)];
    assert_eq!(variables(&variable).unwrap().agents[&AgentId::from("demo")].context.strategy.len(), 1);
}

#[test]
fn keys_that_mean_nothing_are_refused() {
    let strategy = |keys: &str| format!("[agent.bot.context]\nwindow = 20_000\n[[agent.bot.context.strategy]]\n{keys}");
    assert_refused(&strategy("use = \"truncate\""), &["bot.toml:8:7: `truncate` is not a strategy", "write \"reset\" or \"summarize\""]);
    assert_refused(&strategy("idle_secs = 3"), &["bot.toml:7", "needs the key `use`"]);
    assert_refused(&strategy("use = \"reset\"\nkeep_turn = 3"), &["bot.toml:9:1: `keep_turn` is not a key here", "`keep_turns`"]);
    assert_refused(
        &strategy("use = \"reset\"\nprompt = \"Sum up.\""),
        &["bot.toml:9:10: `prompt` means nothing to `use = \"reset\"`", "leave it out"],
    );
    assert_refused(&strategy("use = \"summarize\"\nprompt = \" \""), &["bot.toml:9:10: an empty prompt asks for nothing"]);
    assert_refused(&strategy("use = \"summarize\"\nllm = \"mian\""), &["bot.toml:9:7: there is no [llm.mian]", "did you mean `main`?"]);
    assert_refused(&strategy("use = \"summarize\"\nover_tokens = 0"), &["bot.toml:9:15", "a whole number above 0"]);
    assert_refused("[agent.bot.context]\nwindow = 0", &["bot.toml:6:10", "a whole number above 0"]);
    assert_refused("[agent.bot.context]\nwidow = 20", &["bot.toml:6:1: `widow` is not a key"]);
}

#[test]
fn contradictions_are_refused() {
    let strategy = |keys: &str| format!("[agent.bot.context]\nwindow = 20_000\n[[agent.bot.context.strategy]]\n{keys}");
    assert_refused(
        &strategy("use = \"reset\"\nidle_secs = 60\nover_tokens = 1000"),
        &["bot.toml:10:15: a strategy applies after a pause or past a number of tokens, not both", "write two strategies"],
    );
    assert_refused(
        &strategy("use = \"summarize\"\nidle_secs = 60\nbackground = true"),
        &["bot.toml:10:14: after a pause nothing goes on in the background"],
    );
    assert_refused(&strategy("use = \"summarize\"\nover_tokens = 20_000"), &["bot.toml:9:15: the model reads 20000 tokens at most"]);
    let never = "[[agent.bot.context.strategy]]\nuse = \"reset\"";
    assert_refused(never, &["bot.toml:6:7: without a window it would never apply", "`idle_secs` or `over_tokens`"]);
    let never = "[[agent.bot.context.strategy]]\nuse = \"summarize\"\nbackground = true";
    assert_refused(never, &["bot.toml:6:7: without a window it would never apply"]);
}

#[test]
fn a_window_smaller_than_the_system_prompt_is_refused() {
    let system = format!("system = \"{}\"\n", "many words ".repeat(100));
    assert_refused(
        &format!("{system}[agent.bot.context]\nwindow = 200"),
        &["bot.toml:7:10: the system prompt has about 275 tokens, and the model reads 200", "shorten `system`"],
    );
    let strategy = "[[agent.bot.context.strategy]]\nuse = \"summarize\"\nover_tokens = 270";
    assert_refused(
        &format!("{system}{strategy}"),
        &["bot.toml:8:15: it would always apply: past 270 tokens, and the system prompt has about 275"],
    );
}

#[test]
fn strategies_that_are_never_reached_are_refused() {
    let two = |first: &str, second: &str| {
        let header = "[[agent.bot.context.strategy]]\n";
        format!("[agent.bot.context]\nwindow = 200_000\n{header}{first}\n{header}{second}")
    };
    let never = "strategy 2 would never be used: strategy 1 applies whenever it does";
    let cases = [
        ("use = \"summarize\"", "use = \"reset\"", "bot.toml:10:7"),
        ("use = \"summarize\"\nover_tokens = 1000", "use = \"reset\"\nover_tokens = 2000", "bot.toml:12:15"),
        ("use = \"reset\"\nidle_secs = 60", "use = \"summarize\"\nidle_secs = 3600", "bot.toml:12:13"),
        ("use = \"summarize\"\nbackground = true", "use = \"summarize\"\nover_tokens = 1000", "bot.toml:12:15"),
        ("use = \"summarize\"\nover_tokens = 1000", "use = \"summarize\"\nbackground = true\nover_tokens = 2000", "bot.toml:13:15"),
    ];
    for (first, second, place) in cases {
        assert_refused(&two(first, second), &[never, place, "put the rarer one first"]);
    }
    let good = [
        ("use = \"reset\"\nidle_secs = 3600", "use = \"summarize\"\nidle_secs = 60"),
        ("use = \"summarize\"\nbackground = true\nover_tokens = 1000", "use = \"summarize\""),
        ("use = \"reset\"\nover_tokens = 2000", "use = \"summarize\"\nover_tokens = 1000"),
    ];
    for (first, second) in good {
        assert_eq!(file(&format!("{LLM}{}", two(first, second))).agents.len(), 1);
    }
}
