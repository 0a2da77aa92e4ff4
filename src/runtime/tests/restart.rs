//! What a process leaves behind, and how the next one, or the same one after a fault of the store's, goes on with it.

use super::*;

/// The next process over the same store, after this one was stopped in the middle.
async fn next(bench: Bench) -> Bench {
    bench.runtime.0.stop_all();
    let mut living = bench.runtime.0.living.subscribe();
    living.wait_for(|&tasks| tasks == 0).await.unwrap();
    let next = Bench::over(bench.store.clone());
    next.runtime.recover().await.unwrap();
    next
}

#[test]
fn a_pause_before_an_attempt_outlives_its_process() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(Err(CallError::new(CallErrorKind::Unavailable, "503"))).unwrap();
        let mut reader = reader(submitted);
        while !reader.next().await.unwrap().events.iter().any(|event| matches!(event.body, EventBody::CallFailed { .. })) {}
        let bench = next(bench).await;
        bench.model.answers("Hi").await;
        let again = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(again.accepted.duplicate);
        if let Following::Running(reader) = again.following {
            rest(reader).await;
        }
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi  <- head\n");
    });
}

#[test]
fn a_turn_whose_process_is_lost_again_and_again_fails() {
    run(async {
        let mut bench = Bench::new();
        let _submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        for _ in 0..3 {
            let (_, model) = bench.model.asked().await;
            model.send(says("Half")).unwrap();
            bench = next(bench).await;
        }
        let again = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(matches!(again.following, Following::Ended(TurnEnd::Failed { code: Code::OwnerLost, .. })));
        assert_eq!(bench.tree().await, "u1 user: hello  <- head\n");
        let after = bench.say("t2", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        assert_eq!(text(&rest(reader(after)).await), "Hi");
    });
}

#[test]
fn a_queue_outlives_its_process() {
    run(async {
        let bench = Bench::new();
        let _running = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.add("t2", "u2", OnBusy::Merge).await.map(drop).unwrap();
        bench.add("t3", "u3", OnBusy::Merge).await.map(drop).unwrap();
        bench.add("t4", "u4", OnBusy::Queue).await.map(drop).unwrap();
        let (_, lost) = bench.model.asked().await;
        let bench = next(bench).await;
        assert!(lost.is_closed());
        let page = bench.runtime.session(&key()).await.unwrap();
        assert_eq!(
            page.queue.iter().map(|queued| (queued.turn_id.as_str(), queued.messages.len())).collect::<Vec<_>>(),
            [("t2", 2), ("t4", 1)]
        );
        let again = bench.add("t3", "u3", OnBusy::Merge).await.unwrap();
        assert!(again.accepted.duplicate && again.accepted.turn_id == "t2".into() && again.accepted.position == Some(1));
        for (asked, reply) in [(1, "one"), (4, "both"), (6, "last")] {
            assert_eq!(bench.model.answers(reply).await.messages.len(), asked);
        }
        let events = rest(reader(again)).await;
        assert_eq!((matches!(events[0].body, EventBody::TurnStarted { .. }), text(&events).as_str()), (true, "both"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let drawn = "u1 user: hello\nr1 assistant: one\nu2 user: says u2\nu3 user: says u3\nr2 assistant: both\nu4 user: says u4\nr3 assistant: last  <- head\n";
        assert_eq!(bench.tree().await, drawn);
    });
}

#[test]
fn a_turn_that_waits_for_results_asks_nothing_of_the_next_process() {
    run(async {
        let bench = Bench::new();
        queue::waiting(&bench).await;
        bench.add("t2", "u2", OnBusy::Queue).await.map(drop).unwrap();
        let bench = next(bench).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(*bench.runtime.0.living.borrow(), 0, "there is nothing to do");
        let page = bench.runtime.session(&key()).await.unwrap();
        assert_eq!((page.status, page.open_calls.len(), page.queue.len()), (SessionStatus::Waiting, 2, 1));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(bench.model.0.lock().unwrap().is_empty());
        assert_eq!(*bench.runtime.0.running.borrow(), 0);
        for (turn, call) in [("t3", "c1"), ("t4", "c2")] {
            bench.runtime.submit(&key(), queue::result(turn, call)).await.map(drop).unwrap();
        }
        bench.model.answers("Seen.").await;
        assert_eq!(bench.model.answers("And that.").await.messages.last().unwrap().joined_text(), "says u2");
    });
}

#[test]
fn a_turn_id_is_known_after_a_restart() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        let bench = next(bench).await;
        let appends = bench.store.appends();
        let again = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(again.accepted.duplicate && matches!(again.following, Following::Ended(TurnEnd::Completed)));
        assert_eq!(again.snapshot.unwrap().messages.len(), 2);
        assert_eq!(bench.say("t1", &[("u1", Role::User, "hullo")]).await.err().unwrap().code, Code::TurnIdReused);
        assert_eq!(bench.store.appends(), appends);
    });
}

#[test]
fn a_turn_that_a_fault_of_the_store_stopped_goes_on_by_itself() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        bench.store.set_down(true);
        model.send(says("Hi")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let mut reader = reader(submitted);
        let end = loop {
            if let Err(end) = reader.next().await {
                break end;
            }
        };
        assert_eq!(end, ReadEnd::Failed(Code::StoreUnavailable));
        tokio::time::sleep(Duration::from_secs(10)).await;
        bench.store.set_down(false);
        // Nobody has asked for the session.
        bench.model.answers("Hi again").await;
        if let Some((_, reader)) = bench.runtime.join(&key()).await.unwrap().running {
            rest(reader).await;
        }
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi again  <- head\n");
    });
}

#[test]
fn an_append_that_hangs_is_given_up_in_time_and_tried_again() {
    run(async {
        let bench = Bench::new();
        // Each of them: the first is carried out although nobody hears of it.
        bench.store.plan([Fault::HangAfter, Fault::HangBefore]);
        let began = clock::now();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let took = Duration::from_millis(clock::now() - began);
        assert!((Duration::from_secs(20)..Duration::from_secs(30)).contains(&took), "append_secs is 10: {took:?}");
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi  <- head\n", "once");
    });
}

#[test]
fn a_store_whose_appends_all_hang_is_refused_in_time() {
    run(async {
        let bench = Bench::new();
        bench.store.plan([Fault::HangBefore; 16]);
        let began = clock::now();
        let refused = bench.say("t1", &[("u1", Role::User, "hello")]).await.err().unwrap();
        let took = Duration::from_millis(clock::now() - began);
        assert_eq!(refused.code, Code::StoreUnavailable);
        assert!((Duration::from_secs(40)..Duration::from_mins(1)).contains(&took), "four times append_secs, which is 10: {took:?}");
    });
}
