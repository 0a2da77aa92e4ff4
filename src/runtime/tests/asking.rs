//! Asking a session's task while it stops, fails, retires, or has too much to do.

use super::*;

#[test]
fn a_stopped_runtime_opens_no_session() {
    run(async {
        let bench = Bench::new();
        let _submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, _model) = bench.model.asked().await;
        bench.runtime.drain().await;
        let appends = bench.store.appends();
        assert_eq!(bench.runtime.join(&key()).await.err().unwrap().code, Code::ShuttingDown);
        assert_eq!(bench.runtime.cancel(&key(), None).await.unwrap_err().code, Code::ShuttingDown);
        assert_eq!(bench.store.appends(), appends, "the turn is left to the next start");
    });
}

#[test]
fn what_was_asked_before_the_stop_is_answered() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        let page = tokio::task::spawn_local({
            let runtime = bench.runtime.clone();
            async move { runtime.session(&key()).await }
        });
        tokio::task::yield_now().await;
        bench.runtime.drain().await;
        assert_eq!(page.await.unwrap().unwrap().status, SessionStatus::Idle);
    });
}

#[test]
fn sessions_that_can_not_be_opened_are_not_remembered() {
    run(async {
        let bench = Bench::new();
        bench.store.set_down(true);
        for name in 0..10 {
            let key = SessionKey { session: SessionId::from(name.to_string()), ..key() };
            assert_eq!(bench.runtime.join(&key).await.err().unwrap().code, Code::StoreUnavailable);
        }
        assert_eq!(bench.runtime.0.open_sessions(), 0);
    });
}

#[test]
fn a_session_that_can_not_keep_up_refuses_more() {
    run(async {
        let bench = Bench::new();
        bench.store.plan([Fault::HangBefore]);
        let ask = || {
            let (runtime, input) = (bench.runtime.clone(), input("t1", &[("u1", Role::User, "hello")]));
            tokio::task::spawn_local(async move { runtime.submit(&key(), input).await.map(drop).map_err(|refusal| refusal.code) })
        };
        let first = ask();
        bench.store.hanging(1).await;
        let mut others: Vec<_> = (0..5).map(|_| ask()).collect();
        for refused in others.split_off(3) {
            assert_eq!(refused.await.unwrap(), Err(Code::TooManyRequests));
        }
        bench.store.release();
        for taken in std::iter::once(first).chain(others) {
            assert_eq!(taken.await.unwrap(), Ok(()));
        }
    });
}

#[test]
fn a_session_that_is_asked_as_it_leaves_memory_answers() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let owner = std::thread::spawn(move || {
        let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        threads.block_on(tokio::task::LocalSet::new().run_until(async {
            let bench = Bench::new();
            let (done, over) = tokio::sync::oneshot::channel::<()>();
            sender.send((bench.runtime.clone(), done)).unwrap();
            over.await.unwrap();
        }));
    });
    let (runtime, done) = receiver.recv().unwrap();
    let askers: Vec<_> = (0..3)
        .map(|_| {
            let runtime = runtime.clone();
            std::thread::spawn(move || {
                let thread = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                // A session that isn't there leaves memory right after it was asked.
                thread.block_on(async {
                    for _ in 0..2000 {
                        assert_eq!(runtime.join(&key()).await.err().unwrap().code, Code::SessionNotFound);
                    }
                });
            })
        })
        .collect();
    for asker in askers {
        asker.join().unwrap();
    }
    done.send(()).unwrap();
    owner.join().unwrap();
}

#[test]
fn who_watches_the_process_is_told_no_internals() {
    run(async {
        let bench = Bench::new();
        bench.store.set_down(true);
        let refusal = bench.runtime.ready().await.unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (Code::StoreUnavailable, "the store doesn't answer"));
    });
}

#[test]
fn a_call_gets_a_name_that_clients_can_send_back() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        let long = crate::ids::ToolCallId::from("x".repeat(129).as_str());
        model.send(Ok(Chunk::ToolCall { index: 0, id: Some(long), name: "look".to_owned() })).unwrap();
        model.send(Ok(Chunk::Finished(Finish::ToolCalls))).unwrap();
        bench.model.answers("Nothing there.").await;
        let events = rest(reader(submitted)).await;
        let id = events.iter().find_map(|event| match &event.body {
            EventBody::Live(Live::ToolCallStarted { id, .. }) => Some(id.clone()),
            _ => None,
        });
        assert!(id.unwrap().as_str().len() <= crate::ids::ID_BYTES_MAX);
    });
}

#[test]
fn the_largest_limits_are_limits() {
    run(async {
        let mut bench = Bench::new();
        let limits = LIMITS.replace("= 64\n", "= 9223372036854775807\n").replace("requests_max = 3", "requests_max = 9223372036854775807");
        let limits = limits.replace("= 60\n", "= 9223372036854775807\n");
        bench.runtime = made(&bench.model, bench.store.clone(), &limits);
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        assert_eq!(text(&rest(reader(submitted)).await), "Hi");
    });
}

#[test]
fn an_endless_reply_is_cut_at_its_limit() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        let piece = "x".repeat(600);
        model.send(says(&piece)).unwrap();
        model.send(says(&piece)).unwrap();
        let events = rest(reader(submitted)).await;
        assert!(matches!(events.last().unwrap().body, EventBody::TurnFailed { code: Code::LlmBadResponse, .. }));
        assert_eq!(bench.tree().await, "u1 user: hello  <- head\n");
    });
}
