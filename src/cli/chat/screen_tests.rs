//! The screen, as a terminal shows it.

use std::num::NonZero;

use super::*;

/// A terminal, and what is on it.
struct Seen {
    screen: Screen,
    terminal: vt100::Parser,
}

fn some(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}

impl Seen {
    fn new(width: u16, height: u16) -> Self {
        Self { screen: Screen::new(width.into(), height.into(), false), terminal: vt100::Parser::new(some(height), some(width), 100) }
    }

    fn paint(&mut self, pieces: &[Piece], prompt: &str, text: &str, before: usize) {
        let bytes = self.screen.paint(pieces, prompt, text, before);
        self.terminal.process(bytes.as_bytes());
    }

    fn say(&mut self, text: &str) {
        self.paint(&[Piece::Say(text.to_owned())], "> ", "", 0);
    }

    fn rows(&self) -> Vec<String> {
        let screen = self.terminal.screen();
        let rows: Vec<String> = screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned()).collect();
        let used = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
        rows[..used].to_vec()
    }

    /// Row and column.
    fn cursor(&self) -> (u16, u16) {
        self.terminal.screen().cursor_position()
    }
}

#[test]
fn a_reply_streams_above_the_line() {
    let mut seen = Seen::new(20, 10);
    seen.paint(&[], "> ", "hal", 3);
    assert_eq!((seen.rows(), seen.cursor()), (vec!["> hal".to_owned()], (0, 5)));
    for word in ["The ", "river ", "is long", ", very long", "."] {
        seen.paint(&[Piece::Say(word.to_owned())], "> ", "half a line", 4);
    }
    assert_eq!(seen.rows(), ["The river is long,", "very long.", "> half a line"]);
    assert_eq!(seen.cursor(), (2, 6));
    seen.paint(&[Piece::Fresh, Piece::Aside("(stopped)".to_owned()), Piece::Say("Next".to_owned())], "> ", "", 0);
    assert_eq!(seen.rows(), ["The river is long,", "very long.", "(stopped)", "Next", ">"]);
}

#[test]
fn words_move_to_the_next_row_whole() {
    let mut seen = Seen::new(10, 12);
    for piece in
        ["one two th", "ree fo", "ur", " five", "\n", "123456789", " ", "\n", "exactly 9", "!\n\n", "longer-than-a-row 水水水水水水"]
    {
        seen.say(piece);
    }
    assert_eq!(
        seen.rows(),
        ["one two", "three", "four five", "123456789", "exactly", "9!", "", "longer-th", "an-a-row", "水水水水", "水水", ">"]
    );
}

#[test]
fn letter_by_letter_or_at_once_is_the_same() {
    let text = "Wide 水水水 and ä e\u{301} tab\there\nnew line that is longer than a row\n\nend";
    for width in [3, 7, 10, 11, 33, 80] {
        let (mut letters, mut whole) = (Seen::new(width, 60), Seen::new(width, 60));
        text.chars().for_each(|c| letters.say(&c.to_string()));
        whole.say(text);
        assert_eq!(letters.rows(), whole.rows(), "{width} columns");
    }
}

#[test]
fn a_long_line_wraps_and_keeps_its_cursor() {
    let mut seen = Seen::new(10, 10);
    seen.say("above");
    let text = "0123456789abcdef";
    seen.paint(&[], "> ", text, text.len());
    assert_eq!((seen.rows(), seen.cursor()), (vec!["above".to_owned(), "> 01234567".to_owned(), "89abcdef".to_owned()], (2, 8)));
    seen.paint(&[], "> ", text, 2);
    assert_eq!(seen.cursor(), (1, 4));
    seen.paint(&[Piece::Say("!".to_owned())], "> ", &text[..8], 8);
    assert_eq!((seen.rows(), seen.cursor()), (vec!["above!".to_owned(), "> 01234567".to_owned()], (2, 0)));
    seen.paint(&[], "> ", "", 0);
    assert_eq!((seen.rows(), seen.cursor()), (vec!["above!".to_owned(), ">".to_owned()], (1, 2)));
}

#[test]
fn a_line_larger_than_the_terminal_shows_where_the_cursor_is() {
    let mut seen = Seen::new(10, 4);
    let text = (0..100).map(|n| char::from(b'a' + n % 26)).collect::<String>();
    for before in [0, 50, 100] {
        seen.paint(&[], "> ", &text, before);
        assert!(seen.rows()[0].starts_with("> "), "{:?}", seen.rows());
    }
    assert!(seen.rows().concat().ends_with(&text[90..]), "{:?}", seen.rows());
    seen.say("ok");
    assert_eq!(seen.rows(), ["ok", ">"]);
}

#[test]
fn nothing_of_others_is_obeyed() {
    let mut seen = Seen::new(60, 10);
    seen.say("\x1b[2J\x1b[31mred\r\x07\u{9b}1A");
    assert_eq!(seen.rows()[0], "\\u{1b}[2J\\u{1b}[31mred\\u{d}\\u{7}\\u{9b}1A");
    seen.paint(&[], "> ", "pasted \x1b[2J\nlines", 7);
    assert_eq!(seen.rows()[1], "> pasted \\u{1b}[2J\u{21b5}lines");
}

#[test]
fn another_size_keeps_what_is_written() {
    let mut seen = Seen::new(20, 10);
    seen.say("streaming");
    seen.paint(&[], "> ", "0123456789", 10);
    // This terminal cuts rows where others break them anew; the prompt fits both.
    seen.terminal.screen_mut().set_size(some(10), some(13));
    seen.screen.resize(13, 10);
    seen.say(" on");
    assert_eq!(seen.rows(), ["streaming", " on", ">"]);
}

#[test]
fn the_end_leaves_an_empty_row() {
    let mut seen = Seen::new(20, 10);
    seen.say("half");
    seen.paint(&[], "> ", "unsent", 3);
    let bytes = seen.screen.close(&[Piece::Aside("(bye)".to_owned())]);
    seen.terminal.process(bytes.as_bytes());
    assert_eq!((seen.rows(), seen.cursor()), (vec!["half".to_owned(), "(bye)".to_owned()], (2, 0)));
}

#[test]
fn narrow_terminals_have_a_short_prompt() {
    let mut seen = Seen::new(12, 10);
    seen.paint(&[], "(a reply is being written) > ", "x", 1);
    assert_eq!(seen.rows(), ["> x"]);
}

#[test]
fn colors_are_taken_back() {
    let mut screen = Screen::new(80, 24, true);
    let out = screen.paint(&[Piece::ThinkStart, Piece::Think("hm".to_owned()), Piece::Alarm("no".to_owned())], "> ", "", 0);
    assert!(out.contains("\x1b[2mhm\x1b[0m") && out.contains("\x1b[31mno\x1b[0m"), "{out:?}");
    assert!(!Screen::new(80, 24, false).paint(&[Piece::Alarm("no".to_owned())], "> ", "", 0).contains('m'));
}
