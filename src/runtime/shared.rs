//! What the threads of a runtime share: who owns which session, and whether it is stopping.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::Options;
use super::command::Command;
use super::worker::{self, Opening};
use crate::ids::SessionKey;
use crate::protocol::{Code, Refusal};
use crate::store::Store;

/// The pause before a session that was given up is opened again; it doubles with each failure.
const TAKE_UP_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const TAKE_UP_PAUSE_MAX: Duration = Duration::from_mins(1);

type Commands = mpsc::Sender<Command>;

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

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The sessions that have a task.
#[derive(Default)]
struct Sessions {
    tasks: HashMap<SessionKey, Commands>,
    /// No task is started any more.
    stopped: bool,
}

fn lost() -> Refusal {
    Refusal::new(Code::Internal, "the session's task was lost; send it again with the same turn id")
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
        self.hand(key, command(answer))?;
        answered.await.map_err(|_| if self.is_draining() { stopping() } else { lost() })
    }

    /// Hands a command to the session's task. The lock is held, so that a task can't retire or be stopped in between.
    fn hand(self: &Arc<Self>, key: &SessionKey, command: Command) -> Result<(), Refusal> {
        let mut sessions = lock(&self.sessions);
        if sessions.stopped {
            return Err(stopping());
        }
        // The task of a channel that is closed has failed.
        let commands = if let Some(commands) = sessions.tasks.get(key).filter(|commands| !commands.is_closed()) {
            commands
        } else {
            let commands = self.start(key, sessions.tasks.len())?;
            sessions.tasks.entry(key.clone()).insert_entry(commands).into_mut()
        };
        // The last place is kept for the command to stop. Streams ask again by themselves: they leave half to those who don't.
        let kept = if matches!(command, Command::Follow(..)) { commands.max_capacity() / 2 } else { 1 };
        if commands.capacity() <= kept {
            let text = format!("{} requests wait for the session, the most that are allowed", self.options.limits.session_requests_max);
            return Err(Refusal::new(Code::TooManyRequests, text));
        }
        commands.try_send(command).map_err(|_| lost())
    }

    /// Starts a session's task.
    fn start(self: &Arc<Self>, key: &SessionKey, sessions: usize) -> Result<Commands, Refusal> {
        let workers = lock(&self.workers);
        let place = worker::place(self).or_else(|| sessions.checked_rem(workers.len()));
        let worker = place.and_then(|place| workers.get(place));
        let worker = worker.ok_or_else(|| Refusal::new(Code::Internal, "no worker thread has entered the runtime"))?;
        let (sender, commands) =
            mpsc::channel(self.options.limits.session_requests_max.get().saturating_add(1).min(Semaphore::MAX_PERMITS));
        let opening = Opening { key: key.clone(), commands };
        worker.send(opening).map_err(|_| stopping())?;
        Ok(sender)
    }

    /// Opens a session that was given up as soon as the store lets it: nobody else may ever ask for its unfinished turn.
    pub(super) async fn take_up(self: Arc<Self>, key: SessionKey) {
        let mut pause = TAKE_UP_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            match self.ask(&key, Command::Open).await.flatten() {
                Err(refusal) if matches!(refusal.code, Code::StoreUnavailable | Code::StoreFull) => {
                    pause = (2 * pause).min(TAKE_UP_PAUSE_MAX);
                }
                Ok(()) | Err(_) => return,
            }
        }
    }

    /// Sessions that have a task.
    #[cfg(test)]
    pub(super) fn open_sessions(&self) -> usize {
        lock(&self.sessions).tasks.len()
    }

    /// A task gives itself up, unless it has been asked something.
    pub(super) fn retire(&self, key: &SessionKey, commands: &mut mpsc::Receiver<Command>) -> bool {
        let mut sessions = lock(&self.sessions);
        if !commands.is_empty() {
            return false;
        }
        commands.close();
        sessions.tasks.remove(key);
        true
    }

    /// A task that failed takes no more: whoever asks next starts another.
    pub(super) fn give_up(&self, key: &SessionKey, commands: &mut mpsc::Receiver<Command>) {
        let mut sessions = lock(&self.sessions);
        commands.close();
        sessions.tasks.remove(key);
    }

    /// Tells every session's task to stop, and starts no more.
    pub(super) fn stop_all(&self) {
        let mut sessions = lock(&self.sessions);
        sessions.stopped = true;
        for (_, commands) in sessions.tasks.drain() {
            // One that is gone has stopped.
            let _ = commands.try_send(Command::Stop);
        }
    }
}

/// Why nothing is taken any more.
pub(super) fn stopping() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the server is stopping; send it again in a moment")
}
