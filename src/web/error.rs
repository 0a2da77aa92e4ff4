//! The one table from codes to HTTP statuses and close codes, and the one shape of an error answer: `{error, message, …}`.
//! Nothing else in the crate knows HTTP statuses.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpResponse, ResponseError};
use actix_ws::{CloseCode, CloseReason};

use crate::meters::names;
use crate::protocol::{Code, Refusal};

/// A refusal on its way to an HTTP client.
#[derive(Debug)]
pub(super) struct Failure(pub(super) Refusal);

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl ResponseError for Failure {
    fn status_code(&self) -> StatusCode {
        status(self.0.code)
    }

    fn error_response(&self) -> HttpResponse {
        answer(&self.0)
    }
}

/// The answer that tells an HTTP client of a refusal.
pub(super) fn answer(refusal: &Refusal) -> HttpResponse {
    count(refusal.code);
    let status = status(refusal.code);
    let mut builder = HttpResponse::build(status);
    if passes_by_itself(refusal.code) {
        builder.insert_header((RETRY_AFTER, "1"));
    }
    builder.json(refusal)
}

/// Counts a refusal, however it is told.
pub(super) fn count(code: Code) {
    metrics::counter!(names::REFUSALS, "code" => code.as_str()).increment(1);
}

/// Counts a reader that is let go because it reads too slowly.
pub(super) fn slow(transport: &'static str) {
    metrics::counter!(names::READERS_CUT, "transport" => transport).increment(1);
}

/// Whether the same request may be taken in a moment.
fn passes_by_itself(code: Code) -> bool {
    matches!(
        code,
        Code::ShuttingDown
            | Code::StoreUnavailable
            | Code::LlmRateLimited
            | Code::OwnerLost
            | Code::TooManyReaders
            | Code::TooManyRequests
            | Code::RateLimited
            | Code::TooManyConnections
            | Code::TooManySessions
            | Code::TooManyTurns
            | Code::TooSlow
            | Code::QueueFull
    )
}

/// A code's HTTP status.
pub(super) fn status(code: Code) -> StatusCode {
    match code {
        Code::BadJson
        | Code::BadRequest
        | Code::BadId
        | Code::ReservedId
        | Code::DuplicateMessageId
        | Code::NotAvailable
        | Code::BadImport => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::OriginRefused | Code::WorkerNotAllowed => StatusCode::FORBIDDEN,
        Code::NotFound
        | Code::UnknownAgent
        | Code::SessionNotFound
        | Code::RunNotFound
        | Code::CursorUnknown
        | Code::NodeNotFound
        | Code::InterruptNotFound
        | Code::LabelNotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::TurnAlreadyActive
        | Code::TurnIdReused
        | Code::CallsOpen
        | Code::CallNotOpen
        | Code::SessionInterrupted
        | Code::InterruptsOpen
        | Code::InterruptClosed
        | Code::InterruptExpired
        | Code::SessionExists
        | Code::DecisionClosed => StatusCode::CONFLICT,
        Code::SessionDeleted => StatusCode::GONE,
        Code::BodyTooLarge | Code::ViewTooLong | Code::ContentTooLarge | Code::ArrivalTooLarge | Code::StateTooLarge => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        Code::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::LlmTooLong | Code::TooManyCalls | Code::PatchFailed | Code::BadAnswer | Code::PayloadMismatch => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Code::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Code::TooManyReaders | Code::TooManyRequests | Code::RateLimited | Code::TooSlow | Code::QueueFull => StatusCode::TOO_MANY_REQUESTS,
        Code::SessionCorrupt | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::LlmUnavailable
        | Code::LlmCut
        | Code::LlmRefused
        | Code::LlmBadResponse
        | Code::WorkerFailed
        | Code::WorkerBadAnswer
        | Code::ToolFailed
        | Code::OutcomeUnknown => StatusCode::BAD_GATEWAY,
        Code::ShuttingDown
        | Code::TooManyConnections
        | Code::TooManySessions
        | Code::TooManyTurns
        | Code::NewerVersion
        | Code::StoreUnavailable
        | Code::LlmRateLimited
        | Code::OwnerLost => StatusCode::SERVICE_UNAVAILABLE,
        Code::LlmTimedOut | Code::WorkerTimedOut | Code::ToolTimedOut => StatusCode::GATEWAY_TIMEOUT,
        Code::StoreFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

/// The close code of a socket that ends because of `code`; nothing when the socket stays usable.
pub(super) fn close_code(code: Code) -> Option<CloseCode> {
    match code {
        Code::BodyTooLarge => Some(CloseCode::Size),
        Code::Unauthorized => Some(CloseCode::Other(4001)),
        Code::OriginRefused | Code::WorkerNotAllowed => Some(CloseCode::Other(4003)),
        Code::TooSlow => Some(CloseCode::Other(4008)),
        Code::CursorUnknown => Some(CloseCode::Other(4009)),
        Code::RateLimited => Some(CloseCode::Other(4029)),
        Code::ShuttingDown => Some(CloseCode::Restart),
        Code::BadJson
        | Code::BadRequest
        | Code::BadId
        | Code::ReservedId
        | Code::DuplicateMessageId
        | Code::ViewTooLong
        | Code::ContentTooLarge
        | Code::StateTooLarge
        | Code::PatchFailed
        | Code::UnsupportedEncoding
        | Code::CallsOpen
        | Code::NotAvailable
        | Code::CallNotOpen
        | Code::SessionInterrupted
        | Code::InterruptsOpen
        | Code::InterruptNotFound
        | Code::InterruptClosed
        | Code::InterruptExpired
        | Code::PayloadMismatch
        | Code::LabelNotFound
        | Code::SessionExists
        | Code::SessionDeleted
        | Code::BadImport
        | Code::QueueFull
        | Code::ArrivalTooLarge
        | Code::NotFound
        | Code::MethodNotAllowed
        | Code::UnknownAgent
        | Code::SessionNotFound
        | Code::RunNotFound
        | Code::NodeNotFound
        | Code::TurnAlreadyActive
        | Code::TurnIdReused
        | Code::TooManyReaders
        | Code::TooManyRequests
        | Code::HeadTooLarge
        | Code::TooManyConnections
        | Code::TooManySessions
        | Code::TooManyTurns
        | Code::NewerVersion
        | Code::SessionCorrupt
        | Code::StoreUnavailable
        | Code::StoreFull
        | Code::LlmTooLong
        | Code::LlmRateLimited
        | Code::LlmUnavailable
        | Code::LlmCut
        | Code::LlmTimedOut
        | Code::LlmRefused
        | Code::LlmBadResponse
        | Code::TooManyCalls
        | Code::WorkerFailed
        | Code::WorkerTimedOut
        | Code::WorkerBadAnswer
        | Code::ToolFailed
        | Code::ToolTimedOut
        | Code::OutcomeUnknown
        | Code::BadAnswer
        | Code::DecisionClosed
        | Code::OwnerLost
        | Code::Internal => None,
    }
}

/// How a socket is closed because of `refusal`; nothing when it stays usable.
pub(super) fn close_reason(refusal: &Refusal) -> Option<CloseReason> {
    Some(CloseReason { code: close_code(refusal.code)?, description: Some(description(refusal)) })
}

/// A refusal as a close frame says it: such a frame has room for few words.
pub(super) fn description(refusal: &Refusal) -> String {
    const BYTES_MAX: usize = 123;
    let text = format!("{}: {}", refusal.code, refusal.message);
    let end = text.char_indices().map(|(at, char)| at + char.len_utf8()).take_while(|&end| end <= BYTES_MAX).last().unwrap_or(0);
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use actix_web::body::to_bytes;

    use super::*;

    #[test]
    fn every_code_is_an_error_status() {
        for code in Code::ALL {
            assert!(status(*code).is_client_error() || status(*code).is_server_error(), "{code}");
        }
    }

    #[test]
    fn the_document_has_each_code_with_its_status() {
        let document = include_str!("../../docs/protocol.md");
        let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        let rows: Vec<_> = rows.filter_map(|(code, rest)| Some((code, rest.split_once(" | ")?.0.parse::<u16>().ok()?))).collect();
        assert_eq!(rows, Code::ALL.iter().map(|code| (code.as_str(), status(*code).as_u16())).collect::<Vec<_>>());
    }

    #[test]
    fn close_codes_are_ones_that_may_be_sent() {
        let closing: Vec<_> = Code::ALL.iter().filter_map(|code| close_code(*code)).map(u16::from).collect();
        assert_eq!(closing, [1009, 4001, 4003, 4009, 4029, 4008, 1012, 4003]);
    }

    #[actix_web::test]
    async fn a_conflict_names_the_turn() {
        let refusal =
            Refusal::new(Code::TurnAlreadyActive, "a turn is running").with("turn_id", "t1").with("started_at", 12).with("queue_depth", 0);
        let response = answer(&refusal);
        assert_eq!(response.status(), 409);
        let body = to_bytes(response.into_body()).await.unwrap();
        assert_eq!(
            std::str::from_utf8(&body).unwrap(),
            r#"{"error":"turn_already_active","message":"a turn is running","turn_id":"t1","started_at":12,"queue_depth":0}"#
        );
    }

    #[test]
    fn what_passes_by_itself_says_when_to_come_back() {
        assert!(answer(&Refusal::new(Code::ShuttingDown, "stopping")).headers().contains_key(RETRY_AFTER));
        assert!(answer(&Refusal::new(Code::QueueFull, "many wait")).headers().contains_key(RETRY_AFTER));
        for stays in [Code::NotFound, Code::NewerVersion, Code::TurnAlreadyActive] {
            assert!(!answer(&Refusal::new(stays, "so it is")).headers().contains_key(RETRY_AFTER));
        }
    }
}
