//! The summary that a model writes while turns go on: its attempt runs beside the turn's call. Nobody reads it.

use std::sync::Arc;

use super::counts::{Timing, word};
use super::masked::masked;
use super::reply::Reply;
use super::running::{Ended, Running};
use super::session_task::Task;
use crate::engine::{self, Context, Effect, Finished, Policy};
use crate::ids::NodeId;
use crate::protocol::{CallRequest, Code, Refusal};

impl Task {
    /// Begins to have a summary written, when one is due; whether it was. Nothing new is begun while the server stops.
    pub(super) async fn begin_job(&mut self) -> Result<bool, Refusal> {
        if self.is_draining() || !engine::context::is_job_due(&self.log.session, &self.agents()) {
            return Ok(false);
        }
        let records = engine::context::begin_job(&self.log.session, &self.context());
        let begins = !records.is_empty();
        self.commit(records, None).await?;
        Ok(begins)
    }

    /// Stops the attempt that isn't wanted any more, and starts the one that is.
    pub(super) async fn follow_job(&mut self) -> Result<(), Refusal> {
        let wanted = engine::wanted(&self.log.session).into_iter().find(|effect| matches!(effect, Effect::Job { .. }));
        if self.job.as_ref().is_some_and(|running| Some(running.effect()) != wanted.as_ref()) {
            self.job = None;
        }
        let (Some(effect), None) = (wanted, &self.job) else { return Ok(()) };
        let Effect::Job { attempt, .. } = effect else { return Ok(()) };
        let tree = &self.log.session.tree;
        let to = self.log.session.job.as_ref().and_then(|job| tree.find(&job.summary.to));
        let nodes: Vec<engine::Ix> = tree.up(to).collect();
        self.log.recall(nodes).await?;
        let Some((llm, request)) = self.job_request() else {
            return Err(Refusal::new(Code::Internal, "what is to be summarized isn't in memory"));
        };
        let provider = self.worker.provider(&llm);
        let timing = Timing::start(llm, attempt == 1);
        let reply = Reply::new(NodeId::from(""), attempt, true, self.log.session.seq);
        self.job = Some(Running::start(effect, provider.as_deref(), request, reply, &self.worker.shared.options.limits, timing));
        Ok(())
    }

    /// What the job asks its model.
    fn job_request(&self) -> Option<(String, CallRequest)> {
        let session = &self.log.session;
        let job = session.job.as_ref()?;
        let window = self.worker.shared.agents.get(&job.agent_id).and_then(|agent| agent.window);
        let (system, message) = engine::context::request(session, &job.summary, window).ok()?;
        let messages = vec![Arc::new(message)];
        let own = || self.own_llm(&job.agent_id).filter(|(llm, _)| job.llm.as_ref().is_none_or(|wish| wish == llm));
        let model = job.model.clone().or_else(|| own().and_then(|(_, model)| model.cloned()));
        let request = CallRequest { model, system: Some(system), messages, tools: Vec::new(), index: 0, hidden: true, occasion: None };
        Some((self.job_llm().unwrap_or_default().to_owned(), request))
    }

    fn job_llm(&self) -> Option<&str> {
        let job = self.log.session.job.as_ref()?;
        let own = || self.own_llm(&job.agent_id).map(|(llm, _)| llm);
        job.llm.as_deref().or_else(own)
    }

    /// Records how the job's attempt ended.
    pub(super) async fn job_ended(&mut self, ended: Ended) -> Result<(), Refusal> {
        let Some(mut running) = self.job.take() else { return Ok(()) };
        let Effect::Job { id, attempt } = running.effect().clone() else { return Ok(()) };
        let outcome = ended.map(|finish| Finished::of_model(running.message(), finish, running.usage()));
        running.ended(outcome.as_ref().err().map(|error| error.kind));
        let (session, llm, duration_ms) = (&self.log.key, running.timing().llm(), running.timing().millis());
        match &outcome {
            Ok(_) => tracing::debug!(session.id = %session, job.id = %id, attempt, llm, duration_ms, "a background summary was written"),
            Err(error) => {
                let request = self.job_request();
                let (kind, said) = (word(error.kind), masked(&error.message, request.as_ref().map(|(_, request)| request)));
                tracing::warn!(session.id = %session, job.id = %id, attempt, llm, error = kind, said, duration_ms, "a background summary failed");
            }
        }
        let context = self.context();
        let attempts = self.job_llm().and_then(|llm| self.worker.shared.options.llms.get(llm)).map_or(1, |llm| llm.attempts);
        let context = Context { policy: Policy { attempts, ..context.policy }, ..context };
        let records = engine::context::job_finished(&self.log.session, &id, attempt, outcome, &context);
        self.change(records).await
    }
}
