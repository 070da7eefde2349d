//! codegraph's journal lock: rename a new lock file over that of a dead process, re-read the nonce.
//!
//! The rename was the fix for "unlink, then create", and it has the same hole. A renames, reads its
//! own nonce and enters. B judged the dead owner a moment earlier; it renames over A's live lock,
//! reads its own nonce, and enters as well. The nonce proves who came last, not who is alone.
//!
//! As shipped ([`Unstamped::IsDead`]) no death is needed. The lock file is created first and
//! stamped with the owner's process number second. A waiter that reads it in between gets an empty
//! file: `Number("")` is 0, process 0 is "dead", and the waiter steals the lock of a process that
//! is about to enter.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Dice, Meanwhile, os};

/// Shipped: 5 s. No process in the race holds the lock for longer than a few milliseconds.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Shipped: 25 ms between two attempts, spent spinning. Scaled by a hundred, and slept, which
/// leaves the processor to the holder.
const RETRY: Duration = Duration::from_micros(250);

/// Shipped: 30 s. Scaled for lock files that are not stamped, as a process killed between creating
/// and stamping would stop the race. Stamped locks keep the full age, which no race reaches.
const UNSTAMPED_STALE: Duration = Duration::from_millis(50);

/// What an empty lock file means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unstamped {
    /// Its owner is about to stamp it: wait. Kinder than what was shipped, so that only the steal
    /// itself is tested.
    Waits,
    /// Its owner is process 0, which is dead: steal. As shipped.
    IsDead,
}

/// The lock file beside the journal: two lines, process number and nonce.
#[derive(Debug)]
pub struct JournalLock {
    path: PathBuf,
    presence: os::Presence,
    dice: Dice,
    unstamped: Unstamped,
    nonce: String,
    /// After the lock file was created, before it is stamped.
    pub created: Meanwhile,
    /// After the verdict "dead", before the rename that acts on it.
    pub judged: Meanwhile,
}

impl JournalLock {
    /// The lock of the state in `directory`.
    pub fn open(directory: &Path, seed: u64, unstamped: Unstamped) -> io::Result<Self> {
        let path = super::lock_file(directory);
        let presence = os::Presence::announce(directory)?;
        let (dice, nonce) = (Dice::new(seed), String::new());
        let (created, judged) = (Meanwhile::default(), Meanwhile::default());
        Ok(Self { path, presence, dice, unstamped, nonce, created, judged })
    }

    fn draw_nonce(&mut self) -> String {
        self.nonce = format!("{}-{:016x}", std::process::id(), self.dice.roll());
        format!("{}\n{}\n", std::process::id(), self.nonce)
    }

    fn has_our_nonce(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|content| content.contains(&self.nonce))
    }

    fn create(&mut self) -> io::Result<bool> {
        let stamp = self.draw_nonce();
        match OpenOptions::new().write(true).create_new(true).open(&self.path) {
            Ok(mut file) => {
                self.created.now();
                file.write_all(stamp.as_bytes()).map(|()| true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn should_steal(&self) -> bool {
        let Ok(content) = fs::read_to_string(&self.path) else { return false };
        let first = content.lines().next().unwrap_or("").trim();
        if first.is_empty() && self.unstamped == Unstamped::Waits {
            return super::age(&self.path).is_some_and(|age| age > UNSTAMPED_STALE);
        }
        // An empty line is the number 0 in the shipped language, and process 0 is never alive.
        !self.presence.is_alive(first.parse().unwrap_or(0))
    }

    fn steal(&mut self) -> io::Result<bool> {
        self.judged.now();
        let stamp = self.draw_nonce();
        let temporary = format!("{}.{}.tmp", self.path.display(), self.nonce);
        fs::write(&temporary, stamp)?;
        if fs::rename(&temporary, &self.path).is_err() {
            let _ = fs::remove_file(&temporary);
            return Ok(false);
        }
        Ok(self.has_our_nonce())
    }
}

impl crate::Lock for JournalLock {
    fn enter(&mut self) -> io::Result<()> {
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            if self.create()? || (self.should_steal() && self.steal()?) {
                return Ok(());
            }
            thread::sleep(RETRY);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "failed to acquire the journal lock"))
    }

    fn leave(&mut self) -> io::Result<()> {
        // A lock with another nonce belongs to the process that stole it, and stays.
        if self.has_our_nonce() { fs::remove_file(&self.path) } else { Ok(()) }
    }
}
