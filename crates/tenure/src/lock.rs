//! The lock: one holder of a target.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::file::FileStore;
use crate::fs::{Fs, RawHandle};
use crate::holder::Holder;
use crate::options::{Fence, LockOptions};
use crate::store::{Held, Store, Target};
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
}

impl Lock {
    /// The lock of a path, whether or not there is a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::on(&FileStore::local(), path)
    }

    /// The lock with this name in a store.
    pub fn on(store: &dyn Store, name: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { target: store.open(name.as_ref())? })
    }

    /// The same, on another file system.
    #[doc(hidden)]
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Self::on(&FileStore::on(fs), path)
    }

    /// Whether the directory of the target was there when it was opened. A hold creates a missing one.
    pub fn has_directory(&self) -> bool {
        self.target.has_directory()
    }

    /// The resolved name.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    /// Takes the lock.
    pub fn acquire(&self, options: &LockOptions) -> Result<LockGuard> {
        Ok(self.guard(self.target.lock(options)?))
    }

    /// Takes the exclusive lock if that neither waits nor syncs, so that an event loop can call it
    /// directly. `None` means: call [`Self::acquire`] on another thread, because the lock is held,
    /// something has to be prepared first, or the options are supported only there. The options
    /// `wait` and `cancel` are ignored here.
    pub fn try_lock_fast(&self, options: &LockOptions) -> Result<Option<LockGuard>> {
        Ok(self.target.try_lock_fast(options)?.map(|held| self.guard(held)))
    }

    fn guard(&self, held: Box<dyn Held>) -> LockGuard {
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

    /// The number that [`Self::publish_fence`] returns, without publishing it: a write under it is refused
    /// until that was called. For bindings, whose guards can be asked for it after the release.
    pub fn unpublished_fence(&self) -> Fence {
        self.held.unpublished_fence()
    }

    /// The previous holder, if it died without a release: what the lock protects may be half done.
    pub fn recovered_from(&self) -> Option<&Holder> {
        self.held.recovered_from()
    }

    /// The resolved name of the target.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    /// Whether this only proves a hold of a parent process, and locks nothing itself.
    pub fn is_nested(&self) -> bool {
        self.held.is_nested()
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

    /// Like [`Self::release`], through a reference: for guards that other threads may be using.
    /// They find it released. Another guard of the same re-entrant owner keeps the lock.
    pub fn end(&self) -> Result<()> {
        self.held.end()
    }

    /// The descriptors that carry the lock, for a child process to inherit. None for a nested hold, in a forked child,
    /// and in a store that has none.
    pub fn raw(&self) -> Vec<RawHandle> {
        self.held.descriptors()
    }

    /// Ends this process's part of a hold that child processes inherited. If none of them kept it,
    /// the record is closed as well; otherwise the lock and the record stay with them.
    pub fn leave_to_children(self) -> Result<()> {
        self.held.leave_to_children()
    }
}
