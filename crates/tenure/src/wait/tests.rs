//! Durations as people write them, and cancel tokens.

use super::*;

#[derive(Debug)]
struct Sleeper;

impl Wake for Sleeper {
    fn wake(&self) {}
}

#[test]
fn waits_have_units() {
    let read = |text: &str| text.parse::<Wait>();
    for (text, ms) in [("500ms", 500), ("10s", 10_000), ("10", 10_000), ("1.5s", 1500)] {
        assert_eq!(read(text).unwrap(), Wait::For(Duration::from_millis(ms)), "{text}");
    }
    for (text, seconds) in [("2m", 120), ("2min", 120), ("1h", 3600), ("1d", 86400)] {
        assert_eq!(read(text).unwrap(), Wait::For(Duration::from_secs(seconds)), "{text}");
    }
    assert_eq!([read("0").unwrap(), read("0ms").unwrap()], [Wait::No, Wait::No]);
    assert_eq!(read("forever").unwrap(), Wait::Forever);
    for wrong in ["", "s", "soon", "-1s", "1y", "1 s", "1.2.3s", "99999999999999999999d", "nan"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_token_remembers_a_sleeper_once_however_often_it_waits() {
    let (cancel, sleeper) = (Cancel::new(), Arc::new(Sleeper));
    for _ in 0..1000 {
        cancel.wakes(&sleeper);
    }
    assert_eq!(cancel.shared.sleepers.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
}
