//! A summary that is written while turns go on, and how records change it. Decides nothing.

use serde::{Deserialize, Serialize};

use super::effect::Effect;
use super::record::{JobDropped, JobFailed, JobFinished, JobStarted, StrategyNamed, Summary};
use super::session::Session;
use crate::engine::record::DropReason;
use crate::ids::{AgentId, CallId, Millis, TurnId};

/// The background job of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Which.
    pub id: CallId,
    /// From 1.
    pub attempt: u32,
    /// The turn in which it began.
    pub turn_id: TurnId,
    /// That turn's agent.
    pub agent_id: AgentId,
    /// Which of the agent's strategies applied.
    pub strategy: StrategyNamed,
    /// What is summarized, and how.
    pub summary: Summary,
    /// Instead of the agent's llm.
    pub llm: Option<String>,
    /// Instead of the llm's model.
    pub model: Option<String>,
    /// After that the attempt counts as lost.
    pub deadline: Millis,
    /// So many attempts were lost.
    pub lost: u32,
    /// When the next attempt starts, when this one has failed.
    pub retry_at: Option<Millis>,
    /// The summary, once there is one.
    pub text: Option<String>,
}

impl Job {
    /// What is still to be done for it.
    pub(super) fn wanted(&self) -> Vec<Effect> {
        let Self { id, attempt, deadline, .. } = self;
        let wake = |at: Millis| Effect::Wake { at, id: id.clone(), attempt: *attempt };
        match (&self.text, self.retry_at) {
            (Some(_), _) => Vec::new(),
            (None, Some(at)) => vec![wake(at)],
            (None, None) => vec![Effect::Job { id: id.clone(), attempt: *attempt }, wake(*deadline)],
        }
    }
}

impl Session {
    pub(super) fn job_started(&mut self, started: JobStarted) -> Result<(), String> {
        let JobStarted { job_id, attempt, turn_id, agent_id, strategy, summary, llm, model, deadline, lost } = started;
        if let Some(job) = self.job.as_ref().filter(|job| job.id != job_id || job.text.is_some()) {
            return Err(format!("job {job_id} starts while job {} is there", job.id));
        }
        let (retry_at, text) = (None, None);
        self.job = Some(Job { id: job_id, attempt, turn_id, agent_id, strategy, summary, llm, model, deadline, lost, retry_at, text });
        Ok(())
    }

    pub(super) fn job_finished(&mut self, finished: JobFinished) -> Result<(), String> {
        self.job_of(&finished.job_id)?.text = Some(finished.text);
        Ok(())
    }

    /// One that has failed for good isn't tried again in the turn that runs.
    pub(super) fn job_failed(&mut self, failed: &JobFailed) -> Result<(), String> {
        self.job_of(&failed.job_id)?.retry_at = failed.not_before;
        if failed.not_before.is_none() {
            self.end_job(true);
        }
        Ok(())
    }

    pub(super) fn job_dropped(&mut self, dropped: &JobDropped) -> Result<(), String> {
        self.job_of(&dropped.job_id)?;
        self.end_job(match dropped.reason {
            DropReason::NoGain => true,
            DropReason::Left | DropReason::Imported => false,
        });
        Ok(())
    }

    /// The job is done with. When it was in vain, none begins any more in the turn that runs.
    pub(super) fn end_job(&mut self, in_vain: bool) {
        self.job = None;
        if let Some(turn) = &mut self.turn {
            turn.job_in_vain |= in_vain;
        }
    }

    fn job_of(&mut self, id: &CallId) -> Result<&mut Job, String> {
        self.job.as_mut().filter(|job| job.id == *id).ok_or_else(|| format!("job {id} isn't there"))
    }
}
