//! A tenant's sessions and a session's records, from the store alone; titles and the archive.

use super::*;

async fn ids(bench: &Bench, after: Option<&str>, limit: usize, archived: Option<bool>) -> (Vec<String>, Option<SessionId>) {
    let page = bench.runtime.sessions(&key().tenant, after.map(Into::into), limit, archived).await.unwrap();
    (page.sessions.iter().map(|listed| listed.session_id.to_string()).collect(), page.next)
}

#[test]
fn sessions_are_listed_in_pages_with_their_titles() {
    run(async {
        let bench = Bench::new();
        assert_eq!(ids(&bench, None, 9, None).await, (Vec::new(), None));
        for name in ["a", "b", "c"] {
            let key = SessionKey { session: name.into(), ..key() };
            let submitted = bench.runtime.submit(&key, input("t1", &[("u1", Role::User, "hello")])).await.unwrap();
            bench.model.answers("Hi").await;
            rest(reader(submitted)).await;
        }
        assert_eq!(ids(&bench, None, 2, None).await, (vec!["a".to_owned(), "b".to_owned()], Some("b".into())));
        assert_eq!(ids(&bench, Some("b"), 2, None).await, (vec!["c".to_owned()], None));
        assert_eq!(ids(&bench, None, 3, None).await.1, None);
        assert_eq!(ids(&bench, None, 0, None).await, (vec!["a".to_owned()], Some("a".into())), "a page has something");
        let b = SessionKey { session: "b".into(), ..key() };
        let named = SessionUpdate { title: Some(Some("Greetings".to_owned())), archived: Some(true) };
        let page = bench.runtime.update(&b, named.clone()).await.unwrap();
        assert_eq!((page.title.as_deref(), page.archived), (Some("Greetings"), true));
        let appends = bench.store.appends();
        bench.runtime.update(&b, named).await.unwrap();
        assert_eq!(bench.store.appends(), appends, "it is so already");
        let listed = bench.runtime.sessions(&b.tenant, None, 9, Some(true)).await.unwrap().sessions;
        assert_eq!((listed.len(), listed[0].title.as_deref(), listed[0].archived), (1, Some("Greetings"), true));
        assert_eq!(ids(&bench, None, 9, Some(false)).await.0, ["a", "c"]);
        let next = Bench::over(bench.store.clone());
        let page = next.runtime.update(&b, SessionUpdate { title: Some(None), archived: None }).await.unwrap();
        assert_eq!((page.title, page.archived), (None, true));
        assert_eq!(next.runtime.sessions(&b.tenant, None, 9, Some(true)).await.unwrap().sessions[0].title, None);
        let long = SessionUpdate { title: Some(Some("x".repeat(70_000))), archived: None };
        assert_eq!(next.runtime.update(&b, long).await.unwrap_err().code, Code::BadRequest);
        let missing = SessionKey { session: "d".into(), ..key() };
        assert_eq!(next.runtime.update(&missing, SessionUpdate::default()).await.unwrap_err().code, Code::SessionNotFound);
    });
}

#[test]
fn records_come_in_pages_as_they_are_stored() {
    run(async {
        let bench = Bench::new();
        assert_eq!(bench.runtime.records(&key(), 0, 9).await.unwrap_err().code, Code::SessionNotFound);
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        let stored = bench.store.read(&key(), 1, 99).await.unwrap();
        let page = bench.runtime.records(&key(), 0, 3).await.unwrap();
        assert_eq!((page.next, page.end), (Some(3), stored.len() as u64));
        assert_eq!(page.records.iter().map(|line| line.seq).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(page.records.iter().zip(&stored).all(|(line, stored)| line.record.get().as_bytes() == stored));
        let last = bench.runtime.records(&key(), 3, 99).await.unwrap();
        assert_eq!((last.next, last.records.len()), (None, stored.len() - 3));
        for beyond in [stored.len() as u64, 1_000, u64::MAX] {
            let page = bench.runtime.records(&key(), beyond, 9).await.unwrap();
            assert!(page.records.is_empty() && page.next.is_none(), "after {beyond}");
        }
    });
}

async fn go(bench: &Bench, to: HeadTo, label: Option<&str>) -> Result<HeadAnswer, Refusal> {
    bench.runtime.move_head(&key(), HeadMove { to, label: label.map(str::to_owned) }).await
}

#[test]
fn labels_name_nodes_and_lead_back() {
    run(async {
        let bench = Bench::new();
        for n in 1..=2 {
            let submitted = bench.add(&format!("t{n}"), &format!("u{n}"), OnBusy::Refuse).await.unwrap();
            bench.model.answers("Hi").await;
            rest(reader(submitted)).await;
        }
        let head = bench.runtime.session(&key()).await.unwrap().head_id;
        assert_eq!(go(&bench, HeadTo::Stay, Some("end")).await.unwrap().head_id, head);
        assert_eq!(go(&bench, HeadTo::Node(Some("u1".into())), None).await.unwrap().head_id, Some("u1".into()));
        assert_eq!(go(&bench, HeadTo::Label("end".to_owned()), None).await.unwrap().head_id, head);
        assert_eq!(go(&bench, HeadTo::Node(None), None).await.unwrap().head_id, None);
        assert_eq!(go(&bench, HeadTo::Label("nowhere".to_owned()), None).await.unwrap_err().code, Code::LabelNotFound);
        assert_eq!(go(&bench, HeadTo::Node(Some("nobody".into())), None).await.unwrap_err().code, Code::NodeNotFound);
        let raw = bench.runtime.tree(&key(), TreeQuery { view: TreeView::Raw, after: None, limit: 9 }).await.unwrap();
        assert_eq!(raw.nodes.last().unwrap().labels, ["end"]);
        let nowhere = SessionKey { session: "nowhere".into(), ..key() };
        let asked = HeadMove { to: HeadTo::Stay, label: None };
        assert_eq!(bench.runtime.move_head(&nowhere, asked).await.unwrap_err().code, Code::SessionNotFound);
    });
}
