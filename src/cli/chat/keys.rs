//! Keys out of the bytes that a terminal sends, however they are cut: characters, control keys, escape sequences, pasted text. May not
//! know what keys do.

/// The longest escape sequence that is read to its end; a longer one is noise.
const SEQUENCE_MAX: usize = 64;
/// The longest pasted text, in bytes; what is longer is cut.
const PASTE_MAX: usize = 1 << 20;
/// What ends a pasted text.
const PASTE_END: &[u8] = b"\x1b[201~";

/// What a person pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Text that was pasted.
    Paste(String),
    /// The line is done.
    Enter,
    /// A line feed inside the line (Alt-Enter).
    NewLine,
    /// Ctrl with a letter, in lower case.
    Ctrl(char),
    /// Delete to the left.
    Backspace,
    /// Delete to the right.
    Delete,
    /// One to the left.
    Left,
    /// One to the right.
    Right,
    /// One word to the left.
    WordLeft,
    /// One word to the right.
    WordRight,
    /// The line before in the history.
    Up,
    /// The line after in the history.
    Down,
    /// To the line's start.
    Home,
    /// To the line's end.
    End,
    /// Delete the word to the left (Alt-Backspace).
    WordBackspace,
    /// Delete the word to the right (Alt-d).
    WordDelete,
}

/// Bytes in, keys out.
#[derive(Debug, Default)]
pub struct Keys {
    state: State,
    /// What belongs to a key that isn't whole yet.
    held: Vec<u8>,
    /// The last byte was a carriage return: a line feed right after it is the same key.
    after_return: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// Inside a character of several bytes; so many are missing.
    Character(usize),
    /// After an escape.
    Escape,
    /// After `ESC [`.
    Sequence,
    /// After `ESC O`.
    Function,
    /// Inside pasted text.
    Paste,
}

impl Keys {
    /// Takes bytes; the keys that are whole now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|&byte| self.byte(byte)).collect()
    }

    fn byte(&mut self, byte: u8) -> Option<Key> {
        match self.state {
            State::Ground => self.ground(byte),
            State::Character(missing) => self.character(byte, missing),
            State::Escape => self.escape(byte),
            State::Sequence => self.sequence(byte),
            State::Function => {
                self.state = State::Ground;
                cursor(byte, false)
            }
            State::Paste => self.paste(byte),
        }
    }

    fn ground(&mut self, byte: u8) -> Option<Key> {
        let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
        match byte {
            b'\n' if after_return => None,
            b'\r' | b'\n' => Some(Key::Enter),
            0x7f | 0x08 => Some(Key::Backspace),
            0x1b => {
                self.state = State::Escape;
                None
            }
            b'\t' => Some(Key::Ctrl('i')),
            1..0x1b => Some(Key::Ctrl(char::from(byte + b'a' - 1))),
            0x20..0x7f => Some(Key::Char(char::from(byte))),
            0xc2..=0xdf => self.hold(byte, 1),
            0xe0..=0xef => self.hold(byte, 2),
            0xf0..=0xf4 => self.hold(byte, 3),
            // No key, or no beginning of a character.
            _ => None,
        }
    }

    fn hold(&mut self, byte: u8, missing: usize) -> Option<Key> {
        self.held = vec![byte];
        self.state = State::Character(missing);
        None
    }

    fn character(&mut self, byte: u8, missing: usize) -> Option<Key> {
        if byte & 0xc0 != 0x80 {
            // The character was cut; this byte is something else.
            self.state = State::Ground;
            return self.ground(byte);
        }
        self.held.push(byte);
        if missing > 1 {
            self.state = State::Character(missing - 1);
            return None;
        }
        self.state = State::Ground;
        let character = std::str::from_utf8(&self.held).ok()?.chars().next()?;
        Some(Key::Char(character)).filter(|_| !character.is_control())
    }

    fn escape(&mut self, byte: u8) -> Option<Key> {
        self.state = State::Ground;
        match byte {
            b'[' => {
                self.held.clear();
                self.state = State::Sequence;
                None
            }
            b'O' => {
                self.state = State::Function;
                None
            }
            0x1b => {
                self.state = State::Escape;
                None
            }
            b'\r' | b'\n' => Some(Key::NewLine),
            b'b' => Some(Key::WordLeft),
            b'f' => Some(Key::WordRight),
            b'd' => Some(Key::WordDelete),
            0x7f | 0x08 => Some(Key::WordBackspace),
            // An escape of its own, and then this.
            _ => self.ground(byte),
        }
    }

    fn sequence(&mut self, byte: u8) -> Option<Key> {
        if !(0x40..=0x7e).contains(&byte) {
            self.held.push(byte);
            if self.held.len() > SEQUENCE_MAX {
                self.state = State::Ground;
            }
            return None;
        }
        self.state = State::Ground;
        let parameters = std::mem::take(&mut self.held);
        let by_word = matches!(parameters.as_slice(), b"1;5" | b"1;3" | b"5" | b"3");
        match (byte, parameters.as_slice()) {
            (b'~', b"200") => {
                self.state = State::Paste;
                None
            }
            (b'~', b"1" | b"7") => Some(Key::Home),
            (b'~', b"4" | b"8") => Some(Key::End),
            (b'~', b"3") => Some(Key::Delete),
            (b'~', b"3;5" | b"3;3") => Some(Key::WordDelete),
            (byte, _) => cursor(byte, by_word),
        }
    }

    fn paste(&mut self, byte: u8) -> Option<Key> {
        self.held.push(byte);
        if !self.held.ends_with(PASTE_END) {
            if self.held.len() >= PASTE_MAX + PASTE_END.len() {
                // The text is cut; its end is still looked for.
                self.held.remove(PASTE_MAX);
            }
            return None;
        }
        self.state = State::Ground;
        self.held.truncate(self.held.len() - PASTE_END.len());
        let pasted = String::from_utf8_lossy(&std::mem::take(&mut self.held)).replace("\r\n", "\n").replace('\r', "\n");
        Some(Key::Paste(pasted)).filter(|key| *key != Key::Paste(String::new()))
    }
}

/// The keys that move.
fn cursor(byte: u8, by_word: bool) -> Option<Key> {
    match (byte, by_word) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'C', false) => Some(Key::Right),
        (b'C', true) => Some(Key::WordRight),
        (b'D', false) => Some(Key::Left),
        (b'D', true) => Some(Key::WordLeft),
        (b'H', _) => Some(Key::Home),
        (b'F', _) => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of `bytes`, which come whole, and byte by byte.
    fn keys(bytes: &[u8]) -> Vec<Key> {
        let whole = Keys::default().push(bytes);
        let mut cut = Keys::default();
        let pieces: Vec<Key> = bytes.iter().flat_map(|&byte| cut.push(&[byte])).collect();
        assert_eq!(whole, pieces);
        whole
    }

    #[test]
    fn characters_of_any_length() {
        let text = "aß水🌊";
        assert_eq!(keys(text.as_bytes()), text.chars().map(Key::Char).collect::<Vec<_>>());
        assert_eq!(keys(b"\xe6\xb0a\xff\xc0b"), [Key::Char('a'), Key::Char('b')]);
        assert_eq!(keys("\u{85}x".as_bytes()), [Key::Char('x')]);
    }

    #[test]
    fn keys_that_are_no_characters() {
        assert_eq!(keys(b"\r\n\x03\x04\x7f\n"), [Key::Enter, Key::Ctrl('c'), Key::Ctrl('d'), Key::Backspace, Key::Enter]);
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[C\x1b[D\x1bOH\x1bOF"), [Key::Up, Key::Down, Key::Right, Key::Left, Key::Home, Key::End]);
        assert_eq!(keys(b"\x1b[1;5C\x1b[1;3D\x1b[3~\x1b[1~\x1b[4~"), [Key::WordRight, Key::WordLeft, Key::Delete, Key::Home, Key::End]);
        assert_eq!(
            keys(b"\x1b\r\x1bb\x1bf\x1b\x7f\x1bd"),
            [Key::NewLine, Key::WordLeft, Key::WordRight, Key::WordBackspace, Key::WordDelete]
        );
    }

    #[test]
    fn what_is_not_known_is_noise() {
        assert_eq!(keys(b"\x1b[15~\x1b[<0;1;2Ma\x1b\x1b\x1bxb"), [Key::Char('a'), Key::Char('x'), Key::Char('b')]);
        let long = [b"\x1b[".as_slice(), &[b'1'; 100], b"a"].concat();
        assert!(keys(&long).len() < 100);
    }

    #[test]
    fn pasted_text_is_one_key() {
        assert_eq!(keys(b"\x1b[200~two\r\nlines\x1b[x\x1b[201~y"), [Key::Paste("two\nlines\u{1b}[x".to_owned()), Key::Char('y')]);
        assert_eq!(keys(b"\x1b[200~\x1b[201~"), []);
    }

    #[test]
    fn a_paste_without_end_is_cut() {
        let mut keys = Keys { state: State::Paste, held: vec![b'x'; PASTE_MAX], ..Keys::default() };
        assert_eq!(keys.push(b"more than fits"), []);
        let [Key::Paste(text)] = &keys.push(PASTE_END)[..] else { panic!("it ends") };
        assert_eq!(text.len(), PASTE_MAX);
    }
}
