//! Rendered frames: bytes that are made once for each dialect and shared by every reader.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::Cursor;

/// What ends an event.
const BETWEEN: &str = "\n\n";

/// Server-sent events, one after another, and where in them each one's JSON and cursor stand, so that one rendering serves SSE (all
/// bytes) and WebSocket (a text frame an event, in whatever envelope).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// `id: …\ndata: {…}\n\n` for each event.
    pub sse: Bytes,
    /// Where each event stands.
    pub events: Vec<Framed>,
}

/// Where one event stands in the bytes of its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// The text of its cursor: a reader that got it, and everything before it, may go on after it. None: only after an earlier one.
    pub cursor: Option<Range<usize>>,
    /// Its JSON.
    pub json: Range<usize>,
}

impl Framed {
    /// The same with `bytes` before everything.
    fn shifted(&self, bytes: usize) -> Self {
        let shifted = |range: &Range<usize>| bytes + range.start..bytes + range.end;
        Self { cursor: self.cursor.as_ref().map(shifted), json: shifted(&self.json) }
    }
}

impl Frames {
    /// One text that is no event: sent as it is.
    #[must_use]
    pub fn bare(text: Bytes) -> Self {
        let json = 0..text.len();
        Self { sse: text, events: vec![Framed { cursor: None, json }] }
    }

    /// Several runs of frames as one, in order.
    #[must_use]
    pub fn concat(parts: &[Self]) -> Self {
        let mut sse = BytesMut::with_capacity(parts.iter().map(|part| part.sse.len()).sum());
        let mut events = Vec::with_capacity(parts.iter().map(|part| part.events.len()).sum());
        for part in parts {
            let start = sse.len();
            events.extend(part.events.iter().map(|framed| framed.shifted(start)));
            sse.extend_from_slice(&part.sse);
        }
        Self { sse: sse.freeze(), events }
    }

    /// The same, and after its last event a reader may go on at `cursor`.
    #[must_use]
    pub fn at(self, cursor: Option<Cursor>) -> Self {
        let (Some(cursor), Some((last, before))) = (cursor, self.events.split_last()) else { return self };
        let start = before.last().map_or(0, |framed| framed.json.end + BETWEEN.len());
        let text = cursor.to_string();
        let line = format!("id: {text}\n");
        let mut sse = BytesMut::with_capacity(self.sse.len() + line.len());
        sse.extend_from_slice(&self.sse[..start]);
        sse.extend_from_slice(line.as_bytes());
        sse.extend_from_slice(&self.sse[start..]);
        let place = start + "id: ".len();
        let last = Framed { cursor: Some(place..place + text.len()), json: last.shifted(line.len()).json };
        Self { sse: sse.freeze(), events: [before, &[last]].concat() }
    }

    /// Only what a reader doesn't have that has everything up to `cursor`.
    #[must_use]
    pub fn after(&self, cursor: Cursor) -> Self {
        let at = |framed: &Framed| {
            let text = std::str::from_utf8(&self.sse[framed.cursor.clone()?]).ok()?;
            text.parse::<Cursor>().ok()
        };
        let Some(last) = self.events.iter().rposition(|framed| at(framed).is_some_and(|at| at <= cursor)) else { return self.clone() };
        let start = self.events[last].json.end + BETWEEN.len();
        let back = |range: &Range<usize>| range.start - start..range.end - start;
        let rest = self.events[last + 1..].iter();
        let events = rest.map(|framed| Framed { cursor: framed.cursor.as_ref().map(back), json: back(&framed.json) }).collect();
        Self { sse: self.sse.slice(start..), events }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Each event's cursor, where it has one, and its JSON, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Option<Bytes>, Bytes)> + '_ {
        let at = |range: &Range<usize>| self.sse.slice(range.clone());
        self.events.iter().map(move |framed| (framed.cursor.as_ref().map(at), at(&framed.json)))
    }

    /// The JSON texts, in order.
    pub fn texts(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.events.iter().map(|framed| self.sse.slice(framed.json.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, cursor: &str) -> Frames {
        let sse = Bytes::from(format!("data: {text}\n\n"));
        let json = "data: ".len().."data: ".len() + text.len();
        Frames { sse, events: vec![Framed { cursor: None, json }] }.at(cursor.parse().ok())
    }

    fn each(frames: &Frames) -> Vec<(String, String)> {
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        frames.iter().map(|(cursor, json)| (cursor.map(text).unwrap_or_default(), text(json))).collect()
    }

    #[test]
    fn a_cursor_is_put_before_the_last_event() {
        let frames = Frames::concat(&[one("{}", ""), one("[]", "3")]).at(Some(Cursor::after(12)));
        assert_eq!(each(&one("{}", "4.1.2")), [("4.1.2".to_owned(), "{}".to_owned())]);
        assert_eq!(each(&frames), [(String::new(), "{}".to_owned()), ("12".to_owned(), "[]".to_owned())]);
        assert_eq!(Frames::default().at(Some(Cursor::after(1))), Frames::default());
    }

    #[test]
    fn what_a_reader_has_is_left_out() {
        let all = Frames::concat(&[one("1", ""), one("2", "4.1.2"), one("3", ""), one("4", "5"), one("5", "")]);
        let after = |cursor: &str| {
            let rest = all.after(cursor.parse().unwrap());
            assert_eq!(
                rest.sse,
                each(&rest).iter().fold(String::new(), |sse, (cursor, json)| {
                    sse + &if cursor.is_empty() { String::new() } else { format!("id: {cursor}\n") } + "data: " + json + "\n\n"
                })
            );
            each(&rest).into_iter().map(|(_, json)| json).collect::<String>()
        };
        assert_eq!(["4", "4.1.1", "4.1.2", "4.1.9", "5", "9"].map(after), ["12345", "12345", "345", "345", "5", "5"]);
    }
}
