//! A session's task: takes commands, model output and timers one after another; decides by the engine; makes it durable; then
//! tells readers. Control flow is here, the parts are in `log`, `running`, `audience`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::arriving;
use super::audience::{Along, Audience};
use super::command::{Answer, Command, give, reply};
use super::counts::{Closing, Counts, word};
use super::deciding::{Answered, Asking};
use super::erase;
use super::executing::{CarriedOut, Executing};
use super::keeper;
use super::living::Living;
use super::log::Log;
use super::masked::{self, masked};
use super::pace::Pace;
use super::running::{Ended, Running};
use super::shared::Residence;
use super::slots::Slot;
use super::told::lets_go;
use super::worker::{Opening, Worker};
use crate::clock;
use crate::engine::record::Body;
use crate::engine::{self, Context, Effect, Finished, Policy, Record};
use crate::ids::SessionKey;
use crate::protocol::{CallError, Code, Cursor, Event, Refusal};

/// Runs a session's task to its end.
pub async fn run(worker: Rc<Worker>, opening: Opening) {
    let Opening { key, mut commands, residence } = opening;
    let _living = Living::of(&worker.shared);
    let stopped = match Task::open(worker.clone(), key.clone(), residence).await {
        Ok(mut task) => {
            let stopped = task.work(&mut commands).await;
            if let Err(refusal) = &stopped {
                task.audience.fail(refusal.code);
                if refusal.code != Code::SessionDeleted {
                    // Whether the log has an unfinished turn isn't known: the fold may be ahead of it.
                    tokio::spawn(worker.shared.clone().take_up(key.clone()));
                }
            }
            stopped
        }
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = stopped {
        if refusal.code != Code::SessionDeleted {
            tracing::warn!(session.id = %key, error = %refusal.code, message = masked::fault(&refusal.message), "the session is given up; it is opened again when asked for");
        }
        worker.shared.give_up(&key, &mut commands);
        while let Some(command) = commands.recv().await {
            match command {
                // What nobody can read any more can still be erased.
                Command::Erase(answer) if refusal.code == Code::SessionCorrupt => {
                    reply(answer, erase::erase(&*worker.shared.store, &key, worker.shared.options.limits.tombstone()).await);
                }
                command => command.refuse(&refusal),
            }
        }
    }
}

enum Woken {
    Command(Option<Command>),
    Call(Option<Ended>),
    Job(Option<Ended>),
    Worker(Answered),
    Tool(CarriedOut),
    Timer,
    Idle,
}

/// An open session.
pub(super) struct Task {
    pub(super) worker: Rc<Worker>,
    pub(super) log: Log,
    pub(super) audience: Audience,
    pub(super) running: Option<Running>,
    /// The summary that is being written beside it.
    pub(super) job: Option<Running>,
    /// The worker that is being asked.
    pub(super) asking: Option<Asking>,
    /// The tool calls that are being carried out.
    pub(super) executing: Executing,
    /// Whether this task counts as one in which something goes on.
    counted: bool,
    /// Its place among the turns that run.
    slot: Option<Slot>,
    pace: Option<Pace>,
    residence: Arc<Residence>,
    pub(super) counts: Counts,
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.counted {
            self.worker.shared.running.send_modify(|running| *running -= 1);
        }
    }
}

impl Task {
    async fn open(worker: Rc<Worker>, key: SessionKey, residence: Arc<Residence>) -> Result<Self, Refusal> {
        let shared = &worker.shared;
        let mut log = Log::open(shared.store.clone(), key).await?;
        log.recall_state().await?;
        if log.session.seq == 0 {
            log.must_not_be_erased().await?;
        }
        let audience = Audience::new(&shared.options.limits);
        let limits = &shared.options.limits;
        let pace = limits.session_inputs_per_sec.map(|most| Pace::new(most, limits.session_inputs_burst.unwrap_or(most)));
        let counts = Counts::opened(shared.clone(), &log.session);
        let mut task = Self {
            worker,
            log,
            audience,
            running: None,
            job: None,
            asking: None,
            executing: Executing::default(),
            counted: false,
            slot: None,
            pace,
            residence,
            counts,
        };
        task.count();
        task.recover().await?;
        Ok(task)
    }

    /// Goes on with what a lost process left.
    async fn recover(&mut self) -> Result<(), Refusal> {
        let records = engine::recover(&self.log.session, &self.context());
        if let Some(turn) = self.log.session.turn.as_ref().filter(|_| !records.is_empty()) {
            tracing::warn!(session.id = %self.log.key, turn.id = turn.id.as_str(), "a turn whose process was lost is taken up");
        }
        self.change(records).await
    }

    async fn work(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), Refusal> {
        loop {
            match self.woken(commands).await {
                Woken::Command(Some(Command::Stop) | None) => {
                    self.counts.closes(Closing::Stopped);
                    return Ok(());
                }
                Woken::Command(Some(Command::MakeRoom)) => {
                    if self.may_leave() && self.worker.shared.retire(&self.log.key, commands) {
                        self.log.keep(keeper::AT_LEAVING);
                        self.counts.closes(Closing::Room);
                        return Ok(());
                    }
                    // Others are asked first next time.
                    self.residence.used();
                }
                Woken::Command(Some(command)) => {
                    self.residence.used();
                    // Who joins now gets a snapshot with everything so far, so that everything so far is told first.
                    self.tell_written();
                    self.obey(command).await?;
                    self.log.session.forget();
                }
                Woken::Call(None) => self.tell_written(),
                Woken::Call(Some(ended)) => self.call_ended(ended).await?,
                Woken::Job(None) => {}
                Woken::Job(Some(ended)) => self.job_ended(ended).await?,
                Woken::Worker(answered) => self.decided(answered).await?,
                Woken::Tool(carried_out) => self.executed(carried_out).await?,
                Woken::Timer => {
                    self.wake().await?;
                    self.wake_decision().await?;
                    self.wake_executions().await?;
                }
                Woken::Idle => {
                    if self.may_leave() && self.worker.shared.retire(&self.log.key, commands) {
                        self.log.keep(keeper::AT_LEAVING);
                        self.counts.closes(Closing::Idle);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether nothing goes on, and nobody reads.
    fn may_leave(&mut self) -> bool {
        !self.counted && !self.audience.is_waiting()
    }

    async fn woken(&mut self, commands: &mut mpsc::Receiver<Command>) -> Woken {
        let session = &self.log.session;
        if let (Some(running), None) = (&mut self.running, &session.job) {
            return tokio::select! {
                biased;
                command = commands.recv() => Woken::Command(command),
                ended = running.pull(&session.tree) => Woken::Call(ended),
            };
        }
        let wakes = engine::wanted(session).into_iter().filter_map(|effect| match effect {
            Effect::Wake { at, .. } | Effect::WakeDecision { at, .. } | Effect::WakeExecution { at, .. } => Some(at),
            Effect::Call { .. } | Effect::Job { .. } | Effect::Room { .. } | Effect::Ask { .. } | Effect::Execute { .. } => None,
        });
        let wake = wakes.min();
        let (pause, woken) = match wake {
            Some(at) => (Duration::from_millis(at.saturating_sub(clock::now())), Woken::Timer),
            None if session.seq == 0 => (Duration::ZERO, Woken::Idle),
            None => (Duration::from_secs(self.worker.shared.options.limits.idle_secs.get()), Woken::Idle),
        };
        tokio::select! {
            biased;
            command = commands.recv() => Woken::Command(command),
            ended = Running::pull_some(self.running.as_mut(), &session.tree) => Woken::Call(ended),
            ended = Running::pull_some(self.job.as_mut(), &session.tree) => Woken::Job(ended),
            answered = Asking::answered(self.asking.as_mut()) => Woken::Worker(answered),
            carried_out = self.executing.next() => Woken::Tool(carried_out),
            () = tokio::time::sleep(pause) => woken,
        }
    }

    pub(super) fn context(&self) -> Context {
        let options = &self.worker.shared.options;
        let turn = self.log.session.turn.as_ref();
        let llm = turn.and_then(|turn| options.llms.get(self.llm(turn, turn.call.as_ref())?));
        let policy = Policy {
            attempts: llm.map_or(1, |llm| llm.attempts),
            calls_per_turn_max: options.limits.calls_per_turn_max.get(),
            queue_turns_max: options.limits.queue_turns_max.get(),
            queue_messages_max: options.limits.queue_messages_max.get(),
            arrivals_bytes_max: options.limits.arrivals_bytes_max.get(),
            executions_max: options.limits.tools_parallel.get(),
            state_bytes_max: options.limits.state_bytes_max.get(),
        };
        let written = self.running.as_ref().and_then(Running::written);
        Context { stamp: clock::stamp(), written, policy, agents: self.agents() }
    }

    async fn obey(&mut self, command: Command) -> Result<(), Refusal> {
        match command {
            Command::Submit(submit, answer) => return self.submit(&submit, answer).await,
            Command::Cancel(turn_id, answer) => {
                let records = engine::cancel(&self.log.session, turn_id.as_ref(), &self.context());
                let stopped = !records.is_empty();
                return self.record(Ok((records, stopped)), answer).await;
            }
            Command::Leave(turn_id, answer) => {
                let records = engine::leave(&self.log.session, &turn_id, &self.context());
                let stopped = !records.is_empty();
                return self.record(Ok((records, stopped)), answer).await;
            }
            Command::MoveHead(asked, answer) => {
                let decided = self.decide_head(&asked);
                return self.record(decided, answer).await;
            }
            Command::Update(asked, answer) => return self.update(&asked, answer).await,
            Command::Fork(carried, answer) => return self.begin_fork(*carried, answer).await,
            Command::Import(records, answer) => return self.import(records, answer).await,
            Command::Erase(answer) => return self.erase(answer).await,
            Command::Decide(id, given, answer) => return self.take_answer(&id, &given, answer).await,
            Command::Carry(at, answer) => reply(answer, self.carry(at.as_ref()).await),
            Command::Join(answer) => reply(answer, self.join().await),
            Command::Page(answer) => reply(answer, self.page().await),
            Command::Tree(query, answer) => reply(answer, self.tree(&query).await),
            Command::Events(after, answer) => reply(answer, self.events(after)),
            Command::Follow(follow, answer) => reply(answer, self.follow(&follow).await),
            Command::Run(name, answer) => reply(answer, self.place(&name)),
            Command::ReadAt(node, seq, answer) => reply(answer, self.read_at(node.as_ref(), seq).await),
            Command::ReadBefore(reply_id, answer) => reply(answer, self.read_before(&reply_id).await),
            Command::Hydrate(answer) => reply(answer, self.hydrate().await),
            Command::Open(answer) => reply(answer, Ok(())),
            Command::Stop | Command::MakeRoom => {}
        }
        Ok(())
    }

    /// Records what was decided, and answers. A refusal changes nothing.
    pub(super) async fn record<T>(&mut self, decided: Result<(Vec<Record>, T), Refusal>, answer: Answer<T>) -> Result<(), Refusal> {
        match decided {
            Ok((records, answered)) => give(answer, self.change(records).await.map(|()| answered)),
            Err(refusal) => {
                reply(answer, Err(refusal));
                Ok(())
            }
        }
    }

    /// Records something and goes on with what is then to be done.
    pub(super) async fn change(&mut self, records: Vec<Record>) -> Result<(), Refusal> {
        self.commit(records, None).await?;
        self.pursue().await
    }

    /// Takes records into the session, starts and stops what follows from them, makes them durable, then tells readers:
    /// first of what the call that `ended` had open.
    pub(super) async fn commit(&mut self, records: Vec<Record>, ended: Option<Running>) -> Result<(), Refusal> {
        if records.is_empty() {
            return Ok(());
        }
        let first = self.log.session.seq + 1;
        let append = self.log.evolve(&records)?;
        self.log.recall_state().await?;
        let stopped = ended.or_else(|| self.running.take_if(|running| !engine::wanted(&self.log.session).contains(running.effect())));
        let closing = stopped.as_ref().and_then(|running| running.closing(clock::now()));
        // What isn't heard further ends here.
        let rest = stopped.and_then(Running::rest);
        self.count();
        self.start_call(rest).await?;
        self.follow_job().await?;
        if let Some(running) = &mut self.running {
            running.pass(self.log.session.seq);
        }
        let mut appended = std::pin::pin!(Log::append(self.log.store(), self.log.key.clone(), append, self.append_within()));
        loop {
            tokio::select! {
                biased;
                done = &mut appended => break done?,
                () = Running::prefetch(self.running.as_mut()) => {}
            }
        }
        self.counts.appended(&self.log.key, &records);
        self.counts.hold(&self.log.session, self.slot.is_some());
        self.publish(first, &records, closing).await?;
        let ends = |record: &Record| matches!(record.body, Body::TurnCompleted(_) | Body::TurnFailed(_) | Body::TurnCancelled(_));
        if records.iter().any(ends) {
            self.log.keep(keeper::AFTER_TURN);
        }
        Ok(())
    }

    async fn publish(&mut self, first: u64, records: &[Record], closing: Option<Event>) -> Result<(), Refusal> {
        if self.audience.is_empty() {
            return Ok(());
        }
        let resync = closing.as_ref().is_some_and(|closing| lets_go(&closing.body, records));
        let reads = arriving::begins(&self.log.session, records);
        let snapshot = if resync || reads || self.audience.waits_for(records) { Some(self.snapshot().await?) } else { None };
        let reading = snapshot.clone().filter(|_| reads);
        let within = self.running.as_ref().and_then(|running| running.cursor().within);
        self.audience.tell_records(first, records, Along { closing, snapshot, resync, reading, within });
        Ok(())
    }

    /// Makes room for a call that is held, begins a background summary, and tells readers what came while the start of a call was made
    /// durable. The summary is begun first: a reply that is there already ends the turn.
    pub(super) async fn pursue(&mut self) -> Result<(), Refusal> {
        loop {
            if self.begin_job().await? {
                continue;
            }
            if let Some(ended) = self.running.as_mut().and_then(|running| running.drain(&self.log.session.tree)) {
                self.settle(ended).await?;
            } else if engine::wanted(&self.log.session).iter().any(|effect| matches!(effect, Effect::Room { .. })) {
                let records = engine::context::make_room(&self.log.session, &self.context());
                self.commit(records, None).await?;
            } else {
                break;
            }
        }
        self.tell_written();
        self.execute().await?;
        self.ask_worker().await
    }

    fn tell_written(&mut self) {
        if let Some(running) = &mut self.running {
            self.audience.tell_live(running.told());
        }
    }

    async fn call_ended(&mut self, ended: Ended) -> Result<(), Refusal> {
        self.settle(ended).await?;
        self.pursue().await
    }

    /// Records how the running attempt ended.
    async fn settle(&mut self, ended: Ended) -> Result<(), Refusal> {
        self.tell_written();
        let Some(mut running) = self.running.take() else { return Ok(()) };
        let Effect::Call { id, attempt } = running.effect().clone() else { return Ok(()) };
        let outcome = ended.map(|finish| running.finished(finish));
        running.ended(outcome.as_ref().err().map(|error| error.kind));
        self.log_ended(&running, outcome.as_ref());
        let records = engine::call_finished(&self.log.session, &id, attempt, outcome, &self.context());
        self.commit(records, Some(running)).await
    }

    /// One line an attempt.
    fn log_ended(&self, running: &Running, outcome: Result<&Finished, &CallError>) {
        let Effect::Call { id, attempt } = running.effect() else { return };
        let (session, timing) = (&self.log.key, running.timing());
        let turn = self.log.session.turn.as_ref().map(|turn| turn.id.as_str());
        let (llm, duration_ms) = (timing.llm(), timing.millis());
        match outcome {
            Ok(_) => tracing::debug!(session.id = %session, turn.id = turn, call.id = %id, attempt, llm, duration_ms, "a model call ended"),
            Err(error) => {
                let (kind, said) = (word(error.kind), self.presentable(&error.message));
                tracing::warn!(session.id = %session, turn.id = turn, call.id = %id, attempt, llm, error = kind, said, duration_ms, "a model call failed");
            }
        }
    }

    /// What a provider said, without what it was told.
    fn presentable(&self, said: &str) -> String {
        let turn = self.log.session.turn.as_ref();
        let request = turn.and_then(|turn| self.request(turn, turn.call.as_ref()?));
        masked(said, request.as_ref().map(|(_, request)| request))
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

    /// Whether this session has something going on that a drain waits for.
    fn count(&mut self) {
        let runs = !engine::wanted(&self.log.session).is_empty();
        match engine::is_running(&self.log.session) {
            true if self.slot.is_none() => self.slot = Some(self.worker.shared.slots.enter(&self.log.key.tenant)),
            true => {}
            false => self.slot = None,
        }
        self.residence.runs(runs);
        if runs != self.counted {
            self.counted = runs;
            self.worker.shared.running.send_modify(|running| *running = if runs { *running + 1 } else { *running - 1 });
        }
    }

    /// How long an append may take.
    pub(super) fn append_within(&self) -> Duration {
        self.worker.shared.options.limits.append_within()
    }

    /// How long the session's id stays taken once it was erased.
    pub(super) fn tombstone(&self) -> Duration {
        self.worker.shared.options.limits.tombstone()
    }

    /// Refuses an input that comes too fast.
    pub(super) fn must_keep_pace(&self) -> Result<(), Refusal> {
        match &self.pace {
            Some(pace) if !pace.keeps() => {
                Err(Refusal::new(Code::RateLimited, "this session gets more inputs a second than are allowed; send fewer, or later"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses what would start a turn when too many run. The place is kept until it is known that nothing runs.
    pub(super) fn must_have_slot(&mut self, records: &[Record]) -> Result<(), Refusal> {
        let starts = |record: &Record| matches!(record.body, Body::TurnStarted(_) | Body::CallStarted(_));
        if self.slot.is_none() && records.iter().any(starts) {
            let shared = &self.worker.shared;
            self.slot = Some(shared.slots.take(&self.log.key.tenant, &shared.options.limits)?);
        }
        Ok(())
    }

    /// The most that waits: turns, and messages and events for a call.
    pub(super) fn waiting_max(&self) -> usize {
        let limits = &self.worker.shared.options.limits;
        limits.queue_turns_max.get().saturating_add(limits.queue_messages_max.get())
    }

    /// Whether nothing new is begun any more.
    pub(super) fn is_draining(&self) -> bool {
        self.worker.shared.is_draining()
    }

    /// Where a reader is that has been told everything.
    pub(super) fn cursor(&self) -> Cursor {
        let within = self.running.as_ref().map(Running::cursor).filter(|cursor| cursor.within.is_some());
        within.unwrap_or(Cursor::after(self.log.session.seq))
    }
}
