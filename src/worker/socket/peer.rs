//! One connected worker, as the board sees it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;

use super::Told;
use crate::ids::{AgentId, DecisionId};

/// What may wait to be told to one worker. Whoever has more waiting doesn't read.
pub(super) const TOLD_MAX: usize = 2048;

/// A connected worker.
#[derive(Debug)]
pub(super) struct Socket {
    /// Whom it decides for.
    pub(super) agents: BTreeSet<AgentId>,
    /// So many decisions it takes at once.
    pub(super) credit: usize,
    /// Those that it has.
    pub(super) holds: BTreeSet<DecisionId>,
    /// When it got its last one.
    pub(super) served: u64,
    /// What it is to be told.
    pub(super) told: VecDeque<Told>,
    pub(super) wake: Arc<Notify>,
}

impl Socket {
    /// So many more it takes now.
    pub(super) fn free(&self) -> usize {
        self.credit.saturating_sub(self.holds.len())
    }

    /// Tells it something.
    pub(super) fn tell(&mut self, told: Told) {
        // One more than it may have is enough to see that it doesn't read.
        if self.told.len() <= TOLD_MAX {
            self.told.push_back(told);
        }
        self.wake.notify_one();
    }

    /// It has a decision no more. Whether it had been told of it.
    pub(super) fn release(&mut self, id: &DecisionId) -> bool {
        if !self.holds.remove(id) {
            return false;
        }
        let unread = self.told.iter().position(|told| matches!(told, Told::Decision(request) if request.decision_id == *id));
        unread.map(|at| self.told.remove(at)).is_none()
    }

    /// Somebody else answered, or nobody wants the answer.
    pub(super) fn take_back(&mut self, id: &DecisionId) {
        if self.release(id) {
            self.tell(Told::Cancelled(id.clone()));
        }
    }
}
