//! `POST /v1/decisions/{id}`: a worker's answer that comes by a request of its own. May not know what it comes to.

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::caller::Caller;
use super::error::Failure;
use super::{State, body, paths};
use crate::ids::DecisionId;
use crate::protocol::native::OutsideAnswer;
use crate::protocol::{Code, Refusal};

/// Takes an answer.
pub(super) async fn answer(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let decision = DecisionId::from(paths::id("the decision's id", &path)?);
    let body = body::read(&request, payload, &state.options).await?;
    let OutsideAnswer { session_id, answer } = OutsideAnswer::decode(&body, &state.limits()).map_err(bad)?;
    let taken = state.runtime.answer(&caller.key(session_id.clone()), decision.clone(), answer).await?;
    Ok(HttpResponse::Ok().json(json!({ "session_id": session_id, "decision_id": decision, "duplicate": !taken })))
}

/// What is JSON and no answer is a bad one; what is no JSON, or names no session, is no answer at all.
fn bad(refusal: Refusal) -> Refusal {
    let names_session = refusal.details.get("at").is_some_and(|at| at == "session_id");
    match refusal.code {
        Code::BadJson => refusal,
        _ if names_session => refusal,
        code => Refusal { code: Code::BadAnswer, ..refusal }.with("because", code.as_str()),
    }
}
