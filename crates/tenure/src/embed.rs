//! For programs that offer tenure to others: a command, or a package for another language.
//!
//! What they need beyond the nouns: the holds that a parent process passes on ([`Inherited`]), names and times for
//! terminals, locks for event loops, guards that another language keeps alive, and holds that pass to child processes.

use crate::document::Document;
use crate::error::Result;
use crate::lease::Lease;
use crate::lock::{Lock, LockGuard};
use crate::options::{Fence, LockOptions, WriteOptions};
use crate::results::Written;

pub use crate::fs::RawHandle;
pub use crate::inherited::Inherited;
pub use crate::printable::{printable, show_times_ahead_of_utc, without_passwords};

/// Takes the exclusive lock if that neither waits nor syncs, so that an event loop can call it
/// directly. `None` means: call [`Lock::acquire`] on another thread, because the lock is held,
/// something has to be prepared first, or the options are supported only there. The options
/// `wait` and `cancel` are ignored here.
pub fn try_lock_fast(lock: &Lock, options: &LockOptions) -> Result<Option<LockGuard>> {
    if options.slots.is_some() {
        return Ok(None);
    }
    Ok(lock.target().try_lock_fast(options)?.map(|held| lock.guard(held)))
}

/// Whether the directory of the lock was there when it was opened. A hold creates a missing one.
pub fn lock_has_directory(lock: &Lock) -> bool {
    lock.target().has_directory()
}

/// Whether the directory of the lease was there when it was opened. A lease creates a missing one.
pub fn lease_has_directory(lease: &Lease) -> bool {
    lease.target().has_directory()
}

/// The number that [`LockGuard::publish_fence`] returns, without publishing it: a write under it is refused
/// until that was called. For guards that can be asked for it after the release.
pub fn unpublished_fence(guard: &LockGuard) -> Fence {
    guard.held().unpublished_fence()
}

/// Whether the guard only proves a hold of a parent process, and locks nothing itself.
pub fn is_nested(guard: &LockGuard) -> bool {
    guard.held().is_nested()
}

/// Like [`LockGuard::release`], through a reference: for guards that other threads may be using.
/// They find it released. Another guard of the same re-entrant owner keeps the lock.
pub fn end(guard: &LockGuard) -> Result<()> {
    guard.held().end()
}

/// The descriptors that carry the lock, for a child process to inherit. None for a nested hold, in a forked child,
/// and in a store that has none.
pub fn descriptors(guard: &LockGuard) -> Vec<RawHandle> {
    guard.held().descriptors()
}

/// Ends this process's part of a hold that child processes inherited. If none of them kept it,
/// the record is closed as well; otherwise the lock and the record stay with them.
pub fn leave_to_children(guard: LockGuard) -> Result<()> {
    guard.into_held().leave_to_children()
}

/// Like [`Document::update`], from text to text, for a caller with its own layout: the text is
/// stored byte for byte, if it is JSON.
pub fn update_text(
    document: &Document,
    options: &WriteOptions,
    compute: impl FnMut(Option<&str>) -> Result<Option<String>>,
) -> Result<Written> {
    document.update_text(options, compute)
}
