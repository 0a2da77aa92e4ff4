//! Coming to a run, or back to it: `GET /agents/{agent}` with `threadId`, `runId` and `offset`, and a POST that says which event it
//! had last. Without a run: what a chat shows when it opens.

use std::time::Duration;

use actix_web::http::header::HeaderMap;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use serde::Deserialize;
use serde_json::json;

use super::caller::Caller;
use super::error::Failure;
use super::presence::Presence;
use super::run::{Names, RunStream};
use super::{State, paths, sse};
use crate::agui::{self, Dialect};
use crate::clock;
use crate::ids::{AgentId, SessionKey, TurnId};
use crate::protocol::{Code, Cursor, Refusal};
use crate::runtime::Abilities;

/// Where a reader goes on after its connection was lost.
const LAST_EVENT_ID: &str = "last-event-id";
/// From the start, as `TanStack` says it.
const START: &str = "-1";

/// The query of a GET.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    thread_id: Option<String>,
    run_id: Option<String>,
    offset: Option<String>,
    protocol_version: Option<String>,
}

/// A run that somebody comes to.
#[derive(Clone, Debug)]
pub(super) struct Coming {
    /// Which, and how it is spelled.
    pub(super) names: Names,
    /// After what; none: from its start.
    pub(super) after: Option<Cursor>,
}

impl Asked {
    /// Of a request.
    pub(super) fn of(request: &HttpRequest) -> Result<Self, Refusal> {
        let query = actix_web::web::Query::<Self>::from_query(request.query_string());
        let asked = query.map_err(|error| Refusal::new(Code::BadRequest, format!("the query can't be read: {error}")))?;
        Ok(asked.into_inner())
    }

    /// Whether it is meant for a run of which something was told.
    pub(super) fn resumes(&self) -> bool {
        self.offset.is_some()
    }

    /// Whether a run is named: then its events come with their ids, so that it can be gone on with.
    pub(super) fn names_run(&self) -> bool {
        self.run_id.is_some()
    }

    /// The dialect in which whoever says no other one is told.
    pub(super) fn dialect(&self) -> Dialect {
        Dialect::of_version(self.protocol_version.as_deref())
    }

    /// The run that is meant. A header is newer than the query: whoever comes back asks with the same query.
    pub(super) fn coming(&self, headers: &HeaderMap) -> Result<Coming, Refusal> {
        let needs = |what: &str| Refusal::new(Code::BadRequest, format!("{what} is missing: a run is asked for by threadId and runId"));
        let thread = paths::session(self.thread_id.as_deref().ok_or_else(|| needs("threadId"))?)?;
        let run = TurnId::from(paths::id("runId", self.run_id.as_deref().ok_or_else(|| needs("runId"))?)?);
        let after = match last_event(headers)? {
            Some(after) => Some(after),
            None => self.offset.as_deref().filter(|offset| *offset != START).map(|offset| cursor("offset", offset)).transpose()?,
        };
        Ok(Coming { names: Names { dialect: self.dialect(), thread, run }, after })
    }
}

/// What the reader of a stream of server-sent events had last.
pub(super) fn last_event(headers: &HeaderMap) -> Result<Option<Cursor>, Refusal> {
    let header = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or("?"));
    header.filter(|id| !id.is_empty()).map(|id| cursor("Last-Event-ID", id)).transpose()
}

fn cursor(field: &str, text: &str) -> Result<Cursor, Refusal> {
    text.parse().map_err(|error| {
        let text = format!("{field}: {error}, an id of an event of this run; without one, or with {START}, it is told from its start");
        Refusal::new(Code::CursorUnknown, text).with("at", field)
    })
}

/// `GET /agents/{agent}` without an upgrade.
pub(super) async fn get(request: &HttpRequest, state: &State, caller: &Caller) -> Result<HttpResponse, Failure> {
    let asked = Asked::of(request)?;
    if asked.run_id.is_some() || asked.resumes() {
        let coming = asked.coming(request.headers())?;
        let key = caller.key(coming.names.thread.clone());
        return Ok(stream(request, state, &key, coming).await?);
    }
    if let Some(thread) = &asked.thread_id {
        return Ok(hydrated(state, &caller.key(paths::session(thread)?)).await?);
    }
    let text = "POST a run here or open a WebSocket; or GET with threadId for the conversation, with threadId and runId for a run";
    Err(Refusal::new(Code::NotAvailable, text).into())
}

/// A run from where its reader is, as server-sent events.
pub(super) async fn stream(request: &HttpRequest, state: &State, key: &SessionKey, coming: Coming) -> Result<HttpResponse, Refusal> {
    let started = clock::instant();
    let Coming { names, after } = coming;
    let run = state.runtime.run(key, &names.run, after).await?;
    let stream = RunStream::resumed(names, run, after, state.draining.clone()).of(&state.runtime, key);
    Ok(sse::respond(request, stream, Presence::onlooker(), started, Duration::ZERO, state.options.keep_alive()).await)
}

/// A conversation as a chat shows it when it opens, and the run that is active.
async fn hydrated(state: &State, key: &SessionKey) -> Result<HttpResponse, Refusal> {
    let (messages, active, interrupts) = match state.runtime.hydrate(key).await {
        Ok(active) => (agui::ui_messages(&active.snapshot), active.turn, active.interrupts),
        Err(refusal) if refusal.code == Code::SessionNotFound => (Vec::new(), None, Vec::new()),
        Err(refusal) => return Err(refusal),
    };
    let interrupts = (!interrupts.is_empty()).then(|| agui::interrupts(&interrupts));
    let active = active.map(|run| json!({ "runId": run }));
    Ok(HttpResponse::Ok().json(json!({ "messages": messages, "activeRun": active, "interrupts": interrupts })))
}

/// `GET /agents/{agent}/capabilities`: what its front ends may count on.
pub(super) async fn capabilities(state: Data<State>, path: Path<String>) -> Result<HttpResponse, Failure> {
    let agent_id = AgentId::from(path.into_inner());
    state.agent(&agent_id)?;
    let Abilities { image, audio, video, pdf, file, reasoning } = state.runtime.abilities(&agent_id);
    Ok(HttpResponse::Ok().json(json!({
        "identity": { "name": agent_id, "type": "headwater", "version": env!("CARGO_PKG_VERSION") },
        "transport": { "streaming": true, "websocket": true, "resumable": true, "httpBinary": false, "pushNotifications": false },
        "tools": { "supported": true, "clientProvided": true, "parallelCalls": true },
        "state": { "snapshots": true, "deltas": true, "memory": false, "persistentState": true },
        "reasoning": { "supported": reasoning, "streaming": reasoning, "encrypted": false },
        "multimodal": {
            "input": { "image": image, "audio": audio, "video": video, "pdf": pdf, "file": file },
            "output": { "image": false, "audio": false },
        },
        "humanInTheLoop": { "supported": false, "interrupts": false },
    })))
}
