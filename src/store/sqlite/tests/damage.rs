//! A damaged store is named, with its file, and never taken for an empty one.

use super::*;

fn assert_damaged(directory: &Path, error: &Error) {
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    let file = directory.join("headwater.db").display().to_string();
    assert!(error.to_string().contains(&file), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database() {
    for contents in [&b"short"[..], &[0xa5; 10_000], b"SQLite format 2\0 and more"] {
        let directory = directory();
        fs::write(directory.path().join("headwater.db"), contents).unwrap();
        assert_damaged(directory.path(), &open(directory.path()).unwrap_err());
        assert_eq!(fs::read(directory.path().join("headwater.db")).unwrap(), contents, "it is left as it was");
    }
}

#[tokio::test]
async fn a_file_that_was_cut() {
    for keep in [50, 100, 1_000, 4_096, 5_000, 20_480] {
        let directory = filled(100).await;
        let path = directory.path().join("headwater.db");
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        assert!(file.metadata().unwrap().len() > keep);
        file.set_len(keep).unwrap();
        assert_damaged(directory.path(), &open(directory.path()).expect_err(&format!("cut to {keep} bytes")));
    }
}

#[tokio::test]
async fn a_database_whose_log_is_alone() {
    for empty in [false, true] {
        let directory = directory();
        fs::write(directory.path().join("headwater.db-wal"), b"something").unwrap();
        if empty {
            fs::write(directory.path().join("headwater.db"), b"").unwrap();
        }
        assert_damaged(directory.path(), &open(directory.path()).unwrap_err());
        assert!(directory.path().join("headwater.db-wal").exists(), "it is left as it was");
    }
}

#[tokio::test]
async fn pages_that_were_overwritten() {
    let directory = filled(100).await;
    let path = directory.path().join("headwater.db");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4_096..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let store = open(directory.path()).unwrap();
    assert_damaged(directory.path(), &store.read(&key("session"), 1, 100).await.unwrap_err());
    assert_damaged(directory.path(), &store.position(&key("session")).await.unwrap_err());
    assert_damaged(directory.path(), &store.sessions(&"tenant".into(), None, 10, None).await.unwrap_err());
    let refused = store.append(&key("session"), append(Position::default(), "record")).await.unwrap_err();
    assert_damaged(directory.path(), &refused);
}

#[tokio::test]
async fn records_that_are_missing() {
    for (missing, from, limit) in [(1_u32, 1, 100), (5, 1, 100), (5, 4, 2), (10, 1, 100), (10, 10, 1)] {
        let directory = filled(10).await;
        raw(directory.path()).execute("DELETE FROM records WHERE seq = ?1", [missing]).unwrap();
        let store = open(directory.path()).unwrap();
        let error = store.read(&key("session"), from, limit).await.unwrap_err();
        assert_damaged(directory.path(), &error);
        assert!(error.to_string().contains(&format!("no record {missing}")), "{error}");
        assert_damaged(directory.path(), &store.pick(&key("session"), &[2, missing.into()]).await.unwrap_err());
        assert_eq!(store.position(&key("session")).await.unwrap().seq, 10);
    }
}

#[tokio::test]
async fn values_that_no_store_wrote() {
    for sql in ["UPDATE sessions SET seq = -1", "UPDATE sessions SET tip = x'00'"] {
        let directory = filled(3).await;
        raw(directory.path()).execute(sql, ()).unwrap();
        let store = open(directory.path()).unwrap();
        assert_damaged(directory.path(), &store.position(&key("session")).await.unwrap_err());
        assert_damaged(directory.path(), &store.append(&key("session"), append(Position::default(), "x")).await.unwrap_err());
    }
}

#[tokio::test]
async fn a_damaged_session_does_not_harm_the_others() {
    let directory = filled(3).await;
    raw(directory.path()).execute("UPDATE sessions SET tip = x'00'", ()).unwrap();
    let store = open(directory.path()).unwrap();
    let (good, bad) = (key("other"), key("session"));
    let both = [&bad, &good, &bad].map(|key| store.append(key, append(Position::default(), "record")));
    let outcomes = join_all(both).await;
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Ok(Outcome::Appended))).count(), 1);
    assert_eq!(store.position(&good).await.unwrap().seq, 1);
}
