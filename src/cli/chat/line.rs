//! The line that a person writes: its text, where they are in it, and the lines that they wrote before. May not know the terminal.

use super::keys::Key;

/// So many earlier lines are kept.
const HISTORY_MAX: usize = 1000;
/// The longest line, in bytes; what is typed beyond is dropped.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A line that is being written.
#[derive(Debug, Default)]
pub struct Line {
    text: String,
    /// A byte of `text`, or its end.
    at: usize,
    history: Vec<String>,
    /// Which earlier line is shown; none: the new one.
    recalled: Option<usize>,
    /// The new one, while an earlier one is shown.
    set_aside: String,
    /// What was cut last.
    cut: String,
}

/// What a key came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pressed {
    /// Nothing more than what the line shows.
    Nothing,
    /// The line is done.
    Done(String),
    /// Ctrl-C; whether there was text, which is gone now.
    Interrupt {
        /// Whether there was.
        cleared: bool,
    },
    /// Ctrl-D on an empty line.
    Leave,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-L.
    Clear,
}

impl Line {
    /// What is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The part before the cursor.
    pub fn before(&self) -> &str {
        &self.text[..self.at]
    }

    /// Adds an earlier line.
    pub fn remember(&mut self, line: &str) {
        if !line.trim().is_empty() && self.history.last().is_none_or(|last| last != line) {
            self.history.push(line.to_owned());
        }
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
    }

    /// Takes a key.
    pub fn press(&mut self, key: Key) -> Pressed {
        match key {
            Key::Enter => return self.done(),
            Key::Ctrl('c') => {
                let cleared = !self.text.is_empty();
                self.replace(String::new());
                self.recalled = None;
                return Pressed::Interrupt { cleared };
            }
            Key::Ctrl('d') if self.text.is_empty() => return Pressed::Leave,
            Key::Ctrl('z') => return Pressed::Suspend,
            Key::Ctrl('l') => return Pressed::Clear,
            Key::Char(character) => self.insert(character.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => self.insert(&text),
            Key::NewLine => self.insert("\n"),
            Key::Backspace | Key::Ctrl('h') => self.delete_to(self.left()),
            Key::Delete | Key::Ctrl('d') => self.delete_to(self.right()),
            Key::WordBackspace | Key::Ctrl('w') => self.cut_to(self.word_left()),
            Key::WordDelete => self.cut_to(self.word_right()),
            Key::Ctrl('u') => self.cut_to(0),
            Key::Ctrl('k') => self.cut_to(self.text.len()),
            Key::Ctrl('y') => self.insert(&self.cut.clone()),
            Key::Left | Key::Ctrl('b') => self.at = self.left(),
            Key::Right | Key::Ctrl('f') => self.at = self.right(),
            Key::WordLeft => self.at = self.word_left(),
            Key::WordRight => self.at = self.word_right(),
            Key::Home | Key::Ctrl('a') => self.at = 0,
            Key::End | Key::Ctrl('e') => self.at = self.text.len(),
            Key::Up | Key::Ctrl('p') => self.earlier(),
            Key::Down | Key::Ctrl('n') => self.later(),
            // They mean nothing here.
            Key::Ctrl(_) => {}
        }
        Pressed::Nothing
    }

    fn done(&mut self) -> Pressed {
        let text = std::mem::take(&mut self.text);
        self.at = 0;
        self.recalled = None;
        self.remember(&text);
        Pressed::Done(text)
    }

    fn insert(&mut self, text: &str) {
        if self.text.len() + text.len() <= LINE_BYTES_MAX {
            self.text.insert_str(self.at, text);
            self.at += text.len();
        }
    }

    fn delete_to(&mut self, to: usize) {
        let range = self.at.min(to)..self.at.max(to);
        self.at = range.start;
        self.text.drain(range);
    }

    fn cut_to(&mut self, to: usize) {
        let range = self.at.min(to)..self.at.max(to);
        if !range.is_empty() {
            self.cut = self.text[range].to_owned();
        }
        self.delete_to(to);
    }

    fn left(&self) -> usize {
        // A mark that has no width of its own goes with the character that it marks.
        let mut before = self.text[..self.at].char_indices().rev();
        before.find(|(_, c)| !is_mark(*c)).map_or(0, |(at, _)| at)
    }

    fn right(&self) -> usize {
        let mut after = self.text[self.at..].char_indices().skip(1);
        after.find(|(_, c)| !is_mark(*c)).map_or(self.text.len(), |(at, _)| self.at + at)
    }

    fn word_left(&self) -> usize {
        let before = self.text[..self.at].trim_end_matches(|c: char| !c.is_alphanumeric());
        before.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_right(&self) -> usize {
        let after = self.text[self.at..].trim_start_matches(|c: char| !c.is_alphanumeric());
        self.text.len() - after.trim_start_matches(char::is_alphanumeric).len()
    }

    fn earlier(&mut self) {
        let index = self.recalled.unwrap_or(self.history.len());
        let Some(earlier) = index.checked_sub(1).and_then(|index| self.history.get(index)).cloned() else { return };
        let left = self.replace(earlier);
        if self.recalled.is_none() {
            self.set_aside = left;
        }
        self.recalled = Some(index - 1);
    }

    fn later(&mut self) {
        let Some(index) = self.recalled else { return };
        if let Some(later) = self.history.get(index + 1).cloned() {
            self.replace(later);
            self.recalled = Some(index + 1);
        } else {
            let set_aside = std::mem::take(&mut self.set_aside);
            self.replace(set_aside);
            self.recalled = None;
        }
    }

    fn replace(&mut self, text: String) -> String {
        self.at = text.len();
        std::mem::replace(&mut self.text, text)
    }
}

fn is_mark(c: char) -> bool {
    unicode_width::UnicodeWidthChar::width(c) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line after these keys, the cursor shown as `|`.
    fn after(line: &mut Line, keys: &[Key]) -> String {
        for key in keys {
            line.press(key.clone());
        }
        format!("{}|{}", line.before(), &line.text()[line.before().len()..])
    }

    fn typed(text: &str) -> Line {
        let mut line = Line::default();
        after(&mut line, &text.chars().map(Key::Char).collect::<Vec<_>>());
        line
    }

    #[test]
    fn text_is_written_and_removed_where_the_cursor_is() {
        let mut line = typed("größe");
        assert_eq!(after(&mut line, &[Key::Left, Key::Left, Key::Backspace, Key::Char('o')]), "gro|ße");
        assert_eq!(after(&mut line, &[Key::Delete, Key::End, Key::Delete, Key::Home, Key::Backspace]), "|groe");
        assert_eq!(after(&mut line, &[Key::Paste("a\nb ".to_owned()), Key::NewLine]), "a\nb \n|groe");
        let mut marked = typed("e\u{301}x");
        assert_eq!(after(&mut marked, &[Key::Left, Key::Left]), "|e\u{301}x");
        assert_eq!(after(&mut marked, &[Key::Right, Key::Backspace]), "|x");
    }

    #[test]
    fn words_are_walked_and_cut() {
        let mut line = typed("one two, three");
        assert_eq!(after(&mut line, &[Key::WordLeft, Key::WordLeft]), "one |two, three");
        assert_eq!(after(&mut line, &[Key::WordRight]), "one two|, three");
        assert_eq!(after(&mut line, &[Key::Ctrl('w')]), "one |, three");
        assert_eq!(after(&mut line, &[Key::Ctrl('k'), Key::Ctrl('y')]), "one , three|");
        assert_eq!(after(&mut line, &[Key::Ctrl('u')]), "|");
        assert_eq!(after(&mut line, &[Key::Ctrl('u'), Key::Ctrl('y')]), "one , three|");
    }

    #[test]
    fn earlier_lines_come_back_and_the_new_one_is_kept() {
        let mut line = typed("first");
        assert_eq!(line.press(Key::Enter), Pressed::Done("first".to_owned()));
        line.remember("second");
        line.remember("second");
        after(&mut line, &[Key::Char('n')]);
        assert_eq!(after(&mut line, &[Key::Up]), "second|");
        assert_eq!(after(&mut line, &[Key::Up, Key::Up, Key::Up]), "first|");
        assert_eq!(after(&mut line, &[Key::Down]), "second|");
        assert_eq!(after(&mut line, &[Key::Down, Key::Down]), "n|");
        assert_eq!(line.press(Key::Enter), Pressed::Done("n".to_owned()));
    }

    #[test]
    fn keys_that_are_for_the_whole() {
        let mut line = typed("x");
        assert_eq!(line.press(Key::Ctrl('d')), Pressed::Nothing);
        assert_eq!(line.press(Key::Ctrl('c')), Pressed::Interrupt { cleared: true });
        assert_eq!(line.press(Key::Ctrl('c')), Pressed::Interrupt { cleared: false });
        assert_eq!(line.press(Key::Ctrl('d')), Pressed::Leave);
    }

    #[test]
    fn a_line_does_not_grow_for_ever() {
        let mut line = Line::default();
        line.press(Key::Paste("x".repeat(LINE_BYTES_MAX)));
        assert_eq!(line.press(Key::Char('y')), Pressed::Nothing);
        assert_eq!(line.text().len(), LINE_BYTES_MAX);
        (0..HISTORY_MAX + 10).for_each(|n| line.remember(&n.to_string()));
        assert_eq!((line.history.len(), line.history[0].as_str()), (HISTORY_MAX, "10"));
    }
}
