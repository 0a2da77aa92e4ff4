//! Workers that dial in: notebooks, laptops, tests, whatever can't be reached. The hub has every socket of the process, on whatever
//! thread it is served, and every attempt to ask that is open. May not know what a socket is made of, or how frames are spelled.

mod board;
mod connection;
mod peer;
mod recent;
#[cfg(test)]
mod tests;

pub use connection::{Came, Connection, Ended};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use self::board::Board;
use super::{Asking, Configured, Error, Patience, Worker};
use crate::ids::{AgentId, DecisionId};
use crate::protocol::native::{Hello, Token};
use crate::protocol::{DecisionAnswer, DecisionRequest, Limits, Refusal, TriggerKind};

/// The most decisions that one socket takes at once.
pub const CREDIT_MAX: u32 = 256;

/// An agent whose workers dial in.
#[derive(Clone, Debug)]
pub struct Agent {
    /// What a worker must show; absent: nothing.
    pub token: Option<Token>,
    /// The largest answer, in bytes of JSON.
    pub answer_bytes_max: usize,
    /// Sockets at a time.
    pub sockets_max: usize,
    /// Decisions that may wait for a worker that has room for them.
    pub waiting_max: usize,
}

impl Default for Agent {
    fn default() -> Self {
        Self { token: None, answer_bytes_max: 4 << 20, sockets_max: 64, waiting_max: 1024 }
    }
}

/// What a connected worker is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Decide this.
    Decision(Arc<DecisionRequest>),
    /// Nobody wants the answer any more.
    Cancelled(DecisionId),
    /// The answer was carried out.
    Answered(DecisionId),
    /// The answer wasn't.
    Refused(DecisionId, Box<Refusal>),
}

/// Where workers and those who ask them meet. Clones are the same hub.
#[derive(Clone, Default)]
pub struct Hub(Arc<Mutex<Board>>);

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    /// A hub for these agents and no others.
    pub fn new(agents: BTreeMap<AgentId, Agent>) -> Self {
        Self(Arc::new(Mutex::new(Board::new(agents))))
    }

    /// The worker of its agents, which is asked `triggers`.
    pub fn worker(&self, patience: Patience, triggers: Vec<TriggerKind>) -> Configured {
        let hub = self.clone();
        Configured { factory: Arc::new(move || Box::new(DialsIn(hub.clone()))), patience, triggers }
    }

    /// Lets a worker in. It serves until the connection is dropped; its answers are read within `limits`.
    pub fn connect(&self, hello: &Hello, limits: Limits) -> Result<Connection, Refusal> {
        let (socket, wake) = self.board().join(hello)?;
        Ok(Connection::new(self.clone(), socket, wake, limits))
    }

    /// Nobody is asked any more: every connection ends.
    pub fn close(&self) {
        self.board().close();
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: DecisionRequest) -> Result<Asked, Error> {
        let decision = request.decision_id.clone();
        let (answer, answered) = oneshot::channel();
        let ticket = self.board().ask(Arc::new(request), answer)?;
        Ok(Asked { hub: self.clone(), decision, ticket, answered })
    }
}

/// The worker of an agent whose workers dial in. When none is connected, or none has room, an attempt waits for one until it is given up.
#[derive(Clone, Debug)]
struct DialsIn(Hub);

impl Worker for DialsIn {
    fn decide(&self, request: DecisionRequest) -> Asking {
        let hub = self.0.clone();
        async move { hub.ask(request)?.answered().await }.boxed_local()
    }

    fn judged(&self, decision: &DecisionId, verdict: Result<(), &Refusal>) {
        self.0.board().judge(decision, verdict);
    }
}

/// An attempt that is open. Dropped, it is given up, and whoever has it is told.
struct Asked {
    hub: Hub,
    decision: DecisionId,
    ticket: u64,
    answered: oneshot::Receiver<Result<DecisionAnswer, Error>>,
}

impl Asked {
    async fn answered(mut self) -> Result<DecisionAnswer, Error> {
        let closed = |_| Error::Failed("the server stops".to_owned());
        (&mut self.answered).await.map_err(closed)?
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.hub.board().give_up(&self.decision, self.ticket);
    }
}
