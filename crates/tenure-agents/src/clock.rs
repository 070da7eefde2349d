//! The wall clock, for people, and deadlines of waits.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure::Wait;

/// Microseconds of the wall clock, now.
pub(crate) fn now_us() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "shown to people, and the form of the gate's state"
    )]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// `14:02:11 UTC`.
pub(crate) fn time_of_day(us: u64) -> String {
    let second = us / 1_000_000 % 86400;
    format!("{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

/// `45 s`, `9 min 58 s`, `2 h 5 min`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// When a wait is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(wait: Wait) -> Self {
        match wait {
            Wait::No => Self(Some(Instant::now())),
            Wait::For(time) => Self(Instant::now().checked_add(time)),
            Wait::Forever => Self(None),
        }
    }

    /// What is left; `None` when it has passed.
    pub(crate) fn left(self) -> Option<Duration> {
        let Some(at) = self.0 else { return Some(Duration::MAX) };
        at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}
