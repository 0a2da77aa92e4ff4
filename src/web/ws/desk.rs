//! What is asked on a socket that several sessions share, and what is read there: each frame that asks is answered once, and each
//! session is read by a task of its own. The same for the native frames and AG-UI's. May not know how frames are spelled.

use actix_web::web::Data;
use tokio::task::{JoinError, JoinSet};
use tracing::warn;

use super::super::State;
use super::super::caller::Caller;
use super::asks;
use super::done::{Done, Handled};
use super::outbox::{Full, Outbox};
use super::source::Source;
use super::subscriptions::Subscriptions;
use crate::ids::SessionId;
use crate::protocol::native::Ask;
use crate::protocol::{Code, Refusal};

/// A socket's desk.
pub(super) struct Desk {
    pub(super) state: Data<State>,
    pub(super) caller: Caller,
    pub(super) outbox: Outbox,
    tasks: JoinSet<Finished>,
    /// Frames that aren't answered yet.
    asked: usize,
    /// Runs that are told.
    runs: usize,
    subscriptions: Subscriptions,
    /// How its refusals are spelled.
    spelled: fn(&Refusal) -> Refusal,
}

/// What a task did.
pub(super) enum Finished {
    /// It answered a frame.
    Answered(Result<(), Full>),
    /// It opened a session's events, or couldn't.
    Opened(Box<Opened>),
    /// No more comes of a session.
    Ended {
        /// Which.
        session: SessionId,
        /// Of which subscription.
        number: u64,
        /// Whether the reader learned that.
        told: Result<(), Full>,
    },
    /// A run is over, as far as the socket is concerned.
    Ran(Result<(), Full>),
}

/// A session's events that were opened.
pub(super) struct Opened {
    reference: Option<String>,
    session: SessionId,
    number: u64,
    source: Result<Source, Refusal>,
}

impl Desk {
    /// Of whoever `caller` is; its refusals are `spelled` like this.
    pub(super) fn new(state: Data<State>, caller: Caller, outbox: Outbox, spelled: fn(&Refusal) -> Refusal) -> Self {
        Self { state, caller, outbox, tasks: JoinSet::new(), asked: 0, runs: 0, subscriptions: Subscriptions::default(), spelled }
    }

    /// Whether nothing is left to be told.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The socket goes away: what was asked is still done, nobody reads.
    pub(super) fn leave(&mut self) {
        self.subscriptions.end_all();
        self.tasks.detach_all();
    }

    /// Waits for a task that is done. Nothing is lost when the wait is given up.
    pub(super) async fn go_on(&mut self) -> Handled {
        match self.tasks.join_next().await {
            None => std::future::pending().await,
            Some(finished) => self.finished(finished),
        }
    }

    /// Answers with a refusal.
    pub(super) fn refuse(&self, reference: Option<&str>, refusal: &Refusal) -> Handled {
        Ok(self.outbox.texts(asks::error(reference, &(self.spelled)(refusal)))?)
    }

    /// Refuses what would be one frame too many to be answered.
    pub(super) fn must_have_room(&self) -> Result<(), Refusal> {
        if self.asked < self.state.options.socket_requests_max {
            return Ok(());
        }
        let text = format!("{} frames of this socket wait for their answers, the most that are allowed", self.asked);
        Err(Refusal::new(Code::TooManyRequests, text))
    }

    /// Refuses to read one session too many; `session` may be read already.
    fn must_have_readers(&self, session: Option<&SessionId>) -> Result<(), Refusal> {
        let max = self.state.options.socket_subscriptions_max;
        if self.subscriptions.len() + self.runs < max || session.is_some_and(|session| self.subscriptions.contains(session)) {
            return Ok(());
        }
        let text =
            format!("this socket reads {max} sessions and runs, the most that are allowed; unsubscribe from one, or open another socket");
        Err(Refusal::new(Code::TooManyReaders, text))
    }

    /// Asks the runtime, in a task of its own. What is asked of one session reaches it in the order in which it came.
    pub(super) fn ask(&mut self, reference: Option<String>, ask: Ask) -> Handled {
        if let Err(refusal) = self.must_have_room() {
            return self.refuse(reference.as_deref(), &refusal);
        }
        let (state, caller, outbox, spelled) = (self.state.clone(), self.caller.clone(), self.outbox.clone(), self.spelled);
        self.asked += 1;
        self.tasks.spawn_local(async move {
            let reference = reference.as_deref();
            Finished::Answered(match asks::carry_out(&state, &caller, ask).await {
                Ok(answer) => outbox.texts(asks::ack(reference, &answer)),
                Err(refusal) => outbox.texts(asks::error(reference, &spelled(&refusal))),
            })
        });
        Ok(())
    }

    /// Opens a session's events. Those that are read of it already end when that has succeeded.
    pub(super) fn subscribe(
        &mut self,
        reference: Option<String>,
        session: SessionId,
        open: impl Future<Output = Result<Source, Refusal>> + 'static,
    ) -> Handled {
        if let Err(refusal) = self.must_have_room().and_then(|()| self.must_have_readers(Some(&session))) {
            return self.refuse(reference.as_deref(), &refusal);
        }
        let number = self.subscriptions.asked(&session);
        self.asked += 1;
        self.tasks.spawn_local(async move {
            let source = open.await;
            Finished::Opened(Box::new(Opened { reference, session, number, source }))
        });
        Ok(())
    }

    /// No more of a session.
    pub(super) fn unsubscribe(&mut self, reference: Option<&str>, session: &SessionId) -> Handled {
        let was_there = self.subscriptions.end(session);
        Ok(self.outbox.texts(asks::ack(reference, &serde_json::json!({ "unsubscribed": was_there })))?)
    }

    /// Follows a run in a task of its own.
    pub(super) fn run(&mut self, run: impl Future<Output = Result<(), Full>> + 'static) -> Result<(), Refusal> {
        self.must_have_readers(None)?;
        self.runs += 1;
        self.tasks.spawn_local(async move { Finished::Ran(run.await) });
        Ok(())
    }

    fn finished(&mut self, finished: Result<Finished, JoinError>) -> Handled {
        match finished {
            Ok(Finished::Answered(told)) => {
                self.asked -= 1;
                Ok(told?)
            }
            Ok(Finished::Opened(opened)) => {
                self.asked -= 1;
                self.opened(*opened)
            }
            Ok(Finished::Ended { session, number, told }) => {
                self.subscriptions.ended(&session, number);
                Ok(told?)
            }
            Ok(Finished::Ran(told)) => {
                self.runs -= 1;
                Ok(told?)
            }
            Err(error) if error.is_cancelled() => Ok(()),
            Err(error) => {
                warn!(%error, "a frame's task failed");
                Err(Done::fault())
            }
        }
    }

    /// A session's events are open, or couldn't be opened.
    fn opened(&mut self, opened: Opened) -> Handled {
        let Opened { reference, session, number, source } = opened;
        let source = match source {
            Ok(source) => source,
            Err(refusal) => {
                self.subscriptions.refused(&session, number);
                return self.refuse(reference.as_deref(), &refusal);
            }
        };
        self.outbox.texts(source.ack(reference.as_deref()))?;
        let Self { state, outbox, tasks, subscriptions, .. } = self;
        let of = session.clone();
        subscriptions.opened(&of, number, || {
            let (outbox, draining) = (outbox.clone(), state.draining.clone());
            tasks.spawn_local(async move {
                let told = source.follow(outbox, draining).await;
                Finished::Ended { session, number, told }
            })
        });
        Ok(())
    }
}
