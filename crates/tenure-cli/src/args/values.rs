//! How durations, waits and guards are written.

use std::time::Duration;

use tenure::{Guard, Wait};

use crate::clock;

/// Longer than any task; the core refuses a longer lease as well.
const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// `500ms`, `10s`, `2m`, `1h`, `7d`; a number alone is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Wait::No) => Ok(Duration::ZERO),
        Ok(Wait::For(time)) => Ok(time),
        Ok(Wait::Forever) | Err(_) => {
            Err("write a duration like 500ms, 10s, 2m, 1h or 7d".to_owned())
        }
    }
}

/// A duration, `0` or `forever`.
pub(super) fn wait(text: &str) -> Result<Wait, String> {
    text.parse().map_err(|_| "write a duration like 500ms, 10s or 2m, 0 or forever".to_owned())
}

/// A moment, in microseconds since 1970: a duration before now, or a time of the clock.
pub(super) fn time(text: &str) -> Result<u64, String> {
    if let Ok(ago) = duration(text)
        && text.ends_with(|letter: char| letter.is_ascii_alphabetic())
    {
        let ago = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
        return Ok(clock::now_us().saturating_sub(ago));
    }
    clock::parse(text).ok_or_else(|| {
        "write a time like 10m (ago), 14:02, 2026-11-18, '2026-11-18 14:02:11' or 2026-11-18T14:02:11Z"
            .to_owned()
    })
}

/// A time to live: above zero, at most a year.
pub(super) fn ttl(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() || time > TTL_MAX {
        return Err("a time to live is above zero and at most a year".to_owned());
    }
    Ok(time)
}

/// `TARGET=N`, split at the last `=`: a path may contain one, a fence cannot.
pub(super) fn guard(text: &str) -> Result<Guard, String> {
    let wrong = || "write TARGET=FENCE".to_owned();
    let (target, fence) = text.rsplit_once('=').ok_or_else(wrong)?;
    let fence = fence.parse().map_err(|_| wrong())?;
    if target.is_empty() {
        return Err(wrong());
    }
    Ok(Guard { target: target.into(), fence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_ends_and_a_wait_may_not() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(wait("forever"), Ok(Wait::Forever));
        for wrong in ["forever", "soon", "1y"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(wait("soon").is_err());
    }

    #[test]
    fn a_time_to_live_is_bounded() {
        for wrong in ["0", "0s", "400d", "100y", "36500d"] {
            assert!(ttl(wrong).is_err(), "{wrong}");
        }
        assert!(ttl("366d").is_ok());
    }

    #[test]
    fn a_guard_splits_at_the_last_equals_sign() {
        let expected = Guard { target: "a=b/c".into(), fence: 7 };
        assert_eq!(guard("a=b/c=7"), Ok(expected));
        for wrong in ["a", "a=", "=7", "a=x", "a=-1"] {
            assert!(guard(wrong).is_err(), "{wrong}");
        }
    }
}
