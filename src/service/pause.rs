//! The pause that a service asks for. May not know whether it is kept.

use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::HeaderMap;

use crate::clock;

/// The pause that is asked for: `retry-after-ms`, or `retry-after` in seconds or as the time when it is over.
pub fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let until = || {
        let until = httpdate::parse_http_date(text("retry-after")?).ok()?;
        let until = u64::try_from(until.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
        // One that is over is none.
        until.checked_sub(clock::now()).filter(|pause| *pause > 0)
    };
    let seconds = || number("retry-after").and_then(|seconds| millis(seconds * 1000.0));
    number("retry-after-ms").and_then(millis).or_else(seconds).or_else(until)
}

/// A pause that somebody may mean.
pub fn millis(millis: f64) -> Option<u64> {
    let pause = Some(millis).filter(|millis| (0.0..1e12).contains(millis)).map(|millis| Duration::from_secs_f64(millis / 1000.0))?;
    u64::try_from(pause.as_millis()).ok()
}
