//! A program on a real terminal: what it writes is read as a terminal reads it, what is asserted is what a person sees.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use headwater::clock;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Everything here must happen within so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal with a program on it.
pub struct Terminal {
    child: Child,
    keyboard: File,
    /// The program's side, kept open so that what was written last can still be read.
    line: OwnedFd,
    seen: Arc<Seen>,
}

struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    terminal: vt100::Parser,
    /// Every byte, as it came.
    bytes: Vec<u8>,
}

fn some(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}

impl Terminal {
    /// Runs `command` on a terminal of so many columns and rows.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let line = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&keyboard, size(columns, rows)).unwrap();
        // `setsid --ctty` makes it the program's own terminal, which sends signals.
        let mut on_terminal = Command::new("setsid");
        on_terminal.arg("--ctty").arg(command.get_program()).args(command.get_args());
        on_terminal.current_dir(command.get_current_dir().unwrap()).env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm-256color");
        on_terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let stream = || Stdio::from(line.try_clone().unwrap());
        let child = on_terminal.stdin(stream()).stdout(stream()).stderr(stream()).spawn().expect("setsid runs");
        let terminal = vt100::Parser::new(some(rows), some(columns), 1000);
        let seen = Arc::new(Seen { state: Mutex::new(State { terminal, bytes: Vec::new() }), changed: Condvar::new() });
        let mut screen = File::from(keyboard.try_clone().unwrap());
        let reading = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                let mut state = reading.state.lock().unwrap();
                state.terminal.process(&buffer[..read]);
                state.bytes.extend_from_slice(&buffer[..read]);
                reading.changed.notify_all();
            }
        });
        Self { child, keyboard: keyboard.into(), line, seen }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Writes a line.
    pub fn say(&mut self, line: &str) {
        self.press(&format!("{line}\r"));
    }

    /// Waits until the rows, joined by line feeds, are as asked; the rows.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = clock::instant() + PATIENCE;
        let mut state = self.seen.state.lock().unwrap();
        loop {
            let rows = rows(&mut state.terminal);
            if is_so(&rows) {
                return rows;
            }
            let left = deadline.saturating_duration_since(clock::instant());
            assert!(!left.is_zero(), "it never showed {what}; this stands there:\n{rows}");
            state = self.seen.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits until `text` is shown.
    #[track_caller]
    pub fn until_shown(&self, text: &str) -> String {
        self.until(&format!("{text:?}"), |rows| rows.contains(text))
    }

    /// Waits until the last row is this.
    #[track_caller]
    pub fn until_last(&self, row: &str) -> String {
        self.until(&format!("{row:?} at its end"), |rows| rows.lines().last() == Some(row))
    }

    /// Whether the program has the keys one by one.
    pub fn is_raw(&self) -> bool {
        !tcgetattr(&self.line).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Changes the size.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.seen.state.lock().unwrap().terminal.screen_mut().set_size(some(rows), some(columns));
        tcsetwinsize(&self.keyboard, size(columns, rows)).unwrap();
    }

    /// Waits for the program's end; everything that it wrote.
    pub fn end(mut self) -> (ExitStatus, String, Vec<u8>) {
        let deadline = clock::instant() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(clock::instant() < deadline, "it doesn't end:\n{}", rows(&mut self.seen.state.lock().unwrap().terminal));
            std::thread::yield_now();
        };
        assert!(!self.is_raw(), "the terminal is as it was");
        // What it wrote is in order before this.
        rustix::io::write(&self.line, b"\r\n<end>").unwrap();
        let rows = self.until_shown("<end>").replace("<end>", "").trim_end().to_owned();
        let bytes = self.seen.state.lock().unwrap().bytes.clone();
        (status, rows, bytes)
    }

    /// The program's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After its end there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// What stands on the terminal, and what went off at its top.
fn rows(terminal: &mut vt100::Parser) -> String {
    let screen = terminal.screen_mut();
    let (height, width) = screen.size();
    screen.set_scrollback(usize::MAX);
    let above = screen.scrollback();
    let mut rows: Vec<String> = Vec::new();
    for offset in (0..=above).rev() {
        screen.set_scrollback(offset);
        let mut shown = screen.rows(0, width.get());
        if offset > 0 {
            rows.extend(shown.next());
        } else {
            rows.extend(shown.take(height.get().into()));
        }
    }
    let rows: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
    rows.join("\n").trim_end().to_owned()
}
