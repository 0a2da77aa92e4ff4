//! What stands around an event in a WebSocket text. The event itself was rendered once, for all its readers, and is copied as it is.
//! May not know what events say.

use std::rc::Rc;

use actix_web::web::{BufMut, Bytes, BytesMut};

use crate::ids::SessionId;
use crate::protocol::Frames;

/// Bytes that an envelope takes beside what it holds.
const AROUND: usize = 32;

/// How one socket's texts are made of events.
#[derive(Clone, Debug, Default)]
pub(super) enum Envelope {
    /// The event alone.
    #[default]
    Bare,
    /// `{"id": cursor, "chunk": event}`; the event alone where no reader may go on after it.
    Cursor,
    /// `{"threadId": …, "id": cursor, "chunk": event}`, without `id` where no reader may go on after it.
    Thread(Rc<str>),
    /// `{"type": "event", "session_id": …, "id": cursor, "event": event}`, without `id` where no reader may go on after it.
    Session(Rc<str>),
}

impl Envelope {
    /// That of a socket that several sessions share: it names `session`.
    pub(super) fn of_thread(session: &SessionId) -> Self {
        // A text: writing it can't fail.
        Self::Thread(serde_json::to_string(session.as_str()).unwrap_or_default().into())
    }

    /// That of native events: it names `session`.
    pub(super) fn of_session(session: &SessionId) -> Self {
        // A text: writing it can't fail.
        Self::Session(serde_json::to_string(session.as_str()).unwrap_or_default().into())
    }

    /// Whether a cursor alone says where to go on.
    pub(super) fn is_of_one_session(&self) -> bool {
        match self {
            Self::Bare | Self::Cursor => true,
            Self::Thread(_) | Self::Session(_) => false,
        }
    }

    /// The texts of these events, in order.
    pub(super) fn texts<'a>(&'a self, frames: &'a Frames) -> impl Iterator<Item = Bytes> + 'a {
        frames.iter().map(move |(cursor, event)| match (self, cursor) {
            (Self::Bare, _) | (Self::Cursor, None) => event,
            (Self::Cursor, cursor @ Some(_)) => wrapped(["{", "", ""], cursor, "\"chunk\":", &event),
            (Self::Thread(thread), cursor) => wrapped(["{\"threadId\":", thread, ","], cursor, "\"chunk\":", &event),
            (Self::Session(session), cursor) => {
                wrapped(["{\"type\":\"event\",\"session_id\":", session, ","], cursor, "\"event\":", &event)
            }
        })
    }
}

/// A cursor's text is digits and dots: it needs no escapes.
fn wrapped(opening: [&str; 3], cursor: Option<Bytes>, name: &str, event: &[u8]) -> Bytes {
    let opened = opening.iter().map(|part| part.len()).sum::<usize>();
    let mut text = BytesMut::with_capacity(AROUND + opened + cursor.as_ref().map_or(0, Bytes::len) + event.len());
    for part in opening {
        text.extend_from_slice(part.as_bytes());
    }
    if let Some(cursor) = cursor {
        text.extend_from_slice(b"\"id\":\"");
        text.extend_from_slice(&cursor);
        text.extend_from_slice(b"\",");
    }
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(event);
    text.put_u8(b'}');
    text.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Framed;

    #[test]
    fn an_event_is_bare_or_in_an_envelope() {
        let sse = Bytes::from_static(b"data: {\"a\":1}\n\nid: 12.1.45\ndata: {\"b\":2}\n\n");
        let events = vec![Framed { cursor: None, json: 6..13 }, Framed { cursor: Some(19..26), json: 33..40 }];
        let frames = Frames { sse, events };
        let texts = |envelope: Envelope| envelope.texts(&frames).collect::<Vec<_>>();
        assert_eq!(texts(Envelope::Bare), [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(texts(Envelope::Cursor), [r#"{"a":1}"#, r#"{"id":"12.1.45","chunk":{"b":2}}"#]);
        assert_eq!(
            texts(Envelope::of_thread(&"s\"1".into())),
            [r#"{"threadId":"s\"1","chunk":{"a":1}}"#, r#"{"threadId":"s\"1","id":"12.1.45","chunk":{"b":2}}"#]
        );
        assert_eq!(
            texts(Envelope::of_session(&"s\"1".into())),
            [
                r#"{"type":"event","session_id":"s\"1","event":{"a":1}}"#,
                r#"{"type":"event","session_id":"s\"1","id":"12.1.45","event":{"b":2}}"#
            ]
        );
    }
}
