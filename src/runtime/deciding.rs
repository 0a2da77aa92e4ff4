//! Asking an agent's worker, on the session's task, without blocking it. May not know what an answer comes to.

use std::rc::Rc;

use super::command::Answer;
use super::counts::AskTiming;
use super::session_task::Task;
use crate::clock;
use crate::engine::{self, Effect, Unanswered};
use crate::ids::DecisionId;
use crate::protocol::native::own_place;
use crate::protocol::{Code, DecisionAnswer, Refusal};
use crate::worker::{self, Error, Worker};

/// What a worker said.
pub(super) type Answered = Result<DecisionAnswer, Error>;

/// An attempt to ask that runs.
pub(super) struct Asking {
    effect: Effect,
    answer: worker::Asking,
    timing: AskTiming,
    /// Who is asked.
    worker: Option<Rc<dyn Worker>>,
}

impl Asking {
    /// Waits for the answer. Safe to be dropped while it waits.
    pub(super) async fn answered(asking: Option<&mut Self>) -> Answered {
        match asking {
            Some(asking) => (&mut asking.answer).await,
            None => std::future::pending().await,
        }
    }
}

impl Task {
    /// Gives up an attempt that nobody wants any more, and starts the one that is wanted.
    pub(super) async fn ask_worker(&mut self) -> Result<(), Refusal> {
        let wanted = engine::wanted(&self.log.session);
        drop(self.asking.take_if(|asking| !wanted.contains(&asking.effect)));
        let Some(effect) = wanted.into_iter().find(|effect| matches!(effect, Effect::Ask { .. })) else { return Ok(()) };
        if self.asking.is_some() {
            return Ok(());
        }
        self.recall_path().await?;
        let context = self.context();
        let request = engine::decision_request(&self.log.session, &self.log.key.session, &context);
        let missing = |_| Refusal::new(Code::Internal, "the part of the conversation that a worker is asked about isn't in memory");
        let Some(request) = request.map_err(missing)? else { return Ok(()) };
        let (agent, deadline) = (request.agent_id.clone(), request.deadline);
        let worker = self.agent_worker(&agent);
        let answer: worker::Asking = match &worker {
            Some(worker) => worker.decide(request),
            None => Box::pin(std::future::ready(Err(Error::Failed("the agent has no worker any more".to_owned())))),
        };
        let timing = AskTiming::start(self.counts.label(&agent), deadline);
        self.asking = Some(Asking { effect, answer, timing, worker });
        Ok(())
    }

    /// Records what the worker has decided, or that it hasn't.
    pub(super) async fn decided(&mut self, answered: Answered) -> Result<(), Refusal> {
        let Some(Asking { effect: Effect::Ask { id, attempt }, answer: _, mut timing, worker }) = self.asking.take() else {
            return Ok(());
        };
        self.recall_path().await?;
        let context = self.context();
        let session = &self.log.session;
        let decided = answered.and_then(|answer| engine::answer(session, &id, &answer, &context).map_err(Error::from));
        timing.ended(decided.as_ref().err().map(Error::code));
        let (key, duration_ms) = (&self.log.key, timing.millis());
        match &decided {
            Ok(_) => tracing::debug!(session.id = %key, decision.id = %id, attempt, duration_ms, "a worker decided"),
            // What is wrong with an answer is told, what a worker or a person said isn't.
            Err(error) => {
                let at = error.at().map(own_place);
                tracing::warn!(session.id = %key, decision.id = %id, attempt, error = %error.code(), at, duration_ms, "a worker gave no answer that can be carried out");
            }
        }
        let verdict = match &decided {
            Ok(_) => Some(Ok(())),
            Err(Error::BadAnswer(refusal)) => Some(Err(bad(refusal.clone()))),
            Err(Error::Failed(_) | Error::Unreached(_) | Error::Busy { .. } | Error::TimedOut) => None,
        };
        let records = decided.unwrap_or_else(|error| {
            let why = Unanswered { code: error.code(), message: &error.to_string(), pause: error.pause() };
            engine::decision_failed(session, &id, attempt, why, &context)
        });
        self.change(records).await?;
        if let (Some(verdict), Some(worker)) = (verdict, worker) {
            worker.judged(&id, verdict.as_ref().copied());
        }
        Ok(())
    }

    /// Carries out an answer that came by itself; the attempt that runs is given up then.
    pub(super) async fn take_answer(&mut self, id: &DecisionId, given: &DecisionAnswer, answer: Answer<bool>) -> Result<(), Refusal> {
        self.recall_path().await?;
        let decided = self.must_exist().and_then(|()| engine::answer(&self.log.session, id, given, &self.context()));
        match &decided {
            Ok(records) => {
                let asked = self.asking.as_mut().filter(|asking| matches!(&asking.effect, Effect::Ask { id: asked, .. } if asked == id));
                if let Some(asking) = asked {
                    asking.timing.ended(None);
                }
                tracing::debug!(session.id = %self.log.key, decision.id = %id, duplicate = records.is_empty(), "a worker decided by itself");
            }
            Err(refusal) => {
                let at = refusal.details.get("at").and_then(|at| at.as_str()).map(own_place);
                tracing::warn!(session.id = %self.log.key, decision.id = %id, error = %refusal.code, at, "an answer that came by itself isn't carried out");
            }
        }
        let decided = decided.map_err(bad).map(|records| {
            let taken = !records.is_empty();
            (records, taken)
        });
        self.record(decided, answer).await
    }

    /// A pause between attempts is over, or an attempt took too long.
    pub(super) async fn wake_decision(&mut self) -> Result<(), Refusal> {
        for effect in engine::wanted(&self.log.session) {
            let Effect::WakeDecision { at, id, attempt } = effect else { continue };
            if at > clock::now() {
                continue;
            }
            if self.asking.is_some() {
                tracing::warn!(session.id = %self.log.key, decision.id = %id, attempt, "a worker didn't answer in time");
            }
            let records = engine::wake_decision(&self.log.session, &id, attempt, &self.context());
            self.change(records).await?;
        }
        Ok(())
    }
}

/// Why an answer isn't carried out: the answer itself, unless the session or the decision is why.
fn bad(refusal: Refusal) -> Refusal {
    match refusal.code {
        Code::SessionNotFound | Code::DecisionClosed | Code::NewerVersion | Code::Internal => refusal,
        code => Refusal { code: Code::BadAnswer, ..refusal }.with("because", code.as_str()),
    }
}
