//! What this backend promises besides the suite: what is left on the disk, who may open it, and what happens when it is
//! damaged or full.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::store::{Header, conformance};

mod damage;
mod erased;
mod format;
mod full;

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(directory: &Path) -> Result<Sqlite, Error> {
    Sqlite::open(&Options { path: directory.to_owned() })
}

fn key(session: &str) -> SessionKey {
    SessionKey { tenant: "tenant".into(), session: session.into() }
}

fn append(expected: Position, record: &str) -> Append {
    Append::new(expected, vec![Bytes::copy_from_slice(record.as_bytes())], Header::default())
}

/// The database as another program opens it.
fn raw(directory: &Path) -> Connection {
    Connection::open(directory.join("headwater.db")).unwrap()
}

/// A directory with one session of `records` records, closed.
async fn filled(records: usize) -> TempDir {
    let directory = directory();
    let store = open(directory.path()).unwrap();
    let all = (1..=records).map(|n| Bytes::from(format!("record {n} {}", "x".repeat(500)))).collect();
    let append = Append::new(Position::default(), all, Header::default());
    assert_eq!(store.append(&key("session"), append).await.unwrap(), Outcome::Appended);
    directory
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keeps_the_promises_of_a_store() {
    let directory = directory();
    let next = AtomicU32::new(0);
    conformance::run_all(|| {
        let path = directory.path().join(next.fetch_add(1, Ordering::Relaxed).to_string());
        Arc::new(Sqlite::open(&Options { path }).unwrap())
    })
    .await;
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let directory = filled(10).await;
    let store = open(directory.path()).unwrap();
    let records = store.read(&key("session"), 1, 100).await.unwrap();
    assert_eq!(records.len(), 10);
    let folded = records.iter().fold(Position::default(), |position, record| position.then(record));
    assert_eq!(store.position(&key("session")).await.unwrap(), folded);
    assert_eq!(store.append(&key("session"), append(folded, "next")).await.unwrap(), Outcome::Appended);
}

#[tokio::test]
async fn a_snapshot_is_there_after_a_restart() {
    let directory = filled(10).await;
    let store = open(directory.path()).unwrap();
    let at = store.position(&key("session")).await.unwrap();
    let sheets: Vec<_> = (0..100).map(|number| (number, Bytes::from(vec![u8::try_from(number).unwrap(); 10_000]))).collect();
    assert!(store.save(&key("session"), Save { at, onto: None, sheets: sheets.clone() }).await.unwrap());
    drop(store);
    let store = open(directory.path()).unwrap();
    assert_eq!(store.snapshot(&key("session")).await.unwrap(), Some(Snapshot { at, sheets }));
}

#[tokio::test]
async fn a_snapshot_that_was_cut_off_is_none() {
    let directory = filled(10).await;
    let store = open(directory.path()).unwrap();
    let at = store.position(&key("session")).await.unwrap();
    let save = |fill: u8| Save { at, onto: None, sheets: (0..40).map(|number| (number, Bytes::from(vec![fill; 20_000]))).collect() };
    assert!(store.save(&key("session"), save(1)).await.unwrap());
    let mut portions = Portion::all(save(2)).into_iter();
    assert!(portions.len() > 2, "it takes several steps");
    store.write(Work::Save(key("session"), portions.next().unwrap())).await.unwrap();
    drop(store);
    let store = open(directory.path()).unwrap();
    assert_eq!(store.snapshot(&key("session")).await.unwrap(), None);
    assert!(store.save(&key("session"), save(3)).await.unwrap());
    assert_eq!(store.snapshot(&key("session")).await.unwrap().unwrap().sheets, save(3).sheets);
}

#[tokio::test]
async fn a_closed_store_is_one_file_and_its_lock() {
    let directory = filled(10).await;
    let mut names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["headwater.db", "headwater.lock"]);
}

#[tokio::test]
async fn dropping_the_store_finishes_what_was_asked() {
    let directory = directory();
    let store = open(directory.path()).unwrap();
    let keys: Vec<SessionKey> = (0..200).map(|n| key(&format!("session {n:03}"))).collect();
    let appends = join_all(keys.iter().map(|key| store.append(key, append(Position::default(), "record"))));
    // Asked, and the answers not waited for.
    let _ = tokio::time::timeout(Duration::ZERO, appends).await;
    drop(store);
    let store = open(directory.path()).unwrap();
    assert_eq!(store.sessions(&"tenant".into(), None, 1_000, None).await.unwrap().len(), keys.len());
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_one_closes() {
    let directory = directory();
    let first = open(directory.path()).unwrap();
    let refused = open(directory.path()).unwrap_err();
    assert!(matches!(refused, Error::Open(_)));
    let text = refused.to_string();
    let path = directory.path().display().to_string();
    let holder = format!("in use by another process (process {})", std::process::id());
    assert!(text.contains(&path) && text.contains(&holder), "{text}");
    first.ready().await.unwrap();
    drop(first);
    open(directory.path()).unwrap().ready().await.unwrap();
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    let mut unusable = vec![file.join("below"), file];
    if cfg!(target_os = "linux") {
        // Nobody makes files there, not even root.
        unusable.push("/proc/self".into());
    }
    for path in unusable {
        let error = open(&path).unwrap_err();
        assert!(matches!(error, Error::Open(_)), "{error:?}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn any_name_of_a_directory_is_a_name() {
    let directory = directory();
    let path = directory.path().join("file:a?mode=memory&cache=shared #%20 ü");
    let store = open(&path).unwrap();
    store.append(&key("session"), append(Position::default(), "record")).await.unwrap();
    assert!(path.join("headwater.db").is_file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_does_not_hold_up_writing() {
    let directory = filled(10).await;
    let store = Arc::new(open(directory.path()).unwrap());
    let end = store.position(&key("session")).await.unwrap();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let (begun, mut reading) = tokio::sync::mpsc::channel(READERS);
    let readers = (0..READERS).map(|_| {
        let (store, wait, begun) = (Arc::clone(&store), Arc::clone(&wait), begun.clone());
        tokio::spawn(async move {
            let slow = move |connection: &Connection| {
                let moment = connection.unchecked_transaction()?;
                let before = reader::position(&moment, &key("session"))?;
                begun.blocking_send(()).unwrap();
                // Ends when the sender is dropped.
                let _ = wait.lock().unwrap().recv();
                Ok((before, reader::position(&moment, &key("session"))?))
            };
            store.query(|| "reading slowly".to_owned(), slow).await.unwrap()
        })
    });
    let readers: Vec<_> = readers.collect();
    for _ in 0..READERS {
        reading.recv().await.unwrap();
    }
    let mut now = end;
    for _ in 0..50 {
        let append = append(now, "while they read");
        now = append.end;
        assert_eq!(store.append(&key("session"), append).await.unwrap(), Outcome::Appended);
    }
    drop(go_on);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), (end, end), "a reader sees one moment");
    }
    assert_eq!(store.position(&key("session")).await.unwrap(), now);
}
