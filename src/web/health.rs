//! For whoever watches the process.

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde_json::json;

use super::State;
use super::error::Failure;
use crate::protocol::{Code, Refusal};

/// `GET /healthz`: the process runs, and what it is, so that a client knows whom it found.
pub(super) async fn alive() -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "ok", "server": "headwater" }))
}

/// `GET /metrics`: what the process counts, as Prometheus reads it.
pub(super) async fn metrics(state: Data<State>) -> Result<HttpResponse, Failure> {
    match &state.readout {
        Some(readout) => Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(readout.text())),
        None => Err(Refusal::new(Code::NotFound, "metrics are off; `metrics = true` in [server] turns them on").into()),
    }
}

/// `GET /readyz`: requests can be served.
pub(super) async fn ready(state: Data<State>) -> Result<HttpResponse, Failure> {
    if state.draining.is_cancelled() {
        return Err(Refusal::new(Code::ShuttingDown, "the server stops").into());
    }
    state.runtime.ready().await?;
    Ok(HttpResponse::Ok().json(json!({ "status": "ready" })))
}
