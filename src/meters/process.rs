//! What the system says of this process. May not know what the process does.

use super::names;

/// Sets the process's gauges to what holds now; what the system doesn't tell is left out.
pub(super) fn measure() {
    if let Some(bytes) = resident_bytes() {
        set(names::PROCESS_MEMORY, bytes);
    }
    if let Some(handles) = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count) {
        // Looking took one.
        set(names::PROCESS_HANDLES, handles.saturating_sub(1));
    }
    if let Some(started) = started() {
        metrics::gauge!(names::PROCESS_START).set(started);
    }
}

#[expect(clippy::cast_precision_loss, reason = "what is told is a float")]
fn set(name: &'static str, value: usize) {
    metrics::gauge!(name).set(value as f64);
}

fn resident_bytes() -> Option<usize> {
    let pages: usize = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}

/// When the process started, in seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "what is told is a float")]
fn started() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name may hold anything, also spaces and brackets: the fields are counted from its end.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let booted: u64 = std::fs::read_to_string("/proc/stat").ok()?.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok())?;
    Some(booted as f64 + ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
