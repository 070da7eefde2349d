//! The lock: one holder of a target.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::file::FileStore;
use crate::fs::Fs;
use crate::holder::Holder;
use crate::options::{Fence, LockOptions};
use crate::slots;
use crate::store::{Held, Loss, Store, Target};
use crate::wait::Wait;

/// Takes the exclusive lock on the file `path`, waiting up to ten seconds.
pub fn lock(path: impl AsRef<Path>) -> Result<LockGuard> {
    Lock::open(path)?.acquire(&LockOptions::default())
}

/// Takes the exclusive lock on the file `path` if it is free.
pub fn try_lock(path: impl AsRef<Path>) -> Result<LockGuard> {
    Lock::open(path)?.acquire(&LockOptions { wait: Wait::No, ..LockOptions::default() })
}

/// A target that can be locked. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Lock {
    target: Arc<dyn Target>,
    /// The store has shared locks.
    shares: bool,
}

impl Lock {
    /// The lock of a path, whether or not there is a file. Taking it creates a missing directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::on(&FileStore::local(), path)
    }

    /// The lock with this name in a store.
    pub fn on(store: &dyn Store, name: impl AsRef<Path>) -> Result<Self> {
        let shares = store.capabilities().shared_locks;
        Ok(Self { target: store.open(name.as_ref())?, shares })
    }

    /// The same, on another file system.
    #[doc(hidden)]
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Self::on(&FileStore::on(fs), path)
    }

    /// The resolved name.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    /// Takes the lock.
    pub fn acquire(&self, options: &LockOptions) -> Result<LockGuard> {
        let held = match options.slots {
            // Below a hold that is proven there is no need for a slot.
            Some(count) if options.fence.is_none() => {
                slots::acquire(&self.target, self.shares, count, options)?
            }
            _ => self.target.lock(options)?,
        };
        Ok(self.guard(held))
    }

    pub(crate) fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    pub(crate) fn guard(&self, held: Box<dyn Held>) -> LockGuard {
        LockGuard { held, target: self.target.clone() }
    }
}

/// Proof that the lock is held. Dropping it releases the lock; [`Self::release`] also says whether
/// the hold was sound to its end.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct LockGuard {
    held: Box<dyn Held>,
    target: Arc<dyn Target>,
}

impl LockGuard {
    /// The fence of this hold; 0 for a shared one. Pass it to writes of the same target.
    ///
    /// The first call publishes the fence: from then on the release waits for writes under it. A
    /// forked child cannot publish it for its parent; a fence that only the child asked for is
    /// refused.
    pub fn publish_fence(&self) -> Fence {
        self.held.publish_fence()
    }

    /// The previous holder, if it died without a release: what the lock protects may be half done.
    pub fn recovered_from(&self) -> Option<&Holder> {
        self.held.recovered_from()
    }

    /// The resolved name of the target.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    /// Checks that the lock was not lost during the hold; for a nested hold, that its fence is
    /// still the current one.
    pub fn verify(&self) -> Result<()> {
        self.held.verify()
    }

    /// Releases the lock, once the last guard of a re-entrant owner is released. An error means
    /// that the hold was compromised, or that the record could not be written; the lock is released
    /// in any case.
    pub fn release(self) -> Result<()> {
        self.held.release()
    }

    pub(crate) fn held(&self) -> &dyn Held {
        self.held.as_ref()
    }

    /// Says when the hold is lost, for a thread that watches over it; `None` in a store where a hold lasts until it is
    /// released.
    pub fn loss(&self) -> Option<Arc<dyn Loss>> {
        self.held.loss()
    }

    pub(crate) fn into_held(self) -> Box<dyn Held> {
        self.held
    }
}
