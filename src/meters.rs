//! What the process counts and measures: one table of names, and how it is read out. May not know who counts. Nothing here may
//! stand on the path of a single piece of a reply: what is counted is counted a turn, a call, a request, a connection.

mod process;
mod table;

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub(crate) use table::names;
pub use table::{ALL, Kind, Meter};

/// Bounds of the buckets of everything that takes time, in seconds: from a read of memory to a long answer.
const SECONDS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Measurements wait for the next reading; they are put into their buckets at least so often.
const UPKEEP: Duration = Duration::from_secs(5);

/// Counters whose labels have these values and no others: they are there from the start, at 0, so that the first one counted is seen
/// to be one more.
const KNOWN: &[(&str, &str, &[&str])] = &[
    (names::READERS_CUT, "transport", &["session", "websocket", "connection"]),
    (names::SESSIONS_CLOSED, "reason", &["idle", "room", "stopped", "failed"]),
    (names::APPENDS, "outcome", &["appended", "duplicate", "conflict", "erased", "full", "failed"]),
    (names::SNAPSHOTS, "outcome", &["kept", "refused", "failed"]),
];

static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Reads everything out. Made once a process; without it nothing is kept.
#[derive(Clone)]
pub struct Readout(PrometheusHandle);

impl std::fmt::Debug for Readout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Readout")
    }
}

/// Begins to count, unless this process counts already. Nothing when the process counts for somebody else.
pub fn begin() -> Option<Readout> {
    let handle = HANDLE.get_or_init(|| match recorder() {
        Ok(handle) => Some(handle),
        Err(error) => {
            tracing::warn!(%error, "nothing is counted: another recorder is there");
            None
        }
    });
    handle.clone().map(Readout)
}

fn recorder() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?.install_recorder()?;
    for meter in ALL {
        meter.describe();
    }
    for meter in ALL.iter().filter(|meter| meter.labels.is_empty()) {
        meter.begin();
    }
    for (name, label, values) in KNOWN {
        values.iter().for_each(|value| metrics::counter!(*name, *label => *value).increment(0));
    }
    metrics::gauge!(names::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

impl Readout {
    /// Everything, as Prometheus reads it.
    pub fn text(&self) -> String {
        process::measure();
        self.0.render()
    }

    /// Keeps what was measured small while nobody reads it. Never returns.
    pub async fn keep_up(self) {
        loop {
            tokio::time::sleep(UPKEEP).await;
            self.0.run_upkeep();
        }
    }
}
