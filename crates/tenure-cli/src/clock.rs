//! Times for people, in the zone of the machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds of the wall clock, now.
pub(crate) fn now_us() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "for people; nothing is decided by it")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// From now on the core shows local times, too. Only for messages: the zone is in a file that has to be read.
pub(crate) fn use_local_time() {
    tenure::show_times_ahead_of_utc(offset_seconds(now_us()));
}

/// `2026-11-18 14:02:11`.
pub(crate) fn date_and_time(us: u64) -> String {
    let (year, month, day, clock) = parts(us);
    format!("{year:04}-{month:02}-{day:02} {clock}")
}

/// `14:02:11`, with the date in front if that is not today's.
pub(crate) fn time(us: u64) -> String {
    let (then, today) = (parts(us), parts(now_us()));
    if (then.0, then.1, then.2) == (today.0, today.1, today.2) { then.3 } else { date_and_time(us) }
}

/// A duration in a few letters: `0.6s`, `2m05s`, `3h10m`, `2d04h`.
pub(crate) fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

/// Seconds that the local time is ahead of UTC.
#[cfg(unix)]
pub(crate) fn offset_seconds(us: u64) -> i64 {
    #![expect(unsafe_code, reason = "the zone is known to the C library")]
    let Ok(seconds) = libc::time_t::try_from(us / 1_000_000) else { return 0 };
    // SAFETY: all of its fields may be zero.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid. This program changes no environment variable of its own.
    let found = unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    if found.is_null() { 0 } else { i64::from(local.tm_gmtoff) }
}

/// Where the zone is not known, times are UTC.
#[cfg(not(unix))]
pub(crate) fn offset_seconds(_us: u64) -> i64 {
    0
}

/// Year, month, day, and the time of the day.
fn parts(us: u64) -> (i64, i64, i64, String) {
    let seconds = i64::try_from(us / 1_000_000).unwrap_or(0) + offset_seconds(us);
    let (days, second) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
    // From days since 1970 to the calendar, in eras of 400 years that begin in March.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    (year, month, day, clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_one_of_the_calendar() {
        let utc = |seconds: i64| {
            let us = u64::try_from(seconds).unwrap() * 1_000_000;
            let local = offset_seconds(us);
            date_and_time(u64::try_from(seconds - local).unwrap() * 1_000_000)
        };
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59:59");
        assert_eq!(short(Duration::from_millis(600)), "0.6s");
        assert_eq!(short(Duration::from_secs(3661)), "1h01m");
    }
}
