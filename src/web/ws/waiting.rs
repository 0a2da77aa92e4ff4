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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agui::Limits;
    use crate::protocol::Code;

    fn run(id: &str) -> Waiting {
        let body = format!(r#"{{"threadId": "s1", "runId": "{id}", "messages": []}}"#);
        let limits = Limits { view_messages_max: 10, content_bytes_max: 1000 };
        Waiting::Run(Box::new(RunInput::decode(body.as_bytes(), &limits).unwrap()))
    }

    fn told(waiting: &mut WaitingRuns) -> Vec<String> {
        std::iter::from_fn(|| waiting.next())
            .map(|frame| match frame {
                Waiting::Run(input) => format!("run {}", input.run_id),
                Waiting::Stopped(input) => format!("stopped {}", input.run_id),
                Waiting::Refused(refusal) => format!("refused {}", refusal.code),
            })
            .collect()
    }

    #[test]
    fn frames_are_answered_in_order() {
        let mut waiting = WaitingRuns::new(3);
        assert!(waiting.push(run("r1")));
        assert!(waiting.push(Waiting::Refused(Refusal::new(Code::BadJson, "not JSON"))));
        assert!(waiting.push(run("r2")));
        assert!(!waiting.push(run("r3")), "there is a limit");
        assert_eq!(told(&mut waiting), ["run r1", "refused bad_json", "run r2"]);
    }

    #[test]
    fn a_run_that_waits_can_be_stopped_in_its_place() {
        let mut waiting = WaitingRuns::new(3);
        for id in ["r1", "r2", "r3"] {
            assert!(waiting.push(run(id)));
        }
        assert!(waiting.stop(&"r2".into()));
        assert!(!waiting.stop(&"r2".into()), "it is stopped already");
        assert!(!waiting.stop(&"r9".into()));
        assert_eq!(told(&mut waiting), ["run r1", "stopped r2", "run r3"]);
    }
}
