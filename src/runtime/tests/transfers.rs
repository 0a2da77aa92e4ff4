//! Forks and imports.

use super::*;

const ID: &str = "copy";

fn copy() -> SessionKey {
    SessionKey { session: ID.into(), ..key() }
}

fn fork(at: Option<&str>) -> ForkInput {
    ForkInput { session_id: Some(ID.into()), at: at.map(Into::into) }
}

async fn talk(bench: &Bench) {
    for n in 1..=2 {
        let submitted = bench.add(&format!("t{n}"), &format!("u{n}"), OnBusy::Refuse).await.unwrap();
        bench.model.answers(&format!("reply {n}")).await;
        rest(reader(submitted)).await;
    }
}

async fn said(bench: &Bench, key: &SessionKey) -> Vec<String> {
    let page = bench.runtime.session(key).await.unwrap();
    page.messages.iter().map(|message| message.joined_text()).collect()
}

async fn log(bench: &Bench, key: &SessionKey) -> Vec<Bytes> {
    let mut records = Vec::new();
    let mut after = 0;
    loop {
        let page = bench.runtime.records(key, after, 3).await.unwrap();
        records.extend(page.records.iter().map(|line| Bytes::copy_from_slice(line.record.get().as_bytes())));
        let Some(next) = page.next else {
            assert_eq!(page.end, records.len() as u64);
            return records;
        };
        after = next;
    }
}

#[test]
fn a_fork_is_made_while_a_turn_runs_and_goes_on_by_itself() {
    run(async {
        let bench = Bench::new();
        talk(&bench).await;
        let running = bench.add("t3", "u3", OnBusy::Refuse).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Half")).unwrap();
        let forked = bench.runtime.fork(&key(), fork(None)).await.unwrap();
        assert!(!forked.duplicate);
        assert_eq!(said(&bench, &copy()).await, ["says u1", "reply 1", "says u2", "reply 2", "says u3"]);
        let page = bench.runtime.session(&copy()).await.unwrap();
        let from = page.forked_from.unwrap();
        assert_eq!((page.status, from.session_id, from.node_id), (SessionStatus::Idle, key().session, Some("u3".into())));
        // With the ids that the front end has.
        let input = input("t3", &[("u1", Role::User, "says u1"), ("u3", Role::User, "says u3"), ("v", Role::User, "in the fork")]);
        let submitted = bench.runtime.submit(&copy(), input).await.unwrap();
        assert_eq!(submitted.accepted.recorded, ["v".into()]);
        let (request, other) = bench.model.asked().await;
        assert_eq!(request.messages.len(), 6);
        other.send(says("Forked.")).unwrap();
        other.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        rest(reader(submitted)).await;
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        assert_eq!(text(&rest(reader(running)).await), "Half");
        assert_eq!(said(&bench, &key()).await.len(), 6);
    });
}

#[test]
fn the_same_fork_again_answers_with_what_is_there_and_another_is_refused() {
    run(async {
        let bench = Bench::new();
        talk(&bench).await;
        let first = bench.runtime.fork(&key(), fork(Some("u2"))).await.unwrap();
        assert_eq!(said(&bench, &copy()).await, ["says u1", "reply 1", "says u2"]);
        let again = bench.runtime.fork(&key(), fork(Some("u2"))).await.unwrap();
        assert_eq!((again.head_id, again.duplicate), (first.head_id, true));
        assert!(bench.runtime.fork(&key(), fork(None)).await.unwrap().duplicate, "the head may have moved since it was asked first");
        let appends = bench.store.appends();
        assert_eq!(bench.runtime.fork(&key(), fork(Some("u1"))).await.unwrap_err().code, Code::SessionExists);
        let itself = ForkInput { session_id: Some(key().session), at: None };
        assert_eq!(bench.runtime.fork(&key(), itself).await.unwrap_err().code, Code::SessionExists);
        assert_eq!(bench.runtime.fork(&key(), fork(Some("u9"))).await.unwrap_err().code, Code::NodeNotFound);
        let nowhere = SessionKey { session: "nowhere".into(), ..key() };
        assert_eq!(bench.runtime.fork(&nowhere, ForkInput::default()).await.unwrap_err().code, Code::SessionNotFound);
        assert_eq!(bench.store.appends(), appends);
        let unnamed = bench.runtime.fork(&key(), ForkInput::default()).await.unwrap();
        assert!(unnamed.session_id.as_str().starts_with("hw_"));
    });
}

#[test]
fn a_fork_is_listed_by_the_time_it_was_made() {
    run(async {
        let bench = Bench::new();
        talk(&bench).await;
        bench.runtime.fork(&key(), fork(Some("u1"))).await.unwrap();
        let sessions = bench.runtime.sessions(&key().tenant, None, 9, None).await.unwrap().sessions;
        assert_eq!(sessions.iter().map(|listed| listed.session_id.as_str()).collect::<Vec<_>>(), [ID, "s"]);
        assert!(sessions[0].updated_at >= sessions[1].updated_at);
    });
}

#[test]
fn an_import_gives_the_same_tree_and_twice_is_once() {
    run(async {
        let bench = Bench::new();
        talk(&bench).await;
        let records = log(&bench, &key()).await;
        let imported = bench.runtime.import(&copy(), records.clone()).await.unwrap();
        assert_eq!((imported.records, imported.duplicate), (records.len() as u64, false));
        assert_eq!(log(&bench, &copy()).await, records, "byte for byte");
        let tree = |page: TreePage| (page.nodes, page.head_id);
        let query = || TreeQuery { view: TreeView::Raw, after: None, limit: 100 };
        let (made, copied) = (bench.runtime.tree(&key(), query()).await.unwrap(), bench.runtime.tree(&copy(), query()).await.unwrap());
        assert_eq!(tree(made), tree(copied));
        let appends = bench.store.appends();
        let again = bench.runtime.import(&copy(), records.clone()).await.unwrap();
        assert_eq!((again.head_id, again.duplicate), (imported.head_id, true));
        let cut = records[..records.len() - 1].to_vec();
        assert_eq!(bench.runtime.import(&copy(), cut).await.unwrap_err().code, Code::SessionExists);
        assert_eq!(bench.store.appends(), appends);
        let more = Input { body: InputBody::Message { message: Message::text(Role::User, "more") }, ..input("t9", &[]) };
        let submitted = bench.runtime.submit(&copy(), more).await.unwrap();
        assert_eq!(bench.model.answers("goes on").await.messages.len(), 5);
        rest(reader(submitted)).await;
        assert_eq!(bench.runtime.import(&copy(), records).await.unwrap_err().code, Code::SessionExists, "it was gone on with");
    });
}

#[test]
fn what_was_unfinished_in_an_import_ends_in_the_same_append() {
    run(async {
        let bench = Bench::new();
        let _running = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let _queued = bench.add("t2", "u2", OnBusy::Queue).await.unwrap();
        let (_, _model) = bench.model.asked().await;
        let records = log(&bench, &key()).await;
        let appends = bench.store.appends();
        bench.runtime.import(&copy(), records.clone()).await.unwrap();
        assert_eq!(bench.store.appends(), appends + 1);
        let page = bench.runtime.session(&copy()).await.unwrap();
        assert_eq!((page.status, page.queue.len(), page.head_id), (SessionStatus::Idle, 0, Some("u1".into())));
        assert_eq!(bench.store.outstanding().await.unwrap(), [key()]);
        assert_eq!(log(&bench, &copy()).await[..records.len()], records);
        assert!(bench.runtime.import(&copy(), records.clone()).await.unwrap().duplicate, "the ends are the import's own");
        assert_eq!(*bench.runtime.0.running.borrow(), 1, "only the original runs");
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(bench.model.0.lock().unwrap().len(), 0, "nobody asks a model for it");
        let next = Bench::over(bench.store.clone());
        assert!(next.runtime.import(&copy(), records).await.unwrap().duplicate, "also after a restart");
    });
}

#[test]
fn an_import_in_which_much_waited_is_known_again() {
    run(async {
        let bench = Bench::new();
        let _running = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, _model) = bench.model.asked().await;
        let _steering = bench.add("t2", "u2", OnBusy::Steer).await.unwrap();
        for n in 0..7 {
            let body = InputBody::Event { message: Message::text(Role::User, format!("event {n}")), show: n % 2 == 0 };
            bench.runtime.submit(&key(), Input { body, ..input(&format!("e{n}"), &[]) }).await.unwrap();
        }
        let records = log(&bench, &key()).await;
        let imported = bench.runtime.import(&copy(), records.clone()).await.unwrap();
        assert_eq!((imported.duplicate, imported.head_id), (false, Some("u1".into())));
        assert!(log(&bench, &copy()).await.len() >= records.len() + 10, "each has its end");
        assert!(bench.runtime.import(&copy(), records).await.unwrap().duplicate, "they are the import's own");
    });
}

#[test]
fn a_log_that_is_cut_doubled_or_strange_is_refused_and_names_the_record() {
    run(async {
        let bench = Bench::new();
        talk(&bench).await;
        let good = log(&bench, &key()).await;
        let json = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let twice: Vec<Bytes> = good.iter().flat_map(|record| [record.clone(), record.clone()]).collect();
        let without_first = good[1..].to_vec();
        let gap = [&good[..2], &good[3..]].concat();
        let appended = |record: &str| [&good[..], &[json(record)]].concat();
        let orphan =
            r#"{"v":1,"type":"message.new","at":1,"must_understand":true,"data":{"id":"x","parent":"nobody","message":{"role":"user"}}}"#;
        let hollow = r#"{"v":1,"type":"message.new","at":1,"must_understand":true,"data":{"id":"x"}}"#;
        let reopened = r#"{"v":1,"type":"session.created","at":1,"must_understand":true,"data":{"agent_id":"bot"}}"#;
        let appends = bench.store.appends();
        let strange = [
            (Vec::new(), None),
            (twice, Some(2)),
            (without_first, Some(1)),
            (gap, Some(3)),
            (appended("not json"), Some(good.len() + 1)),
            (appended("{}"), Some(good.len() + 1)),
            (appended(orphan), Some(good.len() + 1)),
            (appended(hollow), Some(good.len() + 1)),
            (appended(reopened), Some(good.len() + 1)),
        ];
        for (records, record) in strange {
            let refusal = bench.runtime.import(&copy(), records).await.unwrap_err();
            assert_eq!(refusal.code, Code::BadImport, "{refusal:?}");
            assert_eq!(
                refusal.details.get("record").and_then(serde_json::Value::as_u64),
                record.map(|record| record as u64),
                "{refusal:?}"
            );
        }
        let newer = r#"{"v":2,"type":"turn.dreamt","at":1,"must_understand":true,"data":{}}"#;
        assert_eq!(bench.runtime.import(&copy(), appended(newer)).await.unwrap_err().code, Code::NewerVersion);
        assert_eq!(bench.store.appends(), appends);
        assert_eq!(bench.runtime.session(&copy()).await.unwrap_err().code, Code::SessionNotFound);
        let other = r#"{"v":2, "type":"turn.dreamt","at":1,"must_understand":false,"data":{"x" : 1.0e2}}"#;
        bench.runtime.import(&copy(), appended(other)).await.unwrap();
        assert_eq!(log(&bench, &copy()).await.last().unwrap(), other, "what isn't understood is kept as it is");
    });
}

#[test]
fn a_long_log_is_one_append() {
    run(async {
        let bench = Bench::new();
        talk(&bench).await;
        let mut records = log(&bench, &key()).await;
        let mut parent = bench.runtime.session(&key()).await.unwrap().head_id.unwrap();
        for n in 0..100_000 {
            let new = crate::engine::MessageNew::plain(format!("m{n}").into(), Some(parent), Message::text(Role::User, "x"));
            parent = new.id.clone();
            let body = crate::engine::record::Body::MessageNew(Box::new(new));
            records.push(crate::engine::Record { at: 1, body }.encode().into());
        }
        let appends = bench.store.appends();
        let imported = bench.runtime.import(&copy(), records).await.unwrap();
        assert_eq!((imported.head_id, bench.store.appends()), (Some(parent), appends + 1));
        let forked = bench.runtime.fork(&copy(), ForkInput { session_id: None, at: Some("m9999".into()) }).await.unwrap();
        let forked = SessionKey { session: forked.session_id, ..key() };
        assert_eq!(bench.store.appends(), appends + 2);
        assert_eq!(said(&bench, &forked).await.len(), 10_004);
        // What is refused is refused whole.
        bench.store.plan([Fault::Full]);
        let refused = SessionKey { session: "refused".into(), ..key() };
        let records = bench.store.read(&copy(), 1, 1_000).await.unwrap();
        assert_eq!(bench.runtime.import(&refused, records).await.unwrap_err().code, Code::StoreFull);
        assert_eq!(bench.runtime.session(&refused).await.unwrap_err().code, Code::SessionNotFound);
    });
}
