//! OpenClaw's re-entrant session lock: a process that has the lock gets it again, from any caller.
//!
//! It was meant for a function that calls another one under the same lock. But a process runs
//! several tasks at once, and its map of held locks knows only paths: an unrelated task enters,
//! too. The default was turned off later; fs-safe no longer has the option.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::SessionLock;

/// What this process holds, and how often.
static HELD: Mutex<BTreeMap<PathBuf, u32>> = Mutex::new(BTreeMap::new());

/// A session lock and the map of this process.
#[derive(Debug)]
pub struct ReentrantLock {
    path: PathBuf,
    lock: SessionLock,
}

impl ReentrantLock {
    /// The lock of the state in `directory`.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Ok(Self { path: super::lock_file(directory), lock: SessionLock::open(directory)? })
    }
}

impl crate::Lock for ReentrantLock {
    fn enter(&mut self) -> io::Result<()> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.contains_key(&self.path) {
            self.lock.enter()?;
        }
        *held.entry(self.path.clone()).or_default() += 1;
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let left = held.remove(&self.path).unwrap_or(1) - 1;
        if left == 0 {
            return self.lock.leave();
        }
        held.insert(self.path.clone(), left);
        Ok(())
    }
}
