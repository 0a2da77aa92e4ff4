//! Rendered frames: bytes that are made once for each dialect and shared by every reader.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Server-sent events, one after another, and where in them each one's JSON stands, so that one rendering serves SSE (all
/// bytes) and WebSocket (a text frame a range).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// `id: …\ndata: {…}\n\n` for each event.
    pub sse: Bytes,
    /// The JSON of each event.
    pub json: Vec<Range<usize>>,
}

impl Frames {
    /// Several runs of frames as one, in order.
    #[must_use]
    pub fn concat(parts: &[Self]) -> Self {
        let mut sse = BytesMut::with_capacity(parts.iter().map(|part| part.sse.len()).sum());
        let mut json = Vec::with_capacity(parts.iter().map(|part| part.json.len()).sum());
        for part in parts {
            let start = sse.len();
            json.extend(part.json.iter().map(|range| start + range.start..start + range.end));
            sse.extend_from_slice(&part.sse);
        }
        Self { sse: sse.freeze(), json }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// The JSON texts, in order.
    pub fn texts(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.json.iter().map(|range| self.sse.slice(range.clone()))
    }
}
