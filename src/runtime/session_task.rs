//! A session's task: takes commands, model output and timers one after another; decides by the engine; makes it durable; then
//! tells readers. Control flow is here, the parts are in `log`, `running`, `audience`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::audience::Audience;
use super::log::Log;
use super::reply::Reply;
use super::running::{Ended, Running};
use super::shared::{Shared, stopping};
use super::worker::{Opening, Worker};
use super::{Following, Joined, Submitted, TurnEnd};
use crate::clock;
use crate::engine::{self, Call, Context, Effect, End, Finished, Policy, Record, Submit, Turn};
use crate::ids::{NodeId, SessionKey, TurnId};
use crate::protocol::{Accepted, CallRequest, Code, Cursor, Event, Refusal, SessionPage, TreePage};

type Answer<T> = oneshot::Sender<Result<T, Refusal>>;

/// What a session's task is asked.
pub enum Command {
    /// A submit.
    Submit(Box<Submit>, Answer<Submitted>),
    /// The whole, and what follows.
    Join(Answer<Joined>),
    /// Stop the running turn, or only the one named.
    Cancel(Option<TurnId>, Answer<bool>),
    /// The session's page.
    Page(Answer<SessionPage>),
    /// A page of its tree.
    Tree(Option<NodeId>, usize, Answer<TreePage>),
    /// Only be there: outstanding work goes on.
    Open(Answer<()>),
    /// The process stops.
    Stop,
}

impl Command {
    fn refuse(self, refusal: &Refusal) {
        let refusal = refusal.clone();
        match self {
            Self::Submit(_, answer) => drop(answer.send(Err(refusal))),
            Self::Join(answer) => drop(answer.send(Err(refusal))),
            Self::Cancel(_, answer) => drop(answer.send(Err(refusal))),
            Self::Page(answer) => drop(answer.send(Err(refusal))),
            Self::Tree(_, _, answer) => drop(answer.send(Err(refusal))),
            Self::Open(answer) => drop(answer.send(Err(refusal))),
            Self::Stop => {}
        }
    }
}

/// Answers. What could not be recorded ends the task, whose fold is ahead of the log then.
fn give<T>(answer: Answer<T>, result: Result<T, Refusal>) -> Result<(), Refusal> {
    let failed = result.as_ref().err().cloned();
    drop(answer.send(result));
    failed.map_or(Ok(()), Err)
}

/// Runs a session's task to its end.
pub async fn run(worker: Rc<Worker>, opening: Opening) {
    let Opening { key, mut commands } = opening;
    let _living = Living::of(&worker.shared);
    let stopped = match Task::open(worker.clone(), key.clone()).await {
        Ok(mut task) => {
            let stopped = task.work(&mut commands).await;
            if let Err(refusal) = &stopped {
                task.audience.fail(refusal.code);
                // Whether the log has an unfinished turn isn't known: the fold may be ahead of it.
                tokio::spawn(worker.shared.clone().take_up(key.clone()));
            }
            stopped
        }
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = stopped {
        tracing::warn!(session.id = %key, error = %refusal.code, message = %refusal.message, "the session is given up; it is opened again when asked for");
        worker.shared.give_up(&key, &mut commands);
        while let Some(command) = commands.recv().await {
            command.refuse(&refusal);
        }
    }
}

/// Counts as a task that lives, also when it ends by a panic.
struct Living(Arc<Shared>);

impl Living {
    fn of(shared: &Arc<Shared>) -> Self {
        shared.living.send_modify(|living| *living += 1);
        Self(shared.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.living.send_modify(|living| *living -= 1);
    }
}

enum Woken {
    Command(Option<Command>),
    Call(Option<Ended>),
    Timer,
    Idle,
}

/// An open session.
pub(super) struct Task {
    worker: Rc<Worker>,
    pub(super) log: Log,
    pub(super) audience: Audience,
    pub(super) running: Option<Running>,
    /// Whether this task counts as one with a running turn.
    counted: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.count(false);
    }
}

impl Task {
    async fn open(worker: Rc<Worker>, key: SessionKey) -> Result<Self, Refusal> {
        let shared = &worker.shared;
        let log = Log::open(shared.store.clone(), key).await?;
        let audience = Audience::new(&shared.options.limits);
        let mut task = Self { worker, log, audience, running: None, counted: false };
        if let Some(turn) = &task.log.session.turn {
            tracing::warn!(session.id = %task.log.key, turn.id = turn.id.as_str(), "a turn whose process was lost is taken up");
            let records = engine::recover(&task.log.session, &task.context());
            task.change(records).await?;
        }
        Ok(task)
    }

    async fn work(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), Refusal> {
        loop {
            match self.woken(commands).await {
                Woken::Command(Some(Command::Stop) | None) => return Ok(()),
                Woken::Command(Some(command)) => {
                    // Who joins now gets a snapshot with everything so far, so that everything so far is told first.
                    self.tell_written();
                    self.obey(command).await?;
                }
                Woken::Call(None) => self.tell_written(),
                Woken::Call(Some(ended)) => self.call_ended(ended).await?,
                Woken::Timer => self.wake().await?,
                Woken::Idle => {
                    if self.worker.shared.retire(&self.log.key, commands) {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn woken(&mut self, commands: &mut mpsc::Receiver<Command>) -> Woken {
        let session = &self.log.session;
        if let Some(running) = &mut self.running {
            return tokio::select! {
                biased;
                command = commands.recv() => Woken::Command(command),
                ended = running.pull(&session.tree) => Woken::Call(ended),
            };
        }
        let wake = engine::wanted(session).into_iter().find_map(|effect| match effect {
            Effect::Wake { at, .. } => Some(at),
            Effect::Call { .. } => None,
        });
        let (pause, woken) = match wake {
            Some(at) => (Duration::from_millis(at.saturating_sub(clock::now())), Woken::Timer),
            None if session.seq == 0 => (Duration::ZERO, Woken::Idle),
            None => (Duration::from_secs(self.worker.shared.options.limits.idle_secs.get()), Woken::Idle),
        };
        tokio::select! {
            biased;
            command = commands.recv() => Woken::Command(command),
            () = tokio::time::sleep(pause) => woken,
        }
    }

    fn context(&self) -> Context {
        let options = &self.worker.shared.options;
        let turn = self.log.session.turn.as_ref();
        let llm = turn.and_then(|turn| options.agents.get(&turn.agent_id)).and_then(|agent| options.llms.get(&agent.llm));
        let policy = Policy { attempts: llm.map_or(1, |llm| llm.attempts), calls_per_turn_max: options.limits.calls_per_turn_max.get() };
        let written = self.running.as_ref().and_then(Running::written);
        Context { stamp: clock::stamp(), written, policy }
    }

    async fn obey(&mut self, command: Command) -> Result<(), Refusal> {
        match command {
            Command::Submit(submit, answer) => return self.submit(&submit, answer).await,
            Command::Cancel(turn_id, answer) => {
                let records = engine::cancel(&self.log.session, turn_id.as_ref(), &self.context());
                let stopped = !records.is_empty();
                return give(answer, self.change(records).await.map(|()| stopped));
            }
            Command::Join(answer) => {
                let joined = self.join().await;
                drop(answer.send(joined));
            }
            Command::Page(answer) => {
                let page = self.page().await;
                drop(answer.send(page));
            }
            Command::Tree(after, limit, answer) => {
                let page = self.tree(after.as_ref(), limit).await;
                drop(answer.send(page));
            }
            Command::Open(answer) => drop(answer.send(Ok(()))),
            Command::Stop => {}
        }
        Ok(())
    }

    fn decide(&mut self, submit: &Submit) -> Result<(Vec<Record>, Accepted), Refusal> {
        self.audience.must_have_room()?;
        let (records, accepted) = engine::submit(&self.log.session, &self.log.key.session, submit, &self.context())?;
        if !records.is_empty() && self.worker.shared.is_draining() {
            return Err(stopping());
        }
        Ok((records, accepted))
    }

    async fn submit(&mut self, submit: &Submit, answer: Answer<Submitted>) -> Result<(), Refusal> {
        let (records, accepted) = match self.decide(submit) {
            Ok(decided) => decided,
            Err(refusal) => {
                drop(answer.send(Err(refusal)));
                return Ok(());
            }
        };
        let ended = self.ended_as(&accepted.turn_id);
        let committed = async {
            self.commit(records, None).await?;
            let runs = self.log.session.turn.as_ref().is_some_and(|turn| turn.id == accepted.turn_id);
            let snapshot = if accepted.resync { Some(self.snapshot().await?) } else { None };
            let following = if runs { Following::Running(self.audience.admit()?) } else { Following::Ended(ended) };
            Ok(Submitted { accepted, snapshot, cursor: self.cursor(), following })
        };
        let submitted = committed.await;
        // After a failed append the fold is ahead of the log: nothing may follow it.
        give(answer, submitted)?;
        self.pursue().await
    }

    /// How a turn ended that is known; what never was a turn ended well.
    fn ended_as(&self, turn_id: &TurnId) -> TurnEnd {
        match self.log.session.turns.get(turn_id).and_then(|known| known.end.clone()) {
            None | Some(End::Completed) => TurnEnd::Completed,
            Some(End::Failed { code, message }) => TurnEnd::Failed { code, message },
            Some(End::Cancelled) => TurnEnd::Cancelled,
        }
    }

    /// Records something and goes on with what is then to be done.
    async fn change(&mut self, records: Vec<Record>) -> Result<(), Refusal> {
        self.commit(records, None).await?;
        self.pursue().await
    }

    /// Takes records into the session, starts and stops what follows from them, makes them durable, then tells readers:
    /// first of what the call that `ended` had open.
    async fn commit(&mut self, records: Vec<Record>, ended: Option<Running>) -> Result<(), Refusal> {
        if records.is_empty() {
            return Ok(());
        }
        let first = self.log.session.seq + 1;
        let append = self.log.evolve(&records)?;
        let stopped = ended.or_else(|| self.running.take_if(|running| !engine::wanted(&self.log.session).contains(running.effect())));
        let closing = stopped.as_ref().and_then(|running| running.closing(clock::now()));
        drop(stopped);
        self.count(self.log.session.turn.is_some());
        self.start_call().await?;
        let mut appended = std::pin::pin!(Log::append(self.log.store(), self.log.key.clone(), append));
        loop {
            tokio::select! {
                biased;
                done = &mut appended => break done?,
                () = Running::prefetch(self.running.as_mut()) => {}
            }
        }
        self.publish(first, &records, closing).await
    }

    async fn publish(&mut self, first: u64, records: &[Record], closing: Option<Event>) -> Result<(), Refusal> {
        if self.audience.is_empty() {
            return Ok(());
        }
        let failed = records.iter().any(|record| matches!(record.body, engine::record::Body::CallFailed(_)));
        let resync = if failed && closing.is_some() { Some(self.snapshot().await?) } else { None };
        self.audience.tell_records(first, records, closing, resync);
        Ok(())
    }

    /// Starts the call that is wanted and doesn't run.
    async fn start_call(&mut self) -> Result<(), Refusal> {
        let wanted = engine::wanted(&self.log.session).into_iter().find(|effect| matches!(effect, Effect::Call { .. }));
        let Some(effect) = wanted.filter(|_| self.running.is_none()) else { return Ok(()) };
        let path = engine::path(&self.log.session);
        self.log.recall(path).await?;
        let session = &self.log.session;
        let turn = session.turn.as_ref().and_then(|turn| turn.call.as_ref().map(|call| (turn, call)));
        let request = turn.and_then(|(turn, call)| Some((call, self.request(turn, call)?)));
        // A turn whose call can't be asked for would run for ever.
        let Some((call, (llm, request))) = request else {
            return Err(Refusal::new(Code::Internal, "the model's part of the conversation isn't in memory"));
        };
        let provider = self.worker.provider(&llm);
        let reply = Reply::new(call.reply_id.clone(), session.seq, call.attempt);
        let bytes_max = self.worker.shared.options.limits.reply_bytes_max.get();
        self.running = Some(Running::start(effect, provider.as_deref(), request, reply, bytes_max));
        Ok(())
    }

    /// What the running turn asks its model.
    fn request(&self, turn: &Turn, call: &Call) -> Option<(String, CallRequest)> {
        let agent = self.worker.shared.options.agents.get(&turn.agent_id);
        let request = CallRequest {
            model: None,
            system: agent.and_then(|agent| agent.system.clone()),
            messages: engine::prompt(&self.log.session).ok()?,
            tools: turn.client.tools.clone(),
            index: turn.calls.saturating_sub(1),
            hidden: call.hidden,
        };
        Some((agent.map(|agent| agent.llm.clone()).unwrap_or_default(), request))
    }

    /// Tells readers what came while the start of the call was made durable.
    async fn pursue(&mut self) -> Result<(), Refusal> {
        while let Some(ended) = self.running.as_mut().and_then(|running| running.drain(&self.log.session.tree)) {
            self.settle(ended).await?;
        }
        self.tell_written();
        Ok(())
    }

    fn tell_written(&mut self) {
        if let Some(running) = &mut self.running {
            self.audience.tell(running.told());
        }
    }

    async fn call_ended(&mut self, ended: Ended) -> Result<(), Refusal> {
        self.settle(ended).await?;
        self.pursue().await
    }

    /// Records how the running attempt ended.
    async fn settle(&mut self, ended: Ended) -> Result<(), Refusal> {
        self.tell_written();
        let Some(running) = self.running.take() else { return Ok(()) };
        let Effect::Call { id, attempt } = running.effect().clone() else { return Ok(()) };
        let outcome = ended.map(|finish| Finished { message: running.message(), finish, usage: running.usage() });
        if let Err(error) = &outcome {
            tracing::warn!(session.id = %self.log.key, call.id = %id, attempt, error = ?error.kind, "a model call failed");
        }
        let records = engine::call_finished(&self.log.session, &id, attempt, outcome, &self.context());
        self.commit(records, Some(running)).await
    }

    async fn wake(&mut self) -> Result<(), Refusal> {
        for effect in engine::wanted(&self.log.session) {
            if let Effect::Wake { id, attempt, .. } = effect {
                let records = engine::wake(&self.log.session, &id, attempt, &self.context());
                self.change(records).await?;
            }
        }
        Ok(())
    }

    fn count(&mut self, runs: bool) {
        if runs != self.counted {
            self.counted = runs;
            self.worker.shared.running.send_modify(|running| *running = if runs { *running + 1 } else { *running - 1 });
        }
    }

    /// Where a reader is that has been told everything.
    pub(super) fn cursor(&self) -> Cursor {
        let within = self.running.as_ref().map(Running::cursor).filter(|cursor| cursor.within.is_some());
        within.unwrap_or(Cursor::after(self.log.session.seq))
    }
}
