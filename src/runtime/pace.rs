//! How fast things may come: so many a second, and so many at once. May not know what comes.

use std::num::NonZeroU32;

use governor::{DefaultDirectRateLimiter, Quota};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// More than that comes as fast as nobody counts.
const MOST: u32 = 1_000_000;

/// A bucket that fills by itself.
#[derive(Debug)]
pub struct Pace(DefaultDirectRateLimiter);

impl Pace {
    /// `burst` at once, and `per_second` after that.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self(DefaultDirectRateLimiter::direct(Quota::per_second(per_second).allow_burst(burst)))
    }

    /// A number of a pace, in a configuration.
    pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU32, D::Error> {
        match NonZeroU32::deserialize(deserializer)? {
            number if number.get() <= MOST => Ok(number),
            number => Err(D::Error::custom(format!("{number} is not between 1 and {MOST}"))),
        }
    }

    /// The same where it may be absent.
    pub(crate) fn some_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
        Self::number(deserializer).map(Some)
    }

    /// Takes one; `false` when it came too fast.
    pub fn keeps(&self) -> bool {
        self.0.check().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_what_comes_after_it_waits() {
        let pace = Pace::new(NonZeroU32::MIN, NonZeroU32::new(5).unwrap());
        assert_eq!((0..5).filter(|_| pace.keeps()).count(), 5);
        assert!((0..100).any(|_| !pace.keeps()));
    }
}
