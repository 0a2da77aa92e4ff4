//! What stands on a terminal that can move its cursor: replies stream upwards, the line that is being written stays below them. Makes
//! the bytes that bring it there; may not know the terminal itself, nor what the text is about.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use super::show::Piece;
use crate::draw::printable;

/// Tabs go to the next multiple of this.
const TAB: usize = 8;
/// Stands for a line feed in the line that is being written.
const NEW_LINE_SIGN: &str = "\u{21b5}";
/// Below so many columns there is no room for a long prompt.
const NARROW: usize = 40;

/// A terminal's rows from the last written one on, as they were left.
#[derive(Debug)]
pub struct Screen {
    width: usize,
    height: usize,
    color: bool,
    /// Cells that are taken in the row above the prompt; 0: that row is done. The last cell of a row stays free: where the cursor is
    /// after it depends on the terminal.
    column: usize,
    /// The word that the row above the prompt ends with, which moves to the next row when it doesn't fit.
    word: String,
    /// Rows of the prompt above the cursor.
    cursor_row: usize,
    /// What is shown before the cursor, prompt included.
    before: String,
}

impl Screen {
    /// Of a terminal with so many columns and rows, the cursor at the start of an empty one.
    pub fn new(width: usize, height: usize, color: bool) -> Self {
        Self { width: width.max(2), height: height.max(2), color, column: 0, word: String::new(), cursor_row: 0, before: String::new() }
    }

    /// Adds `pieces` and shows the prompt with the line `text`, the cursor after `before` of it.
    pub fn paint(&mut self, pieces: &[Piece], prompt: &str, text: &str, before: usize) -> String {
        let mut out = String::new();
        self.lift(&mut out);
        for piece in pieces {
            self.piece(&mut out, piece);
        }
        self.lower(&mut out, prompt, text, before);
        out
    }

    /// Adds `pieces` and takes the prompt away: the cursor is at the start of an empty row.
    pub fn close(&mut self, pieces: &[Piece]) -> String {
        let mut out = String::new();
        self.lift(&mut out);
        for piece in pieces {
            self.piece(&mut out, piece);
        }
        self.fresh(&mut out);
        self.cursor_row = 0;
        self.before.clear();
        out
    }

    /// The terminal has another size now, and has broken its rows anew.
    pub fn resize(&mut self, width: usize, height: usize) {
        (self.width, self.height) = (width.max(2), height.max(2));
        self.cursor_row = end(&self.before, self.width).0;
        // Nobody knows where the row above ends now.
        self.column = 0;
        self.word.clear();
    }

    /// An empty terminal.
    pub fn clear(&mut self) -> String {
        (self.column, self.cursor_row) = (0, 0);
        self.word.clear();
        "\x1b[H\x1b[2J".to_owned()
    }

    /// Takes the prompt away and goes to where the text above it ends.
    fn lift(&mut self, out: &mut String) {
        out.push('\r');
        up(out, self.cursor_row);
        out.push_str("\x1b[J");
        if self.column > 0 {
            up(out, 1);
            let _ = write!(out, "\x1b[{}G", self.column + 1);
        }
        self.cursor_row = 0;
    }

    /// Shows the prompt below the text.
    fn lower(&mut self, out: &mut String, prompt: &str, text: &str, before: usize) {
        if self.column > 0 {
            out.push_str("\r\n");
        }
        let prompt = if self.width < NARROW { "> " } else { prompt };
        let shown = |text: &str| printable(&text.replace('\n', NEW_LINE_SIGN).replace('\t', " ")).into_owned();
        let (left, right) = self.window(prompt, shown(&text[..before]), shown(&text[before..]));
        let before = format!("{prompt}{left}");
        let whole = format!("{before}{right}");
        out.push_str(&whole);
        let (rows, columns) = end(&whole, self.width);
        if columns == 0 && rows > 0 {
            // The last row is full: the terminal has not gone to the next one yet.
            out.push_str("\r\n");
        }
        let (row, column) = end(&before, self.width);
        up(out, rows - row);
        out.push('\r');
        if column > 0 {
            let _ = write!(out, "\x1b[{column}C");
        }
        self.cursor_row = row;
        self.before = before;
    }

    /// The parts of a long line around the cursor that fit the terminal.
    fn window(&self, prompt: &str, left: String, right: String) -> (String, String) {
        let room = (self.width * (self.height - 1)).saturating_sub(cells(prompt) + 2);
        if cells(&left) + cells(&right) <= room {
            return (left, right);
        }
        let kept_left = tail(&left, room.saturating_sub(cells(&right)).max(room * 3 / 4));
        let kept_right = head(&right, room.saturating_sub(cells(kept_left)));
        (kept_left.to_owned(), kept_right.to_owned())
    }

    fn piece(&mut self, out: &mut String, piece: &Piece) {
        match piece {
            Piece::Say(text) => self.text(out, text),
            Piece::ThinkStart => {
                self.fresh(out);
                if !self.color {
                    self.text(out, "(thinks) ");
                }
            }
            Piece::Think(text) => self.styled(out, "\x1b[2m", text),
            Piece::Aside(text) => self.line(out, "\x1b[2m", text),
            Piece::Alarm(text) => self.line(out, "\x1b[31m", text),
            Piece::Typed(text) => self.line(out, "\x1b[1m", &format!("> {text}")),
            Piece::Paragraph(text) => self.line(out, "", text),
            Piece::Fresh => self.fresh(out),
        }
    }

    fn line(&mut self, out: &mut String, style: &str, text: &str) {
        self.fresh(out);
        self.styled(out, style, text);
        self.fresh(out);
    }

    fn styled(&mut self, out: &mut String, style: &str, text: &str) {
        if self.color && !style.is_empty() {
            out.push_str(style);
            self.text(out, text);
            out.push_str("\x1b[0m");
        } else {
            self.text(out, text);
        }
    }

    /// To the start of an empty row.
    fn fresh(&mut self, out: &mut String) {
        if self.column > 0 {
            out.push_str("\r\n");
        }
        self.column = 0;
        self.word.clear();
    }

    fn text(&mut self, out: &mut String, text: &str) {
        for c in printable(text).chars() {
            match c {
                '\n' => self.next_row(out),
                '\t' => (0..TAB - self.column % TAB).for_each(|_| self.space(out)),
                ' ' => self.space(out),
                c => self.letter(out, c, c.width().unwrap_or(0)),
            }
        }
    }

    fn next_row(&mut self, out: &mut String) {
        out.push_str("\r\n");
        self.column = 0;
        self.word.clear();
    }

    /// One that doesn't fit is where the row breaks.
    fn space(&mut self, out: &mut String) {
        self.word.clear();
        if self.column + 1 < self.width {
            out.push(' ');
            self.column += 1;
        }
    }

    fn letter(&mut self, out: &mut String, c: char, width: usize) {
        if self.column + width >= self.width {
            let word = std::mem::take(&mut self.word);
            let start = self.column - cells(&word).min(self.column);
            if start > 0 && !word.is_empty() {
                let _ = write!(out, "\x1b[{}G\x1b[K", start + 1);
                self.next_row(out);
                out.push_str(&word);
                self.column = cells(&word);
                self.word = word;
            } else if self.column > 0 {
                self.next_row(out);
            }
        }
        out.push(c);
        self.column += width;
        if width > 1 {
            // Such scripts break anywhere.
            self.word.clear();
        } else {
            self.word.push(c);
        }
    }
}

fn up(out: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(out, "\x1b[{rows}A");
    }
}

/// Row and column after `text` that begins in the first column; a row that is just full counts as ended.
fn end(text: &str, width: usize) -> (usize, usize) {
    let (row, column) = text
        .chars()
        .filter_map(UnicodeWidthChar::width)
        .fold((0, 0), |(row, column), cell| if column + cell > width { (row + 1, cell) } else { (row, column + cell) });
    if column >= width { (row + 1, 0) } else { (row, column) }
}

fn cells(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// The longest end of `text` with at most `room` cells.
fn tail(text: &str, room: usize) -> &str {
    &text[text.len() - fitting(text.chars().rev(), room)..]
}

/// The longest start of `text` with at most `room` cells.
fn head(text: &str, room: usize) -> &str {
    &text[..fitting(text.chars(), room)]
}

/// Bytes of the first characters that have at most `room` cells.
fn fitting(chars: impl Iterator<Item = char>, room: usize) -> usize {
    let mut taken = 0;
    let fits = chars.take_while(|c| {
        taken += c.width().unwrap_or(0);
        taken <= room
    });
    fits.map(char::len_utf8).sum()
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
