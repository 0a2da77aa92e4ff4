//! What the threads of a runtime share: who owns which session, and whether it is stopping.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::command::Command;
use super::readiness::Readiness;
use super::room::Room;
use super::slots::Slots;
use super::worker::{self, Opening};
use super::{Options, WorkerOptions};
use crate::clock;
use crate::engine::context::{Agent, Agents};
use crate::engine::{Asking, Patience};
use crate::ids::SessionKey;
use crate::protocol::{Code, Refusal};
use crate::store::Store;

/// The pause before a session that was given up is opened again; it doubles with each failure.
const TAKE_UP_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const TAKE_UP_PAUSE_MAX: Duration = Duration::from_mins(1);

/// A session that has no room in memory waits so long for another to leave.
const ROOM_WITHIN: Duration = Duration::from_secs(1);

type Commands = mpsc::Sender<Command>;

/// What the threads of a runtime share.
pub struct Shared {
    pub(super) options: Options,
    /// What the engine knows of the configured agents.
    pub(super) agents: Arc<Agents>,
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
    pub(super) slots: Arc<Slots>,
    pub(super) readiness: Readiness,
    pub(super) room: Room,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The sessions that have a task.
#[derive(Default)]
struct Sessions {
    tasks: HashMap<SessionKey, Resident>,
    /// No task is started any more.
    stopped: bool,
}

/// A session in memory.
struct Resident {
    commands: Commands,
    residence: Arc<Residence>,
}

/// What is known of a session from outside its task: whether it may leave, and which one first.
#[derive(Debug, Default)]
pub struct Residence {
    runs: AtomicBool,
    used_at: AtomicU64,
}

impl Residence {
    /// Whether something goes on in it.
    pub(super) fn runs(&self, runs: bool) {
        self.runs.store(runs, Ordering::Relaxed);
    }

    /// It was used now.
    pub(super) fn used(&self) {
        self.used_at.store(clock::now(), Ordering::Relaxed);
    }
}

/// Why a command isn't handed over.
enum Kept {
    /// It is refused.
    Refused(Refusal),
    /// Its session isn't in memory, and there is no room.
    NoRoom(Command),
}

impl From<Refusal> for Kept {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn lost() -> Refusal {
    Refusal::new(Code::Internal, "the session's task was lost; send it again with the same turn id")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(options: Options, store: Arc<dyn Store>) -> Self {
        let llms: Vec<String> = options.llms.keys().cloned().collect();
        let agents = options.agents.iter().map(|(id, agent)| {
            let worker = options.workers.get(id).map(|worker| Asking {
                llm: agent.llm.clone(),
                llms: llms.clone(),
                patience: patience(worker.patience),
                triggers: worker.triggers.clone(),
            });
            let known = Agent::new(agent.system.as_deref(), &agent.context).with_worker(worker).with_tools(Arc::new(agent.tools(id)));
            (id.clone(), known.with_client_state(agent.client_state, matches!(agent.worker, WorkerOptions::Agui(_))))
        });
        Self {
            agents: Arc::new(agents.collect()),
            options,
            store,
            workers: Mutex::default(),
            entered: watch::Sender::new(0),
            sessions: Mutex::default(),
            running: watch::Sender::new(0),
            living: watch::Sender::new(0),
            draining: watch::Sender::new(false),
            slots: Arc::default(),
            readiness: Readiness::default(),
            room: Room::default(),
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
        self.hand_over(key, command(answer)).await?;
        answered.await.map_err(|_| if self.is_draining() { stopping() } else { lost() })
    }

    /// Hands a command to the session's task, once there is room for it.
    async fn hand_over(self: &Arc<Self>, key: &SessionKey, command: Command) -> Result<(), Refusal> {
        match self.hand(key, command) {
            Ok(()) => Ok(()),
            Err(Kept::Refused(refusal)) => Err(refusal),
            Err(Kept::NoRoom(command)) => {
                let handed = tokio::time::timeout(ROOM_WITHIN, self.wait_for_room(key, command)).await;
                handed.unwrap_or_else(|_| Err(self.too_many_sessions()))
            }
        }
    }

    async fn wait_for_room(self: &Arc<Self>, key: &SessionKey, mut command: Command) -> Result<(), Refusal> {
        let waiting = self.room.enter();
        loop {
            let mut left = waiting.left();
            match self.hand(key, command) {
                Ok(()) => return Ok(()),
                Err(Kept::Refused(refusal)) => return Err(refusal),
                Err(Kept::NoRoom(back)) => command = back,
            }
            tokio::select! {
                () = &mut left => {}
                asked = self.room.ask(|waiting| self.make_room(waiting)) => if !asked {
                    return Err(self.too_many_sessions());
                }
            }
        }
    }

    fn too_many_sessions(&self) -> Refusal {
        let text = format!("{} sessions are in memory and in use, the most that are allowed", self.options.limits.sessions_max);
        Refusal::new(Code::TooManySessions, text)
    }

    /// Asks the sessions that weren't used for longest to leave, for so many that wait; whether there was one to ask.
    fn make_room(&self, waiting: usize) -> bool {
        let mut sessions = lock(&self.sessions);
        // One whose task was lost in a panic leaves by nobody's doing.
        let all = sessions.tasks.len();
        sessions.tasks.retain(|_, resident| !resident.commands.is_closed());
        let lost = all - sessions.tasks.len();
        if lost > 0 {
            self.room.left(lost);
            return true;
        }
        let mut idle: Vec<_> = sessions.tasks.values().filter(|resident| !resident.residence.runs.load(Ordering::Relaxed)).collect();
        // Several at once: looking through all of them costs more than one is worth.
        let wanted = (sessions.tasks.len() / 64).max(waiting).max(1).min(idle.len());
        if wanted == 0 {
            return false;
        }
        let _ = idle.select_nth_unstable_by_key(wanted - 1, |resident| resident.residence.used_at.load(Ordering::Relaxed));
        for resident in &idle[..wanted] {
            // One that has much to do doesn't leave anyway.
            let _ = resident.commands.try_send(Command::MakeRoom);
        }
        true
    }

    /// Hands a command to the session's task. The lock is held, so that a task can't retire or be stopped in between.
    fn hand(self: &Arc<Self>, key: &SessionKey, command: Command) -> Result<(), Kept> {
        let mut sessions = lock(&self.sessions);
        if sessions.stopped {
            return Err(stopping().into());
        }
        // The task of a channel that is closed has failed.
        let is_there = sessions.tasks.get(key).is_some_and(|resident| !resident.commands.is_closed());
        if !is_there {
            if sessions.tasks.len() >= self.options.limits.sessions_max.get() {
                return Err(Kept::NoRoom(command));
            }
            let resident = self.start(key, sessions.tasks.len())?;
            sessions.tasks.insert(key.clone(), resident);
        }
        let commands = sessions.tasks.get(key).map(|resident| &resident.commands).ok_or_else(lost)?;
        // The last place is kept for the command to stop. Streams ask again by themselves: they leave half to those who don't.
        let kept = if matches!(command, Command::Follow(..)) { commands.max_capacity() / 2 } else { 1 };
        if commands.capacity() <= kept {
            let text = format!("{} requests wait for the session, the most that are allowed", self.options.limits.session_requests_max);
            return Err(Refusal::new(Code::TooManyRequests, text).into());
        }
        commands.try_send(command).map_err(|_| lost().into())
    }

    /// Starts a session's task.
    fn start(self: &Arc<Self>, key: &SessionKey, sessions: usize) -> Result<Resident, Refusal> {
        let workers = lock(&self.workers);
        let place = worker::place(self).or_else(|| sessions.checked_rem(workers.len()));
        let worker = place.and_then(|place| workers.get(place));
        let worker = worker.ok_or_else(|| Refusal::new(Code::Internal, "no worker thread has entered the runtime"))?;
        let (sender, commands) =
            mpsc::channel(self.options.limits.session_requests_max.get().saturating_add(1).min(Semaphore::MAX_PERMITS));
        let residence = Arc::new(Residence::default());
        residence.used();
        let opening = Opening { key: key.clone(), commands, residence: residence.clone() };
        worker.send(opening).map_err(|_| stopping())?;
        Ok(Resident { commands: sender, residence })
    }

    /// Opens a session that was given up as soon as the store lets it: nobody else may ever ask for its unfinished turn.
    pub(super) async fn take_up(self: Arc<Self>, key: SessionKey) {
        let mut pause = TAKE_UP_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            match self.ask(&key, Command::Open).await.flatten() {
                Err(refusal) if matches!(refusal.code, Code::StoreUnavailable | Code::StoreFull | Code::TooManySessions) => {
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
        self.room.left(1);
        true
    }

    /// A task that failed takes no more: whoever asks next starts another.
    pub(super) fn give_up(&self, key: &SessionKey, commands: &mut mpsc::Receiver<Command>) {
        let mut sessions = lock(&self.sessions);
        commands.close();
        sessions.tasks.remove(key);
        self.room.left(1);
    }

    /// Tells every session's task to stop, and starts no more.
    pub(super) fn stop_all(&self) {
        let mut sessions = lock(&self.sessions);
        sessions.stopped = true;
        for (_, Resident { commands, .. }) in sessions.tasks.drain() {
            // One that is gone has stopped.
            let _ = commands.try_send(Command::Stop);
        }
    }
}

/// How long and how often a worker is asked, as the engine counts it.
fn patience(given: crate::worker::Patience) -> Patience {
    let crate::worker::Patience { attempt_secs, attempts, within_secs } = given;
    Patience { attempt: attempt_secs.saturating_mul(1000), attempts, all: within_secs.saturating_mul(1000) }
}

/// Why nothing is taken any more.
pub(super) fn stopping() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the server is stopping; send it again in a moment")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::store::memory::Memory;
    use crate::worker::socket::Hub;

    const LIMITS: &str = "readers_max = 1\nsession_requests_max = 1\nreader_batches_max = 1\nreader_bytes_max = 1\ncalls_per_turn_max = 1\n\
                          queue_turns_max = 1\nqueue_messages_max = 1\nreply_bytes_max = 1\nidle_secs = 1\ndrain_secs = 1\n";

    fn shared(more: &str) -> Arc<Shared> {
        let limits = toml::from_str(&format!("{LIMITS}{more}")).unwrap();
        let options =
            Options { agents: BTreeMap::new(), llms: BTreeMap::new(), workers: BTreeMap::new(), dialling: Hub::default(), limits };
        Arc::new(Shared::new(options, Arc::new(Memory::new())))
    }

    fn key(session: &str) -> SessionKey {
        SessionKey { tenant: "t".into(), session: session.into() }
    }

    /// A session that does what it is told by nobody.
    fn resident(shared: &Shared, session: &str, runs: bool) -> mpsc::Receiver<Command> {
        let (commands, received) = mpsc::channel(1);
        let residence = Arc::new(Residence::default());
        residence.runs(runs);
        lock(&shared.sessions).tasks.insert(key(session), Resident { commands, residence });
        received
    }

    #[test]
    fn a_session_whose_task_was_lost_takes_no_room() {
        let shared = shared("");
        let received = resident(&shared, "s", true);
        assert!(!shared.make_room(1), "it runs");
        drop(received);
        assert!(shared.make_room(1));
        assert_eq!(shared.open_sessions(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_wait_for_room_one_asks_for_all() {
        let shared = shared("sessions_max = 3");
        let mut there: Vec<_> = ["a", "b", "c"].map(|session| resident(&shared, session, false)).into();
        let asked: Vec<_> = (0..200)
            .map(|n| {
                let shared = shared.clone();
                tokio::spawn(async move { shared.ask(&key(&format!("s{n}")), Command::Open).await.map(drop).unwrap_err().code })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(there.iter_mut().all(|received| matches!(received.try_recv(), Ok(Command::MakeRoom))), "as many as wait");
        shared.give_up(&key("b"), &mut there[1]);
        let mut codes = Vec::new();
        for asked in asked {
            codes.push(asked.await.unwrap());
        }
        // No thread is there that could start it.
        assert_eq!(codes.iter().filter(|code| **code == Code::Internal).count(), 200, "{codes:?}");
        let times = shared.room.asked();
        assert!((20..=60).contains(&times), "asked {times} times in a second");
    }
}
