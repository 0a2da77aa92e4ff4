//! Reads a request's body: bounded in size and in time.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use actix_web::web::{Bytes, Payload};

use super::Options;
use crate::protocol::{Code, Refusal};

/// The whole body.
pub(super) async fn read(request: &HttpRequest, payload: Payload, options: &Options) -> Result<Bytes, Refusal> {
    read_up_to(options.body_bytes_max, request, payload, options).await
}

/// The whole body, of at most `limit` bytes. A body that says at once that it is too large isn't read at all.
pub(super) async fn read_up_to(limit: usize, request: &HttpRequest, payload: Payload, options: &Options) -> Result<Bytes, Refusal> {
    expect_plain(request)?;
    let declared =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()).and_then(|length| length.parse::<u64>().ok());
    if declared.is_some_and(|declared| usize::try_from(declared).map_or(true, |declared| declared > limit)) {
        return Err(too_large(limit));
    }
    let time = Duration::from_secs(options.body_secs.max(1));
    match tokio::time::timeout(time, payload.to_bytes_limited(limit)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(error))) => Err(Refusal::new(Code::BadRequest, not_whole(&error))),
        Ok(Err(_)) => Err(too_large(limit)),
        Err(_) => Err(Refusal::new(Code::BadRequest, format!("the body did not arrive within {} s", time.as_secs()))),
    }
}

fn not_whole(error: &actix_web::Error) -> String {
    match error.as_error::<PayloadError>() {
        Some(PayloadError::Incomplete(_)) => "the body ended early, or its chunks are malformed".to_owned(),
        Some(_) | None => format!("the body did not arrive whole: {error}"),
    }
}

/// A compressed body would be misread; unpacking it would let a small one become large.
fn expect_plain(request: &HttpRequest) -> Result<(), Refusal> {
    let mut encodings = request.headers().get_all(CONTENT_ENCODING).map(|encoding| String::from_utf8_lossy(encoding.as_bytes()));
    match encodings.find(|encoding| !encoding.trim().eq_ignore_ascii_case("identity")) {
        None => Ok(()),
        Some(encoding) => {
            let encoding: String = encoding.chars().take(64).collect();
            let text = format!("a body with Content-Encoding `{encoding}` isn't read; send it as it is, without Content-Encoding");
            Err(Refusal::new(Code::UnsupportedEncoding, text))
        }
    }
}

fn too_large(limit: usize) -> Refusal {
    Refusal::new(Code::BodyTooLarge, format!("the body is larger than {limit} bytes")).with("limit", limit)
}
