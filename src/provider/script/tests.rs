//! Files of rules, and what they answer.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};

use super::{Error, Script};
use crate::ids::ToolCallId;
use crate::protocol::{CallError, CallErrorKind, CallRequest, Finish, Message, Role, Tool, ToolCall, Usage};
use crate::provider::{Chunk, Provider, ScriptOptions};

fn script(rules: &str) -> Script {
    Script::parse(rules, Path::new("rules.toml")).unwrap()
}

fn request(messages: Vec<Message>) -> CallRequest {
    let messages = messages.into_iter().map(Arc::new).collect();
    CallRequest { model: None, system: None, messages, tools: Vec::new(), index: 0, hidden: false, occasion: None }
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

/// What comes when nothing has to be waited for.
fn burst(script: &Script, request: CallRequest) -> Vec<Result<Chunk, CallError>> {
    script.start(request).collect::<Vec<_>>().now_or_never().expect("a burst waits for nothing")
}

/// The answer's text and reasoning, and how it ended.
fn said(items: &[Result<Chunk, CallError>]) -> String {
    let mut said = String::new();
    for item in items {
        match item {
            Ok(Chunk::Text(text) | Chunk::ToolArguments { delta: text, .. }) => said.push_str(text),
            Ok(Chunk::Reasoning(text)) => write!(said, "({text})").unwrap(),
            Ok(Chunk::ToolCall { index, name, .. }) => write!(said, "[{index} {name}]").unwrap(),
            Ok(Chunk::Usage(_) | Chunk::Encrypted { .. }) => {}
            Ok(Chunk::Finished(finish)) => write!(said, " <{finish:?}>").unwrap(),
            Ok(other @ (Chunk::ToolResult { .. } | Chunk::State(_) | Chunk::Interrupt { .. } | Chunk::Next)) => {
                panic!("no model says {other:?}")
            }
            Err(error) => write!(said, " <{:?}>", error.kind).unwrap(),
        }
    }
    said
}

fn reply(rules: &str, text: &str) -> String {
    said(&burst(&script(rules), request(vec![user(text)])))
}

#[test]
fn words_come_one_a_piece_then_usage_then_the_end() {
    let items = burst(&script("[[rule]]\ntext = ' one  two three'"), request(vec![user("12345")]));
    let usage = Usage { input_tokens: Some(2), output_tokens: Some(4), model: Some("script".to_owned()), ..Usage::default() };
    let text = |text: &str| Ok(Chunk::Text(text.to_owned()));
    assert_eq!(items, [text(" "), text("one  "), text("two "), text("three"), Ok(Chunk::Usage(usage)), Ok(Chunk::Finished(Finish::Stop))]);
}

#[test]
fn the_first_rule_that_fits_answers() {
    let rules = r#"
        [[rule]]
        when = { is = ["Hi", "hello"] }
        text = "is"
        [[rule]]
        when = { starts_with = "tell", contains = ["river", "SEA"] }
        text = "both"
        [[rule]]
        when = { contains = "river" }
        text = "contains"
        [[rule]]
        when = { role = "tool" }
        text = "tool"
    "#;
    for (last, expected) in [(" hI ", "is"), ("Tell me of the sea", "both"), ("a River", "contains")] {
        assert_eq!(reply(rules, last), format!("{expected} <Stop>"), "{last}");
    }
    let items = burst(&script(rules), request(vec![user("hi there")]));
    assert_eq!(items.len(), 1);
    assert!(items[0].as_ref().unwrap_err().message.contains("no rule"), "{items:?}");
}

#[test]
fn results_count_after_the_last_user_message_only() {
    let rules = r#"
        [[rule]]
        when = { tool_result = "weather" }
        text = "weather {result}"
        [[rule]]
        when = { tool_result = true }
        text = "other {result}"
        [[rule]]
        when = { tool_result = false }
        text = "none{result}"
    "#;
    let asks = |tool: &str| {
        let mut message = Message::empty(Role::Assistant);
        message.tool_calls = vec![ToolCall::new(ToolCallId::from("c1"), tool, "{}")];
        message
    };
    let result = |text: &str| {
        let mut message = Message::text(Role::Tool, text);
        message.tool_call_id = Some(ToolCallId::from("c1"));
        message
    };
    let script = script(rules);
    let reply = |messages| said(&burst(&script, request(messages)));
    assert_eq!(reply(vec![user("q"), asks("weather"), result("rain")]), "weather rain <Stop>");
    assert_eq!(reply(vec![user("q"), asks("clock"), result("noon")]), "other noon <Stop>");
    assert_eq!(reply(vec![user("q"), asks("clock"), result("noon"), user("r")]), "none <Stop>");
    let mut failed = result("");
    failed.error = Some("no network".to_owned());
    assert_eq!(reply(vec![user("q"), asks("clock"), failed]), "other no network <Stop>");
}

#[test]
fn rules_call_what_is_offered_and_read_all_results() {
    let script = script(
        r#"
        [[rule]]
        when = { tool_result = true }
        text = "{results}; {result}"
        [[rule]]
        when = { offered = "weather" }
        tool_calls = [{ name = "weather", id = "c1" }, { name = "weather", id = "c2" }]
        [[rule]]
        text = "no weather"
        "#,
    );
    let asks = |tools: &[&str], more: Vec<Message>| {
        let mut messages = vec![user("x")];
        messages.extend(more);
        let tool = |name: &&str| Tool { name: (*name).to_owned(), description: String::new(), parameters: None, metadata: None };
        said(&burst(&script, CallRequest { tools: tools.iter().map(tool).collect(), ..request(messages) }))
    };
    assert_eq!(asks(&[], vec![]), "no weather <Stop>");
    assert_eq!(asks(&["clock"], vec![]), asks(&[], vec![]));
    assert_eq!(asks(&["clock", "weather"], vec![]), "[0 weather]{}[1 weather]{} <ToolCalls>");
    let mut called = Message::empty(Role::Assistant);
    called.tool_calls = ["c1", "c2"].map(|id| ToolCall::new(id.into(), "weather", "{}")).to_vec();
    let gave = |id: &str, text: &str| Message { tool_call_id: Some(id.into()), ..Message::text(Role::Tool, text) };
    assert_eq!(asks(&["weather"], vec![called, gave("c1", "18"), gave("c2", "2")]), "18 | 2; 2 <Stop>");
}

#[test]
fn the_calls_index_and_visibility_can_be_asked_for() {
    let script =
        script("[[rule]]\nwhen = { hidden = true }\ntext = 'h'\n[[rule]]\nwhen = { call = 2 }\ntext = 'c{call}'\n[[rule]]\ntext = 'x'");
    let reply = |index, hidden| said(&burst(&script, CallRequest { index, hidden, ..request(vec![user("q")]) }));
    assert_eq!([reply(0, false), reply(2, false), reply(2, true)], ["x <Stop>", "c2 <Stop>", "h <Stop>"]);
}

#[test]
fn rules_know_how_much_is_read() {
    let rules = r#"
        [[rule]]
        when = { over_tokens = 10 }
        error = "too_long"
        [[rule]]
        when = { over_characters = 20 }
        text = "more than 20"
        [[rule]]
        text = "{tokens} tokens"
    "#;
    assert_eq!(reply(rules, "12345"), "2 tokens <Stop>");
    assert_eq!(reply(rules, &"x".repeat(21)), "more than 20 <Stop>");
    assert_eq!(reply(rules, &"x".repeat(40)), "more than 20 <Stop>");
    assert_eq!(reply(rules, &"x".repeat(41)), " <TooLong>");
    // Everything counts: the system prompt, the tools, media.
    let script = script(rules);
    let more = |more: CallRequest| said(&burst(&script, more));
    assert_eq!(more(CallRequest { system: Some("s".repeat(40)), ..request(vec![user("x")]) }), " <TooLong>");
    let tool = Tool { name: "look".to_owned(), description: "d".repeat(37), parameters: None, metadata: None };
    assert_eq!(more(CallRequest { tools: vec![tool], ..request(vec![user("x")]) }), " <TooLong>");
    let image = serde_json::json!({"role": "user", "content": [{"type": "image", "source": {"type": "data", "value": "aGk="}}]});
    assert_eq!(more(request(vec![serde_json::from_value(image).unwrap()])), " <TooLong>");
}

#[test]
fn rules_know_what_stands_anywhere_and_which_model_is_asked_for() {
    let rules = r#"
        [[rule]]
        when = { model = "small" }
        text = "small"
        [[rule]]
        when = { anywhere = ["was summarized", "be kind"] }
        text = "found"
        [[rule]]
        text = "other"
    "#;
    let script = script(rules);
    let reply = |request| said(&burst(&script, request));
    let asked = || request(vec![user("The conversation WAS summarized:"), user("q")]);
    assert_eq!(reply(asked()), "found <Stop>");
    assert_eq!(reply(CallRequest { system: Some("Be kind.".to_owned()), ..request(vec![user("q")]) }), "found <Stop>");
    assert_eq!(reply(CallRequest { model: Some("small".to_owned()), ..asked() }), "small <Stop>");
    assert_eq!(reply(CallRequest { model: Some("large".to_owned()), ..request(vec![user("q")]) }), "other <Stop>");
}

#[test]
fn a_rule_answers_so_many_times() {
    let script = script("[[rule]]\nwhen = { is = 'a' }\ntimes = 2\nerror = 'too_long'\n[[rule]]\ntext = 'x'");
    let reply = |script: &Script, text: &str| said(&burst(script, request(vec![user(text)])));
    // Those that don't fit aren't counted; what another worker thread answers is.
    let other = script.clone();
    let replies = [(&script, "a"), (&script, "b"), (&other, "a"), (&script, "a"), (&other, "a")].map(|(script, text)| reply(script, text));
    assert_eq!(replies, [" <TooLong>", "x <Stop>", " <TooLong>", "x <Stop>", "x <Stop>"]);
}

#[test]
fn the_small_window_acts_like_a_small_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/script");
    let options = ScriptOptions { file: Some("small-window.toml".into()), attempts: None };
    let small = Script::load(&options, &folder).unwrap();
    let short = request(vec![user("hello")]);
    let long = request(vec![user(&"x".repeat(8001))]);
    assert_eq!(said(&burst(&small, short.clone())), "You said: hello (I read 2 tokens in 1 messages, the first of them: hello) <Stop>");
    assert_eq!(said(&burst(&small, long.clone())), " <TooLong>");
    let hidden = |request: CallRequest| CallRequest { hidden: true, system: Some("Sum up.".to_owned()), ..request };
    assert_eq!(said(&burst(&small, hidden(short))), "It began like this: hello <Stop>");
    assert_eq!(said(&burst(&small, hidden(long))), " <TooLong>");
}

#[test]
fn reasoning_text_and_calls_come_in_this_order() {
    let rules = r#"
        [[rule]]
        tool_calls = [
            { name = "find", arguments = { for = "{last}", deep = { list = [1, 2.5, true, "{count}"] } } },
            { name = "raw", id = "mine", arguments = "{\"a\": " },
            { name = "bare" },
        ]
        text = "so"
        reasoning = "hm"
    "#;
    let items = burst(&script(rules), request(vec![user("\"x\"")]));
    let expected = r#"(hm)so[0 find]{"deep":{"list":[1,2.5,true,"1"]},"for":"\"x\""}[1 raw]{"a": [2 bare]{} <ToolCalls>"#;
    assert_eq!(said(&items), expected);
    assert!(items.contains(&Ok(Chunk::ToolCall { index: 1, id: Some(ToolCallId::from("mine")), name: "raw".to_owned() })));
}

#[test]
fn usage_is_as_given_or_left_out() {
    let rules = "[[rule]]\nwhen = { is = 'a' }\ntext = 'x'\nusage = { input_tokens = 7, reasoning_tokens = 1 }\n[[rule]]\ntext = 'x'\nreport_usage = false";
    let script = script(rules);
    let items = burst(&script, CallRequest { model: Some("m".to_owned()), ..request(vec![user("a")]) });
    let usage =
        Usage { input_tokens: Some(7), output_tokens: Some(1), reasoning_tokens: Some(1), model: Some("m".to_owned()), ..Usage::default() };
    assert_eq!(items[1], Ok(Chunk::Usage(usage)));
    assert_eq!(burst(&script, request(vec![user("b")])).len(), 2);
}

#[test]
fn errors_come_where_the_rule_says() {
    for (kind, word) in [
        (CallErrorKind::TooLong, "too_long"),
        (CallErrorKind::RateLimited, "rate_limited"),
        (CallErrorKind::Unavailable, "unavailable"),
        (CallErrorKind::Cut, "cut"),
        (CallErrorKind::TimedOut, "timed_out"),
        (CallErrorKind::Refused, "refused"),
        (CallErrorKind::Nonsense, "nonsense"),
    ] {
        assert_eq!(reply(&format!("[[rule]]\nerror = '{word}'"), "q"), format!(" <{kind:?}>"));
        assert_eq!(reply(&format!("[[rule]]\ntext = 'a b c'\nerror = '{word}'\nafter_tokens = 2"), "q"), format!("a b  <{kind:?}>"));
        assert_eq!(reply(&format!("[[rule]]\ntext = 'a b c'\nerror = '{word}'"), "q"), format!("a b c <{kind:?}>"));
    }
    let busy = burst(&script("[[rule]]\nerror = 'rate_limited'\nretry_after_ms = 1500\nmessage = 'later'"), request(vec![user("q")]));
    let expected = CallError { kind: CallErrorKind::RateLimited, message: "later".to_owned(), retry_after_ms: Some(1500) };
    assert_eq!(busy, [Err(expected)]);
}

#[tokio::test(start_paused = true)]
async fn pace_is_kept_on_average() {
    let script = script(
        "[[rule]]\nwhen = { is = 'fast' }\ntext = 'a '\nrepeat = 5001\npace = { tokens_per_sec = 5000 }\n[[rule]]\ntext = 'a b c'\npace = { delay_ms = 40, first_ms = 500 }",
    );
    let took = async |text: &str| {
        let (watch, mut answer) = (Watch::start(), script.start(request(vec![user(text)])));
        while answer.next().await.is_some() {}
        watch.read()
    };
    assert_eq!(took("slow").await, Duration::from_millis(580));
    assert!((Duration::from_secs(1)..Duration::from_millis(1003)).contains(&took("fast").await));
}

/// Virtual time, without reading a clock: how far a deadline has moved away.
struct Watch(tokio::time::Instant);

impl Watch {
    fn start() -> Self {
        Self(tokio::time::sleep(Duration::ZERO).deadline())
    }

    fn read(&self) -> Duration {
        tokio::time::sleep(Duration::ZERO).deadline() - self.0
    }
}

#[test]
fn the_demo_answers_anything() {
    let demo = Script::load(&ScriptOptions::default(), Path::new(".")).unwrap();
    let reply = |text: &str| said(&burst(&demo, request(vec![user(text)])));
    assert!(reply("Hello!").starts_with("Hello! I am"));
    assert_eq!(reply("rivers"), "You said: rivers\n\nI have read 1 messages of this conversation. <Stop>");
    assert_eq!(reply("fail"), "I was about to say  <Refused>");
    assert!(reply("").ends_with("<Stop>"));
    assert!(reply("help").contains("\"long\""));
    assert_eq!(reply("color"), "You said: color\n\nI have read 1 messages of this conversation. <Stop>");
}

#[test]
fn the_demo_uses_the_tools_of_the_page() {
    let demo = Script::load(&ScriptOptions::default(), Path::new(".")).unwrap();
    let tool = |name: &str| Tool { name: name.to_owned(), description: String::new(), parameters: None, metadata: None };
    let reply = |text: &str| {
        let tools = vec![tool("set_color"), tool("ask_person")];
        said(&burst(&demo, CallRequest { tools, ..request(vec![user(text)]) }))
    };
    assert_eq!(reply("Color"), r#"[0 set_color]{"color":"teal"} <ToolCalls>"#);
    assert_eq!(reply("ask"), r#"I had better ask. [0 ask_person]{"question":"Shall I go on?"} <ToolCalls>"#);
    assert_eq!(reply("both"), r#"[0 set_color]{"color":"gold"}[1 ask_person]{"question":"Is this better?"} <ToolCalls>"#);
}

#[tokio::test(start_paused = true)]
async fn the_demo_thinks_and_takes_its_time() {
    let demo = Script::load(&ScriptOptions::default(), Path::new(".")).unwrap();
    let think: Vec<_> = demo.start(request(vec![user("think of a river")])).collect().await;
    assert!(matches!(&think[0], Ok(Chunk::Reasoning(_))), "{think:?}");
    let watch = Watch::start();
    let long: Vec<_> = demo.start(request(vec![user("long")])).collect().await;
    assert!(long.len() > 300 && watch.read() > Duration::from_secs(10));
}

#[test]
fn the_example_shows_every_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/script");
    let options = ScriptOptions { file: Some("rules.toml".into()), attempts: None };
    let example = Script::load(&options, &folder).unwrap();
    let reply = |text: &str| said(&burst(&example, request(vec![user(text)])));
    assert_eq!(
        reply("the weather"),
        r#"(They )(ask )(about )(the )(weather, )(and )(a )(tool )(knows )(it. )[0 weather]{"days":3,"place":"the weather"} <ToolCalls>"#
    );
    assert_eq!(reply("cut"), "This answer is cut  <Cut>");
    assert_eq!(reply("x"), "You said \"x\". I have read 1 messages: x <Stop>");

    let text = std::fs::read_to_string(folder.join("rules.toml")).unwrap();
    let (header, _) = text.split_once("\n\n").unwrap();
    let rule = unknown_key("[[rule]]\ntext = ''\nnone = 1");
    let when = unknown_key("[[rule]]\nwhen = { none = 1 }");
    let allowed: Vec<&str> = rule.split('`').skip(3).step_by(2).chain(when.split('`').skip(3).step_by(2)).collect();
    assert!(allowed.len() > 18, "{allowed:?}");
    for key in allowed {
        assert!(header.contains(&format!("{key} ")), "the example's header doesn't tell what {key} is");
    }
}

fn unknown_key(rules: &str) -> String {
    match Script::parse(rules, Path::new("r.toml")) {
        Err(Error::Rules { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn faults_have_a_place_and_say_what_is_allowed() {
    for (rules, expected) in [
        ("", "r.toml:1:1: a script needs at least one [[rule]]"),
        ("[[rule]]\n  txt = 'a'", "r.toml:2:3: unknown field `txt`, expected one of `when`, `times`"),
        ("[[rules]]\ntext = 'a'", "r.toml:1:3: unknown field `rules`, expected `rule`"),
        ("[[rule]]\ntext = 'a'\n[[rule]]\nwhen = { is = 'ż', has = 'b' }", "r.toml:4:20: unknown field `has`, expected one of `is`"),
        ("[[rule]]\ntext = 'a'\n\n[[rule]]\nwhen = { is = 'a' }", "r.toml:4:1: this rule has no answer"),
        ("[[rule]]\ntext = 'a'\nerror = 'late'", "r.toml:3:9: unknown variant `late`, expected one of `too_long`"),
        ("[[rule]]\ntext = 'a'\nfinish = 'done'", "r.toml:3:10: unknown variant `done`, expected one of `stop`"),
        ("[[rule]]\ntext = 'a'\nfinish = 'stop'\nerror = 'cut'", "r.toml:3:10: a rule has `error` or `finish`, not both"),
        ("[[rule]]\ntext = 'a {lst}'", "r.toml:2:8: unknown placeholder {lst}; there are {last}, {first}"),
        ("[[rule]]\ntext = 'a'\nafter_tokens = 1", "r.toml:3:16: `after_tokens` needs `error`"),
        ("[[rule]]\ntext = 'a'\nmessage = 'b'", "r.toml:3:11: `message` is an error's"),
        ("[[rule]]\nerror = 'cut'\nretry_after_ms = 1", "r.toml:3:18: `retry_after_ms` needs `error = \"rate_limited\"`"),
        ("[[rule]]\ntext = 'a'\nrepeat = 0", "r.toml:3:10: `repeat` is 0; 1 to 10000 are allowed"),
        ("[[rule]]\ntext = 'a'\ntimes = 10001", "r.toml:3:9: `times` is 10001; 1 to 10000 are allowed"),
        ("[[rule]]\ntext = 'a'\nwhen = { over_tokens = -1 }", "r.toml:3:24: invalid value: integer `-1`, expected u64"),
        ("[[rule]]\ntext = 'a'\nwhen = { over_characters = 'x' }", "r.toml:3:28: invalid type: string"),
        ("[[rule]]\ntext = 'a'\nwhen = { anywhere = [] }", "r.toml:3:21: invalid length 0, expected at least one text"),
        (
            "[[rule]]\ntext = 'a'\npace = { delay_ms = 1, tokens_per_sec = 1 }",
            "r.toml:3:8: `pace` has `tokens_per_sec` or `delay_ms`, not both",
        ),
        ("[[rule]]\ntext = 'a'\npace = { tokens_per_sec = 0 }", "r.toml:3:"),
        ("[[rule]]\ntext = 'a'\npace = { tokens_per_sec = nan }", "r.toml:3:8: `tokens_per_sec` must be"),
        ("[[rule]]\ntext = 'a'\npace = { first_ms = 9999999999 }", "r.toml:3:8: a pause may last"),
        (
            "[[rule]]\ntext = 'a'\nwhen = { tool_result = 1 }",
            "r.toml:3:24: invalid type: integer `1`, expected true, false, or the name of a tool",
        ),
        ("[[rule]]\ntext = 'a'\nwhen = { is = [] }", "r.toml:3:15: invalid length 0, expected at least one text"),
        ("[[rule]]\ntool_calls = [{ name = '' }]", "r.toml:2:24: a tool's name can't be empty"),
        ("[[rule]]\ntool_calls = [{ name = 'a', arguments = 1 }]", "r.toml:2:41: `arguments` is a table"),
        ("[[rule]]\ntool_calls = [{ name = 'a', arguments = { n = inf } }]", "r.toml:2:41: JSON has no number inf"),
        ("[[rule]]\ntext = 'a", "r.toml:2:"),
    ] {
        let error = Script::parse(rules, Path::new("r.toml")).expect_err(rules).to_string();
        assert!(error.starts_with(expected), "{rules:?}\n{error}\n{expected}");
    }
}

#[test]
fn a_file_that_is_missing_or_too_large_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let options = ScriptOptions { file: Some("none.toml".into()), attempts: None };
    let error = Script::load(&options, folder.path()).unwrap_err();
    assert!(error.to_string().ends_with("none.toml") && std::error::Error::source(&error).is_some(), "{error}");
    std::fs::File::create(folder.path().join("none.toml")).unwrap().set_len(super::FILE_BYTES_MAX + 1).unwrap();
    assert!(matches!(Script::load(&options, folder.path()), Err(Error::TooLarge { .. })));
}
