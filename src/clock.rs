//! The only reader of the clock and the only source of uniqueness. May not know the engine: it gets stamps, never a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::ids::{Millis, Stamp};

/// The time now.
pub fn now() -> Millis {
    let since = system().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(not(test))]
#[expect(clippy::disallowed_methods, reason = "this module is where the clock is read")]
fn system() -> SystemTime {
    SystemTime::now()
}

/// In tests time goes as tokio's does: where that is paused, so is this.
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "this module is where the clock is read")]
fn system() -> SystemTime {
    thread_local! {
        static BEGAN: (SystemTime, tokio::time::Instant) = (SystemTime::now(), tokio::time::Instant::now());
    }
    BEGAN.with(|(system, instant)| *system + instant.elapsed())
}

/// A stamp for one input: now, and a number that no other input has.
pub fn stamp() -> Stamp {
    Stamp { now: now(), nonce: uuid::Uuid::now_v7().as_u128() }
}

/// A monotonic reading, for durations.
#[expect(clippy::disallowed_methods, reason = "this module is where the clock is read")]
pub fn instant() -> std::time::Instant {
    std::time::Instant::now()
}
