//! Why a socket ends, as the close frame says it.

use std::io;

use actix_web::error::PayloadError;
use actix_ws::{CloseCode, CloseReason, ProtocolError};

/// A reader fell too far behind.
const TOO_SLOW: u16 = 4008;

/// Whether a client connects again after a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// The same would happen again: the client must be mended, or do something else first.
    No,
    /// At once.
    AtOnce,
    /// After a pause, which grows.
    Later,
}

impl Again {
    /// As the documentation says it.
    #[cfg(test)]
    fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::AtOnce => "yes, at once",
            Self::Later => "yes, after a pause",
        }
    }
}

/// Every code that a socket is closed with; one that a client closed itself gets its own code back.
const CODES: &[(u16, Again)] = &[
    (1000, Again::No),
    (1002, Again::No),
    (1003, Again::No),
    (1007, Again::No),
    (1008, Again::Later),
    (1009, Again::No),
    (1011, Again::Later),
    (1012, Again::AtOnce),
    (4001, Again::No),
    (4003, Again::No),
    (TOO_SLOW, Again::AtOnce),
    (4009, Again::AtOnce),
    (4029, Again::Later),
];

/// A close frame's content.
pub(super) fn reason(code: CloseCode, description: &str) -> CloseReason {
    debug_assert!(CODES.iter().any(|(known, _)| *known == u16::from(code)), "{code:?} isn't in the table");
    CloseReason { code, description: Some(description.to_owned()) }
}

/// The reason, with the place after which the reader goes on when it comes back: everything up to there reached it before the close.
pub(super) fn after(reason: CloseReason, cursor: Option<&[u8]>) -> CloseReason {
    match (reason.code, reason.description, cursor.and_then(|cursor| std::str::from_utf8(cursor).ok())) {
        (code @ CloseCode::Other(TOO_SLOW), Some(description), Some(cursor)) => {
            CloseReason { code, description: Some(format!("{description}; cursor={cursor}")) }
        }
        (code, description, _) => CloseReason { code, description },
    }
}

/// How a stream that failed is closed; nothing when nobody is there to be told.
pub(super) fn of_error(error: &ProtocolError) -> Option<CloseReason> {
    match error {
        ProtocolError::Overflow => Some(too_large()),
        ProtocolError::Io(error) => of_io(error),
        ProtocolError::UnmaskedFrame
        | ProtocolError::MaskedFrame
        | ProtocolError::InvalidOpcode(_)
        | ProtocolError::InvalidLength(_)
        | ProtocolError::BadOpCode
        | ProtocolError::ContinuationNotStarted
        | ProtocolError::ContinuationStarted
        | ProtocolError::ContinuationFragment(_) => Some(reason(CloseCode::Protocol, "a frame that the protocol doesn't allow")),
    }
}

/// The library wraps what isn't an enum value of its own into io errors.
fn of_io(error: &io::Error) -> Option<CloseReason> {
    if let Some(payload) = error.get_ref().and_then(|inner| inner.downcast_ref::<PayloadError>()) {
        return match payload {
            PayloadError::Overflow => Some(too_large()),
            // The connection broke.
            _ => None,
        };
    }
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::InvalidData if text.contains("utf-8") || text.contains("UTF-8") => {
            Some(reason(CloseCode::Invalid, "text must be UTF-8"))
        }
        io::ErrorKind::InvalidData => Some(reason(CloseCode::Protocol, "a frame that the protocol doesn't allow")),
        io::ErrorKind::Other if text.contains("continuation size") => Some(too_large()),
        _ => None,
    }
}

fn too_large() -> CloseReason {
    reason(CloseCode::Size, "the frame or message is larger than the limit")
}

#[cfg(test)]
mod tests {
    use super::super::super::error;
    use super::*;

    fn code(error: &ProtocolError) -> Option<u16> {
        of_error(error).map(|reason| reason.code.into())
    }

    #[test]
    fn the_document_says_of_each_code_whether_to_come_back() {
        let document = include_str!("../../../docs/protocol.md");
        let table = document.split("### Close codes").nth(1).unwrap().split("\n#").next().unwrap();
        let rows = table.lines().filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            Some((cells.get(1)?.parse::<u16>().ok()?, cells.get(3)?.split([':', ';']).next()?))
        });
        assert_eq!(rows.collect::<Vec<_>>(), CODES.iter().map(|(code, again)| (*code, again.as_str())).collect::<Vec<_>>());
    }

    #[test]
    fn each_code_of_a_refusal_is_in_the_table() {
        for code in crate::protocol::Code::ALL {
            if let Some(closed) = error::close_code(*code).map(u16::from) {
                assert!(CODES.iter().any(|(known, _)| *known == closed), "{code}: {closed}");
            }
        }
    }

    #[test]
    fn each_fault_has_its_code() {
        let io = |kind, text: &'static str| ProtocolError::Io(io::Error::new(kind, text));
        assert_eq!(code(&ProtocolError::Overflow), Some(1009));
        assert_eq!(code(&ProtocolError::Io(io::Error::other(PayloadError::Overflow))), Some(1009));
        assert_eq!(code(&io(io::ErrorKind::Other, "Exceeded maximum continuation size")), Some(1009));
        assert_eq!(code(&ProtocolError::UnmaskedFrame), Some(1002));
        assert_eq!(code(&ProtocolError::BadOpCode), Some(1002));
        assert_eq!(code(&io(io::ErrorKind::InvalidData, "Received a frame with non-zero reserved bits")), Some(1002));
        let not_utf8 = String::from_utf8(vec![0xff]).unwrap_err().utf8_error();
        assert_eq!(code(&ProtocolError::Io(io::Error::new(io::ErrorKind::InvalidData, not_utf8))), Some(1007));
    }

    #[test]
    fn nobody_is_told_when_the_connection_broke() {
        assert_eq!(code(&ProtocolError::Io(io::Error::other(PayloadError::Incomplete(None)))), None);
        assert_eq!(code(&ProtocolError::Io(io::ErrorKind::ConnectionReset.into())), None);
    }
}
