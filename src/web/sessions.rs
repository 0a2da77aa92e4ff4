//! `/v1/sessions`: the list, a session's page and its tree, and what changes them without a turn.

use actix_web::http::header::LOCATION;
use actix_web::web::{Data, Path, Payload, Query};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;

use super::caller::Caller;
use super::error::Failure;
use super::{State, body, paths};
use crate::ids::{NodeId, SessionId};
use crate::protocol::{Code, Refusal, TreeQuery, TreeView, native};

/// Nodes of a page when nobody says how many, and the most.
const NODES_DEFAULT: usize = 1000;
const NODES_MAX: usize = 10_000;
/// Sessions of a page when nobody says how many, and the most.
const SESSIONS_DEFAULT: usize = 100;
const SESSIONS_MAX: usize = 1000;

/// The query of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListAsked {
    after: Option<String>,
    limit: Option<usize>,
    archived: Option<String>,
}

/// `GET /v1/sessions`.
pub(super) async fn list(state: Data<State>, caller: Caller, query: Query<ListAsked>) -> Result<HttpResponse, Failure> {
    let archived = match query.archived.as_deref() {
        None | Some("false") => Some(false),
        Some("true") => Some(true),
        Some("all") => None,
        Some(_) => return Err(Refusal::new(Code::BadRequest, "archived is false, true or all").with("at", "archived").into()),
    };
    let limit = paths::limit(query.limit, SESSIONS_DEFAULT, SESSIONS_MAX)?;
    let after = query.after.as_deref().map(|after| paths::id("after", after).map(SessionId::from)).transpose()?;
    Ok(HttpResponse::Ok().json(state.runtime.sessions(&caller.tenant, after, limit, archived).await?))
}

/// `GET /v1/sessions/{id}`.
pub(super) async fn page(state: Data<State>, caller: Caller, path: Path<String>) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    Ok(HttpResponse::Ok().json(state.runtime.session(&key).await?))
}

/// `PATCH /v1/sessions/{id}`: a title, and whether lists leave it out.
pub(super) async fn update(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    let asked = native::update(&body::read(&request, payload, &state.options).await?, &state.limits())?;
    Ok(HttpResponse::Ok().json(state.runtime.update(&key, asked).await?))
}

/// `DELETE /v1/sessions/{id}`: all of it.
pub(super) async fn erase(state: Data<State>, caller: Caller, path: Path<String>) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    state.runtime.erase(&key).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// The query of a tree.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeAsked {
    after: Option<String>,
    limit: Option<usize>,
    view: Option<String>,
}

/// `GET /v1/sessions/{id}/tree`.
pub(super) async fn tree(state: Data<State>, caller: Caller, path: Path<String>, query: Query<TreeAsked>) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    let view = match query.view.as_deref() {
        None | Some("reader") => TreeView::Reader,
        Some("raw") => TreeView::Raw,
        Some(_) => return Err(Refusal::new(Code::BadRequest, "view is reader or raw").with("at", "view").into()),
    };
    let limit = paths::limit(query.limit, NODES_DEFAULT, NODES_MAX)?;
    let after = query.after.as_deref().map(|after| paths::id("after", after).map(NodeId::from)).transpose()?;
    Ok(HttpResponse::Ok().json(state.runtime.tree(&key, TreeQuery { view, after, limit }).await?))
}

/// `POST /v1/sessions/{id}/head`: to exactly one node, and names for nodes.
pub(super) async fn move_head(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    let asked = native::head_move(&body::read(&request, payload, &state.options).await?, &state.limits())?;
    Ok(HttpResponse::Ok().json(state.runtime.move_head(&key, asked).await?))
}

/// `POST /v1/sessions/{id}/fork`: a path as a session of its own.
pub(super) async fn fork(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let key = caller.key(paths::session_id(&path)?);
    let asked = native::fork(&body::read(&request, payload, &state.options).await?, &state.limits())?;
    let forked = state.runtime.fork(&key, asked).await?;
    if forked.duplicate {
        return Ok(HttpResponse::Ok().json(forked));
    }
    Ok(HttpResponse::Created().insert_header((LOCATION, paths::of_session(&forked.session_id))).json(forked))
}
