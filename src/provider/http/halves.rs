//! Text that was cut between the two halves of a UTF-16 pair. Some services cut replies by UTF-16 units and send
//! `"\ud83c"` and `"\udf0a"` in two pieces; neither is text alone. May not know JSON or chunks.

use std::str;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A JSON string in which a half may stand alone: UTF-8, and halves as if they were characters (WTF-8).
#[derive(Debug, Default)]
pub(in crate::provider) struct Units(Vec<u8>);

impl Units {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Units;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Units, E> {
                Ok(Units(bytes.to_vec()))
            }
        }

        // As bytes, since that is how serde_json gives halves.
        deserializer.deserialize_bytes(Bytes)
    }
}

/// Joins halves over the pieces of one text. One without its partner becomes U+FFFD, at the text's very end nothing.
#[derive(Debug, Default)]
pub(in crate::provider) struct Halves {
    high: Option<u16>,
}

impl Halves {
    /// The text of the next piece.
    pub fn join(&mut self, Units(units): Units) -> String {
        if self.high.is_none() {
            match String::from_utf8(units) {
                Ok(text) => return text,
                Err(error) => return self.join_slowly(error.as_bytes()),
            }
        }
        self.join_slowly(&units)
    }

    fn join_slowly(&mut self, mut rest: &[u8]) -> String {
        let mut text = String::new();
        while !rest.is_empty() {
            let valid = match str::from_utf8(rest) {
                Ok(valid) => valid,
                Err(error) => str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
            };
            if !valid.is_empty() {
                self.give_up(&mut text);
                text.push_str(valid);
            }
            rest = &rest[valid.len()..];
            if let [lead, middle, last, ..] = *rest {
                self.take(unit(lead, middle, last), &mut text);
            }
            rest = rest.get(3..).unwrap_or_default();
        }
        text
    }

    fn take(&mut self, unit: u16, text: &mut String) {
        match (self.high.take(), unit) {
            (Some(high), 0xDC00..=0xDFFF) => text.extend(char::decode_utf16([high, unit]).flatten()),
            (None, 0xDC00..=0xDFFF) => text.push(char::REPLACEMENT_CHARACTER),
            (waiting, _) => {
                text.extend(waiting.map(|_| char::REPLACEMENT_CHARACTER));
                self.high = Some(unit);
            }
        }
    }

    fn give_up(&mut self, text: &mut String) {
        text.extend(self.high.take().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// The unit that three bytes stand for.
fn unit(lead: u8, middle: u8, last: u8) -> u16 {
    u16::from(lead & 0x0F) << 12 | u16::from(middle & 0x3F) << 6 | u16::from(last & 0x3F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> Vec<String> {
        let mut halves = Halves::default();
        pieces.iter().map(|piece| halves.join(serde_json::from_str(piece).unwrap())).collect()
    }

    #[test]
    fn halves_in_two_pieces_are_one_character() {
        assert_eq!(joined(&[r#""a\ud83c""#, r#""\udf0ab""#]), ["a", "🌊b"]);
        assert_eq!(joined(&[r#""\ud83c""#, r#""""#, r#""\udf0a\ud83c""#, r#""\udf0a""#]), ["", "", "🌊", "🌊"]);
    }

    #[test]
    fn halves_without_a_partner_are_replaced() {
        assert_eq!(joined(&[r#""\ud83c""#, r#""x""#]), ["", "\u{FFFD}x"]);
        assert_eq!(joined(&[r#""\ud83cx\udf0ay""#]), ["\u{FFFD}x\u{FFFD}y"]);
        assert_eq!(joined(&[r#""\ud83c\ud83c""#, r#""\udf0a\udf0a""#]), ["\u{FFFD}", "🌊\u{FFFD}"]);
        assert_eq!(joined(&[r#""ż""#, r#""\ud83c""#, r#""ż🌊""#]), ["ż", "", "\u{FFFD}ż🌊"]);
    }

    #[test]
    fn only_strings_are_text() {
        for other in ["1", "[1]", "{}", "true"] {
            assert!(serde_json::from_str::<Units>(other).is_err(), "{other}");
        }
    }
}
