//! The WebSocket of AG-UI: bare frames, several runs in a row, abort, ping. One loop reads, one task writes, one task follows each
//! run that was submitted; nothing of the engine ever waits for a socket.

mod close;
mod follow;
mod guard;
mod outbox;
mod runs;
mod socket;
mod waiting;

use std::pin::Pin;

use actix_web::error::PayloadError;
use actix_web::http::header::{HeaderMap, UPGRADE};
use actix_web::web::{self, Bytes, Data};
use actix_web::{FromRequest, HttpMessage, HttpRequest, HttpResponse, dev};
use futures_util::Stream;

use super::State;
use super::caller::Caller;
use super::log::LoggedElsewhere;
use super::server::Cutter;
use crate::ids::AgentId;
use crate::protocol::{Code, Refusal};

/// Whether the request asks for a WebSocket.
pub(super) fn is_upgrade(request: &HttpRequest) -> bool {
    asks_for_websocket(request.headers())
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).and_then(|upgrade| upgrade.to_str().ok()).is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"))
}

/// Opens the socket and serves it in a task of its own. A subprotocol that the client offers is passed over: the frames are plain.
pub(super) async fn open(
    request: &HttpRequest,
    payload: web::Payload,
    state: Data<State>,
    caller: Caller,
    agent_id: AgentId,
) -> Result<HttpResponse, Refusal> {
    if state.draining.is_cancelled() {
        return Err(Refusal::new(Code::ShuttingDown, "the server stops; connect again"));
    }
    let options = &state.options;
    let guarded = guard::Guard::new(payload, options.frame_bytes_max, options.message_frames_max);
    let guarded: Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>> = Box::pin(guarded);
    let mut guarded = dev::Payload::Stream { payload: guarded };
    let payload = web::Payload::from_request(request, &mut guarded).await.map_err(|error| handshake_refused(&error))?;
    let (response, session, messages) = actix_ws::handle(request, payload).map_err(|error| handshake_refused(&error))?;
    let messages =
        messages.max_frame_size(options.frame_bytes_max).aggregate_continuations().max_continuation_size(options.message_bytes_max);
    let cutter = request.conn_data::<Cutter>().cloned();
    let (outbox, writer) = outbox::open(session, cutter.clone(), options);
    let socket = socket::Socket::new(state, caller, agent_id, outbox, cutter);
    request.extensions_mut().insert(LoggedElsewhere);
    actix_web::rt::spawn(socket.serve(messages, writer));
    Ok(response)
}

fn handshake_refused(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(Code::BadRequest, format!("this is not a WebSocket handshake: {error}"))
}
