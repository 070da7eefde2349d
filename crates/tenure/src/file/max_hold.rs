//! A limit on how long a lock is held, kept by the holder itself.
//!
//! No other process ever takes a lock from a live one (G3). A holder that knows how long it should take
//! can have itself reported, or ended: then the lock is released and its fence is refused.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::sys;

/// The watch only waits and calls back.
const STACK_BYTES: usize = 128 * 1024;

/// A watch on one hold; dropping it calls the watch off.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The thread ends when this is dropped.
    over: Option<Sender<()>>,
    /// Whose thread it is.
    process: u32,
}

impl Watch {
    /// Calls `act` after that time, unless the watch is dropped before.
    pub(crate) fn start(after: Duration, act: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (over, ended) = channel();
        let watch = move || {
            if ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                act();
            }
        };
        let thread = std::thread::Builder::new().name("tenure-max-hold".into());
        thread.stack_size(STACK_BYTES).spawn(watch)?;
        Ok(Self { over: Some(over), process: sys::process_number() })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let over = self.over.take();
        if self.process != sys::process_number() {
            // A forked child has no such thread, which may have had a lock of the channel at the fork.
            std::mem::forget(over);
        }
    }
}

#[cfg(test)]
mod tests;
