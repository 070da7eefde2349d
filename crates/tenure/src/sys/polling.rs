//! Sleeping until something may have changed, where nothing wakes a sleeper.

use std::time::Duration;

/// How often to check for a change.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Sleeps for a bounded time: the only place that sleeps without being woken.
#[expect(clippy::disallowed_methods, reason = "the one home of a bounded pause")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Sleeps for a moment; something may have changed.
pub(super) fn wait(timeout: Duration) -> bool {
    pause(timeout.min(LOOK_EVERY));
    true
}

/// Wakes after a moment. A wake-up is a hint: look again.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(crate) struct Watcher;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Watcher {
    pub(crate) fn new(_paths: &[&std::path::Path]) -> Self {
        Self
    }

    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "the same signature as on Linux, where it can fail"
    )]
    pub(crate) fn wait(&self, timeout: Duration) -> std::io::Result<bool> {
        Ok(wait(timeout))
    }
}
