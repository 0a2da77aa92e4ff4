//! AG-UI's routes: a run, joining a conversation, stopping a turn.

use std::time::Duration;

use actix_web::web::{Data, Path, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::caller::Caller;
use super::error::Failure;
use super::presence::{Presence, Turn};
use super::resume::{self, Coming};
use super::run::{Names, RunStream};
use super::{State, body, paths, sse, ws};
use crate::agui::{Dialect, RunInput};
use crate::clock;
use crate::ids::{AgentId, TurnId};
use crate::protocol::{Code, Input, Json, Refusal, ViewOptions, json_fault};
use crate::runtime::{AgentOptions, OnDisconnect};

/// `POST /agents/{agent}`: a `RunAgentInput` in, server-sent events out. Before the start a refusal is JSON with its status.
pub(super) async fn run(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let started = clock::instant();
    let agent_id = AgentId::from(path.into_inner());
    let agent = state.agent(&agent_id)?;
    let body = body::read(&request, payload, &state.options).await?;
    let parsed = RunInput::decode(&body, &state.limits())?;
    drop(body);
    let names = Names { dialect: parsed.dialect, thread: parsed.thread_id.clone(), run: parsed.run_id.clone() };
    let key = caller.key(parsed.thread_id.clone());
    if let Some(after) = resume::last_event(request.headers())? {
        let coming = Coming { names: names.clone(), after: Some(after) };
        match resume::stream(&request, &state, &key, coming).await {
            // It was lost before it was taken.
            Err(refusal) if matches!(refusal.code, Code::SessionNotFound | Code::RunNotFound) => {}
            answer => return Ok(answer?),
        }
    }
    let input = to_input(parsed, agent_id, agent);
    let on_disconnect = agent.on_disconnect.unwrap_or(OnDisconnect::Cancel);
    // Held from before the submit: the client may go away while it is being taken.
    let turn = Turn { runtime: state.runtime.clone(), key: key.clone(), id: names.run.clone() };
    let mut presence = Presence::new(turn, on_disconnect);
    let submitted = match state.runtime.submit(&key, input).await {
        Ok(submitted) => submitted,
        Err(refusal) => {
            presence.over();
            return Err(refusal.into());
        }
    };
    if submitted.accepted.duplicate {
        // Someone else's turn, or this client's own from before: only the one who started it stops it by leaving.
        presence.over();
    }
    let stream = RunStream::submitted(names, submitted, state.draining.clone()).of(&state.runtime, &key);
    let patience = Duration::from_millis(state.options.first_words_ms);
    Ok(sse::respond(&request, stream, presence, started, patience, state.options.keep_alive()).await)
}

/// A parsed run as a submit to `agent_id`.
pub(super) fn to_input(parsed: RunInput, agent_id: AgentId, agent: &AgentOptions) -> Input {
    let defaults = ViewOptions { partial_view: agent.partial_view, same_id_edit: agent.same_id_edit };
    parsed.into_input(agent_id, defaults, agent.on_busy)
}

/// `GET /agents/{agent}`: the WebSocket, a run that somebody comes to, or a conversation.
pub(super) async fn open(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let agent_id = AgentId::from(path.into_inner());
    state.agent(&agent_id)?;
    if !ws::is_upgrade(&request) {
        return resume::get(&request, &state, &caller).await;
    }
    Ok(ws::open(&request, payload, state, caller, agent_id).await?)
}

/// What a join must say; a `RunAgentInput` says it too.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connect {
    thread_id: String,
    run_id: Option<String>,
    protocol_version: Option<String>,
}

/// `POST /agents/{agent}/connect`: the whole conversation as a run, then the running turn's tail. Changes nothing.
pub(super) async fn connect(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let started = clock::instant();
    state.agent(&AgentId::from(path.into_inner()))?;
    let body = body::read(&request, payload, &state.options).await?;
    let asked: Connect = parse(&body)?;
    let thread = paths::session(&asked.thread_id)?;
    let run = match asked.run_id {
        Some(id) => TurnId::from(paths::id("runId", &id)?),
        None => TurnId::from(clock::stamp().id(0)),
    };
    let key = caller.key(thread.clone());
    let names = Names { dialect: Dialect::of_version(asked.protocol_version.as_deref()), thread, run };
    let stream = match state.runtime.join(&key).await {
        Ok(joined) => RunStream::joined(names, joined, state.draining.clone()).of(&state.runtime, &key),
        Err(refusal) if refusal.code == Code::SessionNotFound => RunStream::empty(names, state.draining.clone()),
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(sse::respond(&request, stream, Presence::onlooker(), started, Duration::ZERO, state.options.keep_alive()).await)
}

/// What a stop may say.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stop {
    run_id: Option<String>,
}

/// `POST /agents/{agent}/stop/{threadId}`: stops the running turn, or only if it is the one named.
pub(super) async fn stop(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<(String, String)>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let (agent, thread) = path.into_inner();
    state.agent(&AgentId::from(agent))?;
    let key = caller.key(paths::session(&thread)?);
    let body = body::read(&request, payload, &state.options).await?;
    let asked: Stop = if body.trim_ascii().is_empty() { Stop::default() } else { parse(&body)? };
    let turn = asked.run_id.map(|id| paths::id("runId", &id).map(TurnId::from)).transpose()?;
    let stopped = match state.runtime.cancel(&key, turn).await {
        Ok(stopped) => stopped,
        // Nothing runs in a session that isn't there.
        Err(refusal) if refusal.code == Code::SessionNotFound => false,
        Err(refusal) => return Err(refusal.into()),
    };
    Ok(HttpResponse::Ok().json(json!({ "stopped": stopped })))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    // Fields that nobody reads must be such that they could be read, as everywhere.
    if let Ok(raw) = serde_json::from_slice::<&RawValue>(body) {
        Json::check(raw).map_err(|error| Refusal::new(Code::BadJson, format!("the body is not JSON that is read: {error}")))?;
    }
    serde_json::from_slice(body).map_err(|error| {
        let fault = format!("{} at line {}, column {}", json_fault(&error), error.line(), error.column());
        match error.classify() {
            serde_json::error::Category::Data => Refusal::new(Code::BadRequest, format!("the body has not the expected fields: {fault}")),
            serde_json::error::Category::Syntax | serde_json::error::Category::Eof | serde_json::error::Category::Io => {
                Refusal::new(Code::BadJson, format!("the body is not JSON: {fault}"))
            }
        }
    })
}
