//! What the threads of a runtime share: who owns which session, and whether it is stopping.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};

use super::Options;
use super::session_task::Command;
use super::worker::{self, Opening};
use crate::ids::SessionKey;
use crate::protocol::{Code, Refusal};
use crate::store::Store;

type Commands = mpsc::UnboundedSender<Command>;

/// The sessions that have a task.
#[derive(Default)]
struct Sessions {
    tasks: HashMap<SessionKey, Commands>,
    /// Every task was told to stop; none is started any more.
    closed: bool,
}

/// What the threads of a runtime share.
pub struct Shared {
    pub(super) options: Options,
    pub(super) store: Arc<dyn Store>,
    workers: Mutex<Vec<mpsc::UnboundedSender<Opening>>>,
    /// Worker threads that entered.
    pub(super) entered: watch::Sender<usize>,
    sessions: Mutex<Sessions>,
    /// Turns that run.
    pub(super) running: watch::Sender<usize>,
    /// Session tasks that live.
    pub(super) living: watch::Sender<usize>,
    pub(super) draining: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(options: Options, store: Arc<dyn Store>) -> Self {
        Self {
            options,
            store,
            workers: Mutex::default(),
            entered: watch::Sender::new(0),
            sessions: Mutex::default(),
            running: watch::Sender::new(0),
            living: watch::Sender::new(0),
            draining: watch::Sender::new(false),
        }
    }

    pub(super) fn add_worker(&self, sender: mpsc::UnboundedSender<Opening>) -> usize {
        let mut workers = lock(&self.workers);
        workers.push(sender);
        self.entered.send_replace(workers.len());
        workers.len() - 1
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Asks a session's task, which is started where there is none: on this thread when it is a worker, else on any.
    pub(super) async fn ask<T>(
        self: &Arc<Self>,
        key: &SessionKey,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        let mut command = command(answer);
        loop {
            let commands = self.commands(key)?;
            match commands.send(command) {
                Ok(()) => break,
                Err(mpsc::error::SendError(back)) => {
                    self.forget(key, &commands);
                    command = back;
                }
            }
        }
        answered.await.map_err(|_| if self.is_draining() { stopping() } else { lost() })
    }

    fn commands(self: &Arc<Self>, key: &SessionKey) -> Result<Commands, Refusal> {
        let mut sessions = lock(&self.sessions);
        if sessions.closed {
            return Err(stopping());
        }
        if let Some(commands) = sessions.tasks.get(key) {
            return Ok(commands.clone());
        }
        let workers = lock(&self.workers);
        let place = worker::place(self).or_else(|| sessions.tasks.len().checked_rem(workers.len()));
        let worker = place.and_then(|place| workers.get(place));
        let worker = worker.ok_or_else(|| Refusal::new(Code::Internal, "no worker thread has entered the runtime"))?;
        let (sender, commands) = mpsc::unbounded_channel();
        let opening = Opening { key: key.clone(), commands };
        worker.send(opening).map_err(|_| stopping())?;
        sessions.tasks.insert(key.clone(), sender.clone());
        Ok(sender)
    }

    /// The task behind `commands` takes no more: whoever asks next starts another.
    pub(super) fn forget(&self, key: &SessionKey, commands: &Commands) {
        let mut sessions = lock(&self.sessions);
        if sessions.tasks.get(key).is_some_and(|current| current.same_channel(commands)) {
            sessions.tasks.remove(key);
        }
    }

    /// A task gives itself up, unless it has been asked something.
    pub(super) fn retire(&self, key: &SessionKey, commands: &mut mpsc::UnboundedReceiver<Command>) -> bool {
        let mut sessions = lock(&self.sessions);
        if !commands.is_empty() {
            return false;
        }
        commands.close();
        sessions.tasks.remove(key);
        true
    }

    /// Tells every session's task to stop. No other is started: those who go on asking would keep the process from its end.
    pub(super) fn stop_all(&self) {
        let mut sessions = lock(&self.sessions);
        sessions.closed = true;
        for commands in sessions.tasks.values() {
            // One that has ended needn't be told.
            let _ = commands.send(Command::Stop);
        }
    }
}

/// Why nothing is taken any more.
pub(super) fn stopping() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the server is stopping; send it again in a moment")
}

fn lost() -> Refusal {
    Refusal::new(Code::Internal, "the session's task was lost; send it again with the same turn id")
}
