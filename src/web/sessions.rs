//! `/v1/sessions`: a session's page and its tree, in native JSON.

use actix_web::HttpResponse;
use actix_web::web::{Data, Path, Query};
use serde::Deserialize;

use super::caller::Caller;
use super::error::Failure;
use super::{State, paths};
use crate::ids::{NodeId, SessionId};
use crate::protocol::{Code, Refusal};

/// Nodes of a page when nobody says how many.
const NODES_DEFAULT: usize = 1000;
/// The most nodes of a page.
const NODES_MAX: usize = 10_000;

/// `GET /v1/sessions/{id}`.
pub(super) async fn page(state: Data<State>, caller: Caller, path: Path<String>) -> Result<HttpResponse, Failure> {
    let key = caller.key(session(&path)?);
    Ok(HttpResponse::Ok().json(state.runtime.session(&key).await?))
}

/// The query of a tree.
#[derive(Deserialize)]
pub(super) struct TreeQuery {
    after: Option<String>,
    limit: Option<usize>,
    view: Option<String>,
}

/// `GET /v1/sessions/{id}/tree`.
pub(super) async fn tree(state: Data<State>, caller: Caller, path: Path<String>, query: Query<TreeQuery>) -> Result<HttpResponse, Failure> {
    let key = caller.key(session(&path)?);
    match query.view.as_deref() {
        None | Some("reader") => {}
        Some("raw") => return Err(Refusal::new(Code::NotAvailable, "the raw view comes later; leave view out").into()),
        Some(_) => return Err(Refusal::new(Code::BadRequest, "view is reader or raw").into()),
    }
    let limit = match query.limit {
        None => NODES_DEFAULT,
        Some(limit @ 1..=NODES_MAX) => limit,
        Some(_) => return Err(Refusal::new(Code::BadRequest, format!("limit is between 1 and {NODES_MAX}")).into()),
    };
    let after = query.after.as_deref().map(|after| paths::id("after", after).map(NodeId::from)).transpose()?;
    Ok(HttpResponse::Ok().json(state.runtime.tree(&key, after, limit).await?))
}

fn session(text: &str) -> Result<SessionId, Refusal> {
    paths::id("the session's id", text).map(SessionId::from)
}
