//! What keeps a worker that fails again and again from being asked each time: for a while attempts fail at once, then one is let through.
//! The threads of a process share it. May not know why attempts fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock;
use crate::ids::{AgentId, Millis};
use crate::meters::names;

/// A worker's breaker.
#[derive(Debug)]
pub struct Breaker {
    agent: AgentId,
    failures_max: u32,
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Failures in a row.
    failures: u32,
    /// Nobody is let through before then.
    closed_until: Option<Millis>,
    /// The one attempt that is let through after that.
    is_tried: bool,
}

/// An attempt that was let through. Dropped before it [ended](Self::ended), it says nothing of the worker, unless its time was over.
#[derive(Debug)]
pub struct Attempt {
    breaker: Arc<Breaker>,
    deadline: Millis,
    is_trial: bool,
    has_ended: bool,
}

impl Breaker {
    /// The breaker of an agent's worker: it opens after so many failures in a row, for so long.
    pub fn new(agent: AgentId, failures_max: u32, pause: Duration) -> Self {
        metrics::gauge!(names::WORKER_BREAKER, "agent" => agent.to_string()).set(0.0);
        Self { agent, failures_max, pause, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets an attempt through that has time until `deadline`, or says how long nobody is.
    pub fn enter(self: &Arc<Self>, deadline: Millis) -> Result<Attempt, Millis> {
        let mut state = self.state();
        let is_trial = state.closed_until.is_some();
        if let Some(until) = state.closed_until {
            let left = until.saturating_sub(clock::now());
            if left > 0 || state.is_tried {
                return Err(left);
            }
            state.is_tried = true;
        }
        Ok(Attempt { breaker: self.clone(), deadline, is_trial, has_ended: false })
    }

    fn ended(&self, is_trial: bool, well: bool) {
        let mut state = self.state();
        if well {
            if state.closed_until.is_some() {
                tracing::info!(agent.id = %self.agent, "a worker that failed answers again");
            }
            *state = State::default();
            return self.tell(false);
        }
        if is_trial {
            state.is_tried = false;
        }
        state.failures = state.failures.saturating_add(1);
        let opens = state.failures >= self.failures_max && (is_trial || state.closed_until.is_none());
        if opens {
            if !is_trial {
                tracing::warn!(agent.id = %self.agent, failures = state.failures, pause_secs = self.pause.as_secs(), "a worker failed again and again; it isn't asked for a while");
            }
            state.closed_until = Some(clock::now().saturating_add(u64::try_from(self.pause.as_millis()).unwrap_or(u64::MAX)));
            self.tell(true);
        }
    }

    fn tell(&self, is_open: bool) {
        metrics::gauge!(names::WORKER_BREAKER, "agent" => self.agent.to_string()).set(f64::from(u8::from(is_open)));
    }
}

impl Attempt {
    /// It ended: the worker did its work, or failed.
    pub fn ended(mut self, well: bool) {
        self.has_ended = true;
        self.breaker.ended(self.is_trial, well);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        if clock::now() >= self.deadline {
            self.breaker.ended(self.is_trial, false);
        } else if self.is_trial {
            self.breaker.state().is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Arc<Breaker> {
        Arc::new(Breaker::new("bot".into(), 3, Duration::from_secs(10)))
    }

    fn fails(breaker: &Arc<Breaker>, times: usize) {
        (0..times).for_each(|_| breaker.enter(Millis::MAX).unwrap().ended(false));
    }

    #[tokio::test(start_paused = true)]
    async fn after_some_failures_in_a_row_nobody_is_let_through_for_a_while_and_then_one() {
        let breaker = breaker();
        fails(&breaker, 2);
        breaker.enter(Millis::MAX).unwrap().ended(true);
        fails(&breaker, 3);
        assert!((9_000..=10_000).contains(&breaker.enter(Millis::MAX).unwrap_err()));
        tokio::time::sleep(Duration::from_secs(11)).await;
        let trial = breaker.enter(Millis::MAX).unwrap();
        assert_eq!(breaker.enter(Millis::MAX).unwrap_err(), 0, "one at a time");
        drop(trial);
        breaker.enter(Millis::MAX).unwrap().ended(false);
        assert!(breaker.enter(Millis::MAX).unwrap_err() > 0, "it failed again");
        tokio::time::sleep(Duration::from_secs(11)).await;
        breaker.enter(Millis::MAX).unwrap().ended(true);
        fails(&breaker, 2);
        assert!(breaker.enter(Millis::MAX).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_is_given_up_counts_when_its_time_was_over() {
        let breaker = breaker();
        let now = clock::now();
        (0..9).for_each(|_| drop(breaker.enter(now + 1000).unwrap()));
        let late: Vec<_> = (0..3).map(|_| breaker.enter(now + 1000).unwrap()).collect();
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(late);
        assert!(breaker.enter(Millis::MAX).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_from_before_it_opened_do_not_keep_it_open() {
        let breaker = breaker();
        let slow: Vec<_> = (0..2).map(|_| breaker.enter(Millis::MAX).unwrap()).collect();
        fails(&breaker, 3);
        tokio::time::sleep(Duration::from_secs(8)).await;
        for attempt in slow {
            attempt.ended(false);
        }
        assert!(breaker.enter(Millis::MAX).unwrap_err() <= 2_000);
        tokio::time::sleep(Duration::from_secs(3)).await;
        breaker.enter(Millis::MAX).unwrap().ended(true);
    }
}
