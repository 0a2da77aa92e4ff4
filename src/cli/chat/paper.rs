//! Where the chat is written: on a terminal that can move its cursor, or as plain text. In a pipe only replies go to standard output, all
//! the rest to standard error. May not know what is written.

use std::io::{self, Write};

use super::line::Line;
use super::screen::Screen;
use super::show::Piece;
use super::terminal::{self, Raw, Streams};
use crate::draw::printable;

/// Where the chat is written.
#[derive(Debug)]
pub enum Paper {
    /// With a line that is edited below the text.
    Live(Screen, Raw),
    /// One text after the other.
    Plain(Plain),
}

/// Text after text.
#[derive(Debug)]
pub struct Plain {
    streams: Streams,
    /// Standard output is in the middle of a line.
    out_open: bool,
    /// Standard error is.
    aside_open: bool,
    /// The person was asked for a line.
    asks: bool,
}

impl Paper {
    /// For these streams.
    pub fn new(streams: Streams) -> io::Result<Self> {
        if streams.are_live() {
            let (width, height) = terminal::size();
            return Ok(Self::Live(Screen::new(width, height, streams.color), Raw::enter()?));
        }
        Ok(Self::Plain(Plain { streams, out_open: false, aside_open: false, asks: false }))
    }

    /// Writes `pieces`, and shows the line that is being written.
    pub fn write(&mut self, pieces: &[Piece], prompt: &str, line: &Line) -> io::Result<()> {
        match self {
            Self::Live(screen, _) => terminal::write(&screen.paint(pieces, prompt, line.text(), line.before().len())),
            Self::Plain(plain) => pieces.iter().try_for_each(|piece| plain.piece(piece)),
        }
    }

    /// Asks for a line, where nobody sees that one is awaited.
    pub fn ask(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(plain) if plain.streams.typed && !plain.asks => {
                plain.fresh()?;
                plain.aside("> ", false)?;
                plain.asks = true;
                Ok(())
            }
            Self::Plain(_) | Self::Live(..) => Ok(()),
        }
    }

    /// A line was typed, and its end is on the screen.
    pub fn typed(&mut self) {
        match self {
            Self::Plain(plain) if plain.streams.typed => (plain.out_open, plain.aside_open, plain.asks) = (false, false, false),
            Self::Plain(_) | Self::Live(..) => {}
        }
    }

    /// The terminal has another size.
    pub fn resize(&mut self) {
        if let Self::Live(screen, _) = self {
            let (width, height) = terminal::size();
            screen.resize(width, height);
        }
    }

    /// Empties the terminal.
    pub fn clear(&mut self) -> io::Result<()> {
        match self {
            Self::Live(screen, _) => terminal::write(&screen.clear()),
            Self::Plain(_) => Ok(()),
        }
    }

    /// Stops the process until somebody brings it back.
    pub fn suspend(&mut self) -> io::Result<()> {
        match self {
            Self::Live(screen, raw) => {
                terminal::write(&screen.close(&[]))?;
                raw.suspend()?;
                self.resize();
                Ok(())
            }
            Self::Plain(_) => Ok(()),
        }
    }

    /// Writes what is last, and leaves the terminal as it was.
    pub fn close(mut self, pieces: &[Piece]) -> io::Result<()> {
        match &mut self {
            Self::Live(screen, _) => terminal::write(&screen.close(pieces)),
            Self::Plain(plain) => {
                pieces.iter().try_for_each(|piece| plain.piece(piece))?;
                plain.piece(&Piece::Fresh)
            }
        }
    }
}

impl Plain {
    fn piece(&mut self, piece: &Piece) -> io::Result<()> {
        if std::mem::take(&mut self.asks) {
            self.fresh()?;
        }
        match piece {
            Piece::Say(text) => self.say(text),
            Piece::Paragraph(text) => {
                self.fresh()?;
                self.say(&format!("{text}\n"))
            }
            Piece::ThinkStart => {
                self.fresh()?;
                self.aside("(thinks) ", false)
            }
            Piece::Think(text) => self.aside(text, false),
            Piece::Alarm(text) if !self.streams.typed => {
                self.fresh()?;
                self.aside(&format!("error: {text}"), true)
            }
            Piece::Aside(text) | Piece::Alarm(text) => {
                self.fresh()?;
                self.aside(text, true)
            }
            // What was written into a pipe is known there.
            Piece::Typed(_) if !self.streams.typed => Ok(()),
            Piece::Typed(text) => {
                self.fresh()?;
                self.aside(&format!("> {text}"), true)
            }
            Piece::Fresh => self.fresh(),
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.out_open = !text.ends_with('\n');
        terminal::write(&printable(text))
    }

    fn aside(&mut self, text: &str, ends: bool) -> io::Result<()> {
        let text = format!("{}{}", printable(text), if ends { "\n" } else { "" });
        if self.streams.read {
            self.out_open = !ends;
            return terminal::write(&text);
        }
        self.aside_open = !ends;
        io::stderr().lock().write_all(text.as_bytes())
    }

    fn fresh(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.out_open) {
            terminal::write("\n")?;
        }
        if std::mem::take(&mut self.aside_open) {
            io::stderr().lock().write_all(b"\n")?;
        }
        Ok(())
    }
}
