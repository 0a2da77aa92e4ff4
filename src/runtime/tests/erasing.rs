//! What is erased is gone for everyone, at once, under any load.

use super::*;
use crate::store::{Append, Header, Outcome, Position};

fn deleted<T>(result: Result<T, Refusal>) -> bool {
    result.err().is_some_and(|refusal| refusal.code == Code::SessionDeleted)
}

/// Nothing of the session is left, and every way to ask says so.
async fn is_gone(bench: &Bench) {
    let runtime = &bench.runtime;
    let asked = [
        ("submit", deleted(bench.say("t9", &[("u9", Role::User, "hello")]).await)),
        ("join", deleted(runtime.join(&key()).await)),
        ("cancel", deleted(runtime.cancel(&key(), None).await)),
        ("session", deleted(runtime.session(&key()).await)),
        ("tree", deleted(runtime.tree(&key(), TreeQuery { view: TreeView::Raw, after: None, limit: 9 }).await)),
        ("head", deleted(runtime.move_head(&key(), HeadMove { to: HeadTo::Stay, label: None }).await)),
        ("update", deleted(runtime.update(&key(), SessionUpdate::default()).await)),
        ("erase", deleted(runtime.erase(&key()).await)),
        ("records", deleted(runtime.records(&key(), 0, 9).await)),
        ("fork", deleted(runtime.fork(&key(), ForkInput::default()).await)),
        ("import", deleted(runtime.import(&key(), Vec::new()).await)),
        ("events", deleted(runtime.events(&key(), None).await)),
    ];
    for (what, is_deleted) in asked {
        assert!(is_deleted, "{what}");
    }
    assert_eq!(runtime.sessions(&key().tenant, None, 9, None).await.unwrap().sessions, []);
    assert_eq!(bench.store.position(&key()).await.unwrap(), Position::default());
    assert_eq!(bench.store.outstanding().await.unwrap(), []);
    assert_eq!((*runtime.0.living.borrow(), runtime.0.open_sessions(), *runtime.0.running.borrow()), (0, 0, 0));
}

#[test]
fn a_running_turn_its_readers_and_what_waits_end() {
    run(async {
        let mut bench = Bench::new();
        bench.runtime = made(&bench.model, bench.store.clone(), &LIMITS.replace("readers_max = 4", "readers_max = 9"));
        let running = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let queued = bench.add("t2", "u2", OnBusy::Queue).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Half")).unwrap();
        let mut live = bench.runtime.events(&key(), None).await.unwrap();
        let mut idle = bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
        live.next().await.unwrap();
        bench.runtime.erase(&key()).await.unwrap();
        for mut reader in [reader(running), reader(queued)] {
            let end = loop {
                if let Err(end) = reader.next().await {
                    break end;
                }
            };
            assert_eq!(end, ReadEnd::Failed(Code::SessionDeleted));
        }
        assert_eq!(live.next().await.unwrap_err(), StreamEnd::Failed(Code::SessionDeleted));
        assert_eq!(idle.next().await.unwrap_err(), StreamEnd::Failed(Code::SessionDeleted));
        assert!(model.is_closed(), "nobody waits for the model");
        drop(model.send(says("nobody hears it")));
        tokio::time::sleep(Duration::from_mins(5)).await;
        is_gone(&bench).await;
    });
}

#[test]
fn what_is_not_there_can_not_be_erased() {
    run(async {
        let bench = Bench::new();
        assert_eq!(bench.runtime.erase(&key()).await.unwrap_err().code, Code::SessionNotFound);
        bench.say("t1", &[("u1", Role::User, "hello")]).await.map(drop).unwrap();
    });
}

#[test]
fn a_late_driver_never_brings_it_back_and_a_day_later_the_id_is_free() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        let log = bench.store.read(&key(), 1, 100).await.unwrap();
        bench.runtime.erase(&key()).await.unwrap();
        let until = bench.store.erased(&key()).await.unwrap().unwrap();
        let late = Header { updated: until - 1, ..Header::default() };
        let outcome = bench.store.append(&key(), Append::new(Position::default(), log.clone(), late)).await.unwrap();
        assert_eq!(outcome, Outcome::Erased { until });
        assert!(deleted(bench.runtime.import(&key(), log).await));
        tokio::time::sleep(Duration::from_hours(23)).await;
        assert!(deleted(bench.runtime.session(&key()).await));
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(bench.runtime.session(&key()).await.unwrap_err().code, Code::SessionNotFound);
        let anew = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        assert!(!anew.accepted.duplicate, "nothing is known of what was there");
        bench.model.answers("Hi").await;
        rest(reader(anew)).await;
        assert_eq!(bench.store.erased(&key()).await.unwrap(), None);
    });
}

#[test]
fn erasing_under_load_leaves_nothing_and_never_wedges() {
    run(async {
        for round in 0..20 {
            let mut bench = Bench::new();
            let limits =
                LIMITS.replace("readers_max = 4", "readers_max = 500").replace("session_requests_max = 3", "session_requests_max = 500");
            bench.runtime = made(&bench.model, bench.store.clone(), &limits);
            bench.say("first", &[("first", Role::User, "hello")]).await.map(drop).unwrap();
            let mut tasks = Vec::new();
            for n in 0..60_usize {
                let runtime = bench.runtime.clone();
                tasks.push(tokio::task::spawn_local(async move {
                    tokio::time::sleep(Duration::from_millis(n as u64 % 7)).await;
                    let code = |refusal: Refusal| refusal.code;
                    match n % 4 {
                        0 => {
                            let on_busy = [OnBusy::Queue, OnBusy::Merge, OnBusy::Steer, OnBusy::Cancel, OnBusy::Refuse][n / 4 % 5];
                            let message = Message::text(Role::User, "more").with_id(format!("u{n}").into());
                            let body = InputBody::Append { messages: vec![message] };
                            let submitted =
                                runtime.submit(&key(), Input { on_busy, body, ..input(&format!("t{n}"), &[]) }).await.map_err(code)?;
                            if let Following::Running(mut reader) = submitted.following {
                                while reader.next().await.is_ok() {}
                            }
                        }
                        1 => {
                            let mut stream = runtime.events(&key(), Some(Cursor::after(0))).await.map_err(code)?;
                            while stream.next().await.is_ok() {}
                        }
                        2 => drop(runtime.fork(&key(), ForkInput::default()).await.map_err(code)?),
                        _ => drop(runtime.session(&key()).await.map_err(code)?),
                    }
                    Ok::<(), Code>(())
                }));
            }
            tokio::time::sleep(Duration::from_millis(round % 9)).await;
            if round % 3 == 0 {
                bench.store.plan([Fault::FailAfter]);
            }
            bench.runtime.erase(&key()).await.unwrap();
            for task in tasks {
                let ended = tokio::time::timeout(Duration::from_mins(10), task).await.expect("nobody waits for ever").unwrap();
                let expected = |code| matches!(code, Code::SessionDeleted | Code::TurnAlreadyActive | Code::QueueFull);
                assert!(ended.is_ok() || ended.is_err_and(expected), "{ended:?}");
            }
            assert!(deleted(bench.say("t9", &[("u9", Role::User, "hello")]).await));
            assert_eq!(bench.store.position(&key()).await.unwrap(), Position::default());
        }
    });
}

#[test]
fn a_store_that_is_down_erases_nothing_and_the_session_goes_on() {
    run(async {
        let bench = Bench::new();
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        bench.store.set_down(true);
        assert_eq!(bench.runtime.erase(&key()).await.unwrap_err().code, Code::StoreUnavailable);
        bench.store.set_down(false);
        assert_eq!(bench.tree().await, "u1 user: hello\nr1 assistant: Hi  <- head\n");
        bench.runtime.erase(&key()).await.unwrap();
        is_gone(&bench).await;
    });
}

#[test]
fn a_damaged_session_can_be_erased() {
    run(async {
        let bench = Bench::new();
        let damaged = Append::new(Position::default(), vec![Bytes::from_static(b"no record")], Header::default());
        bench.store.append(&key(), damaged).await.unwrap();
        assert_eq!(bench.runtime.session(&key()).await.unwrap_err().code, Code::SessionCorrupt);
        bench.runtime.erase(&key()).await.unwrap();
        is_gone(&bench).await;
    });
}
