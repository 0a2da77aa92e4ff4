//! A run as server-sent events. Whatever is ready goes out as one piece, so that one flush carries it, the terminal with the last words.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::web::{Bytes, BytesMut};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use futures_util::{Stream, stream};
use tracing::info;

use super::log::LoggedElsewhere;
use super::presence::Presence;
use super::run::{Chunk, RunEnd, RunStream};
use super::streaming;
use crate::protocol::Frames;
use crate::runtime::TurnEnd;

/// Tells a client that its run was taken, although nothing is said yet.
const QUEUED: Bytes = Bytes::from_static(b": queued\n\n");

/// Frames that go out together. One piece isn't copied.
#[derive(Default)]
pub(super) struct Bundle {
    one: Bytes,
    many: BytesMut,
}

impl Chunk for Bundle {
    fn add(&mut self, frames: &Frames) {
        if self.many.is_empty() {
            if self.one.is_empty() {
                self.one = frames.sse.clone();
                return;
            }
            self.many.extend_from_slice(&self.one);
        }
        self.many.extend_from_slice(&frames.sse);
    }

    fn is_empty(&self) -> bool {
        self.one.is_empty()
    }

    fn bytes(&self) -> usize {
        self.one.len().max(self.many.len())
    }
}

impl Bundle {
    fn into_bytes(self) -> Bytes {
        if self.many.is_empty() { self.one } else { self.many.freeze() }
    }
}

/// Tells how a stream ended, when it is dropped: by then the reader has everything, or is gone.
struct Ending {
    presence: Presence,
    end: Option<RunEnd>,
    started: std::time::Instant,
    session: String,
    turn: String,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let how = match &self.end {
            Some(end) => described(end),
            None => "disconnected",
        };
        let duration_ms = crate::clock::instant().duration_since(self.started).as_millis();
        info!(session.id = self.session, turn.id = self.turn, transport = "sse", end = how, duration_ms, "run ended");
    }
}

/// One word for logs.
pub(super) fn described(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Turn(TurnEnd::Completed) => "completed",
        RunEnd::Turn(TurnEnd::Failed { .. }) => "failed",
        RunEnd::Turn(TurnEnd::Waiting { .. }) => "waiting",
        RunEnd::Turn(TurnEnd::Interrupted { .. }) => "interrupted",
        RunEnd::Turn(TurnEnd::Cancelled) => "cancelled",
        RunEnd::Slow => "too_slow",
        RunEnd::ShuttingDown => "shutting_down",
        RunEnd::Lost(_) => "lost",
    }
}

/// The answer that streams `run`. Its head waits at most `patience` for the first words.
pub(super) async fn respond(
    request: &HttpRequest,
    mut run: RunStream,
    presence: Presence,
    started: std::time::Instant,
    patience: Duration,
    keep_alive: Duration,
) -> HttpResponse {
    let names = run.names();
    let (session, turn) = (names.thread.to_string(), names.run.to_string());
    let mut ending = Ending { presence, end: None, started, session, turn };
    let first: Bundle = run.first(patience).await;
    settle(&mut ending, &run);
    let first = if run.is_queued() && first.is_empty() { QUEUED } else { first.into_bytes() };
    request.extensions_mut().insert(LoggedElsewhere);
    streaming::answer(body(first, run, ending, keep_alive))
}

fn settle(ending: &mut Ending, run: &RunStream) {
    if let Some(end) = run.end() {
        ending.end = Some(end.clone());
        ending.presence.over();
    }
}

fn body(first: Bytes, run: RunStream, ending: Ending, keep_alive: Duration) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((first, run, ending), move |(first, mut run, mut ending)| async move {
        if !first.is_empty() {
            return Some((Ok(first), (Bytes::new(), run, ending)));
        }
        let piece = match tokio::time::timeout(keep_alive, run.next::<Bundle>()).await {
            Ok(Some(bundle)) => bundle.into_bytes(),
            Ok(None) => return None,
            Err(_) => streaming::KEEP_ALIVE,
        };
        settle(&mut ending, &run);
        Some((Ok(piece), (Bytes::new(), run, ending)))
    })
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
