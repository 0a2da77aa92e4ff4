//! Follows one run for its socket: submits, then hands on what the reader is told, when the socket is its own.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use actix_web::web::Data;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::super::presence::{Presence, Turn};
use super::super::run::{Names, RunEnd, RunStream};
use super::super::sse::described;
use super::super::{State, error};
use super::envelope::Envelope;
use super::outbox::{Outbox, Texts};
use super::runs::Followee;
use crate::agui;
use crate::clock;
use crate::ids::SessionKey;
use crate::protocol::{Code, Cursor, Input, Refusal};
use crate::runtime::OnDisconnect;

/// How a run ended for its socket.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Followed {
    /// Its stream ended.
    Ended(RunEnd),
    /// It was refused, and the reader was told so.
    Refused,
    /// The socket doesn't take what it is sent.
    TooSlow,
    /// There is no such run, or not from there.
    Nothing(Refusal),
    /// The socket went away first.
    Left,
}

/// How somebody comes to a run.
pub(super) enum By {
    /// By beginning it.
    Submit(Box<Input>),
    /// By its name, after a place in it, or from its start.
    Name(Option<Cursor>),
}

/// A run to be followed.
pub(super) struct Follow {
    /// Everything shared.
    pub(super) state: Data<State>,
    /// Where its frames go.
    pub(super) outbox: Outbox,
    /// What its frames are put in.
    pub(super) envelope: Envelope,
    /// Cancelled when the socket goes away.
    pub(super) gone: CancellationToken,
    /// Which session.
    pub(super) key: SessionKey,
    /// Whose run.
    pub(super) names: Names,
    /// What happens to the turn when the socket goes away.
    pub(super) on_disconnect: OnDisconnect,
}

/// What a run and its socket tell each other.
struct Link {
    abort: CancellationToken,
    place: Arc<Notify>,
    silent: CancellationToken,
    begun: CancellationToken,
}

impl Follow {
    /// Comes to the run and follows it to its end, in a task of its own. A submit itself is never given up half-way.
    pub(super) fn start(self, by: By) -> Followee {
        let Names { run, thread, .. } = self.names.clone();
        let [abort, silent, begun] = std::array::from_fn(|_| CancellationToken::new());
        let place = Arc::new(Notify::new());
        let link = Link { abort: abort.clone(), place: place.clone(), silent: silent.clone(), begun: begun.clone() };
        let task = actix_web::rt::spawn(self.run(by, link));
        Followee { run, thread, abort, place, was_silent: false, silent, begun, task }
    }

    async fn run(self, by: By, link: Link) -> Followed {
        let started = clock::instant();
        // Whoever thinks that it is silent learns of its end.
        let _begun = link.begun.clone().drop_guard();
        let (session, turn) = (self.key.session.clone(), self.names.run.clone());
        // `None` is the socket's going.
        let followed = self.follow(by, &link).await.unwrap_or(Followed::Left);
        let how = match &followed {
            Followed::Ended(end) => described(end),
            Followed::Refused => "refused",
            Followed::TooSlow => "too_slow",
            Followed::Nothing(refusal) => refusal.code.as_str(),
            Followed::Left => "disconnected",
        };
        let duration_ms = clock::instant().duration_since(started).as_millis();
        info!(session.id = session.as_str(), turn.id = turn.as_str(), transport = "websocket", end = how, duration_ms, "run ended");
        followed
    }

    async fn follow(self, by: By, link: &Link) -> Option<Followed> {
        let Self { state, outbox, envelope, gone, key, names, on_disconnect } = self;
        let turn = Turn { runtime: state.runtime.clone(), key: key.clone(), id: names.run.clone() };
        let mut presence = Presence::new(turn.clone(), on_disconnect);
        let mut wait = Wait { gone, abort: link.abort.clone(), turn: Some(turn) };
        let mut stream = match by {
            By::Name(after) => match state.runtime.run(&key, &names.run, after).await {
                Ok(run) => RunStream::resumed(names, run, after, state.draining.clone()).of(&state.runtime, &key),
                Err(refusal) => return Some(Followed::Nothing(refusal)),
            },
            By::Submit(input) => match state.runtime.submit(&key, *input).await {
                Ok(submitted) => {
                    if submitted.accepted.duplicate {
                        presence.over();
                    }
                    RunStream::submitted(names, submitted, state.draining.clone()).of(&state.runtime, &key)
                }
                Err(refusal) => {
                    presence.over();
                    wait.until(link.place.notified()).await?;
                    error::count(refusal.code);
                    let told = agui::run_error(names.dialect, refusal.code, &refusal.message, None);
                    return Some(if outbox.texts(told.into()).is_ok() { Followed::Refused } else { Followed::TooSlow });
                }
            },
        };
        wait.until(link.place.notified()).await?;
        let mut texts: Option<Texts> = None;
        if stream.is_queued() {
            link.silent.cancel();
            texts = wait.until(stream.next_into(Texts::within(envelope.clone()))).await?;
            link.begun.cancel();
            wait.until(link.place.notified()).await?;
        }
        if outbox.begin().is_err() {
            return Some(Followed::TooSlow);
        }
        loop {
            let told = if texts.is_some() {
                texts.take()
            } else {
                wait.until(outbox.room()).await?;
                wait.until(stream.next_into(Texts::within(envelope.clone()))).await?
            };
            let Some(told) = told else { break };
            if outbox.texts(told).is_err() {
                return Some(Followed::TooSlow);
            }
        }
        presence.over();
        Some(Followed::Ended(stream.end().cloned().unwrap_or(RunEnd::Lost(Code::Internal))))
    }
}

/// Waiting for something while the client may stop the turn, or go away.
struct Wait {
    gone: CancellationToken,
    abort: CancellationToken,
    /// Until it was stopped.
    turn: Option<Turn>,
}

impl Wait {
    /// What `future` gives; nothing when the socket goes away first.
    async fn until<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                given = &mut future => return Some(given),
                () = self.gone.cancelled() => return None,
                () = self.abort.cancelled(), if self.turn.is_some() => {
                    if let Some(turn) = self.turn.take() {
                        turn.stop();
                    }
                }
            }
        }
    }
}
