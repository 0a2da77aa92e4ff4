//! Reads give what is in the log, from wherever they begin.

use bytes::Bytes;

use super::{append, appended, assert_log, fold, key};
use crate::store::{Append, Error, Header, Outcome, Position, Store};

pub(super) async fn no_log_is_empty(store: &dyn Store) {
    let key = key("tenant", "session");
    assert_log(store, &key, &[]).await;
    assert_eq!(store.position(&key).await.unwrap(), Position::default());
    assert!(store.pick(&key, &[]).await.unwrap().is_empty());
    assert!(matches!(store.pick(&key, &[1]).await, Err(Error::Corrupt { .. })));
    assert!(store.sessions(&key.tenant, None, 10, None).await.unwrap().is_empty());
    assert!(store.outstanding().await.unwrap().is_empty());
}

pub(super) async fn any_range(store: &dyn Store) {
    let key = key("tenant", "session");
    let all: [&[u8]; 5] = [b"1", b"2", b"3", b"4", b"5"];
    let end = appended(store, &key, Position::default(), &all[..3]).await;
    appended(store, &key, end, &all[3..]).await;
    for from in 1..=7_usize {
        for limit in 0..=7 {
            let wanted: Vec<&[u8]> = all.iter().skip(from - 1).take(limit).copied().collect();
            assert_eq!(store.read(&key, from as u64, limit).await.unwrap(), wanted, "{limit} from {from}");
        }
    }
    assert_eq!(store.read(&key, 0, 2).await.unwrap(), all[..2], "0 is read as 1");
    assert_eq!(store.read(&key, 1, usize::MAX).await.unwrap(), all);
    assert_eq!(store.read(&key, 5, usize::MAX).await.unwrap(), all[4..]);
    assert!(store.read(&key, u64::MAX, usize::MAX).await.unwrap().is_empty());
}

pub(super) async fn picks_in_the_order_asked(store: &dyn Store) {
    let key = key("tenant", "session");
    appended(store, &key, Position::default(), &[b"1", b"2", b"3", b"4"]).await;
    let picked = store.pick(&key, &[4, 1, 3, 1]).await.unwrap();
    assert_eq!(picked, [&b"4"[..], b"1", b"3", b"1"]);
    for missing in [0, 5, u64::MAX] {
        let error = store.pick(&key, &[1, missing]).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("tenant/session") && text.contains(&missing.to_string()), "it names session and record: {text}");
    }
}

pub(super) async fn long_log_in_pages(store: &dyn Store) {
    let key = key("tenant", "session");
    let records: Vec<Bytes> = (0..1_000).map(|n| Bytes::from(format!("record {n}"))).collect();
    let mut position = Position::default();
    for chunk in records.chunks(100) {
        let append = Append::new(position, chunk.to_vec(), Header::default());
        position = append.end;
        assert_eq!(store.append(&key, append).await.unwrap(), Outcome::Appended);
        // Another session's records lie in between.
        let other = super::key("tenant", "another");
        let end = store.position(&other).await.unwrap();
        assert_eq!(store.append(&other, append_one(end)).await.unwrap(), Outcome::Appended);
    }
    let mut read = Vec::new();
    loop {
        let page = store.read(&key, read.len() as u64 + 1, 64).await.unwrap();
        let last = page.len() < 64;
        read.extend(page);
        if last {
            break;
        }
    }
    assert_eq!(read, records);
    assert_eq!(fold(&read), position);
}

fn append_one(end: Position) -> Append {
    append(end, &[b"another session's"])
}
