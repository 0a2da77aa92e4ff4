//! Reports of tokens: what may be believed of them. A service that counts nothing, or nonsense, has reported nothing; its reply is
//! fine all the same. May not know any service.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::protocol::Usage;

/// No call has more tokens.
const TOKENS_MAX: u64 = 100_000_000;

/// A number of tokens, where there is one that can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub Option<u64>);

impl Count {
    /// This one, or where it says nothing (zero says nothing either) another.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_some() || other.0.is_none() { self } else { other }
    }

    /// Whether there are any.
    pub fn is_some(self) -> bool {
        self.0.is_some_and(|count| count > 0)
    }

    /// How many; none where nothing is said.
    pub fn get(self) -> u64 {
        self.0.unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        // Some services count in floating point.
        let whole = value.as_f64().filter(|count| count.fract() == 0.0 && (0.0..1e15).contains(count));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and small")]
        let count = value.as_u64().or_else(|| whole.map(|count| count as u64));
        Ok(Self(count.filter(|&count| count <= TOKENS_MAX)))
    }
}

/// An object that is read if it has the right shape, and passed over if it hasn't.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lenient<T>(pub Option<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        // A list would be read as an object without names.
        Ok(Self(Some(value).filter(Value::is_object).and_then(|value| T::deserialize(value).ok())))
    }
}

/// A report as far as it can be believed: nobody reads nothing, and no part is more than the whole. Nothing when nothing is left.
pub(super) fn believed(usage: Usage) -> Option<Usage> {
    let some = |count: Option<u64>| count.filter(|&count| count > 0);
    let part = |part: Option<u64>, whole: Option<u64>| part.filter(|&part| whole.is_some_and(|whole| part <= whole));
    let input_tokens = some(usage.input_tokens);
    some(usage.output_tokens).or(input_tokens)?;
    let (output_tokens, cached, written) = (usage.output_tokens, usage.cached_input_tokens, usage.cache_write_input_tokens);
    Some(Usage {
        input_tokens,
        cached_input_tokens: part(cached, input_tokens),
        cache_write_input_tokens: part(written, input_tokens),
        reasoning_tokens: part(usage.reasoning_tokens, output_tokens),
        ..usage
    })
}
