//! The terminal itself: whether there is one, its size, and the mode in which it sends each key at once. What was set is set back,
//! however the chat ends. May not know what is shown.

use std::io::{self, IsTerminal, Write};

use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The size of a terminal that doesn't tell it.
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// What the standard streams are.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Somebody types.
    pub typed: bool,
    /// Somebody reads.
    pub read: bool,
    /// The terminal can move its cursor.
    pub able: bool,
    /// It may be colorful.
    pub color: bool,
}

impl Streams {
    /// As they are now.
    pub fn look() -> Self {
        let (typed, read) = (io::stdin().is_terminal(), io::stdout().is_terminal());
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        Self { typed, read, able, color: read && able && !is_set("NO_COLOR") }
    }

    /// Whether lines can be edited, with replies streaming above them.
    pub fn are_live(self) -> bool {
        self.typed && self.read && self.able
    }
}

/// Columns and rows.
pub fn size() -> (usize, usize) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        Ok(_) | Err(_) => SIZE_DEFAULT,
    }
}

/// The terminal sends each key at once, and pasted text as such. Dropping it sets everything back.
#[derive(Debug)]
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// From now on.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let raw = Self { before };
        raw.resume()?;
        Ok(raw)
    }

    fn resume(&self) -> io::Result<()> {
        let mut mode = self.before.clone();
        mode.make_raw();
        // A panic's message should be readable.
        mode.output_modes |= OutputModes::OPOST;
        tcsetattr(stdin(), OptionalActions::Now, &mode)?;
        write("\x1b[?2004h")
    }

    fn restore(&self) -> io::Result<()> {
        let written = write("\x1b[?2004l");
        tcsetattr(stdin(), OptionalActions::Drain, &self.before)?;
        written
    }

    /// Stops the process as Ctrl-Z does; returns when it is brought back.
    pub fn suspend(&self) -> io::Result<()> {
        self.restore()?;
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP)?;
        self.resume()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = self.restore();
    }
}

/// Writes to the terminal at once.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
