//! fs-safe: a second lock file guards the removal of a dead process's lock.
//!
//! It fixes the stale take-over and moves the problem: who owns the guard when the reclaimer dies?
//! A guard that is left behind is never reclaimed, so the lock is never reclaimed either.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::{Meanwhile, os};

/// The lock file and its guard.
#[derive(Debug)]
pub struct GuardedLock {
    path: PathBuf,
    guard: PathBuf,
    presence: os::Presence,
    /// With the guard taken, before the lock is removed.
    pub meanwhile: Meanwhile,
}

impl GuardedLock {
    /// The lock of the state in `directory`.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let path = super::lock_file(directory);
        let mut guard = path.clone().into_os_string();
        guard.push(".reclaim");
        let presence = os::Presence::announce(directory)?;
        Ok(Self { path, guard: guard.into(), presence, meanwhile: Meanwhile::default() })
    }

    fn is_stale(&self) -> bool {
        let pid = fs::read_to_string(&self.path).ok().and_then(|pid| pid.trim().parse().ok());
        pid.is_some_and(|pid| !self.presence.is_alive(pid))
    }
}

impl crate::Lock for GuardedLock {
    fn enter(&mut self) -> io::Result<()> {
        if self.path.exists() && self.is_stale() {
            File::create_new(&self.guard)?;
            self.meanwhile.now();
            if self.is_stale() {
                fs::remove_file(&self.path)?;
            }
            fs::remove_file(&self.guard)?;
        }
        let mut file = File::create_new(&self.path)?;
        io::Write::write_all(&mut file, std::process::id().to_string().as_bytes())
    }

    fn leave(&mut self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
