//! Erasing a session: nothing of it stays but a tombstone, which keeps its id from being used for a day.

use std::time::Duration;

use super::command::{Answer, give, reply};
use super::log;
use super::session_task::Task;
use crate::clock;
use crate::ids::SessionKey;
use crate::protocol::{Code, Refusal};
use crate::store::{self, Store, Tombstone};

/// How often an erasure whose outcome is unknown is tried again.
const RETRIES: u32 = 3;
/// The pause between.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

impl Task {
    /// Erases the session. Its task ends: everyone who reads it or asks for it is told so.
    pub(super) async fn erase(&mut self, answer: Answer<()>) -> Result<(), Refusal> {
        if let Err(refusal) = self.must_exist() {
            reply(answer, Err(refusal));
            return Ok(());
        }
        let erased = erase(&*self.log.store(), &self.log.key, self.tombstone()).await;
        if erased.is_ok() {
            // Its call is nobody's any more.
            self.running = None;
            self.audience.fail(Code::SessionDeleted);
        }
        give(answer, erased)?;
        Err(log::erased(&self.log.key))
    }
}

/// Erases a session's log, whatever is in it.
pub async fn erase(store: &dyn Store, key: &SessionKey, tombstone: Duration) -> Result<(), Refusal> {
    let at = clock::now();
    let lasting = u64::try_from(tombstone.as_millis()).unwrap_or(u64::MAX);
    let tombstone = Tombstone { at, until: at.saturating_add(lasting) };
    let mut tries = 0;
    loop {
        match store.erase(key, tombstone).await {
            Ok(()) => {
                tracing::info!(session.id = %key, "a session was erased");
                return Ok(());
            }
            Err(store::Error::Unavailable { doing, source }) if tries < RETRIES => {
                tries += 1;
                tracing::warn!(session.id = %key, tries, %doing, error = %source, "an erasure is tried again");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(error) => return Err(log::refusal(key, &error)),
        }
    }
}
