//! Answers that are server-sent events: their head, and what keeps them open. May not know what they tell.

use std::convert::Infallible;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt};

use crate::meters::names;

/// A comment that keeps idle connections open.
pub(super) const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The answer that streams `frames`.
pub(super) fn answer(frames: impl Stream<Item = Result<Bytes, Infallible>> + 'static) -> HttpResponse {
    let reader = Reading::begin();
    let mut response = HttpResponse::Ok().streaming(frames.inspect(move |_| reader.goes_on()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Counts as a reader, until its answer is dropped.
struct Reading;

impl Reading {
    fn begin() -> Self {
        metrics::gauge!(names::STREAMS).increment(1.0);
        Self
    }

    /// Holds it in the stream.
    #[expect(clippy::unused_self, reason = "the stream owns it")]
    fn goes_on(&self) {}
}

impl Drop for Reading {
    fn drop(&mut self) {
        metrics::gauge!(names::STREAMS).decrement(1.0);
    }
}
