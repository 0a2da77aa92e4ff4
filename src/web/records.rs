//! `/v1/sessions/{id}/records`: a session's log, read page by page, and made from an export. May not know what records mean.

use actix_web::http::header::LOCATION;
use actix_web::web::{Data, Path, Payload, Query, block};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;

use super::caller::Caller;
use super::error::Failure;
use super::{State, body, paths};
use crate::protocol::{Code, Refusal, export};

/// Records of a page when nobody says how many, and the most.
const RECORDS_MAX: usize = 1000;

/// The query of records.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordsAsked {
    after: Option<u64>,
    limit: Option<usize>,
}

/// `GET /v1/sessions/{id}/records`.
pub(super) async fn page(
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    query: Query<RecordsAsked>,
) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    let limit = paths::limit(query.limit, RECORDS_MAX, RECORDS_MAX)?;
    Ok(HttpResponse::Ok().json(state.runtime.records(&key, query.after.unwrap_or(0), limit).await?))
}

/// `POST /v1/sessions/{id}/records`: the body is an export; the session mustn't be there yet.
pub(super) async fn import(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    let file = body::read_up_to(state.options.import_bytes_max, &request, payload, &state.options).await?;
    // A large file takes a while, and this thread serves others.
    let export = block(move || export::Reader::read(&file)).await;
    let export = export.map_err(|_| Refusal::new(Code::Internal, "the file was not read to its end; send it again"))??;
    let imported = state.runtime.import(&key, export.records).await?;
    if imported.duplicate {
        return Ok(HttpResponse::Ok().json(imported));
    }
    Ok(HttpResponse::Created().insert_header((LOCATION, paths::of_session(&imported.session_id))).json(imported))
}
