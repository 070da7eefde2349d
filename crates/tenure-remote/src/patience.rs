//! How long a call waits for other holders.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tenure::store::Watcher;
use tenure::{Cancel, Result, Wait};

/// A cancel token wakes no watcher, so a wait looks at it this often.
const CANCEL_CHECK: Duration = Duration::from_millis(10);

/// The wait of one call, from its beginning on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub(crate) may_wait: bool,
    until: Option<Instant>,
    cancel: Option<&'a Cancel>,
    /// The thread that could wait for itself; `None` if it waits on behalf of another one.
    pub(crate) thread: Option<ThreadId>,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(wait: Wait, cancel: Option<&'a Cancel>, on_behalf: Option<ThreadId>) -> Self {
        let (may_wait, until) = match wait {
            Wait::No => (false, None),
            // A wait that is too long for the clock is for ever.
            Wait::For(time) => (!time.is_zero(), Instant::now().checked_add(time)),
            Wait::Forever => (true, None),
        };
        let thread = on_behalf.is_none().then(|| thread::current().id());
        Self { may_wait, until, cancel, thread }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(Cancel::is_cancelled)
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.may_wait || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Waits for a change, at most this long, and not beyond the deadline or a cancellation.
    pub(crate) fn watch(&self, watcher: &mut dyn Watcher, time: Duration) -> Result<()> {
        self.in_slices(time, |slice| watcher.wait(slice))
    }

    /// The same, without anything that could wake it.
    pub(crate) fn pause(&self, time: Duration) {
        let _ = self.in_slices(time, |slice| {
            thread::park_timeout(slice);
            Ok(false)
        });
    }

    fn in_slices(
        &self,
        time: Duration,
        mut wait: impl FnMut(Duration) -> Result<bool>,
    ) -> Result<()> {
        let now = Instant::now();
        let mut until = now + time;
        if let Some(deadline) = self.until {
            until = until.min(deadline);
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_cancelled() {
                return Ok(());
            }
            let slice = if self.cancel.is_some() { left.min(CANCEL_CHECK) } else { left };
            if wait(slice)? {
                return Ok(());
            }
        }
    }
}
