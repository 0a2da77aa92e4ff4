//! The format has a version: older ones are brought forward, newer ones and others' files are refused untouched.

use super::*;

/// A store as format 1 left it. Never changed: it stands for the files that people have.
const FORMAT_1: &str = include_str!("../../../../tests/fixtures/store/format-1.sql");
/// The same as format 2 left it.
const FORMAT_2: &str = include_str!("../../../../tests/fixtures/store/format-2.sql");
/// The same as format 3 left it, with a snapshot.
const FORMAT_3: &str = include_str!("../../../../tests/fixtures/store/format-3.sql");

fn written(sql: &str) -> TempDir {
    let directory = directory();
    raw(directory.path()).execute_batch(sql).unwrap();
    directory
}

fn shape(directory: &Path) -> Vec<(String, Option<String>)> {
    let connection = raw(directory);
    let mut select = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
    let words = |sql: String| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = select.query_map((), |row| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?.map(words)))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn format_1_is_read_and_continued() {
    let directory = written(FORMAT_1);
    let store = open(directory.path()).unwrap();
    let records = store.read(&key("session"), 1, 10).await.unwrap();
    assert_eq!(records, [&b"{\"type\":\"first\"}"[..], b"\x00\xff"]);
    let end = records.iter().fold(Position::default(), |position, record| position.then(record));
    assert_eq!(store.position(&key("session")).await.unwrap(), end);
    let header = Header { title: Some("A title".to_owned()), updated: 1_790_000_000_000, outstanding: true, archived: false };
    assert_eq!(store.sessions(&"tenant".into(), None, 10, None).await.unwrap()[0].header, header);
    assert_eq!(store.outstanding().await.unwrap(), [key("session")]);
    let archived = Append { header: Header { archived: true, ..header }, ..append(end, "third") };
    assert_eq!(store.append(&key("session"), archived).await.unwrap(), Outcome::Appended);
    assert_eq!(store.sessions(&"tenant".into(), None, 10, Some(true)).await.unwrap().len(), 1);
    let tombstone = Tombstone { at: 1, until: 2 };
    store.erase(&key("session"), tombstone).await.unwrap();
    assert_eq!(store.append(&key("session"), append(Position::default(), "late")).await.unwrap(), Outcome::Erased { until: 2 });
}

#[tokio::test]
async fn format_2_is_read_and_continued() {
    let directory = written(FORMAT_2);
    let store = open(directory.path()).unwrap();
    let listed = store.sessions(&"tenant".into(), None, 10, Some(true)).await.unwrap();
    let header = Header { title: Some("A title".to_owned()), updated: 1_790_000_000_000, outstanding: false, archived: true };
    assert_eq!((listed.len(), &listed[0].header), (1, &header));
    let records = store.read(&key("session"), 1, 10).await.unwrap();
    let end = records.iter().fold(Position::default(), |position, record| position.then(record));
    assert_eq!(store.append(&key("session"), append(end, "third")).await.unwrap(), Outcome::Appended);
    assert_eq!(store.erased(&key("erased")).await.unwrap(), Some(1_790_086_400_000));
    assert!(matches!(store.append(&key("erased"), append(Position::default(), "late")).await.unwrap(), Outcome::Erased { .. }));
}

#[tokio::test]
async fn format_3_is_read_and_continued() {
    let directory = written(FORMAT_3);
    let store = open(directory.path()).unwrap();
    let records = store.read(&key("session"), 1, 10).await.unwrap();
    let first = Position::default().then(&records[0]);
    let end = first.then(&records[1]);
    let sheets = vec![(0, Bytes::from_static(b"head")), (16_777_216, Bytes::from_static(b"\x00\xff"))];
    assert_eq!(store.snapshot(&key("session")).await.unwrap(), Some(Snapshot { at: first, sheets }));
    let save = Save { at: end, onto: Some(first), sheets: vec![(0, Bytes::from_static(b"new head"))] };
    assert!(store.save(&key("session"), save).await.unwrap());
    assert_eq!(store.snapshot(&key("session")).await.unwrap().unwrap().sheets.len(), 2);
    store.erase(&key("session"), Tombstone { at: 1, until: 2 }).await.unwrap();
    drop(store);
    let left =
        |table: &str| raw(directory.path()).query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((left("snapshots"), left("sheets"), left("records"), left("leftovers")), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_new_store_has_the_shape_of_its_format() {
    assert_eq!(schema::FORMAT, 3, "a new format: keep the fixture of the old one, and add one");
    let (new, newest) = (directory(), written(FORMAT_3));
    drop(open(new.path()).unwrap());
    assert_eq!(shape(new.path()), shape(newest.path()), "what is released is never changed: add a step");
    for older in [FORMAT_1, FORMAT_2] {
        let old = written(older);
        drop(open(old.path()).unwrap());
        assert_eq!(shape(old.path()), shape(newest.path()), "the steps lead there");
    }
    let version = |name| raw(new.path()).pragma_query_value(None, name, |row| row.get::<_, i32>(0)).unwrap();
    assert_eq!((version("application_id"), version("user_version")), (schema::APPLICATION_ID, schema::FORMAT));
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let directory = written(FORMAT_3);
    raw(directory.path()).pragma_update(None, "user_version", 7).unwrap();
    let before = fs::read(directory.path().join("headwater.db")).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(error, Error::Open(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("has format 7") && text.contains(&format!("formats up to {}", schema::FORMAT)) && text.contains("headwater.db"),
        "{text}"
    );
    assert_eq!(fs::read(directory.path().join("headwater.db")).unwrap(), before);
}

#[test]
fn the_database_of_another_program_is_refused_untouched() {
    let theirs = "CREATE TABLE sessions (id INTEGER)";
    for sql in [theirs.to_owned(), format!("PRAGMA user_version = 1; {theirs}"), format!("PRAGMA application_id = 99; {theirs}")] {
        let directory = written(&sql);
        let before = fs::read(directory.path().join("headwater.db")).unwrap();
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(error, Error::Open(_)), "{error:?}");
        assert!(error.to_string().contains("another program's database"), "{error}");
        assert_eq!(fs::read(directory.path().join("headwater.db")).unwrap(), before);
    }
}

#[tokio::test]
async fn an_interrupted_first_start_is_begun_again() {
    for sql in ["", "PRAGMA journal_mode = WAL"] {
        let directory = directory();
        let connection = raw(directory.path());
        if !sql.is_empty() {
            connection.query_row(sql, (), |_| Ok(())).unwrap();
        }
        drop(connection);
        let store = open(directory.path()).unwrap();
        assert_eq!(store.append(&key("session"), append(Position::default(), "record")).await.unwrap(), Outcome::Appended);
    }
}

#[test]
fn a_commit_is_on_the_disk_before_it_is_answered() {
    let directory = directory();
    let place = Place::claim(directory.path()).unwrap();
    let connection = connect::to_write(&place).unwrap();
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("synchronous"), 2, "FULL");
    assert_eq!(number("wal_autocheckpoint"), 4_000);
    assert_eq!(number("secure_delete"), 1);
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}
