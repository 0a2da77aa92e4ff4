//! A vector of small rows in sheets: it grows without moving what is in it and without room for twice as much, and lies in memory
//! as it is stored. May not know what a row is.

use std::marker::PhantomData;

use super::sheets::{Sheets, Table};

/// Rows of a sheet.
pub(super) const ROWS: usize = 1 << SHIFT;
const SHIFT: u32 = 10;

/// A few numbers of 32 bits.
pub(super) trait Row: Copy {
    /// How many.
    const WORDS: usize;

    /// From its numbers.
    fn read(word: impl Fn(usize) -> u32) -> Self;

    /// Its numbers, in order.
    fn write(self, word: impl FnMut(u32));
}

impl Row for u32 {
    const WORDS: usize = 1;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        word(0)
    }

    fn write(self, mut word: impl FnMut(u32)) {
        word(self);
    }
}

impl Row for [u32; 2] {
    const WORDS: usize = 2;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        [word(0), word(1)]
    }

    fn write(self, word: impl FnMut(u32)) {
        self.into_iter().for_each(word);
    }
}

impl Row for [u32; 3] {
    const WORDS: usize = 3;

    fn read(word: impl Fn(usize) -> u32) -> Self {
        [word(0), word(1), word(2)]
    }

    fn write(self, word: impl FnMut(u32)) {
        self.into_iter().for_each(word);
    }
}

/// Rows, by index; indices have 32 bits.
#[derive(Clone, Debug)]
pub(super) struct Rows<T> {
    sheets: Sheets,
    len: u32,
    of: PhantomData<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { sheets: Sheets::default(), len: 0, of: PhantomData }
    }
}

impl<T: Row> Rows<T> {
    const BYTES: usize = 4 * T::WORDS;

    /// Adds a row and gives its index.
    pub(super) fn push(&mut self, row: T) -> u32 {
        let index = self.len;
        self.len = index.checked_add(1).expect("fewer than 2^32 rows");
        let (sheet, at) = Self::place(index);
        if at == 0 {
            // Most sessions are small: only their later sheets are made at their full size.
            self.sheets.begin(if sheet == 0 { 0 } else { ROWS * Self::BYTES });
        }
        let bytes = self.sheets.change(sheet, ROWS * Self::BYTES);
        row.write(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        index
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// A row, when there is one.
    pub(super) fn get(&self, index: u32) -> Option<T> {
        let (sheet, at) = Self::place(index);
        self.sheets.get(sheet)?.get(at..at + Self::BYTES).map(Self::read)
    }

    fn read(row: &[u8]) -> T {
        T::read(|word| match row[4 * word..] {
            [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        })
    }

    /// A row that is there.
    pub(super) fn at(&self, index: u32) -> T {
        self.get(index).unwrap_or_else(|| panic!("row {index} of {}", self.len))
    }

    /// Puts another row in a row's place.
    pub(super) fn set(&mut self, index: u32, row: T) {
        let (sheet, mut at) = Self::place(index);
        let bytes = self.sheets.change(sheet, ROWS * Self::BYTES);
        row.write(|word| {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            at += 4;
        });
    }

    /// From the first to the last.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.sheets.len()).filter_map(|sheet| self.sheets.get(sheet)).flat_map(|rows| rows.chunks_exact(Self::BYTES).map(Self::read))
    }

    /// How many rows come first that are `before`, where those come first.
    pub(super) fn partition_point(&self, before: impl Fn(T) -> bool) -> u32 {
        let (mut from, mut to) = (0, self.len);
        while from < to {
            let middle = from + (to - from) / 2;
            if before(self.at(middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    fn place(index: u32) -> (usize, usize) {
        let index = index as usize;
        (index >> SHIFT, (index & (ROWS - 1)) * Self::BYTES)
    }
}

impl<T: Row> Table for Rows<T> {
    fn sheets(&mut self) -> &mut Sheets {
        &mut self.sheets
    }

    fn settle(&mut self) -> bool {
        let last = self.sheets.len().saturating_sub(1);
        let fits = |sheet: usize, bytes: usize| if sheet == last { bytes.is_multiple_of(Self::BYTES) } else { bytes == ROWS * Self::BYTES };
        let bytes: Vec<usize> = (0..self.sheets.len()).map(|sheet| self.sheets.get(sheet).map_or(0, <[u8]>::len)).collect();
        let good = bytes.iter().enumerate().all(|(sheet, &bytes)| fits(sheet, bytes) && (1..=ROWS * Self::BYTES).contains(&bytes));
        let len = u32::try_from(bytes.iter().sum::<usize>() / Self::BYTES);
        self.len = len.unwrap_or_default();
        good && len.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_pushed_over_several_sheets() {
        let mut rows = Rows::default();
        let count = u32::try_from(2 * ROWS + 3).unwrap();
        for n in 0..count {
            assert_eq!(rows.len(), n);
            assert_eq!(rows.push([2 * n, n]), n);
        }
        rows.set(5, [11, 5]);
        rows.set(1024, [2049, 1024]);
        assert_eq!((rows.at(4), rows.at(5), rows.at(count - 1), rows.get(count)), ([8, 4], [11, 5], [2 * count - 2, count - 1], None));
        for n in [0, 1, 1023, 1024, 1025, 2047, 2048, count, count + 9] {
            assert_eq!(rows.partition_point(|[twice, _]| twice < 2 * n), n.min(count), "{n}");
        }
        assert!(rows.iter().map(|[_, n]| n).eq(0..count));
    }
}
