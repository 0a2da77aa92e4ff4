//! Room in the window, case by case: what a strategy's keys come to, what is too large or of no use and what is said of it, and what
//! becomes of a shortened session that is imported.

use headwater::engine::context::{self, ContextOptions};
use headwater::engine::record::{Body, CallStarted, Reads, Record};
use headwater::engine::{self, Finished, Session};
use headwater::protocol::{CallErrorKind, Code, Content, Finish, KeptReason, Message, OnBusy, Part, PartKind, Refusal, Role, Usage};

use crate::talk::{Asked, Kind, Talk};

fn talk(system: &str, context: &str) -> Talk {
    let mut talk = Talk::default();
    talk.configure("bot", Some(system), &serde_json::from_str(context).unwrap());
    talk
}

fn asked(kind: Kind, text: &str) -> Asked {
    Asked { kind, messages: vec![Message::text(Role::User, text)], ..Asked::default() }
}

fn say(talk: &mut Talk, text: &str) -> Vec<Record> {
    talk.submit(&asked(Kind::Message, text)).unwrap().0
}

/// Some turns, the last of which has a call that is held.
fn held(talk: &mut Talk) {
    for n in 0..3 {
        say(talk, &format!("question {n}"));
        talk.finish(&format!("answer {n}"), Vec::new());
    }
    talk.reports = Some(5_000);
    say(talk, "more");
    talk.finish("a long answer", Vec::new());
    say(talk, "and now?");
    assert!(talk.session.turn.as_ref().unwrap().held.is_some());
}

fn hidden(records: &[Record]) -> &CallStarted {
    let of = |record: &Record| matches!(&record.body, Body::CallStarted(call) if call.hidden);
    let Some(Body::CallStarted(call)) = records.iter().find(|record| of(record)).map(|record| &record.body) else { panic!("{records:?}") };
    call
}

#[test]
fn a_summarys_keys_reach_its_call_and_each_attempt_of_it() {
    let keys = r#""use":"summarize","over_tokens":1000,"keep_turns":1,"prompt":"Be brief.","llm":"small","model":"tiny""#;
    let mut talk = talk("You help.", &format!(r#"{{"window":20000,"strategy":[{{{keys}}}]}}"#));
    held(&mut talk);
    let mut records = talk.make_room();
    for (kind, halved) in [(None, 0), (Some(CallErrorKind::Cut), 0), (Some(CallErrorKind::TooLong), 1), (Some(CallErrorKind::Cut), 1)] {
        if let Some(kind) = kind {
            records = talk.fail(kind, None);
            if kind == CallErrorKind::Cut {
                records = talk.wake();
            }
        }
        let call = hidden(&records).clone();
        assert_eq!((call.llm.as_deref(), call.model.as_deref()), (Some("small"), Some("tiny")));
        let Reads::Summary(summary) = &call.reads else { panic!("{call:?}") };
        assert_eq!(summary.halved, halved);
        let (system, message) = context::request(&talk.session, summary, Some(20_000)).unwrap();
        let read = message.joined_text();
        assert_eq!((system.as_str(), read.contains("answer 2"), read.contains("and now?")), ("Be brief.", true, false));
    }
    let records = talk.finish("In short.", Vec::new()).1;
    let goes_on = records.iter().find_map(|record| if let Body::CallStarted(call) = &record.body { Some(call) } else { None }).unwrap();
    assert_eq!((goes_on.hidden, &goes_on.llm, &goes_on.model), (false, &None, &None), "the held call is the agent's own");
}

#[test]
fn a_background_summarys_keys_reach_its_job() {
    let keys = r#""use":"summarize","over_tokens":1000,"keep_turns":1,"background":true,"prompt":"Be brief.","llm":"small","model":"tiny""#;
    let mut talk = talk("You help.", &format!(r#"{{"strategy":[{{{keys}}}]}}"#));
    for n in 0..3 {
        say(&mut talk, &format!("question {n}"));
        talk.reports = Some(1_200);
        talk.finish("an answer", Vec::new());
    }
    say(&mut talk, "more");
    assert_eq!(talk.begin_job().len(), 1);
    for halved in [0, 1] {
        let job = talk.session.job.clone().unwrap();
        assert_eq!((job.llm.as_deref(), job.model.as_deref()), (Some("small"), Some("tiny")));
        assert_eq!((job.summary.prompt.as_deref(), job.summary.halved), (Some("Be brief."), halved));
        assert_eq!(context::request(&talk.session, &job.summary, None).unwrap().0, "Be brief.");
        talk.job_fails(CallErrorKind::TooLong, None);
        talk.job_wakes();
    }
}

#[test]
fn a_media_part_takes_the_room_of_1200_tokens() {
    let mut talk = talk("", r#"{"window":18000,"strategy":[{"use":"reset","over_tokens":2000}]}"#);
    say(&mut talk, "Hello.");
    talk.finish("Hello!", Vec::new());
    let image = |n: usize| Message {
        content: Some(Content::Parts(vec![Part::text(PartKind::Image, String::new()); n])),
        ..Message::text(Role::User, "")
    };
    talk.submit(&Asked { kind: Kind::Message, messages: vec![image(1)], ..Asked::default() }).unwrap();
    assert!(talk.session.turn.as_ref().unwrap().held.is_none(), "one fits");
    talk.finish("An image.", Vec::new());
    talk.submit(&Asked { kind: Kind::Message, messages: vec![image(1)], ..Asked::default() }).unwrap();
    let held = talk.session.turn.as_ref().unwrap().held.clone().expect("two don't");
    let characters = "Hello.Hello!An image.".len() as u64;
    assert_eq!(held.tokens, 2_400 + characters.div_ceil(4));
}

fn too_large(talk: &mut Talk, asked: &Asked) -> Refusal {
    let seq = talk.session.seq;
    let refusal = talk.submit(asked).unwrap_err();
    assert_eq!((refusal.code, talk.session.seq), (Code::ArrivalTooLarge, seq), "nothing is written");
    refusal
}

#[test]
fn what_can_never_fit_is_refused_as_it_comes() {
    // A fifth of the window is the system prompt's.
    let mut talk = talk(&"s".repeat(400), r#"{"window":500}"#);
    let label = "[Event]\n".len();
    let fits = 1_600 - label;
    let refusal = too_large(&mut talk, &asked(Kind::Event, &"x".repeat(fits + 1)));
    assert_eq!(
        refusal.message,
        "the model reads 500 tokens at most, and this alone has about 401, besides 100 of system prompt and 0 of tools; send it in \
         smaller parts"
    );
    assert_eq!((refusal.details["tokens"].as_u64(), refusal.details["window"].as_u64()), (Some(401), Some(500)));
    talk.submit(&asked(Kind::Event, &"x".repeat(fits))).unwrap();
    say(&mut talk, "Hello.");
    talk.finish("Hello!", Vec::new());
    say(&mut talk, "Once more.");
    // Of a message that joins the turn no label is read, and its client's tools take room, or those that the turn has.
    let steer = |text: String, tools: &[&str]| Asked { on_busy: OnBusy::Steer, ..asked(Kind::Message, &text) }.with_tools(tools);
    let refusal = too_large(&mut talk, &steer("x".repeat(1_600), &["look"]));
    assert!(refusal.message.contains("has about 400, besides 100 of system prompt and 1 of tools"), "{}", refusal.message);
    let tokens = |asked: Asked| Asked { client: headwater::protocol::Client::default(), ..asked };
    talk.submit(&tokens(steer("x".repeat(1_600), &[]))).unwrap();
    let view = Asked { kind: Kind::View, ..tokens(steer("x".repeat(2_000), &[])) };
    let view = Asked { messages: [talk.snapshot(), view.messages].concat(), ..view };
    too_large(&mut talk, &view);
    talk.replays();
}

#[test]
fn a_summary_that_is_empty_is_none() {
    for text in ["", " \n "] {
        let mut talk = talk("You help.", r#"{"window":20000,"strategy":[{"use":"summarize","over_tokens":1000,"keep_turns":1}]}"#);
        held(&mut talk);
        talk.make_room();
        let records = talk.finish(text, Vec::new()).1;
        let kept = records.iter().find_map(|record| if let Body::ContextKept(kept) = &record.body { Some(kept.reason) } else { None });
        assert_eq!(kept, Some(KeptReason::SummaryFailed));
        if let Body::CallFailed(failed) = &records[0].body {
            assert_eq!((failed.error.kind, failed.error.message.as_str()), (CallErrorKind::Nonsense, "the model said nothing"));
        } else {
            assert_eq!(text.trim(), "", "it was said, and says nothing");
        }
        assert_eq!(talk.session.tree.epoch(talk.session.head), 0);
        assert!(engine::prompt(&talk.session).unwrap().len() == 9, "the call goes on as it was");
        say_more_and_nothing_is_held(&mut talk);
    }
}

/// In that turn room isn't made again.
fn say_more_and_nothing_is_held(talk: &mut Talk) {
    talk.reports = Some(9_000);
    let call = headwater::protocol::ToolCall::new("c1".into(), "nothing", "{}");
    let records = talk.finish("so", vec![call]).1;
    assert!(!records.iter().any(|record| matches!(record.body, Body::ContextLimited(_))), "{records:?}");
}

#[test]
fn a_summary_that_is_longer_than_what_it_stands_for_is_of_no_use() {
    let options = r#"{"window":20000,"strategy":[{"use":"summarize","over_tokens":20,"keep_turns":0}]}"#;
    let mut talk = talk("You help.", options);
    for n in 0..9 {
        say(&mut talk, &format!("question {n}"));
        if talk.session.turn.as_ref().unwrap().held.is_some() {
            break;
        }
        talk.finish(&format!("answer {n}"), Vec::new());
    }
    talk.make_room();
    let records = talk.finish(&"long ".repeat(100), Vec::new()).1;
    let kept = records.iter().find_map(|record| if let Body::ContextKept(kept) = &record.body { Some(kept.reason) } else { None });
    assert_eq!((kept, talk.session.tree.epoch(talk.session.head)), (Some(KeptReason::NoGain), 0));
    say_more_and_nothing_is_held(&mut talk);
    // What a provider has refused is tried with it once, and then fails, and says why.
    let mut talk = self::talk("You help.", r#"{"window":20000}"#);
    say(&mut talk, "question");
    talk.finish("answer", Vec::new());
    say(&mut talk, "once more");
    talk.fail(CallErrorKind::TooLong, None);
    talk.make_room();
    let records = talk.finish(&"long ".repeat(100), Vec::new()).1;
    assert!(records.iter().any(|record| matches!(&record.body, Body::ContextReplaced(replaced) if replaced.no_gain)), "{records:?}");
    let records = talk.fail(CallErrorKind::TooLong, None);
    let failed = records.iter().find_map(|record| if let Body::TurnFailed(failed) = &record.body { Some(failed) } else { None }).unwrap();
    assert_eq!(failed.code, Code::LlmTooLong);
    assert_eq!(
        failed.message,
        "the call is too long for its model (the model failed): about 3 tokens of system prompt, 0 of tools, 138 of 2 messages, the last \
         of which has 3"
    );
}

#[test]
fn a_window_smaller_than_the_system_prompt_is_refused() {
    let options: ContextOptions = serde_json::from_str(r#"{"window":100}"#).unwrap();
    let wrong = options.check(Some(&"word ".repeat(100))).unwrap_err();
    assert_eq!((wrong.strategy, wrong.key), (None, "window"));
    assert_eq!(wrong.what, "the system prompt has about 125 tokens, and the model reads 100");
    assert_eq!(wrong.help, "shorten `system`, or write what the model reads");
    options.check(Some(&"w".repeat(396))).unwrap();
    assert!(options.check(Some(&"w".repeat(397))).is_err(), "as large as the window is too large");
}

#[test]
fn what_is_reported_of_a_filtered_reply_counts_for_the_turn_that_waited() {
    let mut talk = talk("You help.", r#"{"window":20000,"strategy":[{"use":"summarize","over_tokens":1000,"keep_turns":0}]}"#);
    say(&mut talk, "question");
    talk.submit(&Asked { on_busy: OnBusy::Queue, ..asked(Kind::Message, "another") }).unwrap();
    let usage = Some(Usage { input_tokens: Some(5_000), ..Usage::default() });
    let message = Message::text(Role::Assistant, "half of it");
    talk.ended(Ok(Finished::of_model(message, Finish::Filtered, usage)));
    assert!(talk.session.turn.as_ref().unwrap().held.is_some(), "5,000 tokens are more than 1,000");
}

/// A session with everything that this release knows: held calls, a job, arrivals, epochs, steering.
fn eventful() -> Talk {
    let options = r#"{"strategy":[{"use":"summarize","over_tokens":1500,"keep_turns":1},
        {"use":"summarize","over_tokens":1000,"keep_turns":1,"background":true}]}"#;
    let mut talk = talk("You help.", options);
    for n in 0..2 {
        say(&mut talk, &format!("question {n}"));
        talk.finish(&format!("answer {n}"), Vec::new());
    }
    talk.submit(&asked(Kind::Event, "It rains.")).unwrap();
    talk.reports = Some(1_200);
    say(&mut talk, "more");
    talk.finish("an answer", Vec::new());
    say(&mut talk, "and?");
    talk.begin_job();
    talk.submit(&Asked { on_busy: OnBusy::Steer, ..asked(Kind::Message, "Quick.") }).unwrap();
    talk.job_says("They talked.", None);
    talk.finish("so far", Vec::new());
    talk.submit(&Asked { show: true, ..asked(Kind::Event, "It stops.") }).unwrap();
    talk.submit(&Asked { on_busy: OnBusy::Queue, ..asked(Kind::Message, "Then what?") }).unwrap();
    talk.reports = Some(3_000);
    talk.finish("done", Vec::new());
    assert!(talk.session.turn.as_ref().unwrap().held.is_some(), "the next one waits for room");
    talk.submit(&Asked { on_busy: OnBusy::Steer, ..asked(Kind::Message, "Still there?") }).unwrap();
    talk.make_room();
    talk.finish("They talked of rain.", Vec::new());
    talk.fail(CallErrorKind::TooLong, None);
    talk.make_room();
    talk.finish("Rain.", Vec::new());
    assert_eq!(talk.session.tree.epoch(talk.session.head), 3);
    talk
}

#[test]
fn any_beginning_of_a_log_can_be_imported() {
    let talk = eventful();
    let context = Talk::default().context();
    for end in 0..=talk.log.len() {
        let mut session = Session::default();
        for stored in &talk.log[..end] {
            session.evolve(Record::decode(stored).unwrap()).unwrap();
        }
        let seen = engine::reader_nodes(&session);
        for record in engine::end_imported(&session, &context) {
            session.evolve(record).unwrap();
            engine::check_step(&session).unwrap();
        }
        engine::check(&session).unwrap();
        assert!(
            session.turn.is_none() && session.queue.is_empty() && session.arrivals.is_empty() && session.job.is_none(),
            "{end} records"
        );
        assert!(engine::wanted(&session).is_empty());
        assert_eq!(engine::reader_nodes(&session), seen, "people read the same after {end} records");
        assert!(engine::end_imported(&session, &context).is_empty(), "once");
    }
}

#[test]
fn a_fork_of_a_shortened_session_reads_the_same_and_is_shortened_on() {
    let mut talk = eventful();
    talk.finish("the end", Vec::new());
    let texts = |talk: &Talk| engine::prompt(&talk.session).unwrap().iter().map(|read| read.joined_text()).collect::<Vec<_>>();
    let says = |talk: &Talk| talk.snapshot().iter().map(Message::joined_text).collect::<Vec<_>>();
    let (mut fork, _) = talk.fork(None).unwrap();
    assert_eq!((texts(&fork), says(&fork)), (texts(&talk), says(&talk)));
    let (tree, head) = (&fork.session.tree, fork.session.head);
    assert_eq!((tree.epoch(head), context::links(tree, head).len()), (3, 3));
    let originals: Vec<String> =
        context::originals(tree, head).into_iter().map(|ix| fork.session.content(ix).unwrap().joined_text()).collect();
    for said in ["question 0", "answer 0", "It rains.", "Quick.", "It stops.", "Then what?", "Still there?", "the end"] {
        assert!(originals.iter().any(|original| original == said), "{said} is reached: {originals:?}");
    }
    fork.agents = talk.agents.clone();
    fork.reports = Some(9_000);
    say(&mut fork, "go on");
    if fork.session.turn.as_ref().unwrap().held.is_some() {
        fork.make_room();
        fork.finish("a summary", Vec::new());
    }
    fork.finish("an answer", Vec::new());
    say(&mut fork, "and on");
    assert!(fork.session.turn.as_ref().unwrap().held.is_some());
    fork.make_room();
    fork.finish("another", Vec::new());
    fork.finish("the end", Vec::new());
    assert_eq!(says(&fork)[..says(&talk).len()], says(&talk)[..], "nobody notices");
    fork.replays();
}
