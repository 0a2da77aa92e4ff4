//! Snapshots are kept or not, never mixed up, and go with their log.

use bytes::Bytes;

use super::{appended, assert_log, key};
use crate::ids::SessionKey;
use crate::store::{Position, Save, Snapshot, Store, Tombstone};

type Sheets<'a> = &'a [(u32, &'a [u8])];

fn sheets(sheets: Sheets<'_>) -> Vec<(u32, Bytes)> {
    sheets.iter().map(|(number, bytes)| (*number, Bytes::copy_from_slice(bytes))).collect()
}

async fn save(store: &dyn Store, key: &SessionKey, at: Position, onto: Option<Position>, given: Sheets<'_>) -> bool {
    store.save(key, Save { at, onto, sheets: sheets(given) }).await.unwrap()
}

async fn assert_snapshot(store: &dyn Store, key: &SessionKey, at: Position, expected: Sheets<'_>) {
    let expected = Snapshot { at, sheets: sheets(expected) };
    assert_eq!(store.snapshot(key).await.unwrap(), Some(expected), "the snapshot of {key}");
}

pub(super) async fn kept_until_the_next(store: &dyn Store) {
    let key = key("tenant", "session");
    assert_eq!(store.snapshot(&key).await.unwrap(), None);
    let first = appended(store, &key, Position::default(), &[b"1", b"2"]).await;
    assert_eq!(store.snapshot(&key).await.unwrap(), None);
    assert!(save(store, &key, first, None, &[(9, b"nine"), (0, b"head"), (u32::MAX, b"last"), (3, b"")]).await);
    let all: Sheets<'_> = &[(0, b"head"), (3, b""), (9, b"nine"), (u32::MAX, b"last")];
    assert_snapshot(store, &key, first, all).await;
    let second = appended(store, &key, first, &[b"3"]).await;
    assert_snapshot(store, &key, first, all).await;
    assert!(save(store, &key, second, Some(first), &[(0, b"another head"), (4, b"four")]).await);
    let onto: Sheets<'_> = &[(0, b"another head"), (3, b""), (4, b"four"), (9, b"nine"), (u32::MAX, b"last")];
    assert_snapshot(store, &key, second, onto).await;
    assert!(save(store, &key, second, None, &[(0, b"new"), (4, b"4")]).await);
    assert_snapshot(store, &key, second, &[(0, b"new"), (4, b"4")]).await;
    assert_log(store, &key, &[b"1", b"2", b"3"]).await;
}

pub(super) async fn not_kept_where_it_does_not_fit(store: &dyn Store) {
    let key = key("tenant", "session");
    let ahead = Position::default().then(b"1");
    assert!(!save(store, &key, ahead, None, &[(0, b"of no log")]).await);
    let first = appended(store, &key, Position::default(), &[b"1"]).await;
    let second = appended(store, &key, first, &[b"2"]).await;
    assert!(!save(store, &key, second, Some(first), &[(0, b"onto nothing")]).await);
    assert_eq!(store.snapshot(&key).await.unwrap(), None);
    assert!(save(store, &key, first, None, &[(0, b"first")]).await);
    for (at, onto) in [
        (Position::default(), None),
        (first.then(b"another"), None),
        (second.then(b"3"), None),
        (second, Some(second)),
        (second, Some(Position { seq: first.seq, ..second })),
        (second, Some(Position::default())),
    ] {
        assert!(!save(store, &key, at, onto, &[(0, b"misfit")]).await, "{at:?} onto {onto:?}");
        assert_snapshot(store, &key, first, &[(0, b"first")]).await;
    }
    assert!(save(store, &key, second, Some(first), &[(0, b"second")]).await);
    assert_snapshot(store, &key, second, &[(0, b"second")]).await;
}

pub(super) async fn large_ones_are_whole(store: &dyn Store) {
    let key = key("tenant", "session");
    let first = appended(store, &key, Position::default(), &[b"1"]).await;
    let second = appended(store, &key, first, &[b"2"]).await;
    let bytes: Vec<u8> = (0..20_000_u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
    let mut all: Vec<(u32, &[u8])> = (0..40).map(|n| (n * 7, &bytes[n as usize..])).collect();
    assert!(save(store, &key, first, None, &all).await);
    assert_snapshot(store, &key, first, &all).await;
    for (number, sheet) in &mut all[5..] {
        *sheet = &bytes[(*number as usize)..];
    }
    assert!(save(store, &key, second, Some(first), &all[5..]).await);
    assert_snapshot(store, &key, second, &all).await;
    assert!(!save(store, &key, second, Some(first), &all).await);
    assert_snapshot(store, &key, second, &all).await;
    assert!(save(store, &key, second, None, &all[..1]).await);
    assert_snapshot(store, &key, second, &all[..1]).await;
}

pub(super) async fn gone_with_its_log(store: &dyn Store) {
    let (mine, other) = (key("tenant", "session"), key("other", "session"));
    let end = appended(store, &mine, Position::default(), &[b"1"]).await;
    appended(store, &other, Position::default(), &[b"1"]).await;
    assert!(save(store, &mine, end, None, &[(0, b"mine"), (1, b"one")]).await);
    assert!(save(store, &other, end, None, &[(0, b"other")]).await);
    store.erase(&mine, Tombstone { at: 0, until: 0 }).await.unwrap();
    assert_eq!(store.snapshot(&mine).await.unwrap(), None);
    assert_snapshot(store, &other, end, &[(0, b"other")]).await;
    assert!(!save(store, &mine, end, Some(end), &[(0, b"late")]).await);
    appended(store, &mine, Position::default(), &[b"1"]).await;
    assert_eq!(store.snapshot(&mine).await.unwrap(), None, "a new log begins without one");
    assert!(save(store, &mine, end, None, &[(0, b"new")]).await);
    assert_snapshot(store, &mine, end, &[(0, b"new")]).await;
}
