//! `POST /v1/inputs` and `/v1/sessions/{id}/inputs`: one native input. The answer is what was accepted, as JSON or at the head of a
//! stream. May not know what an input does.

use std::convert::Infallible;

use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT, HeaderMap};
use actix_web::web::{Bytes, Data, Path, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use futures_util::{Stream, stream};
use serde::Serialize;
use serde_json::json;
use tracing::info;

use super::caller::Caller;
use super::error::Failure;
use super::log::LoggedElsewhere;
use super::native::TurnStream;
use super::presence::{Presence, Turn};
use super::{State, body, paths, streaming};
use crate::clock;
use crate::ids::{AgentId, SERVER_PREFIX, SessionId, SessionKey, Tenant, TurnId};
use crate::protocol::native::{Asked, NativeInput, Submission};
use crate::protocol::{Accepted, Code, Digest, OnBusy, Refusal, ViewOptions};
use crate::runtime::{AgentOptions, OnDisconnect, Submitted};

/// `POST /v1/inputs`: the body says to which session; when it doesn't, to a new one.
pub(super) async fn anywhere(request: HttpRequest, state: Data<State>, caller: Caller, payload: Payload) -> Result<HttpResponse, Failure> {
    let input = read(&request, payload, &state).await?;
    let session = anywhere_in(&caller, &input)?;
    take(&request, &state, &caller.key(session), input).await
}

/// `POST /v1/sessions/{id}/inputs`.
pub(super) async fn here(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    path: Path<String>,
    payload: Payload,
) -> Result<HttpResponse, Failure> {
    let session = paths::session_id(&path)?;
    let input = read(&request, payload, &state).await?;
    here_in(&session, &input)?;
    take(&request, &state, &caller.key(session), input).await
}

/// The session of an input whose route names none.
pub(super) fn anywhere_in(caller: &Caller, input: &NativeInput) -> Result<SessionId, Refusal> {
    match (&input.session_id, &input.turn_id) {
        (Some(id), _) => Ok(id.clone()),
        (None, _) if input.agent_id.is_none() || input.asked == Asked::Cancel => {
            let text = "session_id: this input is for a session that is there; name it";
            Err(Refusal::new(Code::BadRequest, text).with("at", "session_id"))
        }
        (None, Some(turn)) => Ok(derived(&caller.tenant, turn)),
        (None, None) => Ok(SessionId::from(clock::stamp().id(0))),
    }
}

/// Refuses an input that names another session than its route.
pub(super) fn here_in(session: &SessionId, input: &NativeInput) -> Result<(), Refusal> {
    if input.session_id.as_ref().is_none_or(|other| other == session) {
        return Ok(());
    }
    let text = "session_id: the path names another session; leave it out";
    Err(Refusal::new(Code::BadRequest, text).with("at", "session_id"))
}

/// What came of an input that isn't followed.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Taken {
    /// It was submitted.
    Accepted(Box<Accepted>),
    /// A turn was to be stopped.
    Cancelled {
        /// Whether there was one.
        cancelled: bool,
    },
}

/// Carries an input out; nobody follows what comes of it here.
pub(super) async fn carry_out(state: &State, key: &SessionKey, input: NativeInput) -> Result<Taken, Refusal> {
    let NativeInput { session_id: _, agent_id, turn_id, stream: _, asked } = input;
    let agent = agent_id.as_ref().map(|id| state.agent(id)).transpose()?;
    match asked {
        Asked::Cancel => Ok(Taken::Cancelled { cancelled: state.runtime.cancel(key, turn_id).await? }),
        Asked::Submit(submission) => {
            let (defaults, on_busy) = defaults(agent);
            let input = submission.into_input(agent_id.unwrap_or_else(no_agent), turn_id, defaults, on_busy);
            Ok(Taken::Accepted(Box::new(state.runtime.submit(key, input).await?.accepted)))
        }
    }
}

/// Results belong to the agent whose turn waits for them.
fn no_agent() -> AgentId {
    AgentId::from("")
}

/// What holds where an input says nothing itself.
fn defaults(agent: Option<&AgentOptions>) -> (ViewOptions, OnBusy) {
    let options =
        agent.map_or_else(ViewOptions::default, |agent| ViewOptions { partial_view: agent.partial_view, same_id_edit: agent.same_id_edit });
    (options, agent.map_or(OnBusy::default(), |agent| agent.on_busy))
}

async fn read(request: &HttpRequest, payload: Payload, state: &State) -> Result<NativeInput, Refusal> {
    let body = body::read(request, payload, &state.options).await?;
    NativeInput::decode(&body, &state.limits())
}

/// The session that a turn id opens: the same one whenever it is sent again.
fn derived(tenant: &Tenant, turn: &TurnId) -> SessionId {
    let digest = Digest::default().then(b"session").then(tenant.as_str().as_bytes()).then(turn.as_str().as_bytes());
    SessionId::from(format!("{SERVER_PREFIX}{digest}"))
}

async fn take(request: &HttpRequest, state: &State, key: &SessionKey, input: NativeInput) -> Result<HttpResponse, Failure> {
    let NativeInput { session_id: _, agent_id, turn_id, stream, asked } = input;
    let agent = agent_id.as_ref().map(|id| state.agent(id)).transpose()?;
    match asked {
        Asked::Cancel => {
            let cancelled = state.runtime.cancel(key, turn_id).await?;
            Ok(HttpResponse::Ok().json(json!({ "cancelled": cancelled })))
        }
        Asked::Submit(submission) => {
            let reads_stream = stream && accepts_stream(request.headers());
            let agent_id = agent_id.unwrap_or_else(no_agent);
            submit(request, state, key, Submitting { agent_id, agent, turn_id, reads_stream, submission: *submission }).await
        }
    }
}

struct Submitting<'s> {
    agent_id: AgentId,
    agent: Option<&'s AgentOptions>,
    turn_id: Option<TurnId>,
    reads_stream: bool,
    submission: Submission,
}

async fn submit(request: &HttpRequest, state: &State, key: &SessionKey, asked: Submitting<'_>) -> Result<HttpResponse, Failure> {
    let started = clock::instant();
    let Submitting { agent_id, agent, turn_id, reads_stream, submission } = asked;
    let (defaults, on_busy) = defaults(agent);
    let leaving_stops = reads_stream && agent.is_some_and(|agent| agent.on_disconnect == Some(OnDisconnect::Cancel));
    // Whoever may want it stopped must be able to name it before it is answered.
    let turn_id = turn_id.or_else(|| leaving_stops.then(|| TurnId::from(clock::stamp().id(0))));
    let mut presence = match &turn_id {
        Some(id) if leaving_stops => {
            let turn = Turn { runtime: state.runtime.clone(), key: key.clone(), id: id.clone() };
            Presence::new(turn, OnDisconnect::Cancel)
        }
        Some(_) | None => Presence::onlooker(),
    };
    let submitted = state.runtime.submit(key, submission.into_input(agent_id, turn_id, defaults, on_busy)).await;
    let submitted = match submitted {
        Ok(submitted) => submitted,
        Err(refusal) => {
            presence.over();
            return Err(refusal.into());
        }
    };
    if submitted.accepted.duplicate || !submitted.accepted.reply {
        // Someone else's turn, or none: going away stops nothing.
        presence.over();
    }
    if !reads_stream {
        let status = if submitted.accepted.duplicate { StatusCode::OK } else { StatusCode::ACCEPTED };
        return Ok(HttpResponse::build(status).json(&submitted.accepted));
    }
    request.extensions_mut().insert(LoggedElsewhere);
    Ok(streaming::answer(follow(state, key.clone(), submitted, presence, started)))
}

/// Tells how a stream ended, when it is dropped: by then the reader has everything, or is gone.
struct Ending {
    presence: Presence,
    end: Option<&'static str>,
    started: std::time::Instant,
    session: SessionId,
    turn: TurnId,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let duration_ms = clock::instant().duration_since(self.started).as_millis();
        let (session, turn, end) = (self.session.as_str(), self.turn.as_str(), self.end.unwrap_or("disconnected"));
        info!(session.id = session, turn.id = turn, transport = "sse", end, duration_ms, "submit ended");
    }
}

fn follow(
    state: &State,
    key: SessionKey,
    submitted: Submitted,
    presence: Presence,
    started: std::time::Instant,
) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let keep_alive = state.options.keep_alive();
    let (session, turn) = (submitted.accepted.session_id.clone(), submitted.accepted.turn_id.clone());
    let ending = Ending { presence, end: None, started, session, turn };
    let turn = TurnStream::new(submitted, state.draining.clone()).of(&state.runtime, key);
    stream::unfold((turn, ending), move |(mut turn, mut ending)| async move {
        let piece = match tokio::time::timeout(keep_alive, turn.next()).await {
            Ok(piece) => piece?,
            Err(_) => streaming::KEEP_ALIVE,
        };
        if let Some(end) = turn.end() {
            ending.end = Some(end);
            ending.presence.over();
        }
        Some((Ok(piece), (turn, ending)))
    })
}

/// Whether the caller says that it reads server-sent events.
fn accepts_stream(headers: &HeaderMap) -> bool {
    let types = headers.get_all(ACCEPT).filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut streams = types.filter(|each| {
        let mut words = each.split(';').map(str::trim);
        words.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"))
            && !words.any(|word| matches!(word, "q=0" | "q=0.0"))
    });
    streams.next().is_some()
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    #[test]
    fn a_turn_id_opens_one_session_a_tenant() {
        let (one, other) = (Tenant::from("one"), Tenant::from("other"));
        let first = derived(&one, &"t1".into());
        assert_eq!(first, derived(&one, &"t1".into()));
        assert_ne!(first, derived(&one, &"t2".into()));
        assert_ne!(first, derived(&other, &"t1".into()));
        assert_ne!(derived(&"a".into(), &"bc".into()), derived(&"ab".into(), &"c".into()));
        assert!(first.as_str().starts_with(SERVER_PREFIX), "{first}");
    }

    #[test]
    fn only_who_asks_for_a_stream_gets_one() {
        let accept = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(value).unwrap());
            accepts_stream(&headers)
        };
        for yes in ["text/event-stream", "application/json, text/event-stream", "Text/Event-Stream; charset=utf-8;q=0.5"] {
            assert!(accept(yes), "{yes}");
        }
        for no in ["*/*", "application/json", "text/event-stream;q=0", "text/event-streams"] {
            assert!(!accept(no), "{no}");
        }
        assert!(!accepts_stream(&HeaderMap::new()));
    }
}
