//! Whether requests can be served, for whoever watches the process: the store is asked once for all who ask at about the same time.
//! May not know who asks.

use std::time::Duration;

use tokio::sync::Mutex;

use crate::clock;
use crate::ids::Millis;
use crate::protocol::{Code, Refusal};
use crate::store::{self, Store};

/// An answer holds so long.
const HOLDS_MS: Millis = 1000;
/// The store must answer within so long.
const WITHIN: Duration = Duration::from_secs(2);

/// The last answer, and when it was given.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Millis, Result<(), Refusal>)>>);

impl Readiness {
    /// Whether the store answers, now or a moment ago.
    pub async fn ask(&self, store: &dyn Store) -> Result<(), Refusal> {
        let mut last = self.0.lock().await;
        // A clock that was set back makes no answer hold longer.
        if let Some((at, answer)) = &*last
            && clock::now().abs_diff(*at) < HOLDS_MS
        {
            return answer.clone();
        }
        let answer = match tokio::time::timeout(WITHIN, store.ready()).await {
            Ok(answer) => answer.map_err(|error| refusal(&error)),
            Err(_) => Err(Refusal::new(Code::StoreUnavailable, "the store does not answer in time")),
        };
        *last = Some((clock::now(), answer.clone()));
        answer
    }
}

fn refusal(error: &store::Error) -> Refusal {
    // The log has the whole; it may name places that are nobody's business.
    tracing::warn!(%error, source = std::error::Error::source(error).map(tracing::field::display), "the store isn't ready");
    match error {
        store::Error::Full { .. } => Refusal::new(Code::StoreFull, "the store is full"),
        store::Error::Unavailable { .. } | store::Error::Corrupt { .. } | store::Error::Invalid { .. } | store::Error::Open(_) => {
            Refusal::new(Code::StoreUnavailable, "the store doesn't answer")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::faulty::Faulty;
    use crate::store::memory::Memory;

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_all_who_ask_at_about_the_same_time() {
        let store = Faulty::new(Arc::new(Memory::new()));
        let readiness = Readiness::default();
        let all = futures_util::future::join_all((0..50).map(|_| readiness.ask(&store))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(store.probes(), 1, "one for all");
        tokio::time::sleep(Duration::from_millis(900)).await;
        readiness.ask(&store).await.unwrap();
        assert_eq!(store.probes(), 1, "still");
        tokio::time::sleep(Duration::from_millis(200)).await;
        readiness.ask(&store).await.unwrap();
        assert_eq!(store.probes(), 2);
        store.set_down(true);
        readiness.ask(&store).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1001)).await;
        for _ in 0..3 {
            assert_eq!(readiness.ask(&store).await.unwrap_err().code, Code::StoreUnavailable);
        }
        assert_eq!(store.probes(), 3, "what went wrong holds as long");
    }
}
