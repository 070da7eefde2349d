//! One clock for all processes of a run, so that their reports can be ordered.

use rustix::time::{ClockId, clock_gettime};

/// The clock that leases expire by: it also runs while the machine sleeps.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds since some moment before all processes of a run started.
pub(super) fn now() -> u64 {
    let time = clock_gettime(CLOCK);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanoseconds
}
