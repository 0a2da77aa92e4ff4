//! Follows one run for its socket: submits, then hands on what the reader is told.

use actix_web::web::Data;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::super::State;
use super::super::presence::{Presence, Turn};
use super::super::run::{Names, RunEnd, RunStream};
use super::super::sse::described;
use super::outbox::{Outbox, Texts};
use crate::agui;
use crate::clock;
use crate::ids::SessionKey;
use crate::protocol::{Code, Input};
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
    /// The socket went away first.
    Left,
}

/// A run to be followed.
pub(super) struct Follow {
    /// Everything shared.
    pub(super) state: Data<State>,
    /// Where its frames go.
    pub(super) outbox: Outbox,
    /// Cancelled when the socket goes away.
    pub(super) gone: CancellationToken,
    /// Cancelled when the client wants the run stopped.
    pub(super) abort: CancellationToken,
    /// Which session.
    pub(super) key: SessionKey,
    /// Whose run.
    pub(super) names: Names,
    /// What happens to the turn when the socket goes away.
    pub(super) on_disconnect: OnDisconnect,
}

impl Follow {
    /// Submits `input` and follows its turn to the end. The submit itself is never given up half-way.
    pub(super) async fn run(self, input: Input) -> Followed {
        let started = clock::instant();
        let (session, turn) = (self.key.session.clone(), self.names.run.clone());
        let followed = self.follow(input).await;
        let how = match &followed {
            Followed::Ended(end) => described(end),
            Followed::Refused => "refused",
            Followed::TooSlow => "too_slow",
            Followed::Left => "disconnected",
        };
        let duration_ms = clock::instant().duration_since(started).as_millis();
        info!(session.id = session.as_str(), turn.id = turn.as_str(), transport = "websocket", end = how, duration_ms, "run ended");
        followed
    }

    async fn follow(self, input: Input) -> Followed {
        let turn = Turn { runtime: self.state.runtime.clone(), key: self.key.clone(), id: self.names.run.clone() };
        let mut presence = Presence::new(turn.clone(), self.on_disconnect);
        let submitted = match self.state.runtime.submit(&self.key, input).await {
            Ok(submitted) => submitted,
            Err(refusal) => {
                presence.over();
                let told = agui::run_error(self.names.dialect, refusal.code, &refusal.message, None);
                return if self.outbox.texts(told.into()).is_ok() { Followed::Refused } else { Followed::TooSlow };
            }
        };
        if submitted.accepted.duplicate {
            presence.over();
        }
        let mut stream = RunStream::submitted(self.names, submitted, self.state.draining.clone());
        let mut stopping = false;
        loop {
            let texts: Option<Texts> = tokio::select! {
                texts = stream.next() => texts,
                () = self.gone.cancelled() => return Followed::Left,
                () = self.abort.cancelled(), if !stopping => {
                    stopping = true;
                    turn.clone().stop();
                    continue;
                }
            };
            let Some(texts) = texts else { break };
            if self.outbox.texts(texts).is_err() {
                return Followed::TooSlow;
            }
        }
        presence.over();
        Followed::Ended(stream.end().cloned().unwrap_or(RunEnd::Lost(Code::Internal)))
    }
}
