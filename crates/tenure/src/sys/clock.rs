//! Linux and macOS: the clocks.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds of the wall clock since 1970.
pub(crate) fn wall_time_us() -> u64 {
    // Through the C library, which is ready for it: rustix would look for the kernel's page of clocks
    // first, with a system call and a search that cost a short process more than the clock does.
    #[expect(clippy::disallowed_methods, reason = "this is where the clocks live")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}

/// Microseconds since boot, counting the time asleep, the same in every time namespace of the host.
pub(crate) fn boot_time_us() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = rustix::time::ClockId::Boottime;
    // The manual of macOS: this clock keeps running "while the system is asleep".
    #[cfg(target_vendor = "apple")]
    let clock = rustix::time::ClockId::Monotonic;
    let now = microseconds(rustix::time::clock_gettime(clock)).unwrap_or(0);
    now.saturating_add_signed(-time_namespace_offset_us())
}

fn microseconds(time: rustix::time::Timespec) -> Option<u64> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
    Some(seconds * 1_000_000 + nanoseconds / 1_000)
}

/// What a time namespace adds to the boot clock (`boottime SECONDS NANOSECONDS`).
fn time_namespace_offset_us() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        let parse = |line: &str| -> Option<i64> {
            let mut fields = line.split_whitespace().skip(1).map(str::parse::<i64>);
            let (seconds, nanoseconds) = (fields.next()?.ok()?, fields.next()?.ok()?);
            Some(seconds * 1_000_000 + nanoseconds / 1_000)
        };
        text.lines().find(|line| line.starts_with("boottime")).and_then(parse).unwrap_or(0)
    })
}
