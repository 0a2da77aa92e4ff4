//! Why a socket ends, as the close frame says it.

use std::io;

use actix_web::error::PayloadError;
use actix_ws::{CloseCode, CloseReason, ProtocolError};

/// A close frame's content.
pub(super) fn reason(code: CloseCode, description: &str) -> CloseReason {
    CloseReason { code, description: Some(description.to_owned()) }
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
    use super::*;

    fn code(error: &ProtocolError) -> Option<u16> {
        of_error(error).map(|reason| reason.code.into())
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
