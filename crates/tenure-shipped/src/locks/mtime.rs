//! proper-lockfile: a directory as the lock, kept fresh by its modification time, stale by age.
//!
//! A holder that is paused (a debugger, a full disk, a sleeping laptop) cannot refresh the time. The next
//! one removes its lock while it lives, and when it wakes up both are inside. It learns of that with its
//! next refresh, from a timer, if at all; nothing stops its writes.

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

    /// The same with another age at which a lock is stale, for those who cannot wait so long.
    #[must_use]
    pub fn stale_after(self, stale: Duration) -> Self {
        Self { stale, ..self }
    }

    /// What the holder's timer does.
    pub fn refresh(&self) -> io::Result<()> {
        self.pause(Duration::ZERO)
    }

    /// What that timer did in the versions before the mend: too late is lost, whether somebody came or not.
    pub fn heartbeat(&self) -> io::Result<()> {
        if super::age(&self.path).is_none_or(|age| age >= self.stale) {
            return Err(io::Error::other("lock was compromised"));
        }
        self.refresh()
    }

    /// Lets time pass for the holder without its timer: its lock is older by that much.
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
        // The shipped code awaits every file operation, so others run between the verdict and what is
        // done upon it.
        std::thread::yield_now();
        fs::remove_dir(&self.path)?;
        fs::create_dir(&self.path)
    }

    fn leave(&mut self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}
