//! A lock with one mistake: a forked child that releases its copy also releases its parent's lock,
//! since to the kernel both are one holder. All the rest is tenure's, so there is one thing to
//! find: another process beside the parent.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::{Answer, Guard, Hold, Subject};

/// The lock, held.
#[derive(Debug)]
pub(in super::super) struct Copied(File);

impl Copied {
    fn take(path: &Path, shared: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(path)?;
        let operation =
            if shared { FlockOperation::LockShared } else { FlockOperation::LockExclusive };
        rustix::io::retry_on_intr(|| flock(&file, operation))?;
        Ok(Self(file))
    }

    pub(super) fn release(self) -> io::Result<()> {
        Ok(flock(&self.0, FlockOperation::Unlock)?)
    }
}

/// Tenure, except for the lock.
#[derive(Debug)]
pub(in super::super) struct Unlocked;

impl Subject for Unlocked {
    fn lock(&self, path: &Path, shared: bool) -> Answer<Hold> {
        Ok(Hold { fence: None, guard: Guard::Unlocked(Copied::take(path, shared)?) })
    }
}
