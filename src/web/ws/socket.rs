//! One socket: what comes in, one run at a time, liveness, and how it ends.

use std::time::Duration;

use actix_web::rt::task::{JoinError, JoinHandle};
use actix_web::web::{Bytes, Data};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, ProtocolError};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::super::caller::Caller;
use super::super::run::{Names, RunEnd};
use super::super::server::Cutter;
use super::super::{State, agents, error};
use super::close;
use super::follow::{Follow, Followed};
use super::outbox::{Outbox, Texts, Written};
use super::runs::{Followee, Runs};
use super::waiting::Waiting;
use crate::agui::{self, Dialect, Frame, Outcome, RunInput};
use crate::clock;
use crate::ids::AgentId;
use crate::protocol::{Code, Frames, OnBusy, Refusal};
use crate::runtime::OnDisconnect;

/// Pings without an answer after which a peer is dead.
const PINGS_MISSED_MAX: u32 = 2;

/// The close frame is handed to the connection within so long, or the peer doesn't read.
const HANG_UP_WITHIN: Duration = Duration::from_secs(1);

/// A socket is done.
enum Done {
    /// Nobody is there any more.
    Gone,
    /// It is closed after what waits was written.
    Close(Option<CloseReason>),
    /// It is closed without writing what waits.
    CloseNow(Option<CloseReason>),
}

/// What a handled message means for the loop.
type Handled = Result<(), Done>;

/// One socket.
pub(super) struct Socket {
    state: Data<State>,
    caller: Caller,
    agent_id: AgentId,
    outbox: Outbox,
    cutter: Option<Cutter>,
    gone: CancellationToken,
    runs: Runs,
    /// The dialect of the last run frame: what errors outside a run are told in.
    dialect: Dialect,
    pings_missed: u32,
}

impl Socket {
    /// A socket to agent `agent_id`.
    pub(super) fn new(state: Data<State>, caller: Caller, agent_id: AgentId, outbox: Outbox, cutter: Option<Cutter>) -> Self {
        let runs = Runs::new(state.options.waiting_runs_max);
        Self { state, caller, agent_id, outbox, cutter, gone: CancellationToken::new(), runs, dialect: Dialect::Legacy, pings_missed: 0 }
    }

    /// Serves it to its end.
    pub(super) async fn serve(mut self, mut messages: AggregatedMessageStream, mut writer: JoinHandle<Written>) {
        let opened = clock::instant();
        let done = self.turn_messages(&mut messages, &mut writer).await;
        // What still runs is left by itself; its presence decides what becomes of the turn.
        self.gone.cancel();
        let code = match &done {
            Done::Close(Some(reason)) | Done::CloseNow(Some(reason)) => u16::from(reason.code),
            Done::Close(None) | Done::CloseNow(None) => 1005,
            Done::Gone => 1006,
        };
        match done {
            Done::Close(reason) => self.outbox.close(reason),
            Done::CloseNow(reason) => self.outbox.close_now(reason),
            Done::Gone => self.outbox.close_now(None),
        }
        let written = if writer.is_finished() { None } else { writer.await.ok() };
        self.hang_up(&mut messages).await;
        let duration_ms = clock::instant().duration_since(opened).as_millis();
        info!(agent.id = %self.agent_id, close.code = code, written = ?written, duration_ms, "socket ended");
    }

    async fn turn_messages(&mut self, messages: &mut AggregatedMessageStream, writer: &mut JoinHandle<Written>) -> Done {
        let draining = self.state.draining.clone();
        let mut ticks = interval(self.state.options.ping());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        loop {
            let handled = tokio::select! {
                message = messages.recv() => self.message(message),
                followed = self.runs.free() => self.followed(followed),
                _ = ticks.tick() => self.tick(),
                _ = &mut *writer => Err(Done::Gone),
                () = draining.cancelled(), if self.runs.are_over() => close(error::close_reason(&stopping())),
            };
            if let Err(done) = handled {
                return done;
            }
        }
    }

    /// Ends the connection once the close frame is on its way: the library would wait for the peer, which waits for us.
    async fn hang_up(&self, messages: &mut AggregatedMessageStream) {
        // The stream ends when the library has handed everything to the connection. What still comes in is passed over. After a
        // fault it never ends; then the library's own wait is short enough.
        let handed_over = tokio::time::timeout(HANG_UP_WITHIN, async {
            loop {
                match messages.recv().await {
                    None => return true,
                    Some(Ok(_)) => {}
                    Some(Err(_)) => return false,
                }
            }
        });
        if let (Ok(true), Some(cutter)) = (handed_over.await, &self.cutter) {
            cutter.finish();
        }
    }

    fn message(&mut self, message: Option<Result<AggregatedMessage, ProtocolError>>) -> Handled {
        let message = match message {
            None => return Err(Done::Gone),
            Some(Err(error)) => return Err(close::of_error(&error).map_or(Done::Gone, |reason| Done::Close(Some(reason)))),
            Some(Ok(message)) => message,
        };
        self.pings_missed = 0;
        match message {
            AggregatedMessage::Text(text) => self.text(&text),
            AggregatedMessage::Binary(_) => close(Some(close::reason(CloseCode::Unsupported, "frames are text"))),
            AggregatedMessage::Ping(content) => self.outbox.pong(content).or_else(|_| too_slow()),
            AggregatedMessage::Pong(_) => Ok(()),
            AggregatedMessage::Close(reason) => close(reason.map(|reason| CloseReason { description: None, ..reason })),
        }
    }

    fn text(&mut self, text: &str) -> Handled {
        match Frame::decode(text, &self.state.limits()) {
            Ok(Frame::Run(input)) => {
                self.dialect = input.dialect;
                self.arrive(Waiting::Run(input))
            }
            Ok(Frame::Abort { run_id }) => {
                self.runs.stop(run_id.as_ref());
                Ok(())
            }
            Ok(Frame::Ping) => self.tell(pong()),
            Err(refusal) => self.arrive(Waiting::Refused(refusal)),
        }
    }

    /// A frame is answered at once when nothing is told, else in its turn.
    fn arrive(&mut self, frame: Waiting) -> Handled {
        if !self.runs.have_room() {
            return close(Some(close::reason(CloseCode::Policy, "too many frames wait for the active run")));
        }
        if self.runs.active().is_none() {
            return self.answer(frame);
        }
        let frame = match frame {
            Waiting::Run(input) if self.is_for_busy(&input) && self.runs.go_ahead(&input.thread_id) => match self.submit(*input) {
                Ok(followee) => Waiting::Submitted(followee),
                Err(refusal) => Waiting::Refused(refusal),
            },
            frame => frame,
        };
        self.runs.wait(frame);
        Ok(())
    }

    /// Whether a run says what is to become of it while a turn is there: then it doesn't wait for the socket.
    fn is_for_busy(&self, input: &RunInput) -> bool {
        let agents = self.state.agent(&self.agent_id).map_or(OnBusy::Refuse, |agent| agent.on_busy);
        match input.headwater.on_busy.unwrap_or(agents) {
            OnBusy::Refuse => false,
            OnBusy::Queue | OnBusy::Merge | OnBusy::Cancel => true,
        }
    }

    fn answer(&mut self, frame: Waiting) -> Handled {
        match frame {
            Waiting::Run(input) => match self.submit(*input) {
                Ok(followee) => self.runs.tell(followee),
                Err(refusal) => return self.refuse(&refusal),
            },
            Waiting::Submitted(followee) => self.runs.tell(followee),
            Waiting::Stopped(input) => {
                let RunInput { dialect, thread_id, run_id, .. } = &*input;
                self.tell(agui::run_started(*dialect, thread_id, run_id, clock::now()).into())?;
                self.tell(agui::run_finished(*dialect, thread_id, run_id, Outcome::Cancelled, &[], clock::now()).into())?;
            }
            Waiting::Refused(refusal) => self.refuse(&refusal)?,
        }
        Ok(())
    }

    /// Submits a run; what becomes of it is told once the socket is its own.
    fn submit(&self, input: RunInput) -> Result<Followee, Refusal> {
        let names = Names { dialect: input.dialect, thread: input.thread_id.clone(), run: input.run_id.clone() };
        let key = self.caller.key(input.thread_id.clone());
        let agent = self.state.agent(&self.agent_id)?;
        let follow = Follow {
            state: self.state.clone(),
            outbox: self.outbox.clone(),
            gone: self.gone.clone(),
            key,
            names,
            on_disconnect: agent.on_disconnect.unwrap_or(OnDisconnect::Continue),
        };
        Ok(follow.start(agents::to_input(input, self.agent_id.clone(), agent)))
    }

    /// The socket is nobody's: the next frame is answered.
    fn followed(&mut self, followed: Result<Option<Followed>, JoinError>) -> Handled {
        match followed {
            Ok(Some(Followed::Ended(RunEnd::Slow) | Followed::TooSlow)) => return too_slow(),
            Ok(Some(Followed::Ended(RunEnd::ShuttingDown))) => return close(error::close_reason(&stopping())),
            Ok(Some(Followed::Ended(RunEnd::Turn(_) | RunEnd::Lost(_)) | Followed::Refused | Followed::Left) | None) => {}
            Err(error) => {
                warn!(%error, "following a run failed");
                return close(Some(close::reason(CloseCode::Error, "a fault of the server's own")));
            }
        }
        while let Some(frame) = self.runs.next() {
            self.answer(frame)?;
        }
        Ok(())
    }

    fn refuse(&self, refusal: &Refusal) -> Handled {
        self.tell(agui::run_error(self.dialect, refusal.code, &refusal.message, None).into())
    }

    fn tell(&self, texts: Texts) -> Handled {
        self.outbox.texts(texts).or_else(|_| too_slow())
    }

    fn tick(&mut self) -> Handled {
        if self.pings_missed >= PINGS_MISSED_MAX {
            // Nobody is there to read a close frame.
            return Err(Done::Gone);
        }
        self.pings_missed += 1;
        self.outbox.ping().or_else(|_| too_slow())
    }
}

fn close(reason: Option<CloseReason>) -> Handled {
    Err(Done::Close(reason))
}

fn too_slow() -> Handled {
    Err(Done::CloseNow(error::close_reason(&Refusal::new(Code::TooSlow, "this reader fell too far behind"))))
}

fn stopping() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the server stops; connect again")
}

/// The answer to a ping frame.
fn pong() -> Texts {
    const TEXT: &str = r#"{"type":"pong"}"#;
    let whole = 0..TEXT.len();
    Frames { sse: Bytes::from_static(TEXT.as_bytes()), json: vec![whole] }.into()
}
