//! Sockets: AG-UI's bare frames, the native ones, and workers'. One loop reads, one task writes, whatever is spoken; one task follows each
//! run that was submitted and each session that is read; nothing of the engine ever waits for a socket.

mod asks;
mod close;
mod desk;
mod done;
#[cfg(feature = "echo")]
mod echo;
mod envelope;
mod follow;
mod guard;
mod native;
mod outbox;
mod plain;
mod runs;
mod shared;
mod single;
mod socket;
mod source;
mod subscriptions;
mod talk;
mod telling;
mod thread;
mod voice;
mod waiting;
mod worker;

use std::pin::Pin;

use actix_web::error::PayloadError;
use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use actix_web::web::{self, Bytes, Data};
use actix_web::{FromRequest, HttpMessage, HttpRequest, HttpResponse, dev};
use futures_util::Stream;
use serde::Deserialize;

use self::native::Native;
use self::outbox::Outbox;
use self::plain::Plain;
use self::shared::Shared;
use self::talk::Talk;
use self::worker::Worker;
use super::caller::Caller;
use super::error::Failure;
use super::log::LoggedElsewhere;
use super::resume::Asked;
use super::server::Cutter;
use super::{State, flow};
use crate::agui::Dialect;
use crate::ids::AgentId;
use crate::protocol::native::Token;
use crate::protocol::{Code, Refusal};

/// Whether the request asks for a WebSocket.
pub(super) fn is_upgrade(request: &HttpRequest) -> bool {
    asks_for_websocket(request.headers())
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).and_then(|upgrade| upgrade.to_str().ok()).is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
}

/// Opens a socket to agent `agent_id`: with the subprotocol one that several sessions share, with none one of bare frames.
pub(super) async fn open(
    request: &HttpRequest,
    payload: web::Payload,
    state: Data<State>,
    caller: Caller,
    agent_id: AgentId,
) -> Result<HttpResponse, Refusal> {
    let name = format!("agents/{agent_id}");
    let offers = offers(request.headers());
    if offers.is_empty() {
        let asked = Asked::of(request)?;
        let coming = asked.resumes().then(|| asked.coming(request.headers()));
        let (dialect, with_ids) = (asked.dialect(), asked.names_run());
        let talk =
            |outbox| Talk::Plain(Box::new(Plain::new(state.clone(), caller, agent_id, outbox).speaking(dialect, with_ids).coming(coming)));
        return serve(request, payload, &state, name, talk).await;
    }
    if !offers.iter().any(|offer| offer == SHARED) {
        return Err(no_such_protocol(&offers, &[SHARED]));
    }
    let dialect = dialect(request)?;
    let talk = |outbox| Talk::Shared(Box::new(Shared::new(state.clone(), caller, agent_id, dialect, outbox)));
    let mut response = serve(request, payload, &state, name, talk).await?;
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SHARED));
    Ok(response)
}

/// The subprotocol of sockets that several sessions share.
const SHARED: &str = "ag-ui.ws.v1";

/// The subprotocols that a client offers.
fn offers(headers: &HeaderMap) -> Vec<String> {
    let lists = headers.get_all(SEC_WEBSOCKET_PROTOCOL).map(|list| String::from_utf8_lossy(list.as_bytes()).into_owned());
    lists
        .flat_map(|list| list.split(',').map(|offer| offer.trim().to_owned()).collect::<Vec<_>>())
        .filter(|offer| !offer.is_empty())
        .collect()
}

/// A browser would close a socket whose server takes none of its offers, and not say why.
fn no_such_protocol(offers: &[String], known: &[&str]) -> Refusal {
    let offered: String = offers.join(", ").chars().take(100).collect();
    let instead = if known.is_empty() { "offer none".to_owned() } else { format!("offer {}, or none", known.join(", ")) };
    let text = format!("none of the subprotocols offered ({offered}) is spoken here; {instead}");
    Refusal::new(Code::BadRequest, text).with("at", "Sec-WebSocket-Protocol").with("protocols", known.to_vec())
}

/// What a query may say of a shared socket.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SharedAsked {
    protocol_version: Option<String>,
}

fn dialect(request: &HttpRequest) -> Result<Dialect, Refusal> {
    let asked = web::Query::<SharedAsked>::from_query(request.query_string())
        .map_err(|error| Refusal::new(Code::BadRequest, format!("the query can't be read: {error}")))?;
    Ok(Dialect::of_version(asked.protocol_version.as_deref()))
}

/// `GET /v1/ws`: a socket on which native frames are spoken.
pub(super) async fn native(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    payload: web::Payload,
) -> Result<HttpResponse, Failure> {
    if !is_upgrade(&request) {
        return Err(Refusal::new(Code::BadRequest, "open a WebSocket here").into());
    }
    let offers = offers(request.headers());
    if !offers.is_empty() {
        return Err(no_such_protocol(&offers, &[]).into());
    }
    let talk = |outbox| Talk::Native(Box::new(Native::new(state.clone(), caller, outbox)));
    Ok(serve(&request, payload, &state, "v1".to_owned(), talk).await?)
}

/// The subprotocol of workers' sockets.
const WORKER: &str = "headwater.worker.v1";

/// `GET /v1/worker`: a socket over which a worker is asked.
pub(super) async fn worker(
    request: HttpRequest,
    state: Data<State>,
    caller: Caller,
    payload: web::Payload,
) -> Result<HttpResponse, Failure> {
    if !is_upgrade(&request) {
        return Err(Refusal::new(Code::BadRequest, "open a WebSocket here").into());
    }
    let offers = offers(request.headers());
    if !offers.is_empty() && !offers.iter().any(|offer| offer == WORKER) {
        return Err(no_such_protocol(&offers, &[WORKER]).into());
    }
    let token = bearer(request.headers());
    let talk = |outbox| Talk::Worker(Box::new(Worker::new(state.clone(), caller, token, outbox)));
    let mut response = serve(&request, payload, &state, "worker".to_owned(), talk).await?;
    if !offers.is_empty() {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(WORKER));
    }
    Ok(response)
}

/// The token of `Authorization: Bearer …`.
fn bearer(headers: &HeaderMap) -> Option<Token> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Token::from(token.trim()))
}

/// `GET /`: a socket that says back what it hears.
#[cfg(feature = "echo")]
pub(super) async fn echo(request: HttpRequest, state: Data<State>, payload: web::Payload) -> Result<HttpResponse, Failure> {
    Ok(serve(&request, payload, &state, "echo".to_owned(), |outbox| Talk::Echo(echo::Echo::new(outbox))).await?)
}

/// Opens the socket and serves it in a task of its own.
async fn serve(
    request: &HttpRequest,
    payload: web::Payload,
    state: &Data<State>,
    name: String,
    talk: impl FnOnce(Outbox) -> Talk,
) -> Result<HttpResponse, Refusal> {
    if state.draining.is_cancelled() {
        return Err(Refusal::new(Code::ShuttingDown, "the server stops; connect again"));
    }
    let counted = state.doors.open_socket()?;
    let options = &state.options;
    let guarded = guard::Guard::new(payload, options.frame_bytes_max, options.message_frames_max);
    let guarded: Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>> = Box::pin(guarded);
    let mut guarded = dev::Payload::Stream { payload: guarded };
    let payload = web::Payload::from_request(request, &mut guarded).await.map_err(|error| handshake_refused(&error))?;
    let (response, session, messages) = actix_ws::handle(request, payload).map_err(|error| handshake_refused(&error))?;
    let messages =
        messages.max_frame_size(options.frame_bytes_max).aggregate_continuations().max_continuation_size(options.message_bytes_max);
    let cutter = request.conn_data::<Cutter>().cloned();
    let (outbox, writer) = outbox::open(session, flow::of(request), cutter.clone(), options);
    let socket = socket::Socket::new(state.clone(), name, talk(outbox.clone()), outbox, cutter);
    request.extensions_mut().insert(LoggedElsewhere);
    actix_web::rt::spawn(async move {
        socket.serve(messages, writer).await;
        drop(counted);
    });
    Ok(response)
}

fn handshake_refused(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(Code::BadRequest, format!("this is not a WebSocket handshake: {error}"))
}
