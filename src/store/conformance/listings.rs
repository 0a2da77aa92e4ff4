//! Headers are listed, the index of outstanding sessions follows them, erased is gone, and tenants never touch.

use super::{append, appended, assert_log, key};
use crate::ids::SessionKey;
use crate::store::{Append, Header, Outcome, Position, Store};

/// A session that exists, with this header; its position then.
async fn with_header(store: &dyn Store, key: &SessionKey, expected: Position, header: &Header) -> Position {
    let append = Append { header: header.clone(), ..append(expected, &[b"record"]) };
    let end = append.end;
    assert_eq!(store.append(key, append).await.unwrap(), Outcome::Appended);
    end
}

async fn ids(store: &dyn Store, tenant: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    let after = after.map(Into::into);
    let listed = store.sessions(&tenant.into(), after.as_ref(), limit).await.unwrap();
    assert!(listed.iter().all(|listed| listed.tenant.as_str() == tenant));
    listed.iter().map(|listed| listed.session.to_string()).collect()
}

pub(super) async fn sessions_in_pages(store: &dyn Store) {
    for session in ["b", "ä", "a", "B", "aa", "c"] {
        appended(store, &key("tenant", session), Position::default(), &[b"1"]).await;
    }
    appended(store, &key("tenant2", "a0"), Position::default(), &[b"1"]).await;
    appended(store, &key("tenan", "zz"), Position::default(), &[b"1"]).await;
    let all = ["B", "a", "aa", "b", "c", "ä"];
    assert_eq!(ids(store, "tenant", None, 100).await, all, "in the order of their bytes");
    assert_eq!(ids(store, "tenant", None, usize::MAX).await, all);
    assert_eq!(ids(store, "tenant", None, 2).await, all[..2]);
    assert_eq!(ids(store, "tenant", Some("a"), 2).await, all[2..4]);
    assert_eq!(ids(store, "tenant", Some("b"), 100).await, all[4..]);
    assert_eq!(ids(store, "tenant", Some("abc"), 1).await, ["b"], "after one that doesn't exist");
    assert!(ids(store, "tenant", Some("ä"), 100).await.is_empty());
    assert!(ids(store, "tenant", None, 0).await.is_empty());
    assert!(ids(store, "nobody", None, 100).await.is_empty());
}

pub(super) async fn headers_are_the_last_ones(store: &dyn Store) {
    let key = key("tenant", "session");
    let first = Header { title: None, updated: 1_000, outstanding: true };
    let second = Header { title: Some("A title".to_owned()), updated: 900, outstanding: false };
    let end = with_header(store, &key, Position::default(), &first).await;
    assert_eq!(store.sessions(&key.tenant, None, 9).await.unwrap()[0].header, first);
    with_header(store, &key, end, &second).await;
    assert_eq!(store.sessions(&key.tenant, None, 9).await.unwrap()[0].header, second);
    let refused = Append { header: first, ..append(end, &[b"too late"]) };
    assert!(matches!(store.append(&key, refused).await.unwrap(), Outcome::Conflict(_)));
    assert_eq!(store.sessions(&key.tenant, None, 9).await.unwrap()[0].header, second, "a refused append leaves the header");
}

pub(super) async fn outstanding_follows_headers(store: &dyn Store) {
    let keys = [key("a", "1"), key("a", "2"), key("b", "1")];
    let busy = Header { outstanding: true, ..Header::default() };
    let mut ends = Vec::new();
    for key in &keys {
        ends.push(with_header(store, key, Position::default(), &busy).await);
    }
    with_header(store, &key("b", "done"), Position::default(), &Header::default()).await;
    assert_eq!(outstanding(store).await, keys);
    ends[1] = with_header(store, &keys[1], ends[1], &Header::default()).await;
    assert_eq!(outstanding(store).await, [keys[0].clone(), keys[2].clone()]);
    with_header(store, &keys[1], ends[1], &busy).await;
    store.erase(&keys[0]).await.unwrap();
    assert_eq!(outstanding(store).await, keys[1..]);
}

async fn outstanding(store: &dyn Store) -> Vec<SessionKey> {
    let mut keys = store.outstanding().await.unwrap();
    keys.sort();
    keys
}

pub(super) async fn erased_is_gone(store: &dyn Store) {
    let (key, other) = (key("tenant", "session"), key("tenant", "other"));
    store.erase(&key).await.unwrap();
    let end = appended(store, &key, Position::default(), &[b"1", b"2"]).await;
    appended(store, &other, Position::default(), &[b"mine"]).await;
    store.erase(&key).await.unwrap();
    assert_log(store, &key, &[]).await;
    assert_eq!(ids(store, "tenant", None, 9).await, ["other"]);
    let late = store.append(&key, append(end, &[b"3"])).await.unwrap();
    assert_eq!(late, Outcome::Conflict(Position::default()));
    appended(store, &key, Position::default(), &[b"new"]).await;
    assert_log(store, &key, &[b"new"]).await;
    assert_log(store, &other, &[b"mine"]).await;
    store.erase(&key).await.unwrap();
    store.erase(&key).await.unwrap();
    assert_log(store, &key, &[]).await;
}

pub(super) async fn tenants_never_touch(store: &dyn Store) {
    // Pairs that become one when they are joined with a separator, cut at a NUL, trimmed, or compared without case.
    let keys = [
        key("a", "b/c"),
        key("a/b", "c"),
        key("a", "b:c"),
        key("a:b", "c"),
        key("a", "b\0c"),
        key("a\0b", "c"),
        key("a", "b"),
        key("a", ""),
        key("", "a"),
        key("A", "b"),
        key("a ", "b"),
        key("a", "b "),
        key("{a", "b}"),
    ];
    let mut contents = Vec::new();
    for key in &keys {
        let (first, second) = (format!("{key:?} 1"), format!("{key:?} 2"));
        let end = appended(store, key, Position::default(), &[first.as_bytes()]).await;
        appended(store, key, end, &[second.as_bytes()]).await;
        contents.push([first, second]);
    }
    for (key, [first, second]) in keys.iter().zip(&contents) {
        assert_log(store, key, &[first.as_bytes(), second.as_bytes()]).await;
        let sessions = store.sessions(&key.tenant, None, 100).await.unwrap();
        let own = keys.iter().filter(|other| other.tenant == key.tenant).count();
        assert_eq!(sessions.len(), own, "the sessions of tenant {:?}", key.tenant);
    }
    store.erase(&keys[0]).await.unwrap();
    assert_log(store, &keys[0], &[]).await;
    for (key, [first, second]) in keys.iter().zip(&contents).skip(1) {
        assert_log(store, key, &[first.as_bytes(), second.as_bytes()]).await;
    }
}

pub(super) async fn ready_when_open(store: &dyn Store) {
    store.ready().await.unwrap();
    appended(store, &key("tenant", "session"), Position::default(), &[b"1"]).await;
    store.ready().await.unwrap();
}
