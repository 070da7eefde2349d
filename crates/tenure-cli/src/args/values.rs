//! How durations, waits and guards are written.

use std::time::Duration;

use tenure::{Guard, Wait};

/// Longer than any task; the core refuses a longer lease as well.
const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// `500ms`, `10s`, `2m`, `1h`, `7d`; a number alone is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(format!("`{unit}` is no unit of time; use ms, s, m, h or d")),
    };
    let wrong = || "write a duration like 500ms, 10s or 2m".to_owned();
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

/// A duration, `0` or `forever`.
pub(crate) fn wait(text: &str) -> Result<Wait, String> {
    if text == "forever" {
        return Ok(Wait::Forever);
    }
    let time = duration(text).map_err(|why| format!("{why}, 0 or forever"))?;
    Ok(if time.is_zero() { Wait::No } else { Wait::For(time) })
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
    fn durations_have_units() {
        let ms = |ms| Ok(Duration::from_millis(ms));
        assert_eq!(duration("500ms"), ms(500));
        assert_eq!(duration("10s"), ms(10_000));
        assert_eq!(duration("10"), ms(10_000));
        assert_eq!(duration("1.5s"), ms(1500));
        assert_eq!(duration("2m"), ms(120_000));
        assert_eq!(duration("1h"), ms(3_600_000));
        assert_eq!(duration("1d"), ms(86_400_000));
        for wrong in ["", "s", "-1s", "1y", "1 s", "1.2.3s", "99999999999999999999d", "nan"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_wait_may_be_nothing_or_for_ever() {
        assert_eq!(wait("0"), Ok(Wait::No));
        assert_eq!(wait("0ms"), Ok(Wait::No));
        assert_eq!(wait("forever"), Ok(Wait::Forever));
        assert_eq!(wait("2m"), Ok(Wait::For(Duration::from_secs(120))));
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
