//! A full disk refuses whole appends, and what fits still goes in; what fails alone doesn't take its group along.

use super::*;

/// A store whose database may not grow beyond `pages`.
fn bounded(directory: &Path, pages: u32) -> Sqlite {
    let place = Arc::new(Place::claim(directory).unwrap());
    let connection = connect::to_write(&place).unwrap();
    connection.pragma_update(None, "max_page_count", pages).unwrap();
    Sqlite::start(place, connection).unwrap()
}

#[tokio::test]
async fn a_full_store_says_so_and_serves_reads() {
    let directory = directory();
    let store = bounded(directory.path(), 60);
    let mut end = Position::default();
    let record = "x".repeat(10_000);
    let error = loop {
        assert!(end.seq < 60, "it gets full");
        match store.append(&key("session"), append(end, &record)).await {
            Ok(outcome) => assert_eq!(outcome, Outcome::Appended),
            Err(error) => break error,
        }
        end = end.then(record.as_bytes());
    };
    assert!(end.seq > 3, "something fitted");
    assert!(matches!(&error, Error::Full { doing, .. } if doing.contains("tenant/session")), "{error:?}");
    let three = Append::new(end, vec![Bytes::from(record.clone()); 3], Header::default());
    assert!(matches!(store.append(&key("session"), three).await, Err(Error::Full { .. })));
    assert_eq!(store.position(&key("session")).await.unwrap(), end, "nothing was written");
    assert_eq!(store.read(&key("session"), 1, 100).await.unwrap().len() as u64, end.seq);
    store.ready().await.unwrap();
    drop(store);
    let store = open(directory.path()).unwrap();
    assert_eq!(store.append(&key("session"), append(end, &record)).await.unwrap(), Outcome::Appended, "once there is room");
}

#[tokio::test]
async fn asking_whether_it_is_ready_writes() {
    let directory = directory();
    let store = open(directory.path()).unwrap();
    let written = || std::fs::metadata(directory.path().join("headwater.db-wal")).map_or(0, |log| log.len());
    let before = written();
    store.ready().await.unwrap();
    assert!(written() > before, "a disk that takes nothing must be noticed");
}

#[tokio::test]
async fn what_does_not_fit_does_not_take_its_group_along() {
    let directory = directory();
    let store = bounded(directory.path(), 60);
    store.append(&key("small 1"), append(Position::default(), "record")).await.unwrap();
    // While another connection has the write lock, the writer waits and a group gathers.
    let other = raw(directory.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let big = "x".repeat(1_000_000);
    let first = append(Position::default(), "record").end;
    let asked = [("small 1", first, "next"), ("big", Position::default(), &*big), ("small 2", Position::default(), "record")];
    let keys = asked.map(|(session, _, _)| key(session));
    let mut group = join_all(keys.iter().zip(asked).map(|(key, (_, expected, record))| store.append(key, append(expected, record))));
    assert!(tokio::time::timeout(Duration::ZERO, &mut group).await.is_err(), "they wait");
    other.execute_batch("ROLLBACK").unwrap();
    let outcomes = group.await;
    assert!(matches!(outcomes[0], Ok(Outcome::Appended)), "{outcomes:?}");
    assert!(matches!(outcomes[1], Err(Error::Full { .. })), "{outcomes:?}");
    assert!(matches!(outcomes[2], Ok(Outcome::Appended)), "{outcomes:?}");
    for (session, seq) in [("small 1", 2), ("big", 0), ("small 2", 1)] {
        assert_eq!(store.position(&key(session)).await.unwrap().seq, seq, "{session}");
    }
}

#[tokio::test]
async fn a_group_answers_each_for_itself() {
    let directory = directory();
    let store = open(directory.path()).unwrap();
    let end = append(Position::default(), "1").end;
    let other = raw(directory.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let session = key("session");
    let asked = [
        append(Position::default(), "1"),
        append(Position::default(), "1"),
        append(Position::default(), "lost"),
        append(end, "2"),
        append(end, "lost too"),
    ];
    let mut group = join_all(asked.into_iter().map(|append| store.append(&session, append)));
    assert!(tokio::time::timeout(Duration::ZERO, &mut group).await.is_err(), "they wait");
    other.execute_batch("ROLLBACK").unwrap();
    let outcomes: Vec<Outcome> = group.await.into_iter().map(Result::unwrap).collect();
    let last = append(end, "2").end;
    let wanted = [Outcome::Appended, Outcome::Duplicate, Outcome::Conflict(end), Outcome::Appended, Outcome::Conflict(last)];
    assert_eq!(outcomes, wanted);
    assert_eq!(store.position(&session).await.unwrap(), last);
}
