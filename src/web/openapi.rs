//! `/openapi.json`: what the routes take and answer. Written by hand; tests hold it to the route table, the codes, and to every request
//! and answer of the server's tests.

use actix_web::HttpResponse;
use actix_web::http::header::ContentType;

/// The description.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");

/// `GET /openapi.json`.
pub(super) async fn document() -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::json()).body(DOCUMENT)
}
