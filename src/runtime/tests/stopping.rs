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
            llms: BTreeMap::from([("played".to_owned(), Llm { factory: Arc::new(|| Box::new(AtOnce)), attempts: 2 })]),
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
