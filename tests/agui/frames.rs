//! Rendered frames, taken apart as a client does.

use headwater::protocol::{Cursor, Frames};
use serde_json::Value;

/// One server-sent event.
#[derive(Debug, PartialEq)]
pub struct Sent {
    pub id: Option<Cursor>,
    pub event: Value,
}

/// Takes the bytes apart, strictly: an optional `id:` line, one `data:` line, a blank line, LF only. The JSON ranges must say the same.
pub fn sent(frames: &Frames) -> Vec<Sent> {
    let text = std::str::from_utf8(&frames.sse).unwrap();
    assert!(!text.contains('\r'));
    let mut blocks: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(blocks.pop(), Some(""), "the last block must be closed");
    let texts: Vec<_> = frames.texts().collect();
    assert_eq!(blocks.len(), texts.len());
    let read = |(block, text): (&&str, &bytes::Bytes)| {
        let mut lines: Vec<&str> = block.split('\n').collect();
        let data = lines.pop().unwrap().strip_prefix("data: ").expect("the data stands last");
        assert_eq!(data.as_bytes(), text);
        let id = lines.pop().map(|line| line.strip_prefix("id: ").expect("an id stands before the data").parse().unwrap());
        assert!(lines.is_empty());
        Sent { id, event: serde_json::from_str(data).unwrap() }
    };
    blocks.iter().zip(&texts).map(read).collect()
}

/// The events alone.
pub fn events(frames: &Frames) -> Vec<Value> {
    sent(frames).into_iter().map(|sent| sent.event).collect()
}
