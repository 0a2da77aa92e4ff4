//! What comes to a session whose turn pauses: what lands there is refused or waits, what lands elsewhere runs, and the turn stays behind.

use super::Case;
use super::view::Sent;
use crate::engine::reading::Ix;
use crate::engine::turn::Turn;
use crate::engine::view::reconcile_without;
use crate::ids::NodeId;
use crate::protocol::{Accepted, Code, Interrupt, OnBusy, Refusal};

impl Case<'_> {
    /// Whether an input waits for a turn that pauses. Otherwise it is refused.
    pub(super) fn may_wait_for(&self, turn: &Turn) -> Result<(), Refusal> {
        match self.submit.on_busy {
            OnBusy::Queue | OnBusy::Merge => Ok(()),
            OnBusy::Refuse | OnBusy::Steer | OnBusy::Cancel => Err(interrupted(turn)),
        }
    }

    /// A view comes to a turn that pauses.
    pub(super) fn at_interrupted(&mut self, turn: &Turn, sent: &mut Sent<'_>) -> Result<Accepted, Refusal> {
        let answers = sent.answers();
        if !answers.is_empty() && answers.len() == sent.found.news.len() {
            return self.results(&answers);
        }
        let waits = match self.submit.on_busy {
            OnBusy::Queue | OnBusy::Merge => sent.said().filter(|_| self.is_on_path(sent.found.landing)),
            OnBusy::Refuse | OnBusy::Steer | OnBusy::Cancel => None,
        };
        if let Some(said) = waits {
            return self.follow(&said, &answers);
        }
        if let Some(waiting) = self.last_waits(sent.view).filter(|_| sent.found.news.is_empty()) {
            return Ok(self.known(Some(waiting)));
        }
        if self.is_where_it_waits(sent.found.landing) {
            return Err(interrupted(turn));
        }
        self.suspend_for(turn, sent)?;
        self.land(sent)
    }

    /// The head leaves a turn that pauses. What waited for it is given up: the view's own messages among that are new again.
    fn suspend_for(&mut self, turn: &Turn, sent: &mut Sent<'_>) -> Result<(), Refusal> {
        let session = self.session;
        if !self.nobody_waits() {
            let steers = |id: &NodeId| session.arrivals.bringing(id).is_some_and(|arrival| !arrival.is_event());
            let waits = |id: &NodeId| session.queue.bringing(id).is_some() || steers(id);
            sent.found = reconcile_without(&session.tree, session.head, sent.view, sent.options, waits)?;
        }
        self.writer.suspend(turn);
        Ok(())
    }

    /// What lands where a suspended turn pauses: nothing may, but the head goes back there, when the view asks for nothing else.
    pub(super) fn at_suspended(&mut self, landing: Option<Ix>, asks: bool) -> Option<Result<Accepted, Refusal>> {
        let suspended = self.session.suspended_at(landing)?;
        let turn = &suspended.turn;
        if asks {
            return Some(Err(interrupted(turn)));
        }
        self.writer.go_to(suspended.at);
        self.writer.head_moved(crate::engine::record::HeadMoved::default());
        self.writer.show_again(suspended);
        self.join(turn);
        let interrupts: Vec<Interrupt> = turn.interrupts.clone();
        let waiting = suspended.calls.clone();
        Some(Ok(Accepted { turn_id: turn.id.clone(), reply: false, waiting, interrupts, ..self.plain() }))
    }
}

/// Nothing lands where a turn pauses, before that is answered.
pub(super) fn interrupted(turn: &Turn) -> Refusal {
    let ids: Vec<&str> = turn.interrupts.iter().map(|open| open.id.as_str()).collect();
    let text = format!(
        "turn {} pauses here until {} is answered; answer all of it in one go (`interrupt.resume`, or `resume` with a run), or stop the turn",
        turn.id,
        ids.join(", ")
    );
    let interrupts = serde_json::to_value(&turn.interrupts).unwrap_or_default();
    Refusal::new(Code::SessionInterrupted, text).with("turn_id", turn.id.as_str()).with("interrupts", interrupts)
}
