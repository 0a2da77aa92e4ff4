//! Where a run's events come from: a turn that its submitter follows, or a run that somebody came to. May not know AG-UI.

use std::sync::Arc;

use super::run::RunEnd;
use crate::protocol::Code;
use crate::runtime::{Batch, ReadEnd, Reader, RunEvents, StreamEnd, Told};

/// Where events come from.
pub(super) enum Source {
    /// What is told from now on to those who follow a turn.
    Turn(Reader),
    /// One run, from any place in it.
    Run(Box<RunEvents>),
}

/// Why no more come.
pub(super) enum SourceEnd {
    /// The reader fell too far behind.
    Slow,
    /// The process stops, or the session's task was lost.
    Closed,
    /// The session was given up because of this.
    Failed(Code),
}

impl SourceEnd {
    /// What that means for a run, while the server stops or doesn't.
    pub(super) fn run_end(self, draining: bool) -> RunEnd {
        match self {
            Self::Slow => RunEnd::Slow,
            Self::Closed if draining => RunEnd::ShuttingDown,
            Self::Closed => RunEnd::Lost(Code::Internal),
            Self::Failed(code) => RunEnd::Lost(code),
        }
    }
}

impl Source {
    /// Events that are here already.
    pub(super) fn try_next(&mut self) -> Option<Told> {
        match self {
            Self::Turn(reader) => reader.try_next().map(now),
            Self::Run(events) => events.try_next(),
        }
    }

    /// The next events, or why there are none. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Result<Told, SourceEnd> {
        match self {
            Self::Turn(reader) => reader.next().await.map(now).map_err(|end| match end {
                ReadEnd::Slow => SourceEnd::Slow,
                ReadEnd::Closed => SourceEnd::Closed,
                ReadEnd::Failed(code) => SourceEnd::Failed(code),
            }),
            Self::Run(events) => events.next().await.map_err(|end| match end {
                StreamEnd::Closed => SourceEnd::Closed,
                StreamEnd::Failed(code) => SourceEnd::Failed(code),
            }),
        }
    }
}

fn now(batch: Arc<Batch>) -> Told {
    Told { batch, past: false }
}
