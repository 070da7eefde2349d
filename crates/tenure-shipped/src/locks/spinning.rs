//! codegraph's and gsd-pi's wait: check the lock file, spin for a while, check again.
//!
//! Spinning occupies a processor for the whole wait. It shipped with the reason "so that callbacks
//! keep firing", but on a thread with an event loop none fires. And there is no queue: a process
//! that checks while the lock happens to be free gets it, however long others have waited.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Shipped: 5 s.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Shipped: 25 ms between two checks.
const SPIN: Duration = Duration::from_millis(25);

/// A lock file that is polled.
#[derive(Debug)]
pub struct SpinningLock {
    path: PathBuf,
}

impl SpinningLock {
    /// The lock of the state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: super::lock_file(directory) }
    }

    /// One check: takes the lock if it is free.
    pub fn look(&self) -> io::Result<bool> {
        match File::create_new(&self.path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What happens between two checks.
    pub fn spin() {
        let started = Instant::now();
        while started.elapsed() < SPIN {
            std::hint::spin_loop();
        }
    }
}

impl crate::Lock for SpinningLock {
    fn enter(&mut self) -> io::Result<()> {
        let started = Instant::now();
        while !self.look()? {
            if started.elapsed() > TIMEOUT {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Self::spin();
        }
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
