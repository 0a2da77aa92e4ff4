//! Writes AG-UI events as server-sent events, each once, for every reader of a dialect. May not know what an event says.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};
use serde::Serialize;

use crate::ids::Millis;
use crate::protocol::{Cursor, Framed, Frames};

/// Bytes that a short event takes.
const EVENT_BYTES: usize = 160;

/// Frames in the making.
pub(super) struct Writer {
    bytes: BytesMut,
    events: Vec<Framed>,
}

impl Writer {
    /// A writer that has room for `events` short events.
    pub(super) fn with_room(events: usize) -> Self {
        Self { bytes: BytesMut::with_capacity(events * EVENT_BYTES), events: Vec::with_capacity(events) }
    }

    /// Writes one event: an object with at least one field. `at` becomes its `timestamp`.
    pub(super) fn event(&mut self, event: &impl Serialize, cursor: Option<Cursor>, at: Option<Millis>) {
        let cursor = cursor.map(|cursor| {
            self.bytes.extend_from_slice(b"id: ");
            let start = self.bytes.len();
            let _ = write!(self.bytes, "{cursor}");
            let end = self.bytes.len();
            self.bytes.extend_from_slice(b"\n");
            start..end
        });
        self.bytes.extend_from_slice(b"data: ");
        let start = self.bytes.len();
        // Plain data whose keys are strings: writing it to memory can't fail.
        let written = serde_json::to_writer((&mut self.bytes).writer(), event);
        debug_assert!(written.is_ok(), "an event must be writable: {written:?}");
        if let Some(at) = at {
            let brace = self.bytes.len() - 1;
            self.bytes.truncate(brace);
            let _ = write!(self.bytes, ",\"timestamp\":{at}}}");
        }
        self.events.push(Framed { cursor, json: start..self.bytes.len() });
        self.bytes.extend_from_slice(b"\n\n");
    }

    /// What was written.
    pub(super) fn finish(self) -> Frames {
        Frames { sse: self.bytes.freeze(), events: self.events }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_a_block_of_lines_that_end_with_lf() {
        let mut writer = Writer::with_room(1);
        writer.event(&json!({"type": "A", "text": "one\r\ntwo\u{2028}"}), None, None);
        writer.event(&json!({"type": "B"}), Some(Cursor { seq: 12, within: Some((1, 45)) }), Some(7));
        let frames = writer.finish();
        let text = std::str::from_utf8(&frames.sse).unwrap();
        assert_eq!(
            text,
            "data: {\"type\":\"A\",\"text\":\"one\\r\\ntwo\u{2028}\"}\n\nid: 12.1.45\ndata: {\"type\":\"B\",\"timestamp\":7}\n\n"
        );
        let each: Vec<_> = frames.iter().collect();
        assert_eq!(each[0].0, None);
        assert_eq!(each[1], (Some("12.1.45".into()), r#"{"type":"B","timestamp":7}"#.into()));
    }

    #[test]
    fn frames_that_are_put_together_are_still_found() {
        let one = |name: &str| {
            let mut writer = Writer::with_room(1);
            writer.event(&json!({ "type": name }), Some(Cursor::after(7)), None);
            writer.finish()
        };
        let frames = Frames::concat(&[one("A"), Frames::default(), one("B")]);
        let each: Vec<_> = frames.iter().collect();
        assert_eq!(each, [r#"{"type":"A"}"#, r#"{"type":"B"}"#].map(|json| (Some("7".into()), json.into())));
        assert!(frames.texts().eq([r#"{"type":"A"}"#, r#"{"type":"B"}"#]));
        assert_eq!(frames.sse, "id: 7\ndata: {\"type\":\"A\"}\n\nid: 7\ndata: {\"type\":\"B\"}\n\n");
    }
}
