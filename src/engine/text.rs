//! Ids as bytes, each held once, one behind the other. Ids as front ends and the engine make them (UUIDs, `hw_` and 32 digits) take
//! 17 bytes. May not know what they name.

use super::sheets::{Sheets, Table, sum_of};
use crate::ids::SERVER_PREFIX;

/// Bytes of a sheet; a longer id has one of its own.
const SHEET: usize = 1 << 16;

/// The first byte of what is held tells what follows: so many bytes of text, or one of these.
const ENGINE: u8 = 0xfd;
const UUID: u8 = 0xfe;
const LONG: u8 = 0xff;

/// Where the digits of a UUID stand, two by two.
const UUID_DIGITS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// Where those of an id of the engine's stand.
const ENGINE_DIGITS: [usize; 16] = [3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33];

/// The values of small hexadecimal digits, by byte; more than 15: it is none.
const DIGITS: [u8; 256] = {
    let mut values = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = digit(byte);
        byte += 1;
    }
    values
};

/// Where an id is held: its sheet in the upper half, its first byte in the lower.
pub(super) type At = u32;

/// An id as it is held, when it is one of the usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Short(Option<[u8; 17]>);

impl Short {
    /// Of an id.
    pub(super) fn of(id: &str) -> Self {
        let id = id.as_bytes();
        let digits = |kind: u8, places: &[usize; 16]| {
            let mut held = [kind; 17];
            let mut good = true;
            for (byte, &at) in held[1..].iter_mut().zip(places) {
                let (high, low) = (DIGITS[usize::from(id[at])], DIGITS[usize::from(id[at + 1])]);
                good &= (high | low) < 16;
                *byte = high << 4 | low & 15;
            }
            good.then_some(held)
        };
        Self(match id.len() {
            36 if [8, 13, 18, 23].iter().all(|&at| id[at] == b'-') => digits(UUID, &UUID_DIGITS),
            35 if id.starts_with(SERVER_PREFIX.as_bytes()) => digits(ENGINE, &ENGINE_DIGITS),
            _ => None,
        })
    }

    /// What to hash of an id.
    pub(super) fn bytes<'a>(&'a self, id: &'a str) -> &'a [u8] {
        self.0.as_ref().map_or(id.as_bytes(), |held| &held[1..])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "digits are bytes")]
const fn digit(byte: usize) -> u8 {
    match byte as u8 {
        digit @ b'0'..=b'9' => digit - b'0',
        digit @ b'a'..=b'f' => digit - b'a' + 10,
        _ => 0xf0,
    }
}

/// Ids, held. Only added to.
#[derive(Clone, Debug, Default)]
pub(super) struct Text(Sheets);

impl Text {
    /// Holds an id.
    pub(super) fn push(&mut self, id: &str, short: &Short) -> At {
        if let Some(held) = &short.0 {
            return self.add(held, &[]);
        }
        match u8::try_from(id.len()) {
            Ok(length) if length < ENGINE => self.add(&[length], id.as_bytes()),
            _ => {
                let [a, b, c, d] = u32::try_from(id.len()).expect("an id of less than 4 GB").to_le_bytes();
                self.add(&[LONG, a, b, c, d], id.as_bytes())
            }
        }
    }

    fn add(&mut self, head: &[u8], body: &[u8]) -> At {
        let bytes = head.len() + body.len();
        let sheets = self.0.len();
        if sheets.checked_sub(1).and_then(|last| self.0.get(last)).is_none_or(|last| last.len() + bytes > SHEET) {
            self.0.begin(if sheets == 0 { 0 } else { bytes.max(SHEET) });
        }
        let sheet = self.0.len() - 1;
        let text = self.0.change(sheet, SHEET);
        let at = u32::try_from(sheet << 16 | text.len()).expect("less than 4 GB of ids");
        text.extend_from_slice(head);
        text.extend_from_slice(body);
        at
    }

    fn held(&self, at: At) -> &[u8] {
        self.0.get((at >> 16) as usize).and_then(|sheet| sheet.get((at & 0xffff) as usize..)).unwrap_or_default()
    }

    /// A sum over all ids.
    pub(super) fn sum(&self) -> u64 {
        let sums: Vec<u8> = (0..self.0.len()).filter_map(|sheet| self.0.get(sheet)).flat_map(|text| sum_of(text).to_le_bytes()).collect();
        sum_of(&sums)
    }

    /// Whether an id is held there.
    pub(super) fn is(&self, at: At, id: &str, short: &Short) -> bool {
        let held = self.held(at);
        match &short.0 {
            Some(short) => held.first_chunk() == Some(short),
            None => raw(held) == Some(id.as_bytes()),
        }
    }

    /// What to hash of an id that is held.
    pub(super) fn bytes(&self, at: At) -> &[u8] {
        let held = self.held(at);
        raw(held).or_else(|| held.get(1..17)).unwrap_or_default()
    }

    /// The id that is held there.
    pub(super) fn get(&self, at: At) -> String {
        let held = self.held(at);
        if let Some(raw) = raw(held) {
            return String::from_utf8_lossy(raw).into_owned();
        }
        let hex = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]));
        let digits = held.iter().skip(1).take(16).flat_map(hex);
        if held.first() == Some(&ENGINE) {
            return SERVER_PREFIX.chars().chain(digits).collect();
        }
        let mut id = String::with_capacity(36);
        for (n, digit) in digits.enumerate() {
            if matches!(n, 8 | 12 | 16 | 20) {
                id.push('-');
            }
            id.push(digit);
        }
        id
    }
}

impl Table for Text {
    fn sheets(&mut self) -> &mut Sheets {
        &mut self.0
    }

    fn settle(&mut self) -> bool {
        (0..self.0.len()).all(|sheet| self.0.get(sheet).is_some_and(|text| !text.is_empty()))
    }
}

/// The bytes of an id that is held as it is.
fn raw(held: &[u8]) -> Option<&[u8]> {
    match *held {
        [] | [ENGINE | UUID, ..] => None,
        [LONG, a, b, c, d, ref rest @ ..] => rest.get(..u32::from_le_bytes([a, b, c, d]) as usize),
        [length, ref rest @ ..] => rest.get(..usize::from(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_what_was_given() {
        let ids = [
            String::new(),
            "u1".to_owned(),
            "0190c5a2-7b7f-7def-8a01-1234567890ab".to_owned(),
            "0190C5A2-7B7F-7DEF-8A01-1234567890AB".to_owned(),
            "0190c5a2-7b7f-7def-8a01-1234567890ag".to_owned(),
            "0190c5a2x7b7f-7def-8a01-1234567890ab".to_owned(),
            "0190c5a2-7b7f-7def-8a01-12345678ü".to_owned(),
            "hw_0190c5a27b7f7def8a011234567890ab".to_owned(),
            "hw_0190c5a27b7f7def8a011234567890a ".to_owned(),
            "hx_0190c5a27b7f7def8a011234567890ab".to_owned(),
            "ü".repeat(126),
            "l".repeat(253),
            "m".repeat(255),
            "n".repeat(SHEET - 5),
            "o".repeat(SHEET - 4),
            "p".repeat(3 * SHEET),
            "q".to_owned(),
        ];
        let mut text = Text::default();
        let held: Vec<At> = ids.iter().map(|id| text.push(id, &Short::of(id))).collect();
        for (id, &at) in ids.iter().zip(&held) {
            assert_eq!(text.get(at), *id);
            assert_eq!(text.bytes(at), Short::of(id).bytes(id));
            for other in &ids {
                assert_eq!(text.is(at, other, &Short::of(other)), id == other, "{id} {other}");
            }
        }
        let short = |n: usize| Short::of(&ids[n]).0.is_some();
        assert!(short(2) && short(7));
        assert_eq!((0..ids.len()).filter(|&n| short(n)).count(), 2);
    }
}
