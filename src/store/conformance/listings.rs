//! Headers are listed, the index of outstanding sessions follows them, erased is gone, and tenants never touch.

use super::{append, appended, assert_log, key};
use crate::ids::SessionKey;
use crate::store::{Append, Header, Outcome, Position, Store, Tombstone};

/// Ends as it begins: a new log may follow at once.
const NO_TOMBSTONE: Tombstone = Tombstone { at: 0, until: 0 };

/// A session that exists, with this header; its position then.
async fn with_header(store: &dyn Store, key: &SessionKey, expected: Position, header: &Header) -> Position {
    let append = Append { header: header.clone(), ..append(expected, &[b"record"]) };
    let end = append.end;
    assert_eq!(store.append(key, append).await.unwrap(), Outcome::Appended);
    end
}

async fn ids(store: &dyn Store, tenant: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    ids_of(store, tenant, after, limit, None).await
}

async fn ids_of(store: &dyn Store, tenant: &str, after: Option<&str>, limit: usize, archived: Option<bool>) -> Vec<String> {
    let after = after.map(Into::into);
    let listed = store.sessions(&tenant.into(), after.as_ref(), limit, archived).await.unwrap();
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
    let first = Header { title: None, updated: 1_000, outstanding: true, archived: true };
    let second = Header { title: Some("A title".to_owned()), updated: 900, outstanding: false, archived: false };
    let end = with_header(store, &key, Position::default(), &first).await;
    assert_eq!(store.sessions(&key.tenant, None, 9, None).await.unwrap()[0].header, first);
    with_header(store, &key, end, &second).await;
    assert_eq!(store.sessions(&key.tenant, None, 9, None).await.unwrap()[0].header, second);
    let refused = Append { header: first, ..append(end, &[b"too late"]) };
    assert!(matches!(store.append(&key, refused).await.unwrap(), Outcome::Conflict(_)));
    assert_eq!(store.sessions(&key.tenant, None, 9, None).await.unwrap()[0].header, second, "a refused append leaves the header");
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
    store.erase(&keys[0], NO_TOMBSTONE).await.unwrap();
    assert_eq!(outstanding(store).await, keys[1..]);
}

async fn outstanding(store: &dyn Store) -> Vec<SessionKey> {
    let mut keys = store.outstanding().await.unwrap();
    keys.sort();
    keys
}

pub(super) async fn erased_is_gone(store: &dyn Store) {
    let (key, other) = (key("tenant", "session"), key("tenant", "other"));
    store.erase(&key, NO_TOMBSTONE).await.unwrap();
    let end = appended(store, &key, Position::default(), &[b"1", b"2"]).await;
    appended(store, &other, Position::default(), &[b"mine"]).await;
    store.erase(&key, NO_TOMBSTONE).await.unwrap();
    assert_log(store, &key, &[]).await;
    assert_eq!(ids(store, "tenant", None, 9).await, ["other"]);
    let late = store.append(&key, append(end, &[b"3"])).await.unwrap();
    assert_eq!(late, Outcome::Conflict(Position::default()));
    appended(store, &key, Position::default(), &[b"new"]).await;
    assert_log(store, &key, &[b"new"]).await;
    assert_log(store, &other, &[b"mine"]).await;
    store.erase(&key, NO_TOMBSTONE).await.unwrap();
    store.erase(&key, NO_TOMBSTONE).await.unwrap();
    assert_log(store, &key, &[]).await;
}

pub(super) async fn archived_are_listed_apart(store: &dyn Store) {
    let mut ends = Vec::new();
    for (n, session) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let header = Header { archived: n % 2 == 1, ..Header::default() };
        ends.push(with_header(store, &key("tenant", session), Position::default(), &header).await);
    }
    with_header(store, &key("other", "b2"), Position::default(), &Header { archived: true, ..Header::default() }).await;
    assert_eq!(ids(store, "tenant", None, 9).await, ["a", "b", "c", "d", "e"]);
    assert_eq!(ids_of(store, "tenant", None, 9, Some(false)).await, ["a", "c", "e"]);
    assert_eq!(ids_of(store, "tenant", None, 9, Some(true)).await, ["b", "d"]);
    assert_eq!(ids_of(store, "tenant", Some("a"), 1, Some(false)).await, ["c"]);
    assert_eq!(ids_of(store, "tenant", Some("b"), 9, Some(true)).await, ["d"]);
    with_header(store, &key("tenant", "b"), ends[1], &Header::default()).await;
    assert_eq!(ids_of(store, "tenant", None, 9, Some(false)).await, ["a", "b", "c", "e"]);
    assert_eq!(ids_of(store, "tenant", None, 9, Some(true)).await, ["d"]);
}

/// An append that was made at `at`.
fn made(at: u64, expected: Position) -> Append {
    Append { at, ..append(expected, &[b"record"]) }
}

pub(super) async fn tombstones_refuse_until_their_end(store: &dyn Store) {
    let (key, other) = (key("tenant", "session"), key("other", "session"));
    assert_eq!(store.erased(&key).await.unwrap(), None);
    let end = appended(store, &key, Position::default(), &[b"1"]).await;
    store.erase(&key, Tombstone { at: 100, until: 200 }).await.unwrap();
    assert_eq!(store.erased(&key).await.unwrap(), Some(200));
    assert_eq!(store.erased(&other).await.unwrap(), None);
    for late in [0, 100, 199] {
        assert_eq!(store.append(&key, made(late, Position::default())).await.unwrap(), Outcome::Erased { until: 200 }, "made at {late}");
    }
    assert_eq!(store.append(&key, made(300, end)).await.unwrap(), Outcome::Conflict(Position::default()), "what goes on with the old log");
    assert_log(store, &key, &[]).await;
    assert!(ids(store, "tenant", None, 9).await.is_empty());
    assert_eq!(store.append(&other, made(0, Position::default())).await.unwrap(), Outcome::Appended);
    assert_eq!(store.append(&key, made(200, Position::default())).await.unwrap(), Outcome::Appended);
    assert_eq!(store.erased(&key).await.unwrap(), None, "a new log has begun");
    assert_eq!(store.append(&key, made(200, Position::default())).await.unwrap(), Outcome::Duplicate);
    assert_log(store, &key, &[b"record"]).await;
}

pub(super) async fn tombstones_are_replaced_and_forgotten(store: &dyn Store) {
    const FAR: u64 = 1 << 60;
    let keys = ["a", "b", "c"].map(|session| key("tenant", session));
    store.erase(&keys[0], Tombstone { at: 100, until: 200 }).await.unwrap();
    store.erase(&keys[1], Tombstone { at: 100, until: FAR }).await.unwrap();
    store.erase(&keys[0], Tombstone { at: 150, until: 250 }).await.unwrap();
    assert_eq!(store.erased(&keys[0]).await.unwrap(), Some(250));
    store.erase(&keys[2], Tombstone { at: 250, until: 350 }).await.unwrap();
    let mut left = Vec::new();
    for key in &keys {
        left.push(store.erased(key).await.unwrap());
    }
    assert_eq!(left[2], Some(350));
    assert!(matches!(left[0], None | Some(250)), "its end has come: {left:?}");
    assert_eq!(left[1], Some(FAR));
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
        let sessions = store.sessions(&key.tenant, None, 100, None).await.unwrap();
        let own = keys.iter().filter(|other| other.tenant == key.tenant).count();
        assert_eq!(sessions.len(), own, "the sessions of tenant {:?}", key.tenant);
    }
    store.erase(&keys[0], NO_TOMBSTONE).await.unwrap();
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
