//! `GET /v1/sessions/{id}/events`: a session's events from any place on, as server-sent events. Changes nothing.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use actix_web::web::{Bytes, Data, Path, Query};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use futures_util::{Stream, stream};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::caller::Caller;
use super::error::Failure;
use super::log::LoggedElsewhere;
use super::{State, native, paths, streaming};
use crate::clock;
use crate::ids::SessionId;
use crate::protocol::{Code, Cursor, Refusal};
use crate::runtime::{EventStream, StreamEnd};

/// Where a browser's reader goes on after its connection was lost.
const LAST_EVENT_ID: &str = "last-event-id";

/// The first line: a reader that lost its connection tries again so soon.
const OPENING: Bytes = Bytes::from_static(b"retry: 1000\n\n");

/// The query of events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsAsked {
    after: Option<String>,
}

/// `GET /v1/sessions/{id}/events`.
pub(super) async fn events(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    query: Query<EventsAsked>,
) -> Result<HttpResponse, Failure> {
    let session = paths::session_id(&path)?;
    let after = after(request.headers(), query.after.as_deref())?;
    let events = state.runtime.events(&caller.key(session.clone()), after).await?;
    request.extensions_mut().insert(LoggedElsewhere);
    let ending = Ending { end: None, started: clock::instant(), session };
    Ok(streaming::answer(body(events, ending, state.options.keep_alive(), state.draining.clone())))
}

/// The place after which to begin. A reader that comes back asks with the same query, so its header is the newer word.
fn after(headers: &HeaderMap, query: Option<&str>) -> Result<Option<Cursor>, Refusal> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    let (field, text) = match (header, query) {
        (Some(id), _) => ("Last-Event-ID", id),
        (None, Some(after)) => ("after", after),
        (None, None) => return Ok(None),
    };
    text.parse().map(Some).map_err(|error| Refusal::new(Code::BadRequest, format!("{field}: {error}")).with("at", field))
}

/// Tells how a stream ended, when it is dropped.
struct Ending {
    end: Option<&'static str>,
    started: std::time::Instant,
    session: SessionId,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let duration_ms = clock::instant().duration_since(self.started).as_millis();
        let end = self.end.unwrap_or("disconnected");
        info!(session.id = self.session.as_str(), transport = "sse", end, duration_ms, "events ended");
    }
}

fn body(
    events: EventStream,
    ending: Ending,
    keep_alive: Duration,
    draining: CancellationToken,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let state = (Some(OPENING), Some(events), ending, draining);
    stream::unfold(state, move |(opening, mut events, mut ending, draining)| async move {
        if let Some(opening) = opening {
            return Some((Ok(opening), (None, events, ending, draining)));
        }
        let piece = match tokio::time::timeout(keep_alive, events.as_mut()?.next()).await {
            Ok(Ok(batch)) => native::rendered(&batch),
            Ok(Err(why)) => {
                let refusal = last_words(why, &draining);
                ending.end = Some(refusal.code.as_str());
                events = None;
                native::refusal(&refusal)
            }
            Err(_) => streaming::KEEP_ALIVE,
        };
        Some((Ok(piece), (None, events, ending, draining)))
    })
}

/// What is said when no more comes.
pub(super) fn last_words(why: StreamEnd, draining: &CancellationToken) -> Refusal {
    match why {
        StreamEnd::Closed if draining.is_cancelled() => native::shutting_down(),
        StreamEnd::Closed => native::given_up(Code::Internal),
        StreamEnd::Failed(code) => native::given_up(code),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_reader_that_comes_back_goes_on_where_it_was() {
        let mut headers = HeaderMap::new();
        assert_eq!(after(&headers, None).unwrap(), None);
        assert_eq!(after(&headers, Some("0")).unwrap(), Some(Cursor::after(0)));
        headers.insert(HeaderName::from_static(LAST_EVENT_ID), HeaderValue::from_static("12.1.45"));
        assert_eq!(after(&headers, Some("0")).unwrap(), Some(Cursor { seq: 12, within: Some((1, 45)) }));
        headers.insert(HeaderName::from_static(LAST_EVENT_ID), HeaderValue::from_static("x"));
        let refusal = after(&headers, None).unwrap_err();
        assert_eq!((refusal.code, &refusal.details["at"]), (Code::BadRequest, &"Last-Event-ID".into()));
    }

    #[test]
    fn the_last_words_say_why() {
        let (serving, stopping) = (CancellationToken::new(), CancellationToken::new());
        stopping.cancel();
        assert_eq!(last_words(StreamEnd::Closed, &stopping).code, Code::ShuttingDown);
        assert_eq!(last_words(StreamEnd::Closed, &serving).code, Code::Internal);
        assert_eq!(last_words(StreamEnd::Failed(Code::SessionDeleted), &stopping).code, Code::SessionDeleted);
    }
}
