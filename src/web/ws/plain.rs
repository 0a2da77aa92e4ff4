//! AG-UI's bare frames: several runs in a row, abort, ping. One run is told at a time, because a bare frame doesn't say whose it is.
//! May not know sockets.

use actix_web::rt::task::JoinError;
use actix_web::web::{Bytes, Data};
use actix_ws::{CloseCode, CloseReason};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::super::caller::Caller;
use super::super::resume::Coming;
use super::super::run::{Names, RunEnd};
use super::super::{State, agents, error};
use super::close;
use super::done::{Done, Handled};
use super::envelope::Envelope;
use super::follow::{By, Follow, Followed};
use super::outbox::{Full, Outbox, Texts};
use super::runs::{Followee, Runs};
use super::waiting::Waiting;
use crate::agui::{self, Dialect, Frame, Outcome, RunInput};
use crate::clock;
use crate::ids::AgentId;
use crate::protocol::{Frames, OnBusy, Refusal};
use crate::runtime::OnDisconnect;

/// A socket's plain talk.
pub(super) struct Plain {
    state: Data<State>,
    caller: Caller,
    agent_id: AgentId,
    outbox: Outbox,
    envelope: Envelope,
    gone: CancellationToken,
    runs: Runs,
    /// Whether it was opened for one run, and nothing else was asked on it.
    for_one: bool,
    /// The run for which it was opened can't be told.
    nothing: Option<Refusal>,
    /// The dialect of the last run frame: what errors outside a run are told in.
    dialect: Dialect,
}

impl Plain {
    /// With agent `agent_id`.
    pub(super) fn new(state: Data<State>, caller: Caller, agent_id: AgentId, outbox: Outbox) -> Self {
        let runs = Runs::new(state.options.waiting_runs_max);
        let (gone, envelope) = (CancellationToken::new(), Envelope::Bare);
        Self { state, caller, agent_id, outbox, envelope, gone, runs, for_one: false, nothing: None, dialect: Dialect::Legacy }
    }

    /// The same; what no run says otherwise is told in this dialect, and events come with their ids or bare.
    pub(super) fn speaking(self, dialect: Dialect, with_ids: bool) -> Self {
        let envelope = if with_ids { Envelope::Cursor } else { Envelope::Bare };
        Self { envelope, dialect, ..self }
    }

    /// The same, opened for a run that was there before.
    pub(super) fn coming(mut self, coming: Option<Result<Coming, Refusal>>) -> Self {
        let Some(coming) = coming else { return self };
        self.envelope = Envelope::Cursor;
        self.for_one = true;
        match coming {
            Ok(Coming { names, after }) => {
                let followee = self.follow(names, OnDisconnect::Continue).start(By::Name(after));
                self.runs.tell(followee);
            }
            Err(refusal) => self.nothing = Some(refusal),
        }
        self
    }

    /// Waits for the socket to be nobody's; then the next frame is answered.
    pub(super) async fn go_on(&mut self) -> Handled {
        if let Some(refusal) = self.nothing.take() {
            return nothing_there(&refusal);
        }
        let followed = self.runs.free().await;
        self.followed(followed)
    }

    /// Whether nothing is left to be told.
    pub(super) fn is_over(&self) -> bool {
        self.runs.are_over()
    }

    /// The socket goes away. What still runs is left by itself; its presence decides what becomes of the turn.
    pub(super) fn leave(&self) {
        self.gone.cancel();
    }

    /// A text frame came.
    pub(super) fn text(&mut self, text: &str) -> Handled {
        match Frame::decode(text, &self.state.limits()) {
            Ok(Frame::Run(input)) => {
                self.dialect = input.dialect;
                self.for_one = false;
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
            OnBusy::Queue | OnBusy::Merge | OnBusy::Steer | OnBusy::Cancel => true,
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
        let agent = self.state.agent(&self.agent_id)?;
        let follow = self.follow(names, agent.on_disconnect.unwrap_or(OnDisconnect::Continue));
        Ok(follow.start(By::Submit(Box::new(agents::to_input(input, self.agent_id.clone(), agent)))))
    }

    fn follow(&self, names: Names, on_disconnect: OnDisconnect) -> Follow {
        Follow {
            state: self.state.clone(),
            outbox: self.outbox.clone(),
            envelope: self.envelope.clone(),
            gone: self.gone.clone(),
            key: self.caller.key(names.thread.clone()),
            names,
            on_disconnect,
        }
    }

    /// The socket is nobody's: the next frame is answered.
    fn followed(&mut self, followed: Result<Option<Followed>, JoinError>) -> Handled {
        match followed {
            Ok(Some(Followed::Ended(RunEnd::Slow) | Followed::TooSlow)) => return Err(Full.into()),
            Ok(Some(Followed::Ended(RunEnd::ShuttingDown))) => return Err(Done::stopping()),
            Ok(Some(Followed::Nothing(refusal))) => return nothing_there(&refusal),
            Ok(Some(Followed::Ended(RunEnd::Turn(_) | RunEnd::Lost(_)) | Followed::Refused | Followed::Left) | None) => {}
            Err(error) => {
                warn!(%error, "following a run failed");
                return Err(Done::fault());
            }
        }
        while let Some(frame) = self.runs.next() {
            self.answer(frame)?;
        }
        if self.for_one && self.runs.are_over() {
            return close(Some(close::reason(CloseCode::Normal, "the run has ended")));
        }
        Ok(())
    }

    fn refuse(&self, refusal: &Refusal) -> Handled {
        error::count(refusal.code);
        self.tell(agui::run_error(self.dialect, refusal.code, &refusal.message, None).into())
    }

    fn tell(&self, texts: Texts) -> Handled {
        Ok(self.outbox.texts(texts)?)
    }
}

fn close(reason: Option<CloseReason>) -> Handled {
    Err(Done::Close(reason))
}

/// A socket that was opened for a run of which there is nothing to tell.
fn nothing_there(refusal: &Refusal) -> Handled {
    error::count(refusal.code);
    let policy = || close::reason(CloseCode::Policy, &error::description(refusal));
    close(Some(error::close_reason(refusal).unwrap_or_else(policy)))
}

/// The answer to a ping frame.
fn pong() -> Texts {
    const TEXT: &str = r#"{"type":"pong"}"#;
    Frames::bare(Bytes::from_static(TEXT.as_bytes())).into()
}
