//! OpenClaw's session write lock: create a lock file exclusively, remove that of a dead process.
//!
//! Two waiters read the same dead owner. The first removes the file and creates its own. The second
//! still acts on what it read, removes the first one's fresh lock, and creates another. Both are
//! inside. The release also removes by name, whichever lock has that name by then.
//!
//! This is the second generation, which is kinder than the first: a lock without a readable owner
//! is taken over only when it is old.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Meanwhile, os};

/// Shipped: 10 s. No process in the race holds the lock for longer than a few milliseconds.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);

/// Shipped: 30 minutes, for a lock whose owner cannot be read. A process killed between creating
/// and stamping its lock would stop the race for good, so the wait is scaled. Stamped locks keep
/// the full age, which no race reaches: a live owner never loses its lock here because it was slow.
const UNREADABLE_STALE: Duration = Duration::from_millis(50);

/// Shipped: 50 ms times the attempt, at most 1 s. Scaled by a hundred like all waits.
const BACKOFF_STEP: Duration = Duration::from_micros(500);
const BACKOFF_LONGEST: Duration = Duration::from_millis(10);

/// The lock file beside the session.
#[derive(Debug)]
pub struct SessionLock {
    path: PathBuf,
    presence: os::Presence,
    held: Option<File>,
    /// After the verdict "stale", before the removal that acts on it.
    pub meanwhile: Meanwhile,
}

impl SessionLock {
    /// The lock of the state in `directory`.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let path = super::lock_file(directory);
        let presence = os::Presence::announce(directory)?;
        Ok(Self { path, presence, held: None, meanwhile: Meanwhile::default() })
    }

    /// Creates and stamps the lock file; `None` if there is one already.
    fn create(&self) -> io::Result<Option<File>> {
        let mut file = match OpenOptions::new().write(true).create_new(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            opened => opened?,
        };
        let owner = json!({ "pid": std::process::id() });
        file.write_all(&serde_json::to_vec_pretty(&owner)?)?;
        Ok(Some(file))
    }

    fn is_stale(&self) -> bool {
        let owner: Option<Value> =
            fs::read(&self.path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let pid = owner.as_ref().and_then(|owner| owner.get("pid")).and_then(Value::as_i64);
        match pid {
            Some(pid) => !i32::try_from(pid).is_ok_and(|pid| self.presence.is_alive(pid)),
            None => super::age(&self.path).is_some_and(|age| age > UNREADABLE_STALE),
        }
    }
}

impl crate::Lock for SessionLock {
    fn enter(&mut self) -> io::Result<()> {
        let started = Instant::now();
        let mut attempt = 0;
        while started.elapsed() < ACQUIRE_TIMEOUT {
            attempt += 1;
            if let Some(file) = self.create()? {
                self.held = Some(file);
                return Ok(());
            }
            let stale = self.is_stale();
            // The shipped code awaits every file operation, so others run between the verdict and the
            // removal that acts on it.
            thread::yield_now();
            if stale {
                self.meanwhile.now();
                let _ = fs::remove_file(&self.path);
                continue;
            }
            thread::sleep((BACKOFF_STEP * attempt).min(BACKOFF_LONGEST));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "session file locked"))
    }

    fn leave(&mut self) -> io::Result<()> {
        drop(self.held.take());
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
