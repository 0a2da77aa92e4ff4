//! Fold snapshots: a session in sheets of bytes, so that it needn't be folded from its first record. A cache: what is damaged, of
//! another version or not whole is no snapshot, and the log is folded. Contents stay in the log.
//!
//! Sheet 0 is the head: what is small, as JSON, and which other sheets there are, with their sums. The others hold tables (see
//! `Table`); saving again gives those that have changed.

use std::collections::VecDeque;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::interrupt::Interrupts;
use super::job::Job;
use super::names::Apart;
use super::queue::Queue;
use super::reading::Ix;
use super::session::Session;
use super::sheets::{Sheets, Table, sum_of};
use super::turn::Turn;
use crate::ids::{AgentId, DecisionId, Millis, ToolCallId};
use crate::protocol::ForkedFrom;

/// The version of the fold, and of how it is stored. To be raised whenever the same log gives another session than before, or lies
/// otherwise in sheets: older snapshots are of no use then.
pub const VERSION: u32 = 5;

/// What a head sheet begins with: a mark that also tells the order of bytes.
const MARK: [u8; 8] = *b"hw.fold\n";

/// Bytes before what is summed: the mark, the version, the sum.
const PREFIX: usize = 20;
/// Bytes that list a sheet: its number, its sum.
const LISTED: usize = 12;

/// The number of the head sheet.
pub const HEAD_SHEET: u32 = 0;

/// The sheets of a table have its number above these bits.
const TABLE_SHIFT: u32 = 24;

/// A part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    /// Which.
    pub number: u32,
    /// What is in it.
    pub bytes: Bytes,
}

/// It is no snapshot of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It isn't whole, or not as it was stored.
    #[error("it is damaged")]
    Damaged,
    /// Another version wrote it.
    #[error("another version wrote it")]
    OtherVersion,
}

/// What is small, or changes all over.
#[derive(Serialize, Deserialize)]
struct Small {
    seq: u64,
    ended: u64,
    agent_id: Option<AgentId>,
    updated: Millis,
    head: Option<Ix>,
    turn: Option<Turn>,
    queue: Queue,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<Job>,
    arrivals: Arrivals,
    title: Option<String>,
    archived: bool,
    forked_from: Option<ForkedFrom>,
    labels: Vec<(String, Ix)>,
    rested: Option<Millis>,
    newer: Option<String>,
    answered: VecDeque<DecisionId>,
    #[serde(default)]
    interrupts: Interrupts,
    apart: Apart,
    open_calls: Vec<ToolCallId>,
    /// Which versions of the state, and of overrides, the empty path has.
    roots: [u32; 2],
}

/// The sheets that have changed since the last time, or all of them. The head sheet is the last.
pub fn save(session: &mut Session, all: bool) -> Vec<Sheet> {
    session.tree.tidy();
    session.turns.tidy();
    let json = serde_json::to_vec(&small(session)).expect("a session is plain data");
    let mut rest = Vec::with_capacity(4 + json.len());
    rest.extend_from_slice(&u32::try_from(json.len()).expect("a head of less than 4 GB").to_le_bytes());
    rest.extend_from_slice(&json);
    let mut sheets = Vec::new();
    for (table, first) in tables(session).into_iter().zip(firsts()) {
        for ((bytes, sum, changed), number) in table.sheets().store().zip(first..) {
            rest.extend_from_slice(&number.to_le_bytes());
            rest.extend_from_slice(&sum.to_le_bytes());
            if changed || all {
                sheets.push(Sheet { number, bytes });
            }
        }
    }
    let mut bytes = Vec::with_capacity(PREFIX + rest.len());
    bytes.extend_from_slice(&MARK);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&sum_of(&rest).to_le_bytes());
    bytes.extend_from_slice(&rest);
    sheets.push(Sheet { number: HEAD_SHEET, bytes: bytes.into() });
    sheets
}

/// The session that was saved in these sheets, without contents.
pub fn restore(mut sheets: Vec<Sheet>) -> Result<Session, Unusable> {
    sheets.sort_unstable_by_key(|sheet| sheet.number);
    let (first, others) = sheets.split_first().ok_or(Unusable::Damaged)?;
    if first.number != HEAD_SHEET {
        return Err(Unusable::Damaged);
    }
    let (json, listed) = parts(&first.bytes)?;
    let small: Small = serde_json::from_slice(json).map_err(|_| Unusable::Damaged)?;
    let mut session = Session::default();
    let mut listed =
        listed.iter().map(|[a, b, c, d, sum @ ..]| (u32::from_le_bytes([*a, *b, *c, *d]), u64::from_le_bytes(*sum))).peekable();
    for (table, first) in tables(&mut session).into_iter().zip(firsts()) {
        *table.sheets() = Sheets::default();
        let mut number = first;
        while let Some((_, sum)) = listed.next_if(|(listed, _)| *listed == number) {
            let at = others.binary_search_by_key(&number, |sheet| sheet.number).map_err(|_| Unusable::Damaged)?;
            let bytes = others[at].bytes.clone();
            if sum_of(&bytes) != sum {
                return Err(Unusable::Damaged);
            }
            table.sheets().add_stored(bytes, sum);
            number += 1;
        }
        if !table.settle() {
            return Err(Unusable::Damaged);
        }
    }
    if listed.next().is_some() || !put(&mut session, small) {
        return Err(Unusable::Damaged);
    }
    Ok(session)
}

/// The JSON of a head sheet, and its list.
fn parts(bytes: &[u8]) -> Result<(&[u8], &[[u8; LISTED]]), Unusable> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>().ok_or(Unusable::Damaged)?;
    let [mark @ .., v0, v1, v2, v3, _, _, _, _, _, _, _, _] = prefix;
    if *mark != MARK {
        return Err(Unusable::Damaged);
    }
    if u32::from_le_bytes([*v0, *v1, *v2, *v3]) != VERSION {
        return Err(Unusable::OtherVersion);
    }
    let (length, rest_of) = rest.split_first_chunk().ok_or(Unusable::Damaged)?;
    if prefix.last_chunk() != Some(&sum_of(rest).to_le_bytes()) {
        return Err(Unusable::Damaged);
    }
    let (json, listed) = rest_of.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(Unusable::Damaged)?;
    match listed.as_chunks() {
        (listed, []) => Ok((json, listed)),
        _ => Err(Unusable::Damaged),
    }
}

/// The numbers of the tables' first sheets.
fn firsts() -> impl Iterator<Item = u32> {
    (1_u32..).map(|table| table << TABLE_SHIFT)
}

fn tables(session: &mut Session) -> Vec<&mut dyn Table> {
    let mut tables = session.tree.tables();
    tables.extend(session.turns.tables());
    tables.extend(session.states.tables());
    tables.extend(session.overrides.tables());
    tables
}

fn small(session: &Session) -> Small {
    // All of them, so that none that comes later is forgotten.
    let Session {
        seq,
        ended,
        agent_id,
        updated,
        tree,
        head,
        turn,
        queue,
        job,
        arrivals,
        title,
        archived,
        forked_from,
        labels,
        rested,
        turns: _,
        newer,
        answered,
        states,
        overrides,
        interrupts,
        contents: _,
    } = session;
    Small {
        seq: *seq,
        ended: *ended,
        agent_id: agent_id.clone(),
        updated: *updated,
        head: *head,
        turn: turn.clone(),
        queue: queue.clone(),
        job: job.clone(),
        arrivals: arrivals.clone(),
        title: title.clone(),
        archived: *archived,
        forked_from: forked_from.clone(),
        labels: labels.clone(),
        rested: *rested,
        newer: newer.clone(),
        answered: answered.clone(),
        interrupts: interrupts.clone(),
        apart: tree.apart().clone(),
        open_calls: tree.open_calls().to_vec(),
        roots: [states.root(), overrides.root()],
    }
}

/// Whether the head and the tables fit together.
fn put(session: &mut Session, saved: Small) -> bool {
    let Small {
        seq,
        ended,
        agent_id,
        updated,
        head,
        turn,
        queue,
        job,
        arrivals,
        title,
        archived,
        forked_from,
        labels,
        rested,
        newer,
        answered,
        interrupts,
        apart,
        open_calls,
        roots,
    } = saved;
    if !session.tree.restore(apart, open_calls) || !session.turns.restore() {
        return false;
    }
    for execution in turn.iter().flat_map(|turn| &turn.executions) {
        session.tree.take_call(execution.id());
    }
    let tree = std::mem::take(&mut session.tree);
    let nodes = tree.len();
    let vertices = tree.readings().len().unwrap_or_default();
    let there = |ix: &Ix| (*ix as usize) < nodes;
    let suspended = interrupts.suspended.iter();
    let paused = suspended.clone().all(|one| one.at.as_ref().is_none_or(there) && one.turn.began < vertices);
    let fits = paused
        && head.as_ref().is_none_or(there)
        && labels.iter().all(|(_, ix)| there(ix))
        && turn.as_ref().is_none_or(|turn| turn.began < vertices);
    let turns = std::mem::take(&mut session.turns);
    let (mut states, mut overrides) = (std::mem::take(&mut session.states), std::mem::take(&mut session.overrides));
    let fits = fits && states.restore(roots[0], nodes) && overrides.restore(roots[1], nodes);
    let kept = Session::default();
    *session = Session {
        seq,
        agent_id,
        updated,
        tree,
        head,
        turn,
        queue,
        job,
        arrivals,
        title,
        archived,
        forked_from,
        labels,
        rested,
        turns,
        ended,
        newer,
        answered,
        states,
        overrides,
        interrupts,
        ..kept
    };
    fits
}
