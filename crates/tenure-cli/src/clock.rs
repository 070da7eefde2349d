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
    tenure::embed::show_times_ahead_of_utc(offset_seconds(now_us()));
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

/// The microseconds of a time of the clock: RFC 3339, the same without a zone (local), a date, or a time of
/// today. `None` for anything else.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (date, rest) = match text.split_once(['T', 't', ' ']) {
        Some((date, rest)) => (date, rest),
        None if text.contains(':') => ("", text),
        None => (text, ""),
    };
    let (clock, zone) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if date.is_empty() && clock.is_empty() {
        return None;
    }
    let today = parts(now_us());
    let days = if date.is_empty() {
        days_of(today.0, today.1, today.2)
    } else {
        let mut numbers = date.split('-').map(number);
        let (year, month, day) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1970;
        (is_date && numbers.next().is_none()).then(|| days_of(year, month, day))?
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut second = 0;
    if !clock.is_empty() {
        let mut numbers = clock.split(':').map(number);
        let (hour, minute) = (numbers.next()??, numbers.next()??);
        let seconds = numbers.next().unwrap_or(Some(0))?;
        let is_time = hour < 24 && minute < 60 && seconds <= 60 && numbers.next().is_none();
        second = is_time.then_some(hour * 3600 + minute * 60 + seconds)?;
    }
    let micros = format!("{fraction:0<6}").get(..6).and_then(number)?;
    let mut seconds = days * 86400 + second;
    seconds -= match zone.as_bytes().first() {
        Some(b'Z' | b'z') => (zone.len() == 1).then_some(0)?,
        Some(sign) => {
            let digits: String = zone[1..].chars().filter(|letter| *letter != ':').collect();
            let (hours, minutes) = digits.split_at_checked(2)?;
            let ahead = number(hours)? * 3600 + number(minutes)? * 60;
            if *sign == b'-' { -ahead } else { ahead }
        }
        None => offset_seconds(u64::try_from(seconds).ok()? * 1_000_000),
    };
    u64::try_from(seconds).ok()?.checked_mul(1_000_000)?.checked_add(u64::try_from(micros).ok()?)
}

/// Digits only.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Days since 1970 of a date, the reverse of [`parts`].
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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
    if found.is_null() { 0 } else { local.tm_gmtoff }
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
        for (text, us) in [
            ("2000-02-29T12:34:56Z", Some(951_827_696_000_000)),
            ("2000-02-29t13:34:56.5+01:00", Some(951_827_696_500_000)),
            ("2000-02-29T07:04:56-0530", Some(951_827_696_000_000)),
            ("2000-13-01", None),
            ("12:61", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse(text), us, "{text}");
        }
        let now = now_us();
        assert_eq!(parse(&date_and_time(now)), Some(now / 1_000_000 * 1_000_000));
        assert_eq!(short(Duration::from_millis(600)), "0.6s");
        assert_eq!(short(Duration::from_secs(3661)), "1h01m");
    }
}
