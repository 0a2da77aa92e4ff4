//! What happens at the end: of a process, and of a session whose store refused.

use super::*;

/// A model that has its whole answer at once.
struct AtOnce;

impl Provider for AtOnce {
    fn start(&self, _: CallRequest) -> Attempt {
        stream::iter([says("Hi"), Ok(Chunk::Finished(Finish::Stop))]).boxed_local()
    }
}

#[test]
fn who_asks_while_sessions_stop_is_told_so() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        let runtime = bench.runtime.clone();
        let drain = tokio::task::spawn_local(async move { runtime.drain().await });
        // Asked after the session's task was told to stop, and again when it is gone.
        tokio::task::yield_now().await;
        for _ in 0..3 {
            assert_eq!(bench.runtime.session(&key()).await.err().unwrap().code, Code::ShuttingDown);
        }
        drain.await.unwrap();
    });
}

#[test]
fn nothing_follows_an_append_that_failed() {
    run(async {
        let store = Arc::new(Faulty::new(Arc::new(Memory::new())));
        let agent: AgentOptions = toml::from_str("llm = \"played\"").unwrap();
        let options = Options {
            agents: BTreeMap::from([(AgentId::from("bot"), agent)]),
            llms: BTreeMap::from([(
                "played".to_owned(),
                Llm { factory: Arc::new(|| Box::new(AtOnce)), attempts: 2, abilities: Abilities::default() },
            )]),
            workers: BTreeMap::new(),
            dialling: Hub::default(),
            limits: toml::from_str(LIMITS).unwrap(),
        };
        let runtime = Runtime::new(options, store.clone());
        runtime.enter();
        let bench = Bench { runtime, model: Played::default(), store };
        bench.store.plan([Fault::Full]);
        assert_eq!(bench.say("t1", &[("u1", Role::User, "hello")]).await.err().unwrap().code, Code::StoreFull);
        assert_eq!(bench.runtime.session(&key()).await.err().unwrap().code, Code::SessionNotFound);
        assert_eq!(bench.store.appends(), 1, "the model's answer is not appended after what is missing");
    });
}

#[test]
fn calls_that_were_shown_and_not_kept_are_taken_back() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Let me look.")).unwrap();
        model.send(Ok(Chunk::ToolCall { index: 0, id: Some("c1".into()), name: "look".to_owned() })).unwrap();
        let mut reader = reader(submitted);
        while !reader.next().await.unwrap().events.iter().any(|event| matches!(event.body, EventBody::Live(Live::ToolCallStarted { .. }))) {
        }
        bench.runtime.cancel(&key(), None).await.unwrap();
        let events = rest(reader).await;
        let places = |wanted: fn(&EventBody) -> bool| events.iter().position(|event| wanted(&event.body)).unwrap();
        let (ended, voided) = (
            places(|body| matches!(body, EventBody::Live(Live::ReplyEnded { .. }))),
            places(|body| matches!(body, EventBody::CallVoided { .. })),
        );
        assert!(ended < voided);
        let EventBody::Resync(whole) = &events[voided + 1].body else { panic!("{events:?}") };
        assert_eq!(texts(whole), ["hello", "Let me look."]);
        assert!(whole.messages[1].tool_calls.is_empty());
    });
}
