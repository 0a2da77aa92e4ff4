//! Frames that wait for the active run to end: bare AG-UI frames don't say which run they belong to, so that a socket carries
//! one run at a time, and an error told in between would be the active run's. They are answered in the order in which they came.

use std::collections::VecDeque;

use crate::agui::RunInput;
use crate::ids::TurnId;
use crate::protocol::Refusal;

/// A frame that waits.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A run to be started.
    Run(Box<RunInput>),
    /// A run that was stopped before it began.
    Stopped(Box<RunInput>),
    /// A frame that is refused.
    Refused(Refusal),
}

/// The frames that wait.
#[derive(Debug)]
pub(super) struct WaitingRuns {
    frames: VecDeque<Waiting>,
    max: usize,
}

impl WaitingRuns {
    /// Room for `max` frames.
    pub(super) fn new(max: usize) -> Self {
        Self { frames: VecDeque::new(), max }
    }

    /// Adds a frame; `false` when there is no room.
    pub(super) fn push(&mut self, frame: Waiting) -> bool {
        let has_room = self.frames.len() < self.max;
        if has_room {
            self.frames.push_back(frame);
        }
        has_room
    }

    /// The next frame to be answered.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        self.frames.pop_front()
    }

    /// Stops a run that waits. Whether it was there.
    pub(super) fn stop(&mut self, run: &TurnId) -> bool {
        let names = |frame: &Waiting| matches!(frame, Waiting::Run(input) if input.run_id == *run);
        let Some(at) = self.frames.iter().position(names) else { return false };
        if let Some(Waiting::Run(input)) = self.frames.remove(at) {
            self.frames.insert(at, Waiting::Stopped(input));
        }
        true
    }
}
