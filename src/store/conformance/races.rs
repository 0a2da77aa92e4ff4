//! Many at once: one wins each position, and nobody sees a part of an append.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;

use super::{append, fold, key};
use crate::store::{Append, Header, Outcome, Position, Store};

const APPENDERS: usize = 16;
const WINS: usize = 12;

pub(super) async fn one_appender_wins_each_position(store: Arc<dyn Store>) {
    let appenders = (0..APPENDERS).map(|appender| tokio::spawn(win(Arc::clone(&store), appender)));
    let mut won = BTreeSet::new();
    for seqs in join_all(appenders).await {
        for seq in seqs.unwrap() {
            assert!(won.insert(seq), "two appenders won position {seq}");
        }
    }
    let total = APPENDERS * WINS;
    assert!(won.into_iter().eq(1..=total as u64), "every position was won");
    let records = store.read(&key("tenant", "session"), 1, total + 1).await.unwrap();
    assert_eq!(records.iter().collect::<BTreeSet<_>>().len(), total, "each record is there once");
    assert_eq!(store.position(&key("tenant", "session")).await.unwrap(), fold(&records));
}

/// Appends until it has won its share; the positions it won.
async fn win(store: Arc<dyn Store>, appender: usize) -> Vec<u64> {
    let key = key("tenant", "session");
    let mut expected = Position::default();
    let mut won = Vec::new();
    while won.len() < WINS {
        let append = append(expected, &[format!("{appender} {}", won.len()).as_bytes()]);
        let end = append.end;
        expected = match store.append(&key, append).await.unwrap() {
            Outcome::Appended => {
                won.push(end.seq);
                end
            }
            Outcome::Conflict(position) => {
                assert!(position.seq > expected.seq, "a conflict at {expected:?} names {position:?}");
                position
            }
            Outcome::Duplicate => panic!("nobody else appends these records"),
            Outcome::Erased { .. } => panic!("nobody erases it"),
        };
    }
    won
}

pub(super) async fn the_same_append_lands_once(store: Arc<dyn Store>) {
    let key = key("tenant", "session");
    let mut expected = Position::default();
    for round in 0..10 {
        let append = append(expected, &[format!("{round} a").as_bytes(), format!("{round} b").as_bytes()]);
        expected = append.end;
        let tries = (0..APPENDERS).map(|_| {
            let (store, key, append) = (Arc::clone(&store), key.clone(), append.clone());
            tokio::spawn(async move { store.append(&key, append).await.unwrap() })
        });
        let outcomes: Vec<Outcome> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Appended).count(), 1, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Duplicate).count(), APPENDERS - 1);
    }
    let records = store.read(&key, 1, 100).await.unwrap();
    assert_eq!((records.len(), fold(&records)), (20, expected));
}

pub(super) async fn sessions_grow_side_by_side(store: Arc<dyn Store>) {
    let sessions = (0..32).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let key = key(&format!("tenant {}", n % 3), &format!("session {n}"));
            let mut position = Position::default();
            for round in 0..20 {
                position = super::appended(&*store, &key, position, &[format!("{n} {round}").as_bytes(), b"and"]).await;
            }
            let records = store.read(&key, 1, 100).await.unwrap();
            assert_eq!((records.len(), fold(&records)), (40, position));
            assert!(records.chunks(2).enumerate().all(|(round, pair)| pair[0] == format!("{n} {round}")));
        })
    });
    join_all(sessions).await.into_iter().for_each(Result::unwrap);
}

pub(super) async fn reads_see_whole_appends_and_every_answered_one(store: Arc<dyn Store>) {
    const ROUNDS: u64 = 60;
    let key = key("tenant", "session");
    let answered = Arc::new(AtomicU64::new(0));
    let record = |seq: u64| Bytes::from(format!("record {seq}"));
    let reader = {
        let (store, key, answered) = (Arc::clone(&store), key.clone(), Arc::clone(&answered));
        tokio::spawn(async move {
            loop {
                let least = answered.load(Ordering::SeqCst);
                let records = store.read(&key, 1, usize::MAX).await.unwrap();
                assert!(records.len() as u64 >= least, "{} records when {least} were answered", records.len());
                assert_eq!(records.len() % 3, 0, "a part of an append");
                assert!((1..).zip(&records).all(|(seq, read)| *read == record(seq)));
                let position = store.position(&key).await.unwrap();
                assert!(position.seq >= records.len() as u64 && position.seq % 3 == 0);
                if least == ROUNDS * 3 {
                    break;
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let mut position = Position::default();
    for _ in 0..ROUNDS {
        let records = (1..=3).map(|n| record(position.seq + n)).collect();
        let append = Append::new(position, records, Header::default());
        position = append.end;
        assert_eq!(store.append(&key, append).await.unwrap(), Outcome::Appended);
        answered.store(position.seq, Ordering::SeqCst);
    }
    reader.await.unwrap();
}

pub(super) async fn dropped_appends_are_whole_or_nothing(store: Arc<dyn Store>) {
    let key = key("tenant", "session");
    let mut expected = Position::default();
    for round in 0..20 {
        let append = append(expected, &[format!("{round} a").as_bytes(), format!("{round} b").as_bytes()]);
        // Polled at most once, then dropped: its answer is never seen.
        let dropped = tokio::time::timeout(std::time::Duration::ZERO, store.append(&key, append.clone()));
        let _ = dropped.await;
        let outcome = store.append(&key, append.clone()).await.unwrap();
        assert!(matches!(outcome, Outcome::Appended | Outcome::Duplicate), "{outcome:?} when it was tried again");
        expected = append.end;
    }
    let records = store.read(&key, 1, 100).await.unwrap();
    assert_eq!((records.len(), fold(&records)), (40, expected));
}
