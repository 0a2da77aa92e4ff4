//! Turns that wait: for the running one, or for results.

use super::*;
use crate::ids::ToolCallId;
use crate::protocol::{CancelReason, Tool};

#[test]
fn turns_begin_in_the_order_in_which_they_came() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        let second = bench.add("t2", "u2", OnBusy::Queue).await.unwrap();
        let third = bench.add("t3", "u3", OnBusy::Queue).await.unwrap();
        assert_eq!((second.accepted.queued, second.accepted.position), (true, Some(1)));
        assert_eq!((third.accepted.queued, third.accepted.position), (true, Some(2)));
        for (n, submitted) in [first, second, third].into_iter().enumerate() {
            let request = bench.model.answers(&format!("reply {n}")).await;
            assert_eq!(request.messages.len(), 2 * n + 1, "it reads the replies that it waited for");
            let events = rest(reader(submitted)).await;
            assert_eq!(text(&events), format!("reply {n}"));
        }
        assert_eq!(
            bench.tree().await,
            "u1 user: one\nr1 assistant: reply 0\nu2 user: says u2\nr2 assistant: reply 1\nu3 user: says u3\nr3 assistant: reply 2  <- head\n"
        );
    });
}

#[test]
fn who_waits_is_told_nothing_before_the_turn_begins_and_then_everything() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        let second = bench.add("t2", "u2", OnBusy::Queue).await.unwrap();
        model.send(says("first")).unwrap();
        let mut first = reader(first);
        while text(&first.next().await.unwrap().events).is_empty() {}
        let mut waiting = reader(second);
        assert!(waiting.try_next().is_none());
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        let batch = waiting.next().await.unwrap();
        let [began, whole, ..] = batch.events.as_slice() else { panic!("{:?}", batch.events) };
        assert!(matches!(&began.body, EventBody::TurnStarted { turn_id, .. } if *turn_id == "t2".into()), "{began:?}");
        let EventBody::Resync(snapshot) = &whole.body else { panic!("{whole:?}") };
        assert_eq!(texts(snapshot), ["one", "first", "says u2"]);
        assert!(whole.cursor.is_some() && began.cursor.is_none(), "who resumes after the first gets both again");
        let ended = rest(first).await;
        assert!(matches!(&ended.last().unwrap().body, EventBody::TurnCompleted { turn_id } if *turn_id == "t1".into()));
        bench.model.answers("second").await;
        let events = rest(waiting).await;
        assert_eq!(text(&events), "second");
        assert!(matches!(&events.last().unwrap().body, EventBody::TurnCompleted { turn_id } if *turn_id == "t2".into()));
    });
}

#[test]
fn merged_submits_are_one_turn_and_all_of_them_read_it() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        let second = bench.add("t2", "u2", OnBusy::Merge).await.unwrap();
        let third = bench.add("t3", "u3", OnBusy::Merge).await.unwrap();
        let again = bench.add("t3", "u3", OnBusy::Merge).await.unwrap();
        assert!(again.accepted.duplicate && again.accepted.queued);
        let group = ["t2".into(), "t2".into()];
        assert_eq!([third.accepted.turn_id.clone(), again.accepted.turn_id.clone()], group);
        bench.model.answers("first").await;
        rest(reader(first)).await;
        let request = bench.model.answers("both").await;
        assert_eq!(
            request.messages.iter().map(|message| message.joined_text()).collect::<Vec<_>>(),
            ["one", "first", "says u2", "says u3"]
        );
        for submitted in [second, third, again] {
            let events = rest(reader(submitted)).await;
            assert!(matches!(&events[0].body, EventBody::TurnStarted { turn_id, .. } if *turn_id == "t2".into()));
            assert_eq!(text(&events), "both");
        }
        assert_eq!(bench.runtime.session(&key()).await.unwrap().queue, []);
    });
}

#[test]
fn a_waiting_turn_that_is_stopped_ends_for_its_readers_alone() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        let second = bench.add("t2", "u2", OnBusy::Merge).await.unwrap();
        let merged = bench.add("t3", "u3", OnBusy::Merge).await.unwrap();
        let third = bench.add("t4", "u4", OnBusy::Queue).await.unwrap();
        // By the name of any of its submits.
        assert!(bench.runtime.cancel(&key(), Some("t3".into())).await.unwrap());
        assert!(!bench.runtime.cancel(&key(), Some("t3".into())).await.unwrap());
        for stopped in [second, merged] {
            let events = rest(reader(stopped)).await;
            let [Event { body: EventBody::TurnCancelled { turn_id, reason: None, messages }, .. }] = events.as_slice() else {
                panic!("{events:?}")
            };
            assert_eq!((turn_id, messages.as_slice()), (&"t2".into(), &["u2".into(), "u3".into()][..]));
        }
        bench.model.answers("first").await;
        assert_eq!(text(&rest(reader(first)).await), "first");
        bench.model.answers("second").await;
        assert_eq!(text(&rest(reader(third)).await), "second");
        assert_eq!(bench.add("t2", "u2", OnBusy::Merge).await.err().map(|refusal| refusal.code), None, "the same submit answers");
        let again = bench.add("t5", "u2", OnBusy::Refuse).await.unwrap();
        assert_eq!(again.accepted.recorded, ["u2".into()], "what never became a node is new");
    });
}

#[test]
fn stopping_the_running_turn_begins_the_next() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("half")).unwrap();
        let mut first = reader(first);
        first.next().await.unwrap();
        let second = bench.add("t2", "u2", OnBusy::Queue).await.unwrap();
        let appends = bench.store.appends();
        assert!(bench.runtime.cancel(&key(), None).await.unwrap());
        assert_eq!(bench.store.appends(), appends + 1, "the end and the beginning are one append");
        assert!(matches!(rest(first).await.last().unwrap().body, EventBody::TurnCancelled { .. }));
        bench.model.answers("second").await;
        assert_eq!(text(&rest(reader(second)).await), "second");
        assert_eq!(bench.tree().await, "u1 user: one\nr1 assistant (partial): half\nu2 user: says u2\nr2 assistant: second  <- head\n");
    });
}

#[test]
fn leaving_the_branch_gives_up_what_waits_for_it() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        bench.model.answers("first").await;
        rest(reader(first)).await;
        let second = bench.add("t2", "u2", OnBusy::Refuse).await.unwrap();
        let third = bench.add("t3", "u3", OnBusy::Queue).await.unwrap();
        let (_, _model) = bench.model.asked().await;
        let to_start = HeadMove { to: HeadTo::Node(Some("u1".into())), label: Some("start".to_owned()) };
        let moved = bench.runtime.move_head(&key(), to_start).await.unwrap();
        assert_eq!((moved.head_id, moved.cancelled), (Some("u1".into()), vec!["t2".into(), "t3".into()]));
        let end = |events: Vec<Event>| match events.last().map(|event| event.body.clone()) {
            Some(EventBody::TurnCancelled { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(end(rest(reader(second)).await), Some(CancelReason::BranchLeft));
        assert_eq!(end(rest(reader(third)).await), Some(CancelReason::BranchLeft));
        let page = bench.runtime.session(&key()).await.unwrap();
        assert_eq!((page.head_id, page.checkpoints[0].label.as_str(), page.queue), (Some("u1".into()), "start", Vec::new()));
    });
}

#[test]
fn a_turn_that_asks_for_no_reply_begins_and_ends_and_the_next_one_runs() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        let note = InputBody::Append { messages: vec![Message::text(Role::User, "a note").with_id("u2".into())] };
        let noted = Input { on_busy: OnBusy::Queue, run: Some(false), body: note, ..input("t2", &[]) };
        let noted = bench.runtime.submit(&key(), noted).await.unwrap();
        let third = bench.add("t3", "u3", OnBusy::Queue).await.unwrap();
        let appends = bench.store.appends();
        bench.model.answers("first").await;
        assert!(matches!(&rest(reader(first)).await.last().unwrap().body, EventBody::TurnCompleted { turn_id } if *turn_id == "t1".into()));
        let events = rest(reader(noted)).await;
        let [began, whole, ended] = events.as_slice() else { panic!("{events:?}") };
        assert!(matches!(&began.body, EventBody::TurnStarted { turn_id, .. } if *turn_id == "t2".into()));
        assert!(matches!(&whole.body, EventBody::Resync(_)));
        assert!(matches!(&ended.body, EventBody::TurnCompleted { turn_id } if *turn_id == "t2".into()));
        assert_eq!(bench.model.answers("second").await.messages.len(), 4);
        assert_eq!(text(&rest(reader(third)).await), "second");
        assert_eq!(bench.store.appends(), appends + 2);
    });
}

#[test]
fn a_full_queue_refuses_and_writes_nothing() {
    run(async {
        let bench = Bench::new();
        let _first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        for n in 2..6 {
            bench.add(&format!("t{n}"), &format!("u{n}"), OnBusy::Queue).await.map(drop).unwrap();
        }
        let appends = bench.store.appends();
        let refusal = bench.add("t9", "u9", OnBusy::Queue).await.err().unwrap();
        assert_eq!(refusal.code, Code::QueueFull);
        assert_eq!(bench.store.appends(), appends);
        assert_eq!(bench.runtime.session(&key()).await.unwrap().queue.len(), 4);
    });
}

/// The tool `look`, which the client carries out.
fn client() -> Client {
    let tool = Tool { name: "look".to_owned(), description: String::new(), parameters: None, metadata: None };
    Client { tools: Some(vec![tool]), ..Client::default() }
}

/// A turn that waits for the results of `c1` and `c2`.
pub(super) async fn waiting(bench: &Bench) -> Vec<Event> {
    let first = Input { client: client(), ..input("t1", &[("u1", Role::User, "look around")]) };
    let submitted = bench.runtime.submit(&key(), first).await.unwrap();
    let (_, model) = bench.model.asked().await;
    for (index, id) in [(0, "c1"), (1, "c2")] {
        model.send(Ok(Chunk::ToolCall { index, id: Some(id.into()), name: "look".to_owned() })).unwrap();
        model.send(Ok(Chunk::ToolArguments { index, delta: "{}".to_owned() })).unwrap();
    }
    model.send(Ok(Chunk::Finished(Finish::ToolCalls))).unwrap();
    rest(reader(submitted)).await
}

pub(super) fn result(turn: &str, call: &str) -> Input {
    let message = Message { tool_call_id: Some(call.into()), ..Message::text(Role::Tool, format!("{call} saw it")) };
    Input { body: InputBody::Result { message }, ..input(turn, &[]) }
}

#[test]
fn a_turn_waits_for_results_and_goes_on_with_the_last() {
    run(async {
        let bench = Bench::new();
        let events = waiting(&bench).await;
        let calls: Vec<ToolCallId> = vec!["c1".into(), "c2".into()];
        assert!(matches!(&events.last().unwrap().body, EventBody::TurnWaiting { calls: open, .. } if *open == calls));
        let page = bench.runtime.session(&key()).await.unwrap();
        assert_eq!((page.status, page.open_calls.len()), (SessionStatus::Waiting, 2));
        let joined = bench.runtime.join(&key()).await.unwrap();
        assert!(joined.running.is_none());
        assert_eq!(joined.waiting.calls, calls);
        let again = bench.runtime.submit(&key(), Input { client: client(), ..input("t1", &[("u1", Role::User, "look around")]) }).await;
        assert!(matches!(again.unwrap().following, Following::Ended(TurnEnd::Waiting { calls: open }) if open == calls));
        let one = bench.runtime.submit(&key(), result("t2", "c2")).await.unwrap();
        assert!(!one.accepted.reply);
        assert!(matches!(one.following, Following::Ended(TurnEnd::Waiting { calls }) if calls == ["c1".into()]));
        let other = bench.runtime.submit(&key(), result("t3", "c1")).await.unwrap();
        assert_eq!(other.accepted.turn_id, "t1".into());
        let request = bench.model.answers("Seen.").await;
        assert_eq!(
            request.messages.iter().map(|message| message.joined_text()).collect::<Vec<_>>(),
            ["look around", "", "c1 saw it", "c2 saw it"]
        );
        let events = rest(reader(other)).await;
        assert_eq!(text(&events), "Seen.");
        assert!(matches!(&events.last().unwrap().body, EventBody::TurnCompleted { turn_id } if *turn_id == "t1".into()));
        let closed = bench.runtime.submit(&key(), result("t4", "c9")).await.err().unwrap();
        assert_eq!(closed.code, Code::CallNotOpen);
    });
}

#[test]
fn a_turn_that_ends_in_its_own_append_is_answered_with_its_end() {
    run(async {
        let bench = Bench::new();
        waiting(&bench).await;
        // Calls of tools that nobody declared: the model is asked again at once, until it asked too often.
        bench.runtime.submit(&key(), result("t2", "c1")).await.map(drop).unwrap();
        let submitted = bench.runtime.submit(&key(), result("t3", "c2")).await.unwrap();
        for n in 0..2 {
            let (_, model) = bench.model.asked().await;
            let (name, id) = (if n == 0 { "nothing" } else { "look" }, format!("d{n}"));
            model.send(Ok(Chunk::ToolCall { index: 0, id: Some(id.as_str().into()), name: name.to_owned() })).unwrap();
            model.send(Ok(Chunk::Finished(Finish::ToolCalls))).unwrap();
        }
        assert!(matches!(rest(reader(submitted)).await.last().unwrap().body, EventBody::TurnWaiting { .. }));
        let last = bench.runtime.submit(&key(), result("t4", "d1")).await.unwrap();
        assert!(matches!(last.following, Following::Ended(TurnEnd::Failed { code: Code::TooManyCalls, .. })));
    });
}

#[test]
fn what_waits_behind_a_waiting_turn_stays_in_memory_as_long_as_somebody_reads_it() {
    run(async {
        let bench = Bench::new();
        waiting(&bench).await;
        let queued = bench.add("t2", "u2", OnBusy::Queue).await.unwrap();
        assert!(queued.accepted.queued);
        let mut queued = reader(queued);
        let nothing = tokio::time::timeout(Duration::from_secs(1000), queued.next()).await;
        assert!(nothing.is_err(), "it is told nothing, and not let go");
        assert_eq!(*bench.runtime.0.living.borrow(), 1);
        drop(queued);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!((*bench.runtime.0.living.borrow(), bench.runtime.0.open_sessions()), (0, 0));
        bench.runtime.submit(&key(), result("t3", "c1")).await.map(drop).unwrap();
        let last = bench.runtime.submit(&key(), result("t4", "c2")).await.unwrap();
        bench.model.answers("Seen.").await;
        rest(reader(last)).await;
        let request = bench.model.answers("And that.").await;
        assert_eq!(request.messages.last().unwrap().joined_text(), "says u2");
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time is the test's own")]
fn a_drain_waits_for_turns_that_wait_for_others_but_not_for_results() {
    run(async {
        let bench = Bench::new();
        let first = bench.say("t1", &[("u1", Role::User, "one")]).await.unwrap();
        let second = bench.add("t2", "u2", OnBusy::Queue).await.unwrap();
        let other = Bench::over(Arc::new(Faulty::new(Arc::new(Memory::new()))));
        waiting(&other).await;
        let began = tokio::time::Instant::now();
        other.runtime.drain().await;
        assert!(began.elapsed() < Duration::from_secs(1), "nothing runs");
        let runtime = bench.runtime.clone();
        let drain = tokio::task::spawn_local(async move { runtime.drain().await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(bench.add("t3", "u3", OnBusy::Queue).await.err().unwrap().code, Code::ShuttingDown);
        bench.model.answers("first").await;
        assert_eq!(text(&rest(reader(first)).await), "first");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!drain.is_finished());
        bench.model.answers("second").await;
        assert_eq!(text(&rest(reader(second)).await), "second");
        drain.await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "it ended with the last turn");
    });
}
