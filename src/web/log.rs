//! One line a request, when it ends. Fields, never bodies. Streams and sockets write theirs themselves, since they end later.

use actix_web::HttpMessage;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use tracing::info;

use super::error::Failure;
use crate::protocol::Code;

/// Put among a request's extensions by what logs its own end.
pub(super) struct LoggedElsewhere;

/// Writes the line.
pub(super) async fn line(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let started = crate::clock::instant();
    let response = next.call(request).await?.map_into_boxed_body();
    let request = response.request();
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
