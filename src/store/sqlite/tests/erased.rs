//! What is erased is gone at once for everybody, and soon from the disk.

use super::*;

/// A new log may follow at once.
const TOMBSTONE: Tombstone = Tombstone { at: 0, until: 0 };

#[tokio::test]
async fn erased_text_is_not_left_on_the_disk() {
    let directory = directory();
    let store = open(directory.path()).unwrap();
    let secret = format!("a secret {}", "of some length ".repeat(1_000));
    store.append(&key("session"), append(Position::default(), &secret)).await.unwrap();
    store.append(&key("session"), append(append(Position::default(), &secret).end, "a secret too")).await.unwrap();
    store.append(&key("other"), append(Position::default(), "what stays")).await.unwrap();
    let sheets = (0..3).map(|number| (number, Bytes::from(secret.clone()))).collect();
    assert!(store.save(&key("session"), Save { at: append(Position::default(), &secret).end, onto: None, sheets }).await.unwrap());
    store.erase(&key("session"), TOMBSTONE).await.unwrap();
    drop(store);
    let bytes = fs::read(directory.path().join("headwater.db")).unwrap();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("what stays"));
    assert!(!holds("a secret") && !holds("of some length"));
}

/// What the database still holds: records, and sessions with leftovers.
fn left(directory: &Path) -> (u32, u32) {
    let connection = raw(directory);
    let count = |sql| connection.query_row(sql, (), |row| row.get(0)).unwrap();
    (count("SELECT count(*) FROM records"), count("SELECT count(*) FROM leftovers"))
}

/// Polls until nothing is left over.
async fn swept(directory: &Path) {
    let all = async {
        while left(directory) != (1, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("what was erased is removed");
}

#[tokio::test]
async fn a_long_log_is_gone_at_once_and_removed_in_portions() {
    let directory = filled(erase::PORTION as usize * 4).await;
    let store = open(directory.path()).unwrap();
    store.append(&key("other"), append(Position::default(), "what stays")).await.unwrap();
    store.erase(&key("session"), TOMBSTONE).await.unwrap();
    assert_eq!(store.position(&key("session")).await.unwrap(), Position::default());
    assert!(store.read(&key("session"), 1, 10).await.unwrap().is_empty());
    swept(directory.path()).await;
}

#[tokio::test]
async fn a_large_snapshot_goes_with_its_log() {
    let directory = filled(1).await;
    let store = open(directory.path()).unwrap();
    let at = store.position(&key("session")).await.unwrap();
    let sheets = (0..100).map(|number| (number, Bytes::from(vec![1; 20_000]))).collect();
    assert!(store.save(&key("session"), Save { at, onto: None, sheets }).await.unwrap());
    store.append(&key("other"), append(Position::default(), "what stays")).await.unwrap();
    store.erase(&key("session"), TOMBSTONE).await.unwrap();
    assert_eq!(store.snapshot(&key("session")).await.unwrap(), None);
    swept(directory.path()).await;
    let sheets = raw(directory.path()).query_row("SELECT count(*) FROM sheets", (), |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(sheets, 0);
}

#[tokio::test]
async fn a_restart_goes_on_with_what_was_left() {
    let directory = filled(erase::PORTION as usize * 3).await;
    let mut connection = raw(directory.path());
    let transaction = connection.transaction().unwrap();
    erase::erase(&transaction, &key("session"), TOMBSTONE).unwrap();
    transaction.commit().unwrap();
    drop(connection);
    assert_eq!(left(directory.path()), (erase::PORTION * 2, 1));
    let store = open(directory.path()).unwrap();
    store.append(&key("session"), append(Position::default(), "a new log")).await.unwrap();
    swept(directory.path()).await;
    assert_eq!(store.read(&key("session"), 1, 10).await.unwrap(), [&b"a new log"[..]]);
}
