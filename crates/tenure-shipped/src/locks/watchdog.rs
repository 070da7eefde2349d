//! OpenClaw's watchdog: periodically ends the holds in its list that last too long.
//!
//! A lock that it cannot end stops the round, so all locks after it in the list stay locked, in
//! this round and in every later one. The list is in memory, so it never sees the holds of other
//! processes.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The holds of one process.
#[derive(Debug, Default)]
pub struct Watchdog {
    held: BTreeSet<PathBuf>,
}

impl Watchdog {
    /// This process has taken the lock of that file.
    pub fn note(&mut self, lock_file: PathBuf) {
        self.held.insert(lock_file);
    }

    /// One round, in which every hold has lasted too long; returns how many were ended.
    pub fn round(&mut self) -> io::Result<usize> {
        let mut ended = 0;
        for lock_file in self.held.clone() {
            fs::remove_file(&lock_file)?;
            self.held.remove(&lock_file);
            ended += 1;
        }
        Ok(ended)
    }
}
