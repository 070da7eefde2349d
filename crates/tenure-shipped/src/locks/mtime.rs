//! proper-lockfile: a directory is the lock. Its modification time keeps it fresh; its age makes it
//! stale.
//!
//! A paused holder (a debugger, a full disk, a sleeping laptop) cannot refresh the time. A waiter
//! removes the lock while the holder is alive, and when the holder wakes up both are inside. The
//! holder learns that from a timer at its next refresh, if at all; nothing stops its writes.

use std::fs::{self, File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Shipped: 10 s, refreshed every 5 s.
const STALE: Duration = Duration::from_secs(10);

/// The lock directory beside the state.
#[derive(Debug)]
pub struct MtimeLock {
    path: PathBuf,
    stale: Duration,
}

impl MtimeLock {
    /// The lock of the state in `directory`.
    pub fn open(directory: &Path) -> Self {
        Self { path: super::lock_file(directory), stale: STALE }
    }

    /// The same with another age at which a lock is stale, for tests that cannot wait so long.
    #[must_use]
    pub fn stale_after(self, stale: Duration) -> Self {
        Self { stale, ..self }
    }

    /// What the holder's timer does.
    pub fn refresh(&self) -> io::Result<()> {
        self.pause(Duration::ZERO)
    }

    /// The same timer before the fix: a late refresh means the lock is lost, whether it was taken
    /// or not.
    pub fn heartbeat(&self) -> io::Result<()> {
        if super::age(&self.path).is_none_or(|age| age >= self.stale) {
            return Err(io::Error::other("lock was compromised"));
        }
        self.refresh()
    }

    /// Ages the lock by this much, as if the holder's timer had not run.
    pub fn pause(&self, time: Duration) -> io::Result<()> {
        let then = SystemTime::now() - time;
        File::open(&self.path)?.set_times(FileTimes::new().set_modified(then))
    }
}

impl crate::Lock for MtimeLock {
    fn enter(&mut self) -> io::Result<()> {
        let Err(error) = fs::create_dir(&self.path) else { return Ok(()) };
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(error);
        }
        if super::age(&self.path).is_none_or(|age| age < self.stale) {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "lock file is already being held",
            ));
        }
        // The shipped code awaits every file operation, so others run between the verdict and the
        // action.
        std::thread::yield_now();
        fs::remove_dir(&self.path)?;
        fs::create_dir(&self.path)
    }

    fn leave(&mut self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}
