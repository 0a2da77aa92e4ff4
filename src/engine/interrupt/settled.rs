//! Interrupts that ended: whoever answers one again is told the same. May not know who answers.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::ids::{InterruptId, TurnId};
use crate::protocol::{Digest, Resume};

/// So many are remembered, the newest ones.
const MOST: usize = 1000;

/// An interrupt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// Which.
    pub id: InterruptId,
    /// Whose.
    pub turn_id: TurnId,
    /// What it was answered with.
    pub digest: Digest,
}

impl Settled {
    /// An interrupt of `turn_id` that was answered.
    pub(super) fn new(turn_id: &TurnId, answer: &Resume) -> Self {
        Self { id: answer.interrupt_id.clone(), turn_id: turn_id.clone(), digest: answer.digest() }
    }
}

/// Those that ended, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::engine) struct Ended(VecDeque<Settled>);

impl Ended {
    pub(super) fn add(&mut self, settled: Settled) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(settled);
    }

    /// The one of this id.
    pub(in crate::engine) fn get(&self, id: &InterruptId) -> Option<&Settled> {
        self.0.iter().rev().find(|settled| settled.id == *id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ResumeStatus;

    #[test]
    fn the_oldest_ones_are_forgotten() {
        let mut ended = Ended::default();
        for n in 0..=MOST {
            let answer = Resume { interrupt_id: format!("i{n}").into(), status: ResumeStatus::Cancelled, payload: None };
            ended.add(Settled::new(&"t1".into(), &answer));
        }
        assert!(ended.get(&"i0".into()).is_none() && ended.get(&"i1".into()).is_some());
        assert_eq!(ended.0.len(), MOST);
    }
}
