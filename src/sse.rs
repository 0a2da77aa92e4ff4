//! Server-sent events, decoded from bytes that come in any pieces: line ends of all three kinds, a byte order mark, several
//! data lines, characters cut anywhere. One event can't grow past a limit. Knows nothing of HTTP, of JSON, or of the crate.

#[cfg(test)]
mod tests;

use std::ops::Range;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event, borrowed from its [`Decoder`] until the next pull. Bytes that aren't UTF-8 have become U+FFFD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its `event` field; empty stands for `message`.
    pub name: &'a str,
    /// Its `data` lines, joined by line feeds.
    pub data: &'a str,
    /// The last `id` field of the stream so far.
    pub id: &'a str,
}

/// An event is larger than the decoder's limit. The stream can't be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {event_bytes_max} bytes")]
pub struct TooLarge {
    /// The limit.
    pub event_bytes_max: usize,
}

/// Bytes in, events out. Push what came, then pull until nothing is left.
#[derive(Debug)]
pub struct Decoder {
    event_bytes_max: usize,
    /// What was pushed and isn't read yet, with read lines in front of `line_start`.
    buffer: Vec<u8>,
    line_start: usize,
    /// No line ends before this, so a long line that comes in small pieces is searched once.
    searched: usize,
    /// Nothing but (a part of) a byte order mark was seen.
    at_stream_start: bool,
    /// The last line ended in CR: a LF right after it belongs to the same end.
    skip_line_feed: bool,
    pending: Pending,
    /// The event that was pulled last.
    name: String,
    data: String,
    id: String,
    too_large: bool,
}

impl Decoder {
    /// A decoder of one stream. An event's lines may have `event_bytes_max` bytes; no more than one push and that is held.
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            buffer: Vec::new(),
            line_start: 0,
            searched: 0,
            at_stream_start: true,
            skip_line_feed: false,
            pending: Pending::default(),
            name: String::new(),
            data: String::new(),
            id: String::new(),
            too_large: false,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.line_start > 0 {
            self.buffer.drain(..self.line_start);
            self.searched -= self.line_start;
            self.line_start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event, or nothing until more is pushed.
    pub fn pull(&mut self) -> Result<Option<Event<'_>>, TooLarge> {
        while let Some(line) = self.next_line()? {
            if self.read_line(line) {
                return Ok(Some(self.event()));
            }
        }
        Ok(None)
    }

    /// After the stream's end: the event that no blank line completed. The standard drops it; some servers end like that.
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, TooLarge> {
        self.at_stream_start = false;
        while let Some(line) = self.next_line()? {
            if self.read_line(line) {
                return Ok(Some(self.event()));
            }
        }
        let rest = self.line_start..self.buffer.len();
        (self.line_start, self.searched) = (rest.end, rest.end);
        if !rest.is_empty() {
            self.read_line(rest);
        }
        Ok(self.dispatch().then(|| self.event()))
    }

    fn event(&self) -> Event<'_> {
        Event { name: &self.name, data: &self.data, id: &self.id }
    }

    /// The next complete line without its end.
    fn next_line(&mut self) -> Result<Option<Range<usize>>, TooLarge> {
        if self.too_large {
            return Err(self.refusal());
        }
        if !self.skip_byte_order_mark() {
            return Ok(None);
        }
        if self.skip_line_feed && self.line_start < self.buffer.len() {
            self.skip_line_feed = false;
            if self.buffer[self.line_start] == b'\n' {
                self.line_start += 1;
            }
        }
        let from = self.searched.max(self.line_start);
        let found = self.buffer[from..].iter().position(|&byte| byte == b'\n' || byte == b'\r');
        let end = found.map_or(self.buffer.len(), |offset| from + offset);
        if end - self.line_start + self.pending.size() > self.event_bytes_max {
            self.too_large = true;
            return Err(self.refusal());
        }
        self.searched = end;
        if found.is_none() {
            return Ok(None);
        }
        let line = self.line_start..end;
        self.skip_line_feed = self.buffer[end] == b'\r';
        self.line_start = end + 1;
        self.searched = end + 1;
        Ok(Some(line))
    }

    /// Skips the mark at the stream's start; false while it may still be coming.
    fn skip_byte_order_mark(&mut self) -> bool {
        if !self.at_stream_start {
            return true;
        }
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.line_start = BYTE_ORDER_MARK.len();
        } else if BYTE_ORDER_MARK.starts_with(&self.buffer) {
            return false;
        }
        self.at_stream_start = false;
        true
    }

    /// Reads one line; whether it completed an event.
    fn read_line(&mut self, line: Range<usize>) -> bool {
        if line.is_empty() {
            return self.dispatch();
        }
        let line = &self.buffer[line];
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
            None => (line, &[][..]),
        };
        match field {
            b"data" => self.pending.add_data(value),
            b"event" => set(&mut self.pending.name, value),
            b"id" if !value.contains(&0) => set(&mut self.id, value),
            // A comment, `retry` (nothing here reconnects), or a field of another standard's.
            _ => {}
        }
        false
    }

    /// Makes what is pending the current event; false when it has no data line.
    fn dispatch(&mut self) -> bool {
        let has_data = std::mem::take(&mut self.pending.has_data);
        std::mem::swap(&mut self.name, &mut self.pending.name);
        self.pending.name.clear();
        if !has_data {
            return false;
        }
        let mut empty = std::mem::take(&mut self.data).into_bytes();
        empty.clear();
        let data = std::mem::replace(&mut self.pending.data, empty);
        self.data = String::from_utf8(data).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        true
    }

    fn refusal(&self) -> TooLarge {
        TooLarge { event_bytes_max: self.event_bytes_max }
    }
}

fn set(field: &mut String, value: &[u8]) {
    field.clear();
    field.push_str(&String::from_utf8_lossy(value));
}

/// The event whose lines are being read.
#[derive(Debug, Default)]
struct Pending {
    name: String,
    data: Vec<u8>,
    has_data: bool,
}

impl Pending {
    fn size(&self) -> usize {
        self.name.len() + self.data.len()
    }

    fn add_data(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }
}
