//! Having tool calls carried out, several at once, beside the session's task and without blocking it. May not know what a result comes to.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::session_task::Task;
use crate::clock;
use crate::engine::{self, Effect, Outcome};
use crate::ids::{DecisionId, ToolCallId};
use crate::protocol::{Code, DecisionAnswer, Refusal};
use crate::worker::{self, Worker};

/// Who is told what came of an answer: the worker, and what it knows the question by.
type Asked = (Rc<dyn Worker>, DecisionId);

/// What came of an attempt.
enum Came {
    /// The worker's answer, if it gave one.
    Answer(Result<DecisionAnswer, worker::Error>),
    /// What the tool did.
    Outcome(Outcome),
}

/// An attempt that has ended.
pub(super) struct CarriedOut {
    id: ToolCallId,
    attempt: u32,
    started: Instant,
    came: Came,
    asked: Option<Asked>,
}

/// An attempt that runs.
struct Running {
    id: ToolCallId,
    attempt: u32,
    started: Instant,
    came: LocalBoxFuture<'static, Came>,
    asked: Option<Asked>,
}

/// The attempts that run.
#[derive(Default)]
pub(super) struct Executing(Vec<Running>);

impl Executing {
    /// Waits for the next one that ends. Safe to be dropped while it waits.
    pub(super) async fn next(&mut self) -> CarriedOut {
        poll_fn(|context| {
            let ready = self.0.iter_mut().enumerate().find_map(|(at, running)| match running.came.poll_unpin(context) {
                Poll::Ready(came) => Some((at, came)),
                Poll::Pending => None,
            });
            let Some((at, came)) = ready else { return Poll::Pending };
            let Running { id, attempt, started, asked, .. } = self.0.swap_remove(at);
            Poll::Ready(CarriedOut { id, attempt, started, came, asked })
        })
        .await
    }

    fn has(&self, effect: &Effect) -> bool {
        self.0.iter().any(|running| running.is(effect))
    }
}

impl Running {
    fn is(&self, effect: &Effect) -> bool {
        matches!(effect, Effect::Execute { id, attempt } if *id == self.id && *attempt == self.attempt)
    }
}

impl Task {
    /// Gives up attempts that nobody wants any more, and begins those that are wanted. What they do others see, so that the start of each is
    /// in the log before.
    pub(super) async fn execute(&mut self) -> Result<(), Refusal> {
        let wanted = engine::wanted(&self.log.session);
        self.executing.0.retain(|running| wanted.iter().any(|effect| running.is(effect)));
        for effect in wanted {
            if self.executing.has(&effect) {
                continue;
            }
            if let Effect::Execute { id, attempt } = effect {
                self.recall_path().await?;
                let (came, asked) = self.carry_out(&id)?;
                self.executing.0.push(Running { id, attempt, started: clock::instant(), came, asked });
            }
        }
        Ok(())
    }

    fn carry_out(&self, id: &ToolCallId) -> Result<(LocalBoxFuture<'static, Came>, Option<Asked>), Refusal> {
        let session = &self.log.session;
        let missing = |_| Refusal::new(Code::Internal, "a call that is to be carried out isn't in memory");
        let request = engine::execution_request(session, &self.log.key.session, id, &self.context()).map_err(missing)?;
        let worker = request.as_ref().and_then(|request| self.agent_worker(&request.agent_id));
        if let (Some(request), Some(worker)) = (request, worker) {
            let decision = request.decision_id.clone();
            return Ok((worker.decide(request).map(Came::Answer).boxed_local(), Some((worker, decision))));
        }
        let message = "the agent has nobody any more who carries it out".to_owned();
        let lost = Outcome::Lost { code: Code::WorkerFailed, message, reached: false };
        Ok((std::future::ready(Came::Outcome(lost)).boxed_local(), None))
    }

    /// Records what came of an attempt.
    pub(super) async fn executed(&mut self, carried_out: CarriedOut) -> Result<(), Refusal> {
        let CarriedOut { id, attempt, started, came, asked } = carried_out;
        let mut verdict = None;
        let context = self.context();
        let session = &self.log.session;
        let outcome = match came {
            Came::Outcome(outcome) => outcome,
            Came::Answer(answer) => match answer.and_then(|answer| Ok(engine::execution_answer(session, &id, &answer)?)) {
                Ok(outcome) => {
                    verdict = Some(Ok(()));
                    outcome
                }
                Err(error) => {
                    let lost = Outcome::Lost { code: error.code(), message: error.to_string(), reached: error.reached() };
                    if let worker::Error::BadAnswer(refusal) = error {
                        verdict = Some(Err(refusal));
                    }
                    lost
                }
            },
        };
        let (key, duration_ms) = (&self.log.key, clock::instant().duration_since(started).as_millis());
        match &outcome {
            Outcome::Result(_) => {
                tracing::debug!(session.id = %key, tool_call.id = %id, attempt, duration_ms, "a tool call was carried out");
            }
            // What a tool says is nobody's business.
            Outcome::Error { retryable, .. } => {
                tracing::debug!(session.id = %key, tool_call.id = %id, attempt, retryable, duration_ms, "a tool call failed");
            }
            Outcome::Lost { code, .. } => {
                tracing::warn!(session.id = %key, tool_call.id = %id, attempt, error = %code, duration_ms, "nothing is known of a tool call");
            }
        }
        let records = engine::executed(session, &id, attempt, outcome, &context);
        self.change(records).await?;
        if let (Some(verdict), Some((worker, decision))) = (verdict, asked) {
            worker.judged(&decision, verdict.as_ref().copied());
        }
        Ok(())
    }

    /// A pause between attempts is over, or an attempt took too long.
    pub(super) async fn wake_executions(&mut self) -> Result<(), Refusal> {
        for effect in engine::wanted(&self.log.session) {
            let Effect::WakeExecution { at, id, attempt } = effect else { continue };
            if at <= clock::now() {
                let records = engine::wake_execution(&self.log.session, &id, attempt, &self.context());
                self.change(records).await?;
            }
        }
        Ok(())
    }
}
