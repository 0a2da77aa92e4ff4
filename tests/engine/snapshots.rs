//! Fold snapshots: from one, with the records that came after it, the session is the same as from the whole log, down to the bytes
//! of the next one. What is damaged is no snapshot.

use std::collections::BTreeMap;

use bytes::Bytes;
use headwater::engine::record::Body;
use headwater::engine::snapshot::{self, HEAD_SHEET, Sheet, Unusable};
use headwater::engine::{self, Record, Session};
use headwater::protocol::{CallErrorKind, Digest, Message, Role};
use proptest::prelude::*;

use crate::talk::{Asked, Talk, listed};

/// Sheets as a store keeps them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept(BTreeMap<u32, Bytes>);

impl Kept {
    /// Takes what has changed.
    fn save(&mut self, session: &mut Session) {
        self.0.extend(snapshot::save(session, false).into_iter().map(|sheet| (sheet.number, sheet.bytes)));
    }

    fn sheets(&self) -> Vec<Sheet> {
        self.0.iter().map(|(&number, bytes)| Sheet { number, bytes: bytes.clone() }).collect()
    }

    fn restore(&self) -> Session {
        snapshot::restore(self.sheets()).unwrap()
    }
}

fn fold(session: &mut Session, log: &[Vec<u8>]) {
    for stored in log {
        session.evolve(Record::decode(stored).unwrap()).unwrap();
    }
}

/// Takes all contents back into memory.
fn recall(session: &mut Session, log: &[Vec<u8>]) {
    for (ix, seq) in session.missing(0..u32::try_from(session.tree.len()).unwrap()) {
        let stored = &log[usize::try_from(seq - 1).unwrap()];
        let Body::MessageNew(new) = Record::decode(stored).unwrap().body else { panic!("record {seq} isn't a message") };
        session.recall(ix, *new);
    }
}

/// Everything that a session has besides contents, as bytes.
fn whole(session: &Session) -> Vec<Sheet> {
    snapshot::save(&mut session.clone(), true)
}

/// Of a log: from snapshots at several places, with the rest of the log, it folds to what it folds to without.
pub fn hold(log: &[Vec<u8>]) {
    let mut plain = Session::default();
    fold(&mut plain, log);
    let expected = whole(&plain);
    let (mut folded, mut kept) = (Session::default(), Kept::default());
    let step = log.len() / 2 + 1;
    for (n, stored) in log.iter().enumerate() {
        if n % step == 0 {
            kept.save(&mut folded);
            assert_eq!(kept.sheets().len(), snapshot::save(&mut folded.clone(), true).len(), "nothing is left over");
            let mut restored = kept.restore();
            assert_eq!(whole(&restored), whole(&folded), "after {n} records");
            fold(&mut restored, &log[n..]);
            assert_eq!(whole(&restored), expected, "after {n} records and the rest");
            assert_eq!(engine::wanted(&restored), engine::wanted(&plain));
            recall(&mut restored, log);
            recall(&mut plain, log);
            assert_eq!(listed(&restored), listed(&plain));
            engine::check(&restored).unwrap();
        }
        fold(&mut folded, std::slice::from_ref(stored));
    }
}

impl Talk {
    /// The session leaves memory, and comes back from what was saved when it last did, and the records since.
    pub fn reopen(&mut self) {
        let mut session = if self.kept == Kept::default() { Session::default() } else { self.kept.restore() };
        let kept = usize::try_from(session.seq).unwrap();
        fold(&mut session, &self.log[kept..]);
        assert_eq!(whole(&session), whole(&self.session));
        recall(&mut session, &self.log);
        self.kept.save(&mut session);
        self.session = session;
        self.recall_state();
    }
}

/// A conversation with a little of everything.
fn eventful() -> Talk {
    let mut talk = Talk::default();
    let user = |id: &str| Message::text(Role::User, id).with_id(id.into());
    let known = |talk: &Talk| talk.snapshot();
    talk.submit(&Asked::view(vec![user("u1")])).unwrap();
    talk.fail(CallErrorKind::Unavailable, None);
    talk.wake();
    talk.finish("one", Vec::new());
    for n in 2..9 {
        let list = known(&talk).into_iter().chain([user(&format!("u{n}"))]).collect();
        talk.submit(&Asked { turn_id: Some(format!("0190c5a2-7b7f-7def-8a01-12345678900{n}").into()), ..Asked::view(list) }).unwrap();
        talk.finish(&format!("answer {n}"), Vec::new());
    }
    let list = known(&talk)[..3].iter().cloned().chain([user("edit")]).collect();
    talk.submit(&Asked::view(list)).unwrap();
    talk.finish("two", Vec::new());
    talk.custom("c1");
    talk.compact("e1", 2, Some("a summary"), true);
    let list = known(&talk).into_iter().chain([user("last")]).collect();
    talk.submit(&Asked::view(list).with_tools(&["pick"])).unwrap();
    talk
}

#[test]
fn an_eventful_session_comes_back() {
    let mut talk = eventful();
    hold(&talk.log);
    talk.reopen();
    assert!(talk.call().is_some(), "its turn goes on");
    talk.finish("three", Vec::new());
    talk.reopen();
    talk.replays();
}

#[test]
fn saving_again_gives_what_has_changed() {
    let mut session = Session::default();
    let sizes = |sheets: &[Sheet]| (sheets.len(), sheets.iter().map(|sheet| sheet.bytes.len()).sum::<usize>());
    let message = |n: u32| {
        let new = engine::MessageNew::plain(
            format!("m{n}").into(),
            n.checked_sub(1).map(|n| format!("m{n}").into()),
            Message::text(Role::User, "x"),
        );
        Record { at: u64::from(n), body: Body::MessageNew(Box::new(new)) }
    };
    for n in 0..20_000 {
        session.evolve(message(n)).unwrap();
    }
    let (all, bytes) = sizes(&snapshot::save(&mut session, false));
    assert!(all > 120 && bytes > 1_000_000, "{all} sheets, {bytes} bytes");
    for n in 20_000..20_010 {
        session.evolve(message(n)).unwrap();
    }
    // One sheet, nearly full at most, of each of the seven tables that grow, and the head.
    let (some, bytes) = sizes(&snapshot::save(&mut session, false));
    assert!(some <= 8 && bytes < 150_000, "{some} sheets, {bytes} bytes");
    let (none, _) = sizes(&snapshot::save(&mut session, false));
    assert_eq!(none, 1, "the head alone");
    assert_eq!(sizes(&snapshot::save(&mut session, true)).0, all);
}

#[test]
fn what_is_damaged_is_no_snapshot() {
    let sheets = snapshot::save(&mut eventful().session, true);
    assert!(snapshot::restore(sheets.clone()).is_ok());
    for n in 0..sheets.len() {
        let with = |bytes: Vec<u8>| {
            let mut sheets = sheets.clone();
            sheets[n].bytes = bytes.into();
            snapshot::restore(sheets).map(|_| ())
        };
        let bytes = sheets[n].bytes.to_vec();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(with(flipped).is_err(), "byte {at} of sheet {}", sheets[n].number);
            assert!(with(bytes[..at].to_vec()).is_err(), "sheet {} cut at {at}", sheets[n].number);
        }
        assert_eq!(with([&bytes[..], b"\0"].concat()), Err(Unusable::Damaged), "a byte too many");
        let without = sheets.iter().enumerate().filter(|(other, _)| *other != n).map(|(_, sheet)| sheet.clone());
        assert_eq!(snapshot::restore(without.collect()).map(|_| ()), Err(Unusable::Damaged));
    }
    assert!(snapshot::restore(Vec::new()).is_err());
}

#[test]
fn another_version_is_no_snapshot() {
    let mut sheets = snapshot::save(&mut eventful().session, true);
    let head = sheets.iter_mut().find(|sheet| sheet.number == HEAD_SHEET).unwrap();
    let mut bytes = head.bytes.to_vec();
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    head.bytes = bytes.into();
    assert_eq!(snapshot::restore(sheets).map(|_| ()), Err(Unusable::OtherVersion));
}

#[test]
fn sheets_of_two_snapshots_are_none() {
    let mut talk = eventful();
    let before = snapshot::save(&mut talk.session.clone(), true);
    talk.finish("three", Vec::new());
    let after = snapshot::save(&mut talk.session, true);
    for n in 0..before.len() {
        let mut mixed = after.clone();
        mixed[n] = before[n].clone();
        let same = before[n] == after[n];
        assert_eq!(snapshot::restore(mixed).is_ok(), same, "sheet {}", before[n].number);
    }
}

/// What two sessions with a little of everything recorded, one a fork of the other. Never changed.
const RECORDED: [&str; 2] = [include_str!("../fixtures/snapshot/session.jsonl"), include_str!("../fixtures/snapshot/fork.jsonl")];

/// The sheets that these logs give, with so many messages behind them that there are several of each table.
fn sheets_of(recorded: &str) -> Vec<Sheet> {
    let mut session = Session::default();
    for line in recorded.lines() {
        session.evolve(Record::decode(line.as_bytes()).unwrap()).unwrap();
    }
    let mut above = session.head.map(|head| session.tree.id(head));
    for n in 0..2_500 {
        let id = if n % 2 == 0 { format!("hw_{n:032x}") } else { format!("long {n}") };
        let said = Message::text(Role::User, format!("message {n}"));
        let new = engine::MessageNew::plain(id.as_str().into(), above.replace(id.as_str().into()), said);
        session.evolve(Record { at: 1_790_000_000_000 + n, body: Body::MessageNew(Box::new(new)) }).unwrap();
    }
    snapshot::save(&mut session, true)
}

#[test]
fn a_snapshot_that_lies_otherwise_has_another_version() {
    let kept = include_str!("../fixtures/snapshot/sheets.txt");
    let sheet = |sheet: &Sheet| {
        let digest: Vec<String> = Digest::default().then(&sheet.bytes).0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:08x} {}\n", sheet.number, digest.concat())
    };
    let sheets: String = RECORDED.iter().flat_map(|recorded| sheets_of(recorded)).map(|each| sheet(&each)).collect();
    let version = snapshot::VERSION;
    let now = format!("version {version}\n{sheets}");
    if now == kept {
        return;
    }
    let of: u32 = kept.lines().next().and_then(|line| line.strip_prefix("version ")?.parse().ok()).expect("a version");
    assert!(
        version > of,
        "a log gives another snapshot than before. Stores hold snapshots of version {of}, which the new fold would take for its own: \
         raise `VERSION` in src/engine/snapshot.rs to {}, and run this test again",
        of + 1
    );
    panic!("`VERSION` was raised from {of} to {version}: tests/fixtures/snapshot/sheets.txt must hold this now:\n{now}");
}

proptest! {
    #[test]
    fn any_bytes_are_no_snapshot(bytes in prop::collection::vec(any::<u8>(), 0..200), mark in any::<bool>()) {
        let bytes: Vec<u8> = if mark { [b"hw.fold\n\x03\0\0\0", &bytes[..]].concat() } else { bytes };
        let head = Sheet { number: HEAD_SHEET, bytes: bytes.into() };
        prop_assert!(snapshot::restore(vec![head]).is_err());
    }
}
