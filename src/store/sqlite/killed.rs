//! What was acknowledged survives a kill. The test runs itself as a process that appends and tells what was acknowledged, and
//! kills that without notice.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::*;
use crate::store::Header;

/// Names the directory to the process that is to be killed.
const DIRECTORY: &str = "HEADWATER_TEST_KILLED_DIRECTORY";
const ROUNDS: u64 = 12;
const SESSIONS: u64 = 6;

#[test]
fn acknowledged_records_survive_a_kill() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        append_until_killed(directory.into());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    for round in 0..ROUNDS {
        // From the first acknowledgement on, and far enough to meet a checkpoint.
        let lines = [1, 2, 3, 10, 50, 100, 400, 700, 1_000, 1_500, 2_000, 2_500][usize::try_from(round).unwrap()];
        let before = acknowledged.values().map(|end: &Position| end.seq).sum::<u64>();
        kill_after(lines, directory.path(), &mut acknowledged);
        let after = acknowledged.values().map(|end| end.seq).sum::<u64>();
        assert!(after > before, "round {round} acknowledged something");
        check(directory.path(), &acknowledged);
    }
}

fn session(n: u64) -> SessionKey {
    SessionKey { tenant: "tenant".into(), session: format!("session {n}").into() }
}

/// The record that session `n` has at `seq`; its length varies up to some 3 KB.
fn record(n: u64, seq: u64) -> Bytes {
    let length = seq.wrapping_mul(2_654_435_761) % 3_000;
    Bytes::from(format!("session {n} record {seq} {}", "x".repeat(usize::try_from(length).unwrap())))
}

/// Runs the process that appends until it told `lines` acknowledgements, kills it, and takes in what it told till then.
fn kill_after(lines: usize, directory: &Path, acknowledged: &mut BTreeMap<u64, Position>) {
    let name = concat!(module_path!(), "::acknowledged_records_survive_a_kill");
    let name = name.split_once("::").unwrap().1;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
        let line = String::from_utf8(line.unwrap()).unwrap();
        // Other lines are the test runner's; the last one may be cut.
        let Some((n, end)) = acknowledgement(&line) else { continue };
        acknowledged.insert(n, end);
        told += 1;
        if told == lines {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(told >= lines, "the process ended by itself after {told} acknowledgements: {status}");
}

fn acknowledgement(line: &str) -> Option<(u64, Position)> {
    let mut words = line.strip_prefix("acknowledged ")?.strip_suffix('.')?.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (n, seq) = (number()?, number()?);
    let tip = u128::from_str_radix(words.next()?, 16).ok()?.to_be_bytes();
    Some((n, Position { seq, tip }))
}

/// Every log is whole, has what it must have, and holds every acknowledged end on its chain.
fn check(directory: &Path, acknowledged: &BTreeMap<u64, Position>) {
    let store = Sqlite::open(&Options { path: directory.to_owned() }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for n in 0..SESSIONS {
        let key = session(n);
        let records = runtime.block_on(store.read(&key, 1, usize::MAX)).unwrap();
        let end = acknowledged.get(&n).copied().unwrap_or_default();
        assert!(records.len() as u64 >= end.seq, "{} records where {} were acknowledged", records.len(), end.seq);
        let mut position = Position::default();
        for (seq, stored) in (1..).zip(&records) {
            assert!(*stored == record(n, seq), "record {seq} of {key}");
            position = position.then(stored);
            assert!(seq != end.seq || position == end, "the acknowledged end {end:?} is on the chain");
        }
        assert_eq!(runtime.block_on(store.position(&key)).unwrap(), position, "the tip of {key} is that of its records");
    }
}

fn append_until_killed(path: PathBuf) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Arc::new(Sqlite::open(&Options { path }).unwrap());
    let out = Arc::new(Mutex::new(std::io::stdout()));
    runtime.block_on(async {
        let sessions = (0..SESSIONS).map(|n| append_for_ever(Arc::clone(&store), n, Arc::clone(&out)));
        futures_util::future::join_all(sessions).await;
    });
}

async fn append_for_ever(store: Arc<Sqlite>, n: u64, out: Arc<Mutex<std::io::Stdout>>) {
    let key = session(n);
    let mut position = store.position(&key).await.unwrap();
    loop {
        let records = (1..=1 + position.seq % 3).map(|next| record(n, position.seq + next)).collect();
        let append = Append::new(position, records, Header { updated: position.seq, ..Header::default() });
        let end = append.end;
        assert_eq!(store.append(&key, append).await.unwrap(), Outcome::Appended);
        position = end;
        let tip = u128::from_be_bytes(end.tip);
        let mut out = out.lock().unwrap();
        writeln!(out, "acknowledged {n} {} {tip:032x}.", end.seq).and_then(|()| out.flush()).unwrap();
    }
}
