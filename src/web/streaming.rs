//! Answers that are server-sent events: their head, and what keeps them open. May not know what they tell.

use std::convert::Infallible;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use futures_util::Stream;

/// A comment that keeps idle connections open.
pub(super) const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The answer that streams `frames`.
pub(super) fn answer(frames: impl Stream<Item = Result<Bytes, Infallible>> + 'static) -> HttpResponse {
    let mut response = HttpResponse::Ok().streaming(frames);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
