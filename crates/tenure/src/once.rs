//! Once: many callers want the result of one action, one of them does it, and the others get its result.
//!
//! The result is the file `TARGET~once` beside the target: a line of JSON about it, and then its bytes. The action is done
//! under the lock of that name. The target itself is not touched: it may be a directory, or not be there.
//!
//! # Invariants
//!
//! 1. One caller at a time has the [`Turn`]. The death of its process ends the turn, and the next caller that waits gets
//!    one.
//! 2. Only a result is stored, for its time to live. A failure is stored as a number, without output, and only those
//!    callers get it that asked before the turn ended; a later one gets a turn.
//! 3. A result is erased at its expiry, by the next caller that sees it, with the earlier version that the store keeps. A
//!    power loss may take it, and then the action is done again.
//! 4. A result whose time cannot be right (it is from the future, the clock was set back) has expired. One that a power
//!    loss has cut is none: its checksum does not fit.
//!
//! Crash: before the result is stored, the action is done again by the next caller, even if it had an effect.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::blob::Blob;
use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::FileStore;
use crate::fs::Mode;
use crate::json;
use crate::lock::{Lock, LockGuard};
use crate::options::{Durability, LockOptions, WriteOptions};
use crate::store::Store;
use crate::sys;

/// The longest result that is stored.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// The result of an action that is done once for many callers. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Once {
    target: PathBuf,
    lock: Lock,
    stored: Blob,
}

/// What a caller gets.
#[derive(Debug)]
pub enum Asked {
    /// The result, which is fresh.
    Fresh(Vec<u8>),
    /// The action failed with this number after this caller asked.
    Failed(i32),
    /// It is this caller's turn.
    Turn(Turn),
}

impl Once {
    /// The action that has this path as its name.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::on(&FileStore::local(), path)
    }

    /// The same in a store.
    pub fn on(store: &dyn Store, name: impl AsRef<Path>) -> Result<Self> {
        let target = store.open(name.as_ref())?.name().to_path_buf();
        let mut stored = OsString::from(&target);
        stored.push("~once");
        let (lock, stored) = (Lock::on(store, &stored)?, Blob::on(store, &stored)?);
        Ok(Self { target, lock, stored })
    }

    /// The resolved name of the target.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// The lock under which the action is done.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Asks for the result, waiting for the caller whose turn it is. Of the options, `mode` and `slots` do not matter.
    pub fn ask(&self, options: &LockOptions) -> Result<Asked> {
        let before = self.read()?;
        if let Some(output) = before.output() {
            return Ok(Asked::Fresh(output));
        }
        let exclusive = LockOptions { mode: Mode::Exclusive, slots: None, ..options.clone() };
        let guard = self.lock.acquire(&exclusive)?;
        let now = self.read()?;
        let answer = match (now.output(), now.failed) {
            (Some(output), _) => Asked::Fresh(output),
            (None, Some(code)) if now.run != before.run => Asked::Failed(code),
            _ => {
                let turn = Turn { stored: self.stored.clone(), guard, run: now.run };
                if now.output.is_some() {
                    turn.erase()?;
                }
                return Ok(Asked::Turn(turn));
            }
        };
        guard.release()?;
        Ok(answer)
    }

    fn read(&self) -> Result<Stored> {
        let Some(found) = self.stored.read()? else { return Ok(Stored::default()) };
        Stored::read(&found.bytes).ok_or_else(|| {
            let detail = "it is not a result that tenure stored";
            let error = Error::new(ErrorKind::Damaged, "read", detail).at(self.stored.path());
            error.hint("move it away")
        })
    }
}

/// The right to do the action. Dropping it gives the turn to the next caller.
#[derive(Debug)]
#[must_use = "the turn ends as soon as it is dropped"]
pub struct Turn {
    stored: Blob,
    guard: LockGuard,
    run: u64,
}

impl Turn {
    /// The lock of the turn, for a child process to inherit.
    pub fn guard(&self) -> &LockGuard {
        &self.guard
    }

    /// Stores the result for this time, and ends the turn. `false` if it is longer than [`OUTPUT_BYTES_MAX`], or than
    /// the store takes: it is not stored then, and the next caller gets a turn.
    pub fn succeed(self, output: &[u8], ttl: Duration) -> Result<bool> {
        let mut stored = false;
        if output.len() <= OUTPUT_BYTES_MAX {
            let ttl_us = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
            let written = self.write(
                &Stored {
                    run: self.run + 1,
                    output: Some(output.to_vec()),
                    at_us: sys::wall_time_us(),
                    ttl_us,
                    failed: None,
                },
                Durability::NoSync,
            );
            stored = match written {
                Err(error) if error.kind() == ErrorKind::Invalid => false,
                written => written.map(|()| true)?,
            };
        }
        self.guard.release()?;
        Ok(stored)
    }

    /// Passes a failure on to those who wait, and ends the turn.
    pub fn fail(self, code: i32) -> Result<()> {
        let failed = Some(code);
        let failed = Stored { run: self.run + 1, failed, ..Stored::default() };
        self.write(&failed, Durability::NoSync)?;
        self.guard.release()
    }

    /// Erases an expired result, and the earlier version that the store may have kept: of two durable changes the
    /// second one replaces it by the first.
    fn erase(&self) -> Result<()> {
        (0..2).try_for_each(|at_us| {
            let erased = Stored { run: self.run, at_us, ..Stored::default() };
            self.write(&erased, Durability::Durable)
        })
    }

    fn write(&self, stored: &Stored, durability: Durability) -> Result<()> {
        let options = WriteOptions {
            fence: Some(self.guard.publish_fence()),
            durability,
            ..WriteOptions::default()
        };
        self.stored.put(&stored.to_bytes(), &options).map(drop)
    }
}

/// What the file says.
#[derive(Debug, Default)]
struct Stored {
    /// So many turns ended with a result or a failure.
    run: u64,
    output: Option<Vec<u8>>,
    at_us: u64,
    ttl_us: u64,
    failed: Option<i32>,
}

impl Stored {
    /// The output, if it is fresh.
    fn output(&self) -> Option<Vec<u8>> {
        let age = sys::wall_time_us().checked_sub(self.at_us)?;
        self.output.clone().filter(|_| age < self.ttl_us)
    }

    /// `None` if this was not written here. What a power loss has cut says nothing.
    fn read(bytes: &[u8]) -> Option<Self> {
        let is_cut = bytes.iter().all(|byte| *byte == 0) || HEAD.starts_with(bytes);
        if is_cut {
            return Some(Self::default());
        }
        if !bytes.starts_with(HEAD) {
            return None;
        }
        Some(Self::whole(bytes).unwrap_or_default())
    }

    fn whole(bytes: &[u8]) -> Option<Self> {
        let end = memchr::memchr(b'\n', bytes)?;
        let (head, output) = (json::parse(&bytes[..end]).ok()?, &bytes[end + 1..]);
        let run = head["once"].as_u64()?;
        let failed = head["failed"].as_i64().map(i32::try_from).transpose().ok()?;
        let (at_us, ttl_us) = (head["at_us"].as_u64()?, head["ttl_us"].as_u64()?);
        let output = match head["checksum"].as_str() {
            Some(sum) if sum == sum_of(output) => Some(output.to_vec()),
            Some(_) => return None,
            None => None,
        };
        Some(Self { run, output, at_us, ttl_us, failed })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let head = json!({
            "once": self.run,
            "at_us": self.at_us,
            "ttl_us": self.ttl_us,
            "failed": self.failed,
            "checksum": self.output.as_deref().map(sum_of),
        });
        let mut bytes = format!("{head}\n").into_bytes();
        bytes.extend(self.output.iter().flatten());
        bytes
    }
}

/// How the file begins.
const HEAD: &[u8] = b"{\"once\":";

fn sum_of(output: &[u8]) -> String {
    format!("{:016x}", checksum::of(output))
}
