//! A connected worker, as whoever serves its socket holds it: what it is to be told, and what it said.

use std::sync::Arc;

use tokio::sync::Notify;

use super::board::{Said, SocketId, Taken};
use super::{Hub, Told};
use crate::ids::{DecisionId, SessionId};
use crate::protocol::{Code, DecisionAnswer, Limits, Refusal};
use crate::worker::Error;

/// No more comes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server stops.
    Stopping,
    /// The worker doesn't read what it is told.
    TooSlow,
}

/// What an answer is.
#[derive(Debug, PartialEq)]
pub enum Came {
    /// What somebody waited for.
    Asked,
    /// Late: this session knows whether it still counts.
    Late(SessionId, Box<DecisionAnswer>),
    /// Nothing that counts; the worker is told.
    Unasked,
}

/// A worker that is connected. When it is dropped, what the worker hasn't answered goes to another.
#[derive(Debug)]
pub struct Connection {
    hub: Hub,
    socket: SocketId,
    wake: Arc<Notify>,
    limits: Limits,
}

impl Connection {
    pub(super) fn new(hub: Hub, socket: SocketId, wake: Arc<Notify>, limits: Limits) -> Self {
        Self { hub, socket, wake, limits }
    }

    /// What it is told next. Nothing is lost when the wait is given up.
    pub async fn next(&self) -> Result<Told, Ended> {
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            self.wake.notified().await;
        }
    }

    /// What it is told next, when that is there.
    pub(super) fn take(&self) -> Option<Result<Told, Ended>> {
        match self.hub.board().take(self.socket) {
            Taken::Told(told) => Some(Ok(told)),
            Taken::Nothing => None,
            Taken::Ended(ended) => Some(Err(ended)),
        }
    }

    /// The worker answered, with this JSON.
    pub fn answer(&self, decision: &DecisionId, answer: &str) -> Came {
        // Reading may take long; nobody else waits for it.
        let max = self.hub.board().answer_bytes_max(self.socket, decision);
        let read = match max {
            Some(max) if answer.len() <= max => DecisionAnswer::decode(answer.as_bytes(), &self.limits).map_err(Error::from),
            Some(max) => {
                let text = format!("the answer has {} bytes; {max} are allowed (`answer_bytes_max`)", answer.len());
                Err(Refusal::new(Code::BodyTooLarge, text).into())
            }
            // It isn't read at all.
            None => Err(Error::Failed("the answer came before the question".to_owned())),
        };
        match self.hub.board().answer(self.socket, decision, read) {
            Said::Asked => Came::Asked,
            Said::Late(session, answer) => Came::Late(session, answer),
            Said::Unasked => Came::Unasked,
        }
    }

    /// The worker has no answer. Whether it had been asked.
    pub fn fail(&self, decision: &DecisionId, message: String) -> bool {
        self.hub.board().answer(self.socket, decision, Err(Error::Failed(message))) == Said::Asked
    }

    /// What came of an answer that came late.
    pub fn judged(&self, decision: &DecisionId, verdict: Result<(), &Refusal>) {
        self.hub.board().judge_late(self.socket, decision, verdict);
    }

    /// So many decisions the worker takes at once from now on; as many as that will be.
    pub fn grant(&self, credit: u32) -> u32 {
        self.hub.board().grant(self.socket, credit)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.hub.board().leave(self.socket);
    }
}
