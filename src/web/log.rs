//! One line a request, when it ends. Fields, never bodies. Streams and sockets write theirs themselves, since they end later.

use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpRequest};
use tracing::info;

use super::error::Failure;
use crate::meters::names;
use crate::protocol::Code;

/// Put among a request's extensions by what logs its own end.
pub(super) struct LoggedElsewhere;

/// Methods that there are; any other has one name in common.
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// Counts a request by its route's pattern: a path may hold anything.
fn count(request: &HttpRequest, status: StatusCode, started: Instant) {
    let method = METHODS.iter().find(|method| *method == request.method()).map_or("other", Method::as_str).to_owned();
    let route = request.match_pattern().unwrap_or_else(|| "none".to_owned());
    let class = match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    let seconds = crate::clock::instant().duration_since(started).as_secs_f64();
    metrics::counter!(names::HTTP_REQUESTS, "method" => method.clone(), "route" => route.clone(), "status" => class).increment(1);
    metrics::histogram!(names::HTTP_SECONDS, "method" => method, "route" => route).record(seconds);
}

/// Writes the line.
pub(super) async fn line(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let started = crate::clock::instant();
    let response = next.call(request).await?.map_into_boxed_body();
    let request = response.request();
    count(request, response.status(), started);
    if request.extensions().get::<LoggedElsewhere>().is_none() {
        let error = response.response().error().and_then(|error| error.as_error::<Failure>()).map(|failure| failure.0.code);
        let error = error.or_else(|| request.extensions().get::<Code>().copied());
        info!(
            method = %request.method(),
            route = request.match_pattern(),
            status = response.status().as_u16(),
            error = error.map(Code::as_str),
            duration_ms = crate::clock::instant().duration_since(started).as_millis(),
            "request ended"
        );
    }
    Ok(response)
}
