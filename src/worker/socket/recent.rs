//! What was asked lately and isn't any more: who is to be told what came of it, and what becomes of an answer that comes now.

use std::collections::{HashMap, VecDeque};

use super::Told;
use super::board::SocketId;
use crate::ids::{AgentId, DecisionId, SessionId};
use crate::protocol::Refusal;

/// So many are remembered.
const KEPT: usize = 4096;

/// Decisions whose last attempt is over.
#[derive(Debug, Default)]
pub(super) struct Recent {
    decisions: HashMap<DecisionId, Decision>,
    /// In the order in which they ended, with the tickets of their attempts.
    order: VecDeque<(DecisionId, u64)>,
}

/// A decision whose last attempt is over.
#[derive(Debug)]
pub(super) struct Decision {
    /// Whose.
    pub(super) agent: AgentId,
    /// Where.
    pub(super) session: SessionId,
    /// Its attempt.
    pub(super) ticket: u64,
    /// How it ended.
    pub(super) end: End,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum End {
    /// Without an answer that can be carried out, or nobody wanted one any more.
    Unanswered,
    /// With an answer. What came of that isn't known yet; then this worker is told.
    Answered(SocketId),
    /// With an answer that was carried out.
    Taken,
}

impl Recent {
    /// An attempt is over.
    pub(super) fn ended(&mut self, id: DecisionId, decision: Decision) {
        self.order.push_back((id.clone(), decision.ticket));
        self.decisions.insert(id, decision);
        while self.order.len() > KEPT {
            let Some((oldest, ticket)) = self.order.pop_front() else { break };
            if self.decisions.get(&oldest).is_some_and(|decision| decision.ticket == ticket) {
                self.decisions.remove(&oldest);
            }
        }
    }

    /// The decision is asked again.
    pub(super) fn reopened(&mut self, id: &DecisionId) {
        self.decisions.remove(id);
    }

    /// Somebody answers once more.
    pub(super) fn again(&mut self, id: &DecisionId) -> Option<&mut Decision> {
        self.decisions.get_mut(id)
    }

    /// It is known what came of an answer: who is told.
    pub(super) fn judge(&mut self, id: &DecisionId, verdict: Result<(), &Refusal>) -> Option<SocketId> {
        let decision = self.decisions.get_mut(id)?;
        let End::Answered(socket) = decision.end else { return None };
        decision.end = if verdict.is_ok() { End::Taken } else { End::Unanswered };
        Some(socket)
    }
}

/// What a worker is told of its answer.
pub(super) fn told(id: &DecisionId, verdict: Result<(), &Refusal>) -> Told {
    match verdict {
        Ok(()) => Told::Answered(id.clone()),
        Err(refusal) => Told::Refused(id.clone(), Box::new(refusal.clone())),
    }
}
