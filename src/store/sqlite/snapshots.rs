//! Fold snapshots. Large ones are written in portions, so that appends never wait long for them; while they are being written,
//! there is none. May not know what is in them.

use std::collections::HashSet;

use bytes::Bytes;
use rusqlite::blob::Blob;
use rusqlite::{Connection, MAIN_DB, OptionalExtension, Transaction};

use super::reader::Wrong;
use super::writer::find;
use crate::ids::SessionKey;
use crate::store::{Outcome, Position, Save, Snapshot};

/// About so many bytes are written in one step.
const PORTION: usize = 1 << 18;

/// A step of saving.
pub(super) struct Portion {
    /// Which snapshot must be there when it begins; it may be none.
    begins: Option<Begin>,
    sheets: Vec<(u32, Bytes)>,
    /// What the snapshot is of.
    at: Position,
    /// Whether it is whole with this.
    ends: bool,
}

/// How saving begins.
enum Begin {
    /// These sheets, and no others.
    New(HashSet<u32>),
    /// Those of this snapshot stay.
    Onto(Position),
}

impl Portion {
    /// The steps of saving.
    pub(super) fn all(save: Save) -> Vec<Self> {
        let Save { at, onto, sheets } = save;
        let begins = onto.map_or_else(|| Begin::New(sheets.iter().map(|(number, _)| *number).collect()), Begin::Onto);
        let mut portions = vec![Self { begins: Some(begins), sheets: Vec::new(), at, ends: false }];
        let mut bytes = 0;
        for sheet in sheets {
            if bytes > 0 && bytes + sheet.1.len() > PORTION {
                portions.push(Self { begins: None, sheets: Vec::new(), at, ends: false });
                bytes = 0;
            }
            bytes += sheet.1.len();
            portions.last_mut().expect("one is made above").sheets.push(sheet);
        }
        portions.last_mut().expect("one is made above").ends = true;
        portions
    }

    pub(super) fn bytes(&self) -> usize {
        self.sheets.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Carries it out. `Conflict`: it fits neither the log nor what is there.
    pub(super) fn write(&self, transaction: &Transaction<'_>, key: &SessionKey) -> rusqlite::Result<Outcome> {
        let Some((id, end)) = find(transaction, key)? else { return Ok(Outcome::Conflict(Position::default())) };
        if !self.at.is_on_log(end) {
            return Ok(Outcome::Conflict(end));
        }
        if let Some(begin) = &self.begins {
            let there = position(transaction, id)?;
            match begin {
                Begin::Onto(onto) if there != Some(*onto) => return Ok(Outcome::Conflict(there.unwrap_or_default())),
                Begin::Onto(_) => {}
                Begin::New(numbers) => remove_others(transaction, id, numbers)?,
            }
            transaction.prepare_cached("DELETE FROM snapshots WHERE session = ?1")?.execute([id])?;
        }
        let mut insert = transaction.prepare_cached(
            "INSERT INTO sheets (session, sheet, bytes) VALUES (?1, ?2, ?3) \
             ON CONFLICT (session, sheet) DO UPDATE SET bytes = excluded.bytes",
        )?;
        for (number, bytes) in &self.sheets {
            insert.execute((id, number, &bytes[..]))?;
        }
        if self.ends {
            let mut insert = transaction.prepare_cached("INSERT OR REPLACE INTO snapshots (session, seq, tip) VALUES (?1, ?2, ?3)")?;
            insert.execute((id, self.at.seq.cast_signed(), self.at.tip))?;
        }
        Ok(Outcome::Appended)
    }
}

fn remove_others(transaction: &Transaction<'_>, id: i64, numbers: &HashSet<u32>) -> rusqlite::Result<()> {
    let mut select = transaction.prepare_cached("SELECT sheet FROM sheets WHERE session = ?1")?;
    let there = select.query_map([id], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut delete = transaction.prepare_cached("DELETE FROM sheets WHERE session = ?1 AND sheet = ?2")?;
    for sheet in there {
        if u32::try_from(sheet).is_ok_and(|sheet| !numbers.contains(&sheet)) {
            delete.execute((id, sheet))?;
        }
    }
    Ok(())
}

fn position(connection: &Connection, id: i64) -> rusqlite::Result<Option<Position>> {
    let mut select = connection.prepare_cached("SELECT seq, tip FROM snapshots WHERE session = ?1")?;
    select.query_row([id], |row| Ok(Position { seq: row.get::<_, i64>(0)?.cast_unsigned(), tip: row.get(1)? })).optional()
}

/// A session's snapshot. Its sheets lie in one piece of memory.
pub(super) fn read(connection: &Connection, key: &SessionKey) -> Result<Option<Snapshot>, Wrong> {
    let moment = connection.unchecked_transaction()?;
    let Some((id, end)) = find(&moment, key)? else { return Ok(None) };
    let Some(at) = position(&moment, id)?.filter(|at| at.is_on_log(end)) else { return Ok(None) };
    let mut select = moment.prepare_cached("SELECT id, sheet, length(bytes) FROM sheets WHERE session = ?1 ORDER BY sheet")?;
    let sheets = select.query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<rusqlite::Result<Vec<_>>>()?;
    contents(&moment, &sheets).map(|sheets| Some(Snapshot { at, sheets }))
}

/// The bytes of these rows, each with the sheet's number and size. They are read right into their place: most of what opening a long
/// session takes is copying.
fn contents(moment: &Connection, rows: &[(i64, u32, u32)]) -> Result<Vec<(u32, Bytes)>, Wrong> {
    let mut all = vec![0; rows.iter().map(|&(_, _, size)| size as usize).sum()];
    let mut rest = &mut all[..];
    let mut open: Option<Blob<'_>> = None;
    for &(id, _, size) in rows {
        let (place, after) = rest.split_at_mut(size as usize);
        rest = after;
        let blob = match open.take() {
            Some(mut blob) => blob.reopen(id).map(|()| blob),
            None => moment.blob_open(MAIN_DB, "sheets", "bytes", id, true),
        };
        open.insert(blob?).read_at_exact(place, 0)?;
    }
    let all = Bytes::from(all);
    let mut begin = 0;
    let slice = |&(_, number, size): &(i64, u32, u32)| {
        let end = begin + size as usize;
        (number, all.slice(std::mem::replace(&mut begin, end)..end))
    };
    Ok(rows.iter().map(slice).collect())
}
