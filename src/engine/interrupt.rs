//! Interrupts: a turn pauses at its last node until all that it asks is answered. The head may leave it there; then it is suspended, others
//! run, and it goes on when it is answered. Here is how records change that; what an answer comes to is in `submit/resume`.

mod settled;
mod suspended;
mod write;

use serde::{Deserialize, Serialize};

pub use settled::Settled;
pub use suspended::Suspended;
pub use write::SUSPENDED_MAX;

use super::reading::Ix;
use super::record::{InterruptResumed, SessionInterrupted, TurnSuspended};
use super::session::Session;
use super::turn::Turn;
use crate::ids::{InterruptId, TurnId};
use crate::protocol::{Interrupt, Resumed, Waits};

/// What a session keeps of interrupts, besides those of the turn that is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interrupts {
    /// Turns that pause where the head isn't.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) suspended: Vec<Suspended>,
    /// Those that ended.
    #[serde(default, skip_serializing_if = "settled::Ended::is_empty")]
    pub(super) ended: settled::Ended,
}

impl Session {
    /// `session.interrupted`.
    pub(super) fn interrupted(&mut self, interrupted: SessionInterrupted) -> Result<(), String> {
        let SessionInterrupted { turn_id, interrupts } = interrupted;
        if interrupts.is_empty() {
            return Err(format!("turn {turn_id} pauses for nothing"));
        }
        self.take_back(&turn_id)?;
        let turn = self.running(&turn_id)?;
        if turn.call.is_some() || turn.decision.is_some() {
            return Err(format!("turn {turn_id} pauses while it runs"));
        }
        (turn.held, turn.failed) = (None, None);
        turn.resumed.clear();
        turn.interrupts = interrupts;
        Ok(())
    }

    /// A turn that was suspended is the one that is there again.
    fn take_back(&mut self, turn_id: &TurnId) -> Result<(), String> {
        let Some(place) = self.interrupts.suspended.iter().position(|suspended| suspended.turn.id == *turn_id) else { return Ok(()) };
        if let Some(turn) = &self.turn {
            return Err(format!("turn {turn_id} pauses again while turn {} is there", turn.id));
        }
        let Suspended { turn, at, calls } = self.interrupts.suspended.remove(place);
        if self.head != at {
            return Err(format!("turn {turn_id} pauses where the head isn't"));
        }
        self.tree.leave_open(calls);
        self.turns.begin_again(self.ended + 1, turn_id);
        self.turn = Some(turn);
        Ok(())
    }

    /// `session.interrupt_resumed`.
    pub(super) fn interrupt_resumed(&mut self, resumed: InterruptResumed) -> Result<(), String> {
        let InterruptResumed { turn_id, interrupts } = resumed;
        let suspended = self.interrupts.suspended.iter_mut().map(|suspended| &mut suspended.turn);
        let mut turns = self.turn.iter_mut().chain(suspended);
        let turn = turns.find(|turn| turn.id == turn_id).ok_or_else(|| format!("turn {turn_id} doesn't pause"))?;
        for answer in interrupts {
            let place = turn.interrupts.iter().position(|open| open.id == answer.interrupt_id);
            let place = place.ok_or_else(|| format!("the interrupt {} isn't open", answer.interrupt_id))?;
            let interrupt = turn.interrupts.remove(place);
            self.interrupts.ended.add(Settled::new(&turn_id, &answer));
            turn.resumed.push(Resumed { interrupt_id: answer.interrupt_id, status: answer.status, payload: answer.payload, interrupt });
        }
        Ok(())
    }

    /// `turn.suspended`.
    pub(super) fn suspend(&mut self, seq: u64, suspended: &TurnSuspended) -> Result<(), String> {
        self.running(&suspended.turn_id)?;
        let Some(turn) = self.turn.take_if(|turn| !turn.interrupts.is_empty()) else {
            return Err(format!("turn {} is suspended, and doesn't pause", suspended.turn_id));
        };
        let calls = self.tree.open_calls().to_vec();
        self.tree.leave_open(Vec::new());
        self.ended = seq;
        self.interrupts.suspended.push(Suspended { turn, at: self.head, calls });
        Ok(())
    }

    /// A suspended turn is stopped. Whether it was one.
    pub(super) fn end_suspended(&mut self, turn_id: &TurnId) -> bool {
        let before = self.interrupts.suspended.len();
        self.interrupts.suspended.retain(|suspended| suspended.turn.id != *turn_id);
        self.interrupts.suspended.len() < before
    }

    /// Whether the turn that is there pauses.
    pub fn is_interrupted(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| !turn.interrupts.is_empty())
    }

    /// What pauses the turn that is there.
    pub fn open_interrupts(&self) -> &[Interrupt] {
        self.turn.as_ref().map_or(&[], |turn| &turn.interrupts)
    }

    /// How the interrupts were answered with which the turn that is there goes on, until a model has answered.
    pub fn resumed_interrupts(&self) -> &[Resumed] {
        self.turn.as_ref().map_or(&[], |turn| &turn.resumed)
    }

    /// Turns that pause where the head isn't.
    pub fn suspended(&self) -> &[Suspended] {
        &self.interrupts.suspended
    }

    /// What a turn waits for, when it waits: the one that is there, or a suspended one.
    pub fn waits(&self, turn_id: &TurnId) -> Option<Waits> {
        if self.turn.as_ref().is_some_and(|turn| turn.id == *turn_id) {
            let waits = || Waits { calls: self.tree.open_calls().to_vec(), interrupts: self.open_interrupts().to_vec() };
            return self.is_waiting().then(waits);
        }
        let suspended = self.suspended().iter().find(|suspended| suspended.turn.id == *turn_id)?;
        Some(Waits { calls: suspended.calls.clone(), interrupts: suspended.turn.interrupts.clone() })
    }

    /// Turns that pause, the one that is there first.
    pub(super) fn pausing(&self) -> impl Iterator<Item = &Turn> {
        let there = self.turn.iter().filter(|turn| !turn.interrupts.is_empty());
        there.chain(self.suspended().iter().map(|suspended| &suspended.turn))
    }

    /// Whether an interrupt of this id is, or was, in the session.
    pub(super) fn knows_interrupt(&self, id: &InterruptId) -> bool {
        self.interrupts.ended.get(id).is_some() || self.pausing().any(|turn| turn.interrupts.iter().any(|open| open.id == *id))
    }

    /// The turn that pauses where people read what they read at `at`.
    pub(super) fn suspended_at(&self, at: Option<Ix>) -> Option<&Suspended> {
        let tree = &self.tree;
        let vertex = tree.vertex(at);
        self.suspended().iter().find(|suspended| tree.vertex(suspended.at) == vertex)
    }

    /// What is wrong with what is kept of interrupts.
    pub(super) fn misplaced_interrupt(&self) -> Option<String> {
        if let Some(turn) = &self.turn
            && !turn.interrupts.is_empty()
            && (turn.call.is_some() || turn.decision.is_some() || turn.held.is_some())
        {
            return Some(format!("turn {} pauses while it runs", turn.id));
        }
        for suspended in self.suspended() {
            let id = &suspended.turn.id;
            if suspended.turn.interrupts.is_empty() {
                return Some(format!("turn {id} is suspended for nothing"));
            }
            if self.turns.get(id).is_none_or(|known| known.end.is_some()) {
                return Some(format!("turn {id} is suspended, and isn't known to go on"));
            }
        }
        if self.turn.is_none() && self.suspended_at(self.head).is_some_and(|suspended| suspended.at == self.head) {
            return Some("the head is where a turn pauses, and that turn isn't there".to_owned());
        }
        None
    }
}
