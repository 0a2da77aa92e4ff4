//! Standard input, read on a thread of its own: as bytes while keys are sent one by one, as lines otherwise. May not know what it says.

use std::io::{self, BufRead, Read};

use tokio::sync::mpsc;

/// The longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Pieces that may wait to be taken.
const WAITING_MAX: usize = 16;

/// What came.
#[derive(Debug)]
pub enum Input {
    /// Keys, as their bytes.
    Bytes(Vec<u8>),
    /// A line without its end.
    Line(String),
    /// Why no more comes; nothing: it ended.
    End(Option<io::Error>),
}

/// Keys from now on.
pub fn bytes() -> mpsc::Receiver<Input> {
    read(|| {
        let mut buffer = [0; 4096];
        match io::stdin().lock().read(&mut buffer) {
            Ok(0) => Input::End(None),
            Ok(read) => Input::Bytes(buffer[..read].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Input::Bytes(Vec::new()),
            Err(error) => Input::End(Some(error)),
        }
    })
}

/// Lines from now on.
pub fn lines() -> mpsc::Receiver<Input> {
    read(|| {
        let mut line = Vec::new();
        match io::stdin().lock().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line) {
            Ok(0) => Input::End(None),
            Ok(_) if line.len() as u64 > LINE_BYTES_MAX => {
                let what = format!("a line has more than {LINE_BYTES_MAX} bytes");
                Input::End(Some(io::Error::new(io::ErrorKind::InvalidData, what)))
            }
            Ok(_) => match String::from_utf8(line) {
                Ok(line) => {
                    let line = line.strip_suffix('\n').unwrap_or(&line);
                    Input::Line(line.strip_suffix('\r').unwrap_or(line).to_owned())
                }
                Err(error) => Input::End(Some(io::Error::new(io::ErrorKind::InvalidData, error))),
            },
            Err(error) => Input::End(Some(error)),
        }
    })
}

/// The thread ends with its input, or when nobody takes any more; until then it may wait for a person for ever.
fn read(mut next: impl FnMut() -> Input + Send + 'static) -> mpsc::Receiver<Input> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    std::thread::spawn(move || {
        loop {
            let input = next();
            let is_end = matches!(input, Input::End(_));
            if sender.blocking_send(input).is_err() || is_end {
                return;
            }
        }
    });
    receiver
}
