//! A hash table over ids that is stored as it lies in memory: made whole, from then on only read. It may be out of date, so who
//! asks looks whether what it names is still right, and keeps what came since elsewhere. May not know what ids stand for.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::quality::FixedState;

use super::sheets::{Sheets, Table};

/// The most bytes of a sheet of slots.
const SHEET: usize = 1 << 16;
/// Bytes of a slot: a part of the hash, an entry.
const SLOT: usize = 8;
const SLOTS: usize = SHEET / SLOT;
/// Bytes of the first sheet.
const HEAD: usize = 16;
/// The entry of an empty slot.
const EMPTY: u32 = u32::MAX;

/// What was put in order: how many of two sorts of ids, and how they are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// How many names had ids.
    pub(super) names: u32,
    /// How many other ids there were.
    pub(super) others: u32,
    /// Comes of all ids that are in it, so that nobody can choose ids that meet in one slot.
    pub(super) seed: u64,
}

impl Made {
    /// How an id is hashed.
    fn hash(self, id: &[u8]) -> (u32, u32) {
        let mut hasher = FixedState::with_seed(self.seed).build_hasher();
        hasher.write(id);
        let [a, b, c, d, tag @ ..] = hasher.finish().to_le_bytes();
        (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(tag))
    }
}

/// The table. None is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// The first tells what it was made of, the others are slots.
    sheets: Sheets,
    made: Made,
    slots: usize,
}

impl Directory {
    /// Of these ids, as they are hashed, and their entries.
    pub(super) fn new(made: Made, entries: &[(&[u8], u32)]) -> Self {
        // Three of four are used.
        let slots = entries.len() + entries.len() / 3 + 1;
        let mut all = vec![[0, EMPTY]; slots];
        for &(id, entry) in entries {
            let (hash, tag) = made.hash(id);
            let mut at = first(hash, slots);
            while all[at][1] != EMPTY {
                at = if at + 1 == slots { 0 } else { at + 1 };
            }
            all[at] = [tag, entry];
        }
        let mut sheets = Sheets::default();
        let [names, others] = [made.names, made.others].map(u32::to_le_bytes);
        sheets.add([&names[..], &others, &made.seed.to_le_bytes()].concat());
        for slots in all.chunks(SLOTS) {
            sheets.add(slots.iter().flatten().flat_map(|word| word.to_le_bytes()).collect());
        }
        Self { sheets, made, slots }
    }

    /// What it was made of.
    pub(super) fn made(&self) -> Made {
        self.made
    }

    /// The entry of an id that `is` right.
    pub(super) fn find<T>(&self, id: &[u8], is: impl Fn(u32) -> Option<T>) -> Option<T> {
        if self.slots == 0 {
            return None;
        }
        let (hash, tag) = self.made.hash(id);
        let from = first(hash, self.slots);
        for at in (from..self.slots).chain(0..from) {
            match self.slot(at)? {
                [_, EMPTY] => return None,
                [of, entry] if of == tag => {
                    if let Some(found) = is(entry) {
                        return Some(found);
                    }
                }
                [_, _] => {}
            }
        }
        None
    }

    fn slot(&self, at: usize) -> Option<[u32; 2]> {
        let slot: &[u8; SLOT] = self.sheets.get(1 + at / SLOTS)?.get(at % SLOTS * SLOT..)?.first_chunk()?;
        let [a, b, c, d, entry @ ..] = *slot;
        Some([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(entry)])
    }
}

/// The slot where a hash belongs.
fn first(hash: u32, slots: usize) -> usize {
    ((u64::from(hash) * slots as u64) >> 32) as usize
}

impl Table for Directory {
    fn sheets(&mut self) -> &mut Sheets {
        &mut self.sheets
    }

    fn settle(&mut self) -> bool {
        (self.made, self.slots) = (Made::default(), 0);
        let Some(head) = self.sheets.get(0) else { return true };
        let words: Vec<u32> = head.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let &[names, others, low, high] = &words[..] else { return false };
        if head.len() != HEAD {
            return false;
        }
        self.made = Made { names, others, seed: u64::from(high) << 32 | u64::from(low) };
        let last = self.sheets.len() - 1;
        let mut sheets = (1..=last).map(|sheet| self.sheets.get(sheet).map_or(0, <[u8]>::len));
        self.slots = sheets.clone().sum::<usize>() / SLOT;
        self.slots > 0
            && sheets.by_ref().take(last - 1).all(|bytes| bytes == SHEET)
            && sheets.all(|bytes| bytes > 0 && bytes <= SHEET && bytes.is_multiple_of(SLOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_and_nothing_else() {
        for count in [0_u32, 1, 2, 3, 100, 6_143, 6_144, 6_145, 50_000] {
            let ids: Vec<[u8; 4]> = (0..count).map(u32::to_le_bytes).collect();
            let made = Made { names: count, others: 0, seed: 7 };
            let entries: Vec<(&[u8], u32)> = ids.iter().zip(0..).map(|(id, n)| (&id[..], n)).collect();
            let mut directory = Directory::new(made, &entries);
            for again in [false, true] {
                assert!(!again || directory.settle());
                for n in 0..count {
                    let is = |entry| (entry == n).then_some(entry);
                    assert_eq!(directory.find(&n.to_le_bytes(), is), Some(n));
                    assert_eq!(directory.find(&n.to_le_bytes(), |_| None::<u32>), None);
                }
                assert_eq!(directory.find(b"another", |entry| (entry == count).then_some(())), None);
                assert_eq!(directory.made(), made);
            }
        }
        assert_eq!(Directory::default().find(b"any", Some), None);
    }
}
