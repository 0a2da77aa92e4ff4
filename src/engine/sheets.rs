//! Bytes in sheets: what a fold snapshot is made of, and how the index lies in memory. A snapshot shares its sheets with the
//! session until they change; which ones have changed since the last snapshot is known. May not know what is in them.

use std::hash::{BuildHasher as _, Hasher as _};

use bytes::Bytes;
use foldhash::quality::FixedState;

/// A part of a snapshot.
#[derive(Clone, Debug)]
struct Sheet {
    bytes: Stock,
    /// Of what was last stored; none: it has changed since.
    sum: Option<u64>,
}

#[derive(Clone, Debug)]
enum Stock {
    Own(Vec<u8>),
    Stored(Bytes),
}

impl std::ops::Deref for Stock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Stored(bytes) => bytes,
        }
    }
}

/// Sheets, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheets(Vec<Sheet>);

impl Sheets {
    /// One more, as it is in a snapshot.
    pub(super) fn add_stored(&mut self, bytes: Bytes, sum: u64) {
        self.0.push(Sheet { bytes: Stock::Stored(bytes), sum: Some(sum) });
    }

    /// One more, with these bytes.
    pub(super) fn add(&mut self, bytes: Vec<u8>) {
        self.0.push(Sheet { bytes: Stock::Own(bytes), sum: None });
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// One of them.
    pub(super) fn get(&self, sheet: usize) -> Option<&[u8]> {
        self.0.get(sheet).map(|sheet| &*sheet.bytes)
    }

    /// One more, empty, with room for so many bytes.
    pub(super) fn begin(&mut self, bytes: usize) {
        self.0.push(Sheet { bytes: Stock::Own(Vec::with_capacity(bytes)), sum: None });
    }

    /// The bytes of a sheet, to be changed; `most`: how many there will ever be.
    pub(super) fn change(&mut self, sheet: usize, most: usize) -> &mut Vec<u8> {
        let Sheet { bytes, sum } = &mut self.0[sheet];
        *sum = None;
        if let Stock::Stored(stored) = bytes {
            let mut own = Vec::with_capacity(most.max(stored.len()));
            own.extend_from_slice(stored);
            *bytes = Stock::Own(own);
        }
        match bytes {
            Stock::Own(own) => own,
            Stock::Stored(_) => unreachable!("made its own above"),
        }
    }

    /// The sheets as they are to be stored, each with its sum and whether it has changed since the last time.
    pub(super) fn store(&mut self) -> impl Iterator<Item = (Bytes, u64, bool)> + '_ {
        self.0.iter_mut().map(|Sheet { bytes, sum }| {
            let stored = match bytes {
                Stock::Own(own) => Bytes::from(std::mem::take(own)),
                Stock::Stored(stored) => stored.clone(),
            };
            *bytes = Stock::Stored(stored.clone());
            let changed = sum.is_none();
            (stored.clone(), *sum.get_or_insert_with(|| sum_of(&stored)), changed)
        })
    }
}

/// A check sum: tells bytes from others that came about by accident.
pub(super) fn sum_of(bytes: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(u64::from_le_bytes(*b"hw.sheet")).build_hasher();
    hasher.write(bytes);
    hasher.write_usize(bytes.len());
    hasher.finish()
}

/// Something that lies in sheets.
pub(super) trait Table {
    /// Its sheets.
    fn sheets(&mut self) -> &mut Sheets;

    /// After other sheets were put in: whether they can be its sheets.
    fn settle(&mut self) -> bool;
}
