//! A submitter's presence: when it goes away before its run ended, its agent may want the turn stopped.

use tracing::warn;

use crate::ids::{SessionKey, TurnId};
use crate::protocol::Refusal;
use crate::runtime::{OnDisconnect, Runtime};

/// A turn that may have to be stopped.
#[derive(Clone)]
pub(super) struct Turn {
    /// Where it runs.
    pub(super) runtime: Runtime,
    /// Its session.
    pub(super) key: SessionKey,
    /// Which.
    pub(super) id: TurnId,
}

impl Turn {
    /// Stops it, in a task of its own: whoever wants it stopped may be on the way out.
    pub(super) fn stop(self) {
        actix_web::rt::spawn(async move {
            let stopped = self.runtime.cancel(&self.key, Some(self.id.clone())).await;
            self.warn_of(stopped);
        });
    }

    /// Its submitter is gone: stops it, unless it isn't that one's alone.
    fn leave(self) {
        actix_web::rt::spawn(async move {
            let stopped = self.runtime.leave(&self.key, self.id.clone()).await;
            self.warn_of(stopped);
        });
    }

    fn warn_of(&self, stopped: Result<bool, Refusal>) {
        if let Err(refusal) = stopped {
            let Self { key, id, .. } = self;
            warn!(session.id = key.session.as_str(), turn.id = id.as_str(), error = %refusal.code, "a turn could not be stopped");
        }
    }
}

/// Held as long as the submitter is there. Dropped before the run is [over](Self::over), it stops the turn, if that is what is wanted
/// and the turn is this submitter's alone.
pub(super) struct Presence {
    stop: Option<Turn>,
}

impl Presence {
    /// Of whoever submits `turn`.
    pub(super) fn new(turn: Turn, on_disconnect: OnDisconnect) -> Self {
        match on_disconnect {
            OnDisconnect::Cancel => Self { stop: Some(turn) },
            OnDisconnect::Continue => Self::onlooker(),
        }
    }

    /// Of someone whose going changes nothing.
    pub(super) fn onlooker() -> Self {
        Self { stop: None }
    }

    /// The turn has ended, or isn't this submitter's: nothing is to be stopped any more.
    pub(super) fn over(&mut self) {
        self.stop = None;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(turn) = self.stop.take() {
            turn.leave();
        }
    }
}
