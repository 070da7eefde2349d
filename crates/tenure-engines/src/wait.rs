//! Waiting for what another process does.

use std::time::{Duration, Instant};

/// Between two looks.
const TURN: Duration = Duration::from_millis(5);

/// Looks until there is something, at most for `patience`; then the test fails.
pub fn until<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {patience:?}");
        std::thread::park_timeout(TURN);
    }
}
