//! Sessions that are opened from snapshots: when these are kept, and that a bad one changes nothing.

use bytes::Bytes;

use super::*;
use crate::engine::record::SessionCreated;
use crate::engine::{MessageNew, Record, Session, record::Body, snapshot};
use crate::store::{Append, Header, Outcome, Position, Save, Snapshot, Store as _, Tombstone};

/// A log of so many messages, one below the other, and where it ends.
fn log(messages: u32) -> (Vec<Bytes>, Position) {
    let created = Body::SessionCreated(SessionCreated { agent_id: "bot".into() });
    let message = |n: u32| {
        let role = if n % 2 == 1 { Role::User } else { Role::Assistant };
        let parent = n.checked_sub(1).filter(|&n| n > 0).map(|n| format!("m{n}").into());
        Body::MessageNew(Box::new(MessageNew::plain(format!("m{n}").into(), parent, Message::text(role, format!("says {n}")))))
    };
    let bodies = std::iter::once(created).chain((1..=messages).map(message));
    let records: Vec<Bytes> = bodies.zip(1_u64..).map(|(body, at)| Record { at, body }.encode().into()).collect();
    let end = records.iter().fold(Position::default(), |end, record| end.then(record));
    (records, end)
}

fn fold(records: &[Bytes]) -> Session {
    let mut session = Session::default();
    for record in records {
        session.evolve(Record::decode(record).unwrap()).unwrap();
    }
    session
}

fn save(records: &[Bytes], at: Position) -> Save {
    let sheets = snapshot::save(&mut fold(records), true).into_iter().map(|sheet| (sheet.number, sheet.bytes)).collect();
    Save { at, onto: None, sheets }
}

/// A bench whose session has a log of so many messages.
async fn filled(messages: u32) -> (Bench, Position) {
    let bench = Bench::new();
    let (records, end) = log(messages);
    let append = Append { at: 1, expected: Position::default(), records, end, header: Header::default() };
    assert_eq!(bench.store.append(&key(), append).await.unwrap(), Outcome::Appended);
    (bench, end)
}

/// Waits until nobody holds the session and what it left behind is done.
async fn left(bench: &Bench) {
    bench.runtime.0.living.subscribe().wait_for(|&tasks| tasks == 0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn kept(bench: &Bench) -> Option<Snapshot> {
    bench.store.snapshot(&key()).await.unwrap()
}

/// The last two messages of the conversation, and how many there are.
async fn last(bench: &Bench) -> (usize, Vec<String>) {
    let page = bench.runtime.session(&key()).await.unwrap();
    let texts: Vec<String> = page.messages.iter().map(|message| message.joined_text()).collect();
    (texts.len(), texts[texts.len() - 2..].to_vec())
}

/// One turn below the last message.
async fn turn(bench: &Bench, id: &str) {
    let submitted = bench.add(&format!("turn {id}"), id, OnBusy::Refuse).await.unwrap();
    bench.model.answers(&format!("answers {id}")).await;
    rest(reader(submitted)).await;
}

#[test]
fn a_session_that_leaves_memory_comes_back_from_its_snapshot() {
    run(async {
        let (bench, end) = filled(400).await;
        let whole = last(&bench).await;
        assert_eq!(whole.0, 400);
        left(&bench).await;
        assert_eq!((bench.store.saves(), kept(&bench).await.unwrap().at), (1, end));
        let reads = bench.store.reads();
        assert_eq!(last(&bench).await, whole);
        assert_eq!(bench.store.reads() - reads, 1, "only contents are read");
        turn(&bench, "u1").await;
        let after = last(&bench).await;
        left(&bench).await;
        assert_eq!(bench.store.saves(), 1, "a few records aren't worth another");
        let reads = bench.store.reads();
        assert_eq!(last(&bench).await, after);
        assert_eq!(bench.store.reads() - reads, 2, "and the records that came since");
        assert_eq!(after, (402, vec!["says u1".to_owned(), "answers u1".to_owned()]));
        turn(&bench, "u2").await;
        assert_eq!(bench.tree().await.lines().count(), 100);
    });
}

#[test]
fn a_small_session_leaves_no_snapshot() {
    run(async {
        let (bench, _) = filled(100).await;
        turn(&bench, "u1").await;
        left(&bench).await;
        assert_eq!((bench.store.saves(), kept(&bench).await), (0, None));
    });
}

#[test]
fn after_a_thousand_records_a_turns_end_brings_one() {
    run(async {
        let (bench, end) = filled(998).await;
        let _page = bench.runtime.session(&key()).await.unwrap();
        assert_eq!((end.seq, bench.store.saves()), (999, 0));
        turn(&bench, "u1").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let first = kept(&bench).await.unwrap();
        assert_eq!((bench.store.saves(), first.at.seq > end.seq), (1, true));
        turn(&bench, "u2").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(kept(&bench).await, Some(first.clone()), "not after each turn");
        for n in 0..200 {
            turn(&bench, &format!("v{n}")).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = kept(&bench).await.unwrap();
        assert_eq!((bench.store.saves(), second.at.seq - first.at.seq >= 1000), (2, true));
        let end = bench.store.position(&key()).await.unwrap();
        let records = bench.store.read(&key(), 1, usize::MAX).await.unwrap();
        let at = usize::try_from(second.at.seq).unwrap();
        assert!(second.at.seq < end.seq);
        assert_eq!(second, Snapshot { at: second.at, sheets: in_order(save(&records[..at], second.at)) }, "the old sheets and the new");
    });
}

fn in_order(save: Save) -> Vec<(u32, Bytes)> {
    let mut sheets = save.sheets;
    sheets.sort_unstable();
    sheets
}

#[test]
fn a_bad_snapshot_changes_nothing() {
    run(async {
        let (records, end) = log(400);
        let (others, _) = log(399);
        let before = records[..300].iter().fold(Position::default(), |end, record| end.then(record));
        let sheets = save(&records, end).sheets;
        let flipped = || {
            let mut sheets = sheets.clone();
            let mut bytes = sheets[2].1.to_vec();
            bytes[7] ^= 4;
            sheets[2].1 = bytes.into();
            sheets
        };
        let bad = [
            ("another session", Save { at: end, onto: None, sheets: save(&others, end).sheets }),
            ("an older one at the end", Save { at: end, onto: None, sheets: save(&records[..300], end).sheets }),
            ("a newer one before the end", Save { at: before, onto: None, sheets: sheets.clone() }),
            ("a log that was cut and grew again", Save { at: Position { tip: [7; 16], ..before }, ..save(&records[..300], before) }),
            ("a flipped bit", Save { at: end, onto: None, sheets: flipped() }),
            ("a part", Save { at: end, onto: None, sheets: sheets[..3].to_vec() }),
            ("nothing", Save { at: end, onto: None, sheets: Vec::new() }),
        ];
        for (what, save) in bad {
            let (bench, _) = filled(400).await;
            assert!(bench.store.save(&key(), save).await.unwrap(), "{what}");
            assert_eq!(last(&bench).await, (400, vec!["says 399".to_owned(), "says 400".to_owned()]), "{what}");
            turn(&bench, "u1").await;
            assert_eq!(last(&bench).await.0, 402, "{what}");
            left(&bench).await;
            let records = bench.store.read(&key(), 1, usize::MAX).await.unwrap();
            let now = bench.store.position(&key()).await.unwrap();
            assert_eq!(kept(&bench).await.unwrap().sheets, in_order(self::save(&records, now)), "{what}: a good one takes its place");
        }
    });
}

#[test]
fn a_snapshot_that_cannot_be_kept_delays_nothing() {
    run(async {
        let (bench, _) = filled(1000).await;
        bench.store.set_saving(false);
        for n in 0..3 {
            turn(&bench, &format!("u{n}")).await;
        }
        assert_eq!((bench.store.saves(), kept(&bench).await), (0, None));
        bench.store.set_saving(true);
        for n in 3..180 {
            turn(&bench, &format!("u{n}")).await;
        }
        left(&bench).await;
        assert_eq!(bench.store.saves(), 1, "the next one is whole");
        let reads = bench.store.reads();
        assert_eq!(last(&bench).await.0, 1360);
        assert!(bench.store.reads() - reads <= 2);
    });
}

#[test]
fn an_erased_session_has_no_snapshot() {
    run(async {
        let (bench, _) = filled(400).await;
        last(&bench).await;
        left(&bench).await;
        assert!(kept(&bench).await.is_some());
        bench.runtime.erase(&key()).await.unwrap();
        left(&bench).await;
        assert_eq!((bench.store.saves(), kept(&bench).await), (1, None));
        let (bench, _) = filled(400).await;
        last(&bench).await;
        bench.store.erase(&key(), Tombstone { at: 0, until: 0 }).await.unwrap();
        left(&bench).await;
        assert_eq!((bench.store.saves(), kept(&bench).await), (0, None), "erased behind its back");
    });
}
