//! Interrupts, as records are written: a turn pauses, is left, goes on, is stopped.

use super::Suspended;
use crate::engine::record::{About, Body, InterruptResumed, SessionInterrupted, TurnCancelled, TurnSuspended, TurnWaiting};
use crate::engine::turn::{Turn, Wish};
use crate::engine::write::Writer;
use crate::ids::{InterruptId, ToolCallId};
use crate::protocol::{CancelReason, Interrupt, Raise, Resume, ResumeStatus};

/// So many turns may pause where the head isn't; with one more the oldest is stopped.
pub const SUSPENDED_MAX: usize = 100;

impl Writer<'_> {
    /// The turn pauses until these are answered too. A call that it holds is held no more.
    pub(in crate::engine) fn interrupt(&mut self, turn: &Turn, raised: impl IntoIterator<Item = Raise>) {
        let mut interrupts = turn.interrupts.clone();
        for raise in raised {
            let named = raise.named(|| InterruptId::from(self.fresh()));
            let is_taken = self.session().knows_interrupt(&named.id) || interrupts.iter().any(|open| open.id == named.id);
            let id = if is_taken { InterruptId::from(self.fresh()) } else { named.id.clone() };
            interrupts.push(Interrupt { id, ..named });
        }
        self.push(Body::SessionInterrupted(Box::new(SessionInterrupted { turn_id: turn.id.clone(), interrupts })));
    }

    /// The answers are taken.
    pub(in crate::engine) fn resolve(&mut self, turn: &Turn, answers: Vec<Resume>) {
        self.push(Body::InterruptResumed(Box::new(InterruptResumed { turn_id: turn.id.clone(), interrupts: answers })));
    }

    /// All of the turn's interrupts are answered: it goes on. `open`: its calls that have no result yet. `reply`: whether a model is
    /// called when nobody says otherwise.
    pub(in crate::engine) fn go_on_after_interrupts(&mut self, turn: &Turn, open: &[ToolCallId], reply: bool) {
        if self.ask(&turn.caller(), About::Resumed { reply }, reply && open.is_empty()) {
            return;
        }
        match (reply, open.is_empty()) {
            (false, _) => self.complete(turn),
            (true, false) => self.push(Body::TurnWaiting(TurnWaiting { turn_id: turn.id.clone(), calls: open.to_vec() })),
            (true, true) if self.may_call(turn) => self.next_call(&turn.caller(), None, turn.stuck, Wish::default()),
            (true, true) => self.too_many_calls(turn),
        }
    }

    /// The head leaves a turn that pauses. What waited for it is given up.
    pub(in crate::engine) fn suspend(&mut self, turn: &Turn) {
        if let [oldest, ..] = self.session().suspended()
            && self.session().suspended().len() >= SUSPENDED_MAX
        {
            self.stop_suspended(&oldest.turn, Some(CancelReason::BranchLeft));
        }
        self.give_up_steering(CancelReason::BranchLeft);
        self.push(Body::TurnSuspended(TurnSuspended { turn_id: turn.id.clone() }));
        self.nobody_runs();
        self.give_up_waiting();
    }

    /// The head is where a suspended turn pauses: that is the turn that is there.
    pub(in crate::engine) fn show_again(&mut self, suspended: &Suspended) {
        let Suspended { turn, .. } = suspended;
        let (turn_id, interrupts) = (turn.id.clone(), turn.interrupts.clone());
        self.push(Body::SessionInterrupted(Box::new(SessionInterrupted { turn_id, interrupts })));
        self.somebody_runs();
    }

    /// What pauses a turn ends with it.
    pub(in crate::engine) fn close_interrupts(&mut self, turn: &Turn) {
        let cancelled = |open: &Interrupt| Resume { interrupt_id: open.id.clone(), status: ResumeStatus::Cancelled, payload: None };
        let answers: Vec<Resume> = turn.interrupts.iter().map(cancelled).collect();
        if !answers.is_empty() {
            self.resolve(turn, answers);
        }
    }

    /// A suspended turn is stopped, where it is.
    pub(in crate::engine) fn stop_suspended(&mut self, turn: &Turn, reason: Option<CancelReason>) {
        self.close_interrupts(turn);
        self.push(Body::TurnCancelled(TurnCancelled { turn_id: turn.id.clone(), reason, messages: Vec::new() }));
    }
}
