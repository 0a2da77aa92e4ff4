//! Asking an agent's worker, on the session's task, without blocking it. May not know what an answer comes to.

use std::time::Instant;

use super::session_task::Task;
use crate::clock;
use crate::engine::{self, Effect};
use crate::protocol::{Code, DecisionAnswer, Refusal};
use crate::worker::{self, Error};

/// What a worker said.
pub(super) type Answered = Result<DecisionAnswer, Error>;

/// An attempt to ask that runs.
pub(super) struct Asking {
    effect: Effect,
    answer: worker::Asking,
    started: Instant,
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
        let answer: worker::Asking = match self.agent_worker(&request.agent_id) {
            Some(worker) => worker.decide(request),
            None => Box::pin(std::future::ready(Err(Error::Failed("the agent has no worker any more".to_owned())))),
        };
        self.asking = Some(Asking { effect, answer, started: clock::instant() });
        Ok(())
    }

    /// Records what the worker has decided, or that it hasn't.
    pub(super) async fn decided(&mut self, answered: Answered) -> Result<(), Refusal> {
        let Some(Asking { effect: Effect::Ask { id, attempt }, answer: _, started }) = self.asking.take() else { return Ok(()) };
        self.recall_path().await?;
        let context = self.context();
        let session = &self.log.session;
        let decided = answered.and_then(|answer| engine::answer(session, &id, &answer, &context).map_err(Error::from));
        let (key, duration_ms) = (&self.log.key, clock::instant().duration_since(started).as_millis());
        match &decided {
            Ok(_) => tracing::debug!(session.id = %key, decision.id = %id, attempt, duration_ms, "a worker decided"),
            // What is wrong with an answer is told, what a worker or a person said isn't.
            Err(error) => {
                let at = error.at();
                tracing::warn!(session.id = %key, decision.id = %id, attempt, error = %error.code(), at, duration_ms, "a worker gave no answer that can be carried out");
            }
        }
        let records =
            decided.unwrap_or_else(|error| engine::decision_failed(session, &id, attempt, error.code(), &error.to_string(), &context));
        self.change(records).await
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
