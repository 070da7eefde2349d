//! What happened to a target, one JSON line each: take-overs, recoveries, adopted and damaged data.
//!
//! For people (`tenure who`, `tenure doctor`); nothing reads it to decide anything. The file is
//! bounded: at its limit the older half goes.

use crate::error::Result;
use crate::file::target::Target;
use crate::json::{Value, parse};
use crate::{json, sys};

/// The file is cut when it reaches this size.
const EVENTS_BYTES_MAX: u64 = 64 * 1024;

/// Records one event. The caller holds the hold or the commit lock.
pub(crate) fn record(
    target: &Target,
    event: &str,
    detail: &(impl Clone + Into<Value>),
) -> Result<()> {
    let path = target.sidecar("events");
    let file = target.open_sidecar(&path)?;
    let said =
        json!({ "at_us": sys::wall_time_us(), "event": event, "detail": Value::from(detail) });
    let mut line = format!("{said}\n");
    let mut end = file.stat().map_err(Target::failed("look at", &path))?.size;
    let last = file.read_range(end.saturating_sub(1), end);
    if last.map_err(Target::failed("read", &path))?.first().is_some_and(|last| *last != b'\n') {
        // A writer died in the middle of a line: start a new one.
        line.insert(0, '\n');
    }
    if end + line.len() as u64 > EVENTS_BYTES_MAX {
        // Of a file that is far too long, and so not ours, only the end is read.
        let from = end - (end / 2).min(EVENTS_BYTES_MAX / 2);
        let kept = file.read_range(from, end).map_err(Target::failed("read", &path))?;
        let start = memchr::memchr(b'\n', &kept).map_or(kept.len(), |newline| newline + 1);
        file.write_all_at(&kept[start..], 0).map_err(Target::failed("write", &path))?;
        end = (kept.len() - start) as u64;
        file.set_len(end).map_err(Target::failed("cut", &path))?;
    }
    file.write_all_at(line.as_bytes(), end).map_err(Target::failed("write", &path))
}

/// The events that are still known, oldest first.
pub(crate) fn all(target: &Target) -> Vec<Value> {
    let path = target.sidecar("events");
    let Ok(file) = target.open(&path, crate::fs::Access::Read) else { return Vec::new() };
    let Ok(bytes) = file.read_range(0, EVENTS_BYTES_MAX) else { return Vec::new() };
    bytes.split(|byte| *byte == b'\n').filter_map(|line| parse(line).ok()).collect()
}
