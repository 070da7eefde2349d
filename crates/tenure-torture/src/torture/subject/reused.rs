//! A lock with one mistake: a process that has left it to a child takes it again through the same
//! open file. To the kernel that is one holder, so it grants the lock while the child is inside.
//!
//! No other process gets it: from then on the process does not release it before it ends. So there
//! is one thing to find, a parent beside its own child. All the rest is tenure's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, flock};

use super::{Answer, Guard, Hold, Subject};
use tenure_cli::Inherited;

/// The one open file of this process, and whether a child has a copy of it.
static OPEN: OnceLock<File> = OnceLock::new();
static LEFT: AtomicBool = AtomicBool::new(false);

/// The lock, held.
#[derive(Debug)]
pub(in super::super) struct Descriptor {
    file: &'static File,
    /// The process that took it: a forked child has a copy, and does not release it.
    process: u32,
}

impl Descriptor {
    fn take(path: &Path) -> io::Result<Self> {
        let file = if let Some(file) = OPEN.get() {
            file
        } else {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            OPEN.get_or_init(|| file)
        };
        rustix::io::retry_on_intr(|| flock(file, FlockOperation::LockExclusive))?;
        Ok(Self { file, process: std::process::id() })
    }

    pub(super) fn inherited(&self) -> io::Result<Inherited> {
        Inherited::copy(&[self.file.as_fd()])
    }

    pub(super) fn release(self) -> io::Result<()> {
        if !LEFT.load(Ordering::Relaxed) && self.process == std::process::id() {
            flock(self.file, FlockOperation::Unlock)?;
        }
        Ok(())
    }
}

/// A child has it now.
pub(super) fn leave() {
    LEFT.store(true, Ordering::Relaxed);
}

/// Tenure, except for the lock.
#[derive(Debug)]
pub(in super::super) struct Reused;

impl Subject for Reused {
    fn lock(&self, path: &Path, _shared: bool) -> Answer<Hold> {
        Ok(Hold { fence: None, guard: Guard::Reused(Descriptor::take(path)?) })
    }
}
