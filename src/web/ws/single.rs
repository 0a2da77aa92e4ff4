//! One run on a shared socket: submitted at once and acked, then told when its thread's voice is its own; silent when a subscription
//! tells the thread.

use std::rc::Rc;

use actix_web::web::Data;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::super::State;
use super::super::presence::{Presence, Turn};
use super::super::run::{Chunk, Names, RunEnd, RunStream};
use super::super::sse::described;
use super::asks;
use super::envelope::Envelope;
use super::outbox::{Full, Outbox, Texts};
use super::voice::Voice;
use crate::clock;
use crate::ids::{SessionId, SessionKey};
use crate::protocol::{Code, Cursor, Input, Refusal};
use crate::runtime::OnDisconnect;

/// A run to be told.
pub(super) struct Single {
    /// Everything shared.
    pub(super) state: Data<State>,
    /// Where its frames go.
    pub(super) outbox: Outbox,
    /// Cancelled when the socket goes away.
    pub(super) gone: CancellationToken,
    /// Which session.
    pub(super) key: SessionKey,
    /// Its voice on this socket.
    pub(super) voice: Rc<Voice>,
    /// Known to the socket as long as the run lasts.
    pub(super) thread: Rc<SessionId>,
    /// Whose run.
    pub(super) names: Names,
    /// How the client calls the frame.
    pub(super) reference: Option<String>,
    /// What happens to the turn when the socket goes away.
    pub(super) on_disconnect: OnDisconnect,
}

impl Single {
    /// Submits `input` and tells what comes of it. The submit itself is never given up half-way.
    pub(super) async fn run(self, input: Input) -> Result<(), Full> {
        let started = clock::instant();
        let (session, turn, gone) = (self.thread.clone(), self.names.run.clone(), self.gone.clone());
        let (told, how) = match self.tell(input, &gone).await {
            Ok(Some(end)) => (Ok(()), described(&end)),
            Ok(None) => (Ok(()), "refused"),
            Err(Left::Gone) => (Ok(()), "disconnected"),
            Err(Left::Subscribed) => (Ok(()), "subscribed"),
            Err(Left::Full) => (Err(Full), "too_slow"),
        };
        let duration_ms = clock::instant().duration_since(started).as_millis();
        info!(session.id = session.as_str(), turn.id = turn.as_str(), transport = "websocket", end = how, duration_ms, "run ended");
        told
    }

    async fn tell(self, input: Input, gone: &CancellationToken) -> Result<Option<RunEnd>, Left> {
        let Self { state, outbox, gone: _, key, voice, thread: _thread, names, reference, on_disconnect } = self;
        let reference = reference.as_deref();
        let turn = Turn { runtime: state.runtime.clone(), key: key.clone(), id: names.run.clone() };
        let mut presence = Presence::new(turn, on_disconnect);
        let submitted = match state.runtime.submit(&key, input).await {
            Ok(submitted) => submitted,
            Err(refusal) => {
                presence.over();
                outbox.texts(asks::run_error(reference, Some(&names.thread), Some(&names.run), &refusal))?;
                return Ok(None);
            }
        };
        if submitted.accepted.duplicate {
            presence.over();
        }
        outbox.texts(asks::run_ack(reference, &names.thread, &names.run, &submitted.accepted))?;
        let turn = submitted.accepted.turn_id.clone();
        let envelope = Envelope::of_thread(&names.thread);
        let mut stream = RunStream::submitted(names.clone(), submitted, state.draining.clone()).of(&state.runtime, &key);
        let mut first = Texts::within(envelope.clone());
        if stream.is_queued()
            && let Some(begun) = here(gone, stream.next_into(Texts::within(envelope.clone()))).await?
        {
            first = begun;
        }
        let at_once = voice.speak().now_or_never();
        let waited = at_once.is_none();
        if waited
            && first.is_empty()
            && let Some(opening) = here(gone, stream.next_into(Texts::within(envelope.clone()))).await?
        {
            first = opening;
        }
        let speaking = match at_once {
            Some(speaking) => speaking,
            None => here(gone, voice.speak()).await?,
        };
        let Some(speaking) = speaking else {
            return Self::stay(stream, presence, on_disconnect, gone).await;
        };
        if waited && stream.end().is_none() {
            // Nobody read it meanwhile, and there may have been more than waits for a reader: the log has it.
            match gone_on(&state, &key, &names, first.cursor()).await {
                Ok(rest) => stream = rest,
                Err(refusal) => {
                    outbox.texts(asks::run_error(reference, Some(&names.thread), Some(&names.run), &refusal))?;
                    return Ok(None);
                }
            }
            if first.cursor().is_none() {
                first = Texts::within(envelope.clone());
            }
        }
        loop {
            if !first.is_empty() {
                speaking.told(first.cursor(), &turn);
                here(gone, outbox.in_time(first)).await??;
            }
            match here(gone, stream.next_into(Texts::within(envelope.clone()))).await? {
                Some(texts) => first = texts,
                None => break,
            }
        }
        presence.over();
        Ok(Some(stream.end().cloned().unwrap_or(RunEnd::Lost(Code::Internal))))
    }

    /// A subscription tells the run. Who may want the turn stopped stays until it ends.
    async fn stay(
        mut stream: RunStream,
        mut presence: Presence,
        on_disconnect: OnDisconnect,
        gone: &CancellationToken,
    ) -> Result<Option<RunEnd>, Left> {
        match on_disconnect {
            OnDisconnect::Cancel => while here(gone, stream.next_into(Texts::default())).await?.is_some() {},
            OnDisconnect::Continue => {}
        }
        presence.over();
        Err(Left::Subscribed)
    }
}

/// What follows `after` in a run; without a place the whole run.
async fn gone_on(state: &Data<State>, key: &SessionKey, names: &Names, after: Option<Cursor>) -> Result<RunStream, Refusal> {
    let run = state.runtime.run(key, &names.run, after).await?;
    Ok(RunStream::resumed(names.clone(), run, after, state.draining.clone()))
}

/// Why a run isn't told to its end.
enum Left {
    /// The socket went away.
    Gone,
    /// A subscription tells it.
    Subscribed,
    /// The socket doesn't take what it is sent.
    Full,
}

impl From<Full> for Left {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

/// What `future` gives, unless the socket goes away first.
async fn here<T>(gone: &CancellationToken, future: impl Future<Output = T>) -> Result<T, Left> {
    tokio::select! {
        given = future => Ok(given),
        () = gone.cancelled() => Err(Left::Gone),
    }
}
