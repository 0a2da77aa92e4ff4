//! `/v1/worker`: workers that dial in. A worker says who it is, takes decisions while it has credit, and answers them in any order. A
//! refusal never ends the socket, but one of the hello. May not know sockets, or who asks.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use actix_web::web::Data;
use actix_ws::{CloseCode, CloseReason};
use serde::Serialize;
use tokio::time::{Sleep, sleep};
use tracing::info;

use super::super::State;
use super::super::caller::Caller;
use super::super::error;
use super::super::run::Chunk;
use super::asks;
use super::close;
use super::done::{Done, Handled};
use super::outbox::{Full, Outbox, Texts};
use crate::ids::{AgentId, DecisionId, SessionId};
use crate::protocol::native::{Hello, Token, WorkerFrame, WorkerSays};
use crate::protocol::{Code, DecisionAnswer, DecisionRequest, Refusal};
use crate::runtime::{CREDIT_MAX, Pace, WorkerCame, WorkerConnection, WorkerEnded, WorkerTold};

/// A worker says who it is within so long.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// A worker's talk.
pub(super) struct Worker {
    state: Data<State>,
    caller: Caller,
    outbox: Outbox,
    /// From the handshake; what the hello says comes first.
    token: Option<Token>,
    /// Of frames that answer nothing.
    pace: Pace,
    stage: Stage,
}

/// How far it has come.
enum Stage {
    /// It hasn't said who it is.
    New {
        /// How long it still may take.
        left: Pin<Box<Sleep>>,
    },
    /// It serves.
    Serves(Serving),
    /// It is gone.
    Gone,
}

/// A worker that serves.
struct Serving {
    connection: Rc<WorkerConnection>,
    /// Held by each late answer, until it is known what comes of it.
    late: Rc<()>,
    /// What is told next, once there is room for it.
    next: Option<Texts>,
}

impl Worker {
    /// With whoever comes; `token` is what the handshake showed.
    pub(super) fn new(state: Data<State>, caller: Caller, token: Option<Token>, outbox: Outbox) -> Self {
        let pace = Pace::new(state.options.socket_frames_per_sec, state.options.socket_frames_burst);
        Self { state, caller, outbox, token, pace, stage: Stage::New { left: Box::pin(sleep(HELLO_WITHIN)) } }
    }

    /// Whether nothing is left to be told: one that serves is needed until the last turn has ended.
    pub(super) fn is_over(&self) -> bool {
        match self.stage {
            Stage::New { .. } | Stage::Gone => true,
            Stage::Serves(_) => false,
        }
    }

    /// The socket goes away: others get what it had.
    pub(super) fn leave(&mut self) {
        self.stage = Stage::Gone;
    }

    /// Waits until there is something to tell it, and room.
    pub(super) async fn go_on(&mut self) -> Handled {
        match &mut self.stage {
            Stage::New { left } => {
                left.await;
                Err(Done::Close(Some(close::reason(CloseCode::Policy, "a worker says hello first, within 10 s"))))
            }
            Stage::Serves(serving) => serving.tell(&self.outbox).await,
            Stage::Gone => std::future::pending().await,
        }
    }

    /// A text frame came.
    pub(super) fn text(&mut self, text: &str) -> Handled {
        let frame = WorkerFrame::decode(text, &self.state.limits());
        // Answers come as fast as questions; whatever else comes keeps the pace.
        let is_answer = match (&frame, &self.stage) {
            (Ok(WorkerFrame { says: WorkerSays::Answer { decision, answer }, .. }), Stage::Serves(serving)) => {
                match serving.connection.answer(decision, answer) {
                    WorkerCame::Asked => true,
                    WorkerCame::Late(session, answer) => {
                        self.late(serving, decision.clone(), session, *answer);
                        false
                    }
                    WorkerCame::Unasked => false,
                }
            }
            (Ok(WorkerFrame { says: WorkerSays::Failed { decision, message }, .. }), Stage::Serves(serving)) => {
                serving.connection.fail(decision, message.clone())
            }
            _ => false,
        };
        if is_answer {
            return Ok(());
        }
        if !self.pace.keeps() {
            return Err(Done::too_fast());
        }
        match frame {
            Ok(WorkerFrame { reference, says }) => self.says(reference.as_deref(), says),
            Err(refused) => self.refuse(refused.reference.as_deref(), &refused.refusal),
        }
    }

    fn says(&mut self, reference: Option<&str>, says: WorkerSays<'_>) -> Handled {
        match (says, &self.stage) {
            (WorkerSays::Ping, _) => Ok(self.outbox.texts(asks::pong(reference))?),
            (WorkerSays::Hello(hello), Stage::New { .. }) => self.hello(reference, hello),
            (WorkerSays::Hello(_), _) => {
                let text = "type: this worker has said hello; open another socket for other agents";
                self.refuse(reference, &Refusal::new(Code::BadRequest, text).with("at", "type"))
            }
            (_, Stage::New { .. }) => {
                let text = "type: a worker says hello first: {\"type\": \"hello\", \"agent_ids\": [\"…\"], \"credit\": 4}";
                self.refuse(reference, &Refusal::new(Code::BadRequest, text).with("at", "type"))
            }
            (WorkerSays::Credit(credit), Stage::Serves(serving)) => {
                serving.connection.grant(credit);
                Ok(())
            }
            // What answered nothing was refused already, by name.
            (WorkerSays::Answer { .. } | WorkerSays::Failed { .. } | WorkerSays::Credit(_), _) => Ok(()),
        }
    }

    fn hello(&mut self, reference: Option<&str>, mut hello: Hello) -> Handled {
        hello.token = hello.token.or(self.token.take());
        match self.state.runtime.serve_worker(&hello, self.state.limits()) {
            Ok(connection) => {
                let agents = hello.agents.iter().map(AgentId::as_str).collect::<Vec<_>>().join(", ");
                info!(agents, worker = hello.name.as_deref(), credit = hello.credit, "a worker dialled in");
                self.outbox.texts(self.welcome(reference, &hello))?;
                self.stage = Stage::Serves(Serving { connection: Rc::new(connection), late: Rc::default(), next: None });
                Ok(())
            }
            Err(refusal) => {
                self.refuse(reference, &refusal)?;
                Err(Done::Close(Some(error::close_reason(&refusal).unwrap_or_else(|| full(&refusal)))))
            }
        }
    }

    /// An answer for which nobody waits just now: its session takes it when the decision is open between two attempts.
    fn late(&self, serving: &Serving, decision: DecisionId, session: SessionId, answer: DecisionAnswer) {
        if Rc::strong_count(&serving.late) > self.state.options.socket_requests_max {
            let text = "as many late answers of this worker wait for what comes of them as are allowed; send it again in a moment";
            return serving.connection.judged(&decision, Err(&Refusal::new(Code::TooManyRequests, text)));
        }
        let (runtime, key) = (self.state.runtime.clone(), self.caller.key(session));
        // A worker that is gone isn't told.
        let (connection, counted) = (Rc::downgrade(&serving.connection), serving.late.clone());
        actix_web::rt::spawn(async move {
            let taken = runtime.answer(&key, decision.clone(), answer).await;
            if let Some(connection) = connection.upgrade() {
                connection.judged(&decision, taken.as_ref().map(|_| ()));
            }
            drop(counted);
        });
    }

    fn welcome(&self, reference: Option<&str>, hello: &Hello) -> Texts {
        #[derive(Serialize)]
        struct Limits {
            credit_max: u32,
            frame_bytes_max: usize,
            message_bytes_max: usize,
            socket_frames_per_sec: u32,
            ping_secs: u64,
        }
        #[derive(Serialize)]
        struct Welcome<'a> {
            #[serde(rename = "type")]
            kind: &'static str,
            #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
            reference: Option<&'a str>,
            agent_ids: &'a [AgentId],
            credit: u32,
            limits: Limits,
        }
        let options = &self.state.options;
        let limits = Limits {
            credit_max: CREDIT_MAX,
            frame_bytes_max: options.frame_bytes_max,
            message_bytes_max: options.message_bytes_max,
            socket_frames_per_sec: options.socket_frames_per_sec.get(),
            ping_secs: options.ping_secs,
        };
        asks::text(&Welcome { kind: "welcome", reference, agent_ids: &hello.agents, credit: hello.credit.min(CREDIT_MAX), limits })
    }

    fn refuse(&self, reference: Option<&str>, refusal: &Refusal) -> Handled {
        Ok(self.outbox.texts(asks::error(reference, refusal))?)
    }
}

impl Serving {
    async fn tell(&mut self, outbox: &Outbox) -> Handled {
        if self.next.is_none() {
            self.next = match self.connection.next().await {
                Ok(told) => Some(texts(&told)),
                Err(WorkerEnded::Stopping) => return Err(Done::stopping()),
                Err(WorkerEnded::TooSlow) => return Err(Full.into()),
            };
        }
        // Large decisions go out one after another.
        outbox.room_for(self.next.as_ref().map_or(0, Chunk::bytes)).await;
        match self.next.take() {
            Some(next) => Ok(outbox.texts(next)?),
            None => Ok(()),
        }
    }
}

fn full(refusal: &Refusal) -> CloseReason {
    close::reason(CloseCode::Policy, &error::description(refusal))
}

fn texts(told: &WorkerTold) -> Texts {
    #[derive(Serialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Frame<'a> {
        Decision {
            decision: &'a DecisionRequest,
        },
        Cancelled {
            decision_id: &'a DecisionId,
        },
        Answered {
            decision_id: &'a DecisionId,
        },
        Refused {
            decision_id: &'a DecisionId,
            #[serde(flatten)]
            refusal: &'a Refusal,
        },
    }
    asks::text(&match told {
        WorkerTold::Decision(decision) => Frame::Decision { decision },
        WorkerTold::Cancelled(decision_id) => Frame::Cancelled { decision_id },
        WorkerTold::Answered(decision_id) => Frame::Answered { decision_id },
        WorkerTold::Refused(decision_id, refusal) => {
            error::count(refusal.code);
            Frame::Refused { decision_id, refusal }
        }
    })
}
