//! A limit on how long a lock is held, kept by the holder itself.
//!
//! Nobody else ever takes a lock from a live process (G3). A holder that knows how long it should take
//! can have itself reported, or ended: then the lock is released and its fence is refused.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::sys;

/// The watch only waits and calls back.
const STACK_BYTES: usize = 128 * 1024;

/// A watch on one hold; dropping it calls the watch off.
#[derive(Debug)]
pub(crate) struct Watch {
    over: Arc<(Mutex<bool>, Condvar)>,
    /// Whose thread it is.
    process: u32,
}

impl Watch {
    /// Calls `act` after that time, unless the watch is dropped before.
    pub(crate) fn start(after: Duration, act: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = over.clone();
        let watch = move || {
            let (over, changed) = &*shared;
            let guard = over.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(guard, after, |over| !*over);
            let (guard, time) = waited.unwrap_or_else(PoisonError::into_inner);
            let late = time.timed_out() && !*guard;
            drop(guard);
            if late {
                act();
            }
        };
        let thread = std::thread::Builder::new().name("tenure-max-hold".into());
        thread.stack_size(STACK_BYTES).spawn(watch)?;
        Ok(Self { over, process: sys::process_number() })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.process != sys::process_number() {
            return; // A forked child has no such thread, which may have had the mutex at the fork.
        }
        let (over, changed) = &*self.over;
        *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
