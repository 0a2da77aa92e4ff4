//! What a subscription reads: a session's events, as they are or as runs. A socket that is behind is waited for: the events are in the
//! log. May not know what was asked.

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::super::run::Chunk;
use super::super::{events, native};
use super::asks;
use super::envelope::Envelope;
use super::outbox::{Full, Outbox, Texts};
use super::thread::Thread;
use crate::clock;
use crate::ids::SessionId;
use crate::protocol::{Code, Refusal};
use crate::runtime::EventStream;

/// What a subscription reads.
pub(super) enum Source {
    /// Native events.
    Events(Box<Events>),
    /// AG-UI's runs.
    Thread(Box<Thread>),
}

impl Source {
    /// The answer to who asked for it: from where it is read.
    pub(super) fn ack(&self, reference: Option<&str>) -> Texts {
        match self {
            Self::Events(events) => {
                asks::ack(reference, &serde_json::json!({ "session_id": events.session, "cursor": events.events.cursor() }))
            }
            Self::Thread(thread) => asks::ack(reference, &serde_json::json!({ "threadId": thread.session(), "cursor": thread.cursor() })),
        }
    }

    /// Tells everything, to the end.
    pub(super) async fn follow(self, outbox: Outbox, draining: CancellationToken) -> Result<(), Full> {
        let started = clock::instant();
        let (session, ended) = match self {
            Self::Events(events) => (events.session.clone(), events.follow(&outbox, &draining).await),
            Self::Thread(thread) => (thread.session().clone(), thread.follow(&outbox, &draining).await),
        };
        let end = ended.as_ref().map_or(Code::TooSlow, |(refusal, _)| refusal.code);
        let duration_ms = clock::instant().duration_since(started).as_millis();
        info!(session.id = session.as_str(), transport = "websocket", end = end.as_str(), duration_ms, "events ended");
        ended.and_then(|(_, last)| outbox.texts(last))
    }
}

/// A session's native events.
pub(super) struct Events {
    session: SessionId,
    events: EventStream,
}

impl Events {
    /// Those of `session`.
    pub(super) fn new(session: SessionId, events: EventStream) -> Self {
        Self { session, events }
    }

    /// Why no more come, and what is said then.
    async fn follow(mut self, outbox: &Outbox, draining: &CancellationToken) -> Result<(Refusal, Texts), Full> {
        let envelope = Envelope::of_session(&self.session);
        loop {
            outbox.room().await;
            match self.events.next().await {
                Ok(batch) => {
                    let mut texts = Texts::within(envelope.clone());
                    texts.add(native::frames(&batch));
                    outbox.in_time(texts).await?;
                }
                Err(why) => {
                    let refusal = events::last_words(why, draining);
                    let last = asks::unsubscribed("session_id", &self.session, &refusal);
                    return Ok((refusal, last));
                }
            }
        }
    }
}
