//! What is asked by frames and answered by one: an ack that repeats the frame's `ref` and has the body that REST gives, or an error.
//! May not know sockets.

use actix_web::web::{Bytes, Data};
use serde::Serialize;

use super::super::State;
use super::super::caller::Caller;
use super::super::inputs::{self, Taken};
use super::outbox::Texts;
use crate::ids::{SessionId, TurnId};
use crate::protocol::native::Ask;
use crate::protocol::{Accepted, Forked, Frames, HeadAnswer, Refusal, SessionPage};

/// What a refusal calls a session.
const SESSION: &str = "session_id";
/// What AG-UI's clients call it.
const THREAD: &str = "threadId";

/// What came of a question.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    /// Of an input, or a cancel.
    Taken(Taken),
    /// Where the head is.
    Head(HeadAnswer),
    /// The session's page.
    Page(Box<SessionPage>),
    /// The new session.
    Forked(Forked),
}

/// What is carried out by the runtime; subscriptions and pings are the socket's own.
pub(super) async fn carry_out(state: &Data<State>, caller: &Caller, ask: Ask) -> Result<Option<Answer>, Refusal> {
    let runtime = &state.runtime;
    Ok(Some(match ask {
        Ask::Input { session, input } => {
            let session = match session {
                Some(session) => {
                    inputs::here_in(&session, &input)?;
                    session
                }
                None => inputs::anywhere_in(caller, &input)?,
            };
            Answer::Taken(inputs::carry_out(state, &caller.key(session), *input).await?)
        }
        Ask::Head { session, to } => Answer::Head(runtime.move_head(&caller.key(session), to).await?),
        Ask::Cancel { session, turn } => Answer::Taken(Taken::Cancelled { cancelled: runtime.cancel(&caller.key(session), turn).await? }),
        Ask::Update { session, update } => Answer::Page(Box::new(runtime.update(&caller.key(session), update).await?)),
        Ask::Fork { session, fork } => Answer::Forked(runtime.fork(&caller.key(session), fork).await?),
        Ask::Subscribe { .. } | Ask::Unsubscribe { .. } | Ask::Ping => return Ok(None),
    }))
}

/// `{type: "ack", ref?, body}`.
pub(super) fn ack(reference: Option<&str>, body: &impl Serialize) -> Texts {
    #[derive(Serialize)]
    struct Ack<'a, T> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        reference: Option<&'a str>,
        body: &'a T,
    }
    text(&Ack { kind: "ack", reference, body })
}

/// `{type: "error", ref?, error, message, …}`.
pub(super) fn error(reference: Option<&str>, refusal: &Refusal) -> Texts {
    #[derive(Serialize)]
    struct Error<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        reference: Option<&'a str>,
        #[serde(flatten)]
        refusal: &'a Refusal,
    }
    super::super::error::count(refusal.code);
    text(&Error { kind: "error", reference, refusal })
}

/// `{type: "pong", ref?}`.
pub(super) fn pong(reference: Option<&str>) -> Texts {
    #[derive(Serialize)]
    struct Pong<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        reference: Option<&'a str>,
    }
    text(&Pong { kind: "pong", reference })
}

/// `{type: "ack", ref?, threadId, runId, body}`: a run was taken.
pub(super) fn run_ack(reference: Option<&str>, thread: &SessionId, run: &TurnId, accepted: &Accepted) -> Texts {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct RunAck<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        reference: Option<&'a str>,
        thread_id: &'a SessionId,
        run_id: &'a TurnId,
        body: &'a Accepted,
    }
    text(&RunAck { kind: "ack", reference, thread_id: thread, run_id: run, body: accepted })
}

/// `{type: "error", ref?, threadId?, runId?, error, message, …}`: a run wasn't.
pub(super) fn run_error(reference: Option<&str>, thread: Option<&SessionId>, run: Option<&TurnId>, refusal: &Refusal) -> Texts {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct RunError<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        reference: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thread_id: Option<&'a SessionId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<&'a TurnId>,
        #[serde(flatten)]
        refusal: &'a Refusal,
    }
    super::super::error::count(refusal.code);
    let mut refusal = in_threads(refusal);
    if thread.is_some() {
        refusal.details.remove(THREAD);
    }
    text(&RunError { kind: "error", reference, thread_id: thread, run_id: run, refusal: &refusal })
}

/// `{type: "unsubscribed", …, error, message, …}`: no more comes of a session, which is called `field` here.
pub(super) fn unsubscribed(field: &'static str, session: &SessionId, refusal: &Refusal) -> Texts {
    let mut refusal = refusal.clone();
    refusal.details.remove(SESSION);
    refusal.details.insert("type".to_owned(), "unsubscribed".into());
    refusal.details.insert(field.to_owned(), session.as_str().into());
    text(&refusal)
}

/// A refusal that names its session as AG-UI's clients call it.
pub(super) fn in_threads(refusal: &Refusal) -> Refusal {
    let mut refusal = refusal.clone();
    if let Some(session) = refusal.details.remove(SESSION) {
        refusal.details.insert(THREAD.to_owned(), session);
    }
    refusal
}

/// JSON as one frame.
pub(super) fn text(json: &impl Serialize) -> Texts {
    // Plain data whose keys are strings: writing it to memory can't fail.
    let written = serde_json::to_vec(json);
    debug_assert!(written.is_ok(), "a frame must be writable: {written:?}");
    Frames::bare(Bytes::from(written.unwrap_or_default())).into()
}
