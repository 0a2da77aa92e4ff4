//! A summary that is written while turns go on (`background = true`): when it begins, and what becomes of its attempts. What it is
//! good for is in [`adopt`](super::adopt).

use super::need::Load;
use super::strategy::Plan;
use super::{Agent, Agents, History, Need, summarize};
use crate::engine::Context;
use crate::engine::call::{self, Finished};
use crate::engine::job::Job;
use crate::engine::record::{Body, JobFailed, JobFinished, JobStarted, Reads, Record, StrategyNamed, Summary};
use crate::engine::session::Session;
use crate::engine::turn::Turn;
use crate::engine::write::Writer;
use crate::ids::{CallId, Millis};
use crate::protocol::{CallError, CallErrorKind, Finish};

/// An attempt that hasn't ended after so long counts as lost.
const DEADLINE_MS: Millis = 300_000;
/// How often a job goes on after an attempt was lost.
const LOST_MAX: u32 = 2;

/// The turn in which a background summary is due, and the strategy that applies. No more than a few looks.
fn due<'a>(session: &'a Session, agents: &'a Agents) -> Option<(&'a Turn, &'a Agent, StrategyNamed)> {
    let turn = call::turn(session).filter(|turn| session.job.is_none() && turn.held.is_none() && !turn.job_in_vain && !turn.stuck)?;
    let agent = agents.get(&turn.agent_id)?;
    let reads_path = turn.call.as_ref().is_none_or(|call| call.reads == Reads::Path && !call.hidden);
    let node = session.tree.node(session.head.filter(|_| reads_path)?);
    let load = Load { read: node.load, reported: node.reported };
    let strategy = agent.applies_in_background(&Need { tokens: load.tokens(Some(agent), &turn.client), idle: None })?;
    Some((turn, agent, strategy))
}

/// Whether [`begin_job`] has something to decide.
pub fn is_job_due(session: &Session, agents: &Agents) -> bool {
    due(session, agents).is_some()
}

/// Begins to have a summary written, when the model reads more than a background strategy wants. Nothing: it doesn't, a job is there
/// already, or there is nothing before the running turn that could be left out.
pub fn begin_job(session: &Session, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    if let Some((turn, agent, named)) = due(session, &context.agents)
        && let Some(strategy) = agent.strategy(&named)
        && let history = History::of(session, turn, Some(agent), strategy.when().most(), true)
        && let Some(Plan::Summarize { summary, llm, model }) = strategy.plan(&history)
        && session.tree.find(&summary.to).and_then(|to| history.after(to)).is_some_and(|from| history.keeps_turn(from))
    {
        let job = Job {
            id: CallId::from(writer.fresh()),
            attempt: 0,
            turn_id: turn.id.clone(),
            agent_id: turn.agent_id.clone(),
            strategy: named,
            summary,
            llm,
            model,
            deadline: 0,
            lost: 0,
            retry_at: None,
            text: None,
        };
        next_attempt(&mut writer, &job, job.summary.clone(), 0);
    }
    writer.records
}

fn next_attempt(writer: &mut Writer<'_>, job: &Job, summary: Summary, lost: u32) {
    let Job { id, attempt, turn_id, agent_id, strategy, llm, model, .. } = job.clone();
    let deadline = writer.now() + DEADLINE_MS;
    let attempt = attempt + 1;
    writer.push(Body::JobStarted(Box::new(JobStarted {
        job_id: id,
        attempt,
        turn_id,
        agent_id,
        strategy,
        summary,
        llm,
        model,
        deadline,
        lost,
    })));
}

/// The job with this id, as long as it has no summary.
fn unfinished<'a>(session: &'a Session, id: &CallId) -> Option<&'a Job> {
    session.job.as_ref().filter(|job| session.newer.is_none() && job.text.is_none() && job.id == *id)
}

/// An attempt of a job has ended. The first summary counts, of whichever attempt; a failure only when no other attempt runs.
pub fn job_finished(session: &Session, id: &CallId, attempt: u32, outcome: Result<Finished, CallError>, context: &Context) -> Vec<Record> {
    let mut writer = Writer::new(session, context);
    if let Some(job) = unfinished(session, id) {
        match outcome.and_then(summary_of) {
            Ok((text, usage)) => writer.push(Body::JobFinished(JobFinished { job_id: id.clone(), attempt, text, usage })),
            Err(error) if attempt == job.attempt && job.retry_at.is_none() => fail(&mut writer, job, error, context),
            Err(_) => {}
        }
    }
    writer.records
}

fn summary_of(finished: Finished) -> Result<(String, Option<crate::protocol::Usage>), CallError> {
    let text = finished.message.joined_text().trim().to_owned();
    match finished.finish {
        Finish::Filtered => Err(CallError::new(CallErrorKind::Refused, "the provider's filter stopped the summary")),
        Finish::Stop | Finish::Length | Finish::ToolCalls if text.is_empty() => {
            Err(CallError::new(CallErrorKind::Nonsense, "the summary is empty"))
        }
        Finish::Stop | Finish::Length | Finish::ToolCalls => Ok((text, finished.usage)),
    }
}

fn fail(writer: &mut Writer<'_>, job: &Job, error: CallError, context: &Context) {
    let halves = error.kind == CallErrorKind::TooLong && job.summary.halved < summarize::HALVINGS_MAX;
    let attempts = context.policy.attempts + job.lost + job.summary.halved;
    let not_before = if halves { Some(writer.now()) } else { call::retry_at(&error, job.attempt, attempts, context) };
    writer.push(Body::JobFailed(JobFailed { job_id: job.id.clone(), attempt: job.attempt, error, not_before }));
    if halves {
        let summary = Summary { halved: job.summary.halved + 1, ..job.summary.clone() };
        next_attempt(writer, job, summary, job.lost);
    }
}

/// The time that this attempt of a job waited for has come: its pause is over, or it is past its deadline.
pub(in crate::engine) fn job_woken(writer: &mut Writer<'_>, id: &CallId, attempt: u32) {
    let Some(job) = unfinished(writer.session(), id).filter(|job| job.attempt == attempt) else { return };
    match job.retry_at {
        Some(at) if at <= writer.now() => next_attempt(writer, job, job.summary.clone(), job.lost),
        None if job.deadline <= writer.now() => lost(writer, job),
        Some(_) | None => {}
    }
}

/// The process that ran the session's job was lost: it is tried again, or, after two times, given up. A pause lost nothing.
pub(in crate::engine) fn job_lost(writer: &mut Writer<'_>) {
    let job = writer.session().job.as_ref().filter(|job| job.text.is_none() && job.retry_at.is_none());
    if let Some(job) = job.filter(|_| writer.session().newer.is_none()) {
        lost(writer, job);
    }
}

fn lost(writer: &mut Writer<'_>, job: &Job) {
    if job.lost < LOST_MAX {
        return next_attempt(writer, job, job.summary.clone(), job.lost + 1);
    }
    let error = CallError::new(CallErrorKind::TimedOut, format!("the summary was lost {} times", job.lost + 1));
    writer.push(Body::JobFailed(JobFailed { job_id: job.id.clone(), attempt: job.attempt, error, not_before: None }));
}
