//! Sleeping until something may have changed, where the platform's own watcher is not used.

use std::io;
use std::path::Path;
use std::time::Duration;

/// How often a change is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Wakes after a moment. A wake-up is a hint: look again.
#[derive(Debug)]
pub(crate) struct Watcher;

impl Watcher {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature as on Linux, where it can fail"
    )]
    pub(crate) fn new(_paths: &[&Path]) -> io::Result<Self> {
        Ok(Self)
    }

    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "the same signature as on Linux, where it can fail"
    )]
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        crate::wait::pause(timeout.map_or(LOOK_EVERY, |time| time.min(LOOK_EVERY)));
        Ok(true)
    }
}
