//! `ag-ui.ws.v1`: AG-UI over one socket that several sessions and several runs share. Each frame that asks is answered by an ack or an
//! error; every event names its thread. May not know sockets.

use std::collections::HashMap;
use std::rc::{Rc, Weak};

use actix_web::web::Data;
use tokio_util::sync::CancellationToken;

use super::super::caller::Caller;
use super::super::run::Names;
use super::super::{State, agents};
use super::asks;
use super::desk::Desk;
use super::done::Handled;
use super::outbox::Outbox;
use super::single::Single;
use super::source::Source;
use super::thread::Thread;
use super::voice::Voice;
use crate::agui::{Dialect, RunInput, SharedFrame, SharedRefused};
use crate::ids::{AgentId, SessionId, TurnId};
use crate::protocol::native::Ask;
use crate::protocol::{Code, Cursor, Refusal};
use crate::runtime::OnDisconnect;

/// A shared socket's talk.
pub(super) struct Shared {
    agent_id: AgentId,
    /// Of who subscribes and doesn't say it.
    dialect: Dialect,
    desk: Desk,
    gone: CancellationToken,
    voices: HashMap<SessionId, Weak<Voice>>,
    runs: HashMap<TurnId, Weak<SessionId>>,
}

impl Shared {
    /// With agent `agent_id`.
    pub(super) fn new(state: Data<State>, caller: Caller, agent_id: AgentId, dialect: Dialect, outbox: Outbox) -> Self {
        let desk = Desk::new(state, caller, outbox, asks::in_threads);
        Self { agent_id, dialect, desk, gone: CancellationToken::new(), voices: HashMap::new(), runs: HashMap::new() }
    }

    /// Whether nothing is left to be told.
    pub(super) fn is_over(&self) -> bool {
        self.desk.is_over()
    }

    /// The socket goes away. What still runs is left by itself; its presence decides what becomes of the turn.
    pub(super) fn leave(&mut self) {
        self.gone.cancel();
        self.desk.leave();
    }

    /// Waits for something to be answered or told.
    pub(super) async fn go_on(&mut self) -> Handled {
        let gone_on = self.desk.go_on().await;
        self.voices.retain(|_, voice| voice.strong_count() > 0);
        self.runs.retain(|_, thread| thread.strong_count() > 0);
        gone_on
    }

    /// A text frame came.
    pub(super) fn text(&mut self, text: &str) -> Handled {
        match SharedFrame::decode(text, &self.desk.state.limits()) {
            Ok(SharedFrame::Run { reference, input }) => self.run(reference.as_deref(), *input),
            Ok(SharedFrame::Abort { reference, thread, run }) => self.abort(reference, thread, run),
            Ok(SharedFrame::Ask { reference, ask, dialect }) => self.ask(reference, ask, dialect),
            Err(refused) => {
                let SharedRefused { reference, run, refusal } = *refused;
                Ok(self.desk.outbox.texts(asks::run_error(reference.as_deref(), None, run.as_ref(), &refusal))?)
            }
        }
    }

    fn ask(&mut self, reference: Option<String>, ask: Ask, dialect: Option<Dialect>) -> Handled {
        match ask {
            Ask::Ping => Ok(self.desk.outbox.texts(asks::pong(reference.as_deref()))?),
            Ask::Unsubscribe { session } => self.desk.unsubscribe(reference.as_deref(), &session),
            Ask::Subscribe { session, after } => self.subscribe(reference, session, after, dialect.unwrap_or(self.dialect)),
            ask @ (Ask::Input { .. } | Ask::Head { .. } | Ask::Cancel { .. } | Ask::Update { .. } | Ask::Fork { .. }) => {
                self.desk.ask(reference, ask)
            }
        }
    }

    fn subscribe(&mut self, reference: Option<String>, session: SessionId, after: Option<Cursor>, dialect: Dialect) -> Handled {
        let voice = self.voice(&session);
        let (state, key) = (self.desk.state.clone(), self.desk.caller.key(session.clone()));
        self.desk.subscribe(reference, session, async move {
            Ok(Source::Thread(Box::new(Thread::open(state, key, dialect, after, voice).await?)))
        })
    }

    /// A run is submitted at once; what comes of it is told by itself, or by the thread's subscription.
    fn run(&mut self, reference: Option<&str>, input: RunInput) -> Handled {
        let names = Names { dialect: input.dialect, thread: input.thread_id.clone(), run: input.run_id.clone() };
        let started = self.start(reference.map(ToOwned::to_owned), names.clone(), input);
        match started {
            Ok(()) => Ok(()),
            Err(refusal) => {
                let told = asks::run_error(reference, Some(&names.thread), Some(&names.run), &refusal);
                Ok(self.desk.outbox.texts(told)?)
            }
        }
    }

    fn start(&mut self, reference: Option<String>, names: Names, input: RunInput) -> Result<(), Refusal> {
        let state = self.desk.state.clone();
        let agent = state.agent(&self.agent_id)?;
        let thread = Rc::new(names.thread.clone());
        let run = names.run.clone();
        let single = Single {
            state: state.clone(),
            outbox: self.desk.outbox.clone(),
            gone: self.gone.clone(),
            key: self.desk.caller.key(names.thread.clone()),
            voice: self.voice(&names.thread),
            thread: thread.clone(),
            names,
            reference,
            on_disconnect: agent.on_disconnect.unwrap_or(OnDisconnect::Continue),
        };
        self.desk.run(single.run(agents::to_input(input, self.agent_id.clone(), agent)))?;
        self.runs.insert(run, Rc::downgrade(&thread));
        Ok(())
    }

    /// Stops a run: of this socket, or of the thread that is named.
    fn abort(&mut self, reference: Option<String>, thread: Option<SessionId>, run: TurnId) -> Handled {
        let known = self.runs.get(&run).and_then(Weak::upgrade).map(|thread| (*thread).clone());
        let Some(session) = thread.or(known) else {
            let text = format!("runId: this socket has no run {run}; say threadId too, to stop one that was asked for elsewhere");
            let refusal = Refusal::new(Code::BadRequest, text).with("at", "runId");
            return Ok(self.desk.outbox.texts(asks::run_error(reference.as_deref(), None, Some(&run), &refusal))?);
        };
        self.desk.ask(reference, Ask::Cancel { session, turn: Some(run) })
    }

    fn voice(&mut self, session: &SessionId) -> Rc<Voice> {
        if let Some(voice) = self.voices.get(session).and_then(Weak::upgrade) {
            return voice;
        }
        // What was refused since left its own behind.
        self.voices.retain(|_, voice| voice.strong_count() > 0);
        let voice = Rc::new(Voice::default());
        self.voices.insert(session.clone(), Rc::downgrade(&voice));
        voice
    }
}
