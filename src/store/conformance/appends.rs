//! An append is atomic, happens only at its place, and is known again.

use bytes::Bytes;

use super::{append, appended, assert_log, key};
use crate::store::{Append, Error, Header, Outcome, Position, Store};

pub(super) async fn follow_each_other(store: &dyn Store) {
    let key = key("tenant", "session");
    let first = appended(store, &key, Position::default(), &[b"1"]).await;
    assert_eq!(store.position(&key).await.unwrap(), first);
    let second = appended(store, &key, first, &[b"2"]).await;
    appended(store, &key, second, &[b"3"]).await;
    assert_log(store, &key, &[b"1", b"2", b"3"]).await;
}

pub(super) async fn several_records_are_one_step(store: &dyn Store) {
    let key = key("tenant", "session");
    let end = appended(store, &key, Position::default(), &[b"1", b"2", b"3"]).await;
    assert_eq!(end.seq, 3);
    appended(store, &key, end, &[b"4", b"5"]).await;
    assert_log(store, &key, &[b"1", b"2", b"3", b"4", b"5"]).await;
}

pub(super) async fn conflict_names_the_real_position(store: &dyn Store) {
    let key = key("tenant", "session");
    let ahead = Position::default().then(b"never");
    let outcome = store.append(&key, append(ahead, &[b"x"])).await.unwrap();
    assert_eq!(outcome, Outcome::Conflict(Position::default()), "in front of an empty log");
    let end = appended(store, &key, Position::default(), &[b"1", b"2"]).await;
    for expected in [Position::default(), Position::default().then(b"1"), end.then(b"never")] {
        let outcome = store.append(&key, append(expected, &[b"x", b"y", b"z"])).await.unwrap();
        assert_eq!(outcome, Outcome::Conflict(end), "after {expected:?}");
    }
    assert_log(store, &key, &[b"1", b"2"]).await;
}

pub(super) async fn conflict_when_only_the_tip_differs(store: &dyn Store) {
    let key = key("tenant", "session");
    let end = appended(store, &key, Position::default(), &[b"1"]).await;
    let other = Position::default().then(b"another");
    assert_eq!(store.append(&key, append(other, &[b"2"])).await.unwrap(), Outcome::Conflict(end));
    let other = append(Position::default(), &[b"another"]);
    assert_eq!(store.append(&key, other).await.unwrap(), Outcome::Conflict(end));
    assert_log(store, &key, &[b"1"]).await;
}

pub(super) async fn repeated_is_a_duplicate(store: &dyn Store) {
    let key = key("tenant", "session");
    let first = append(Position::default(), &[b"1", b"2"]);
    assert_eq!(store.append(&key, first.clone()).await.unwrap(), Outcome::Appended);
    assert_eq!(store.append(&key, first.clone()).await.unwrap(), Outcome::Duplicate, "the log's first append");
    let second = append(first.end, &[b"3"]);
    assert_eq!(store.append(&key, second.clone()).await.unwrap(), Outcome::Appended);
    for _ in 0..2 {
        assert_eq!(store.append(&key, second.clone()).await.unwrap(), Outcome::Duplicate, "a later append");
    }
    assert_log(store, &key, &[b"1", b"2", b"3"]).await;
}

pub(super) async fn repeated_later_is_a_conflict(store: &dyn Store) {
    let key = key("tenant", "session");
    let first = append(Position::default(), &[b"1"]);
    assert_eq!(store.append(&key, first.clone()).await.unwrap(), Outcome::Appended);
    let end = appended(store, &key, first.end, &[b"2"]).await;
    assert_eq!(store.append(&key, first).await.unwrap(), Outcome::Conflict(end));
    assert_log(store, &key, &[b"1", b"2"]).await;
}

pub(super) async fn senseless_is_refused(store: &dyn Store) {
    let key = key("tenant", "session");
    let nothing = Append::new(Position::default(), Vec::new(), Header::default());
    let right = append(Position::default(), &[b"1"]);
    let gap = Append { end: Position { seq: 7, ..right.end }, ..right.clone() };
    let overflow = Append { expected: Position { seq: u64::MAX, ..right.expected }, ..right };
    for append in [nothing, gap, overflow] {
        let error = store.append(&key, append).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
        assert!(error.to_string().contains("tenant/session"), "it names the session: {error}");
    }
    assert_log(store, &key, &[]).await;
}

pub(super) async fn any_bytes_are_kept(store: &dyn Store) {
    let key = key("tenant\0 ü 🦀", "ses'sion\0\"%_/;--");
    let every: Vec<u8> = (0..=255).collect();
    let records: [&[u8]; 5] = [b"", b"\0", b"\xff\xfe\x00\xc3\x28", &every, b"{\"text\":\"\\ud800\"}\r\n"];
    let header = Header { title: Some("a title\0 \u{202e}'\"🦀".to_owned()), updated: u64::MAX, outstanding: true, archived: true };
    let append = Append { header: header.clone(), ..append(Position::default(), &records) };
    assert_eq!(store.append(&key, append).await.unwrap(), Outcome::Appended);
    assert_log(store, &key, &records).await;
    let listed = store.sessions(&key.tenant, None, 10, None).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].tenant, &listed[0].session, &listed[0].header), (&key.tenant, &key.session, &header));
    assert_eq!(store.outstanding().await.unwrap(), [key]);
}

pub(super) async fn big_records_are_kept(store: &dyn Store) {
    let key = key("tenant", "session");
    let big = |seed: u8| -> Bytes { (0..1 << 20).map(|at: u32| at.to_le_bytes()[usize::from(seed) % 3] ^ seed).collect() };
    let records = [big(0), Bytes::from_static(b"small"), big(1), big(2)];
    let append = Append::new(Position::default(), records.to_vec(), Header::default());
    assert_eq!(store.append(&key, append).await.unwrap(), Outcome::Appended);
    assert!(store.read(&key, 1, 10).await.unwrap() == records, "a record of 1 MiB came back as another");
    assert!(store.pick(&key, &[4, 1]).await.unwrap() == [records[3].clone(), records[0].clone()]);
    let third = store.read(&key, 3, 1).await.unwrap();
    assert!(third.len() == 1 && third[0] == records[2]);
}
