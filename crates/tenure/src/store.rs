//! The seam between the nouns and an engine: what a lock, a lease, a document, a journal and a collection need from any
//! store.
//!
//! The nouns check, convert and compute; a store keeps, excludes and commits. Nothing above this trait knows which
//! store it talks to, and nothing below it knows what a merge or a filter is.
//!
//! # Invariants
//!
//! 1. Fences of one target strictly grow over its whole life. They are not consecutive, and stay below 2^53.
//! 2. A change checks its fence, its guards and its version in the same step in which it commits. No store checks
//!    first and writes later.
//! 3. The function that computes a change may run more than once, and never inside a transaction of an engine: the
//!    store reads, computes, and commits if nothing changed meanwhile, else it begins again.
//! 4. A change with an operation id is done once, however often it is repeated, and also if the answer to the first
//!    attempt was lost.
//! 5. A watch is a hint. It may wake without a change, and the caller also checks from time to time
//!    without it.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use crate::address::{address, name_in};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::RawHandle;
use crate::holder::Holder;
use crate::json::Value;
use crate::key;
use crate::options::{AppendOptions, Fence, LeaseOptions, LockOptions, Prune, WriteOptions};
pub use crate::process_local::ProcessLocal;
use crate::results::{
    Appended, Compacted, Earlier, Entry, LeaseInfo, Leased, Pruned, Report, Rotated, Snapshot,
    Status, Survey, Written,
};
use crate::{random, sys};

/// What a store promises beyond what every store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether a lock is released when its last process dies. Otherwise it is released when its
    /// time to live is over.
    pub death_frees: bool,
    /// The data is plain files: rotation, compaction, verification, repair, header lines, restoring.
    pub files: bool,
    /// Shared locks.
    pub shared_locks: bool,
    /// The shortest time to live of a lease.
    pub ttl_min: Duration,
    /// The longest document, and the longest line of a journal. A longer one is `invalid`.
    pub bytes_max: u64,
}

impl Capabilities {
    /// A store with only the common promises, and these limits.
    pub const fn common(ttl_min: Duration, bytes_max: u64) -> Self {
        Self { death_frees: false, files: false, shared_locks: false, ttl_min, bytes_max }
    }
}

/// An engine: local files, memory, a database.
pub trait Store: fmt::Debug + Send + Sync {
    /// What it promises.
    fn capabilities(&self) -> Capabilities;

    /// The target with this name. Touches nothing; two spellings of one name are one target.
    fn open(&self, name: &Path) -> Result<Arc<dyn Target>>;

    /// The keys of a collection, in no order. A key's name is `collection/NAME` with this suffix,
    /// see [`key_of`].
    fn keys(&self, collection: &Path, suffix: &str) -> Result<Vec<String>>;

    /// Removes one key with all that belongs to it, waiting for its holder. `false` if there was none.
    fn remove(
        &self,
        collection: &Path,
        suffix: &str,
        key: &str,
        options: &WriteOptions,
    ) -> Result<bool>;

    /// Removes the keys that are due, each under its own lock; one that is held is skipped.
    fn prune(
        &self,
        collection: &Path,
        suffix: &str,
        prune: &Prune,
        options: &WriteOptions,
    ) -> Result<Pruned>;

    /// The state of every target below `name`.
    fn survey(&self, name: &Path) -> Result<Survey>;
}

/// The document as it is: its bytes and their value; `None` if there is none.
pub type Current<'a> = Option<(&'a [u8], &'a Value)>;

/// The new document.
#[derive(Debug, Clone)]
pub struct New {
    /// Its bytes, which are JSON, unless the target is [`Target::as_bytes`].
    pub bytes: Vec<u8>,
    /// Exactly the value that the parser makes of them: the printer relies on it.
    pub value: Value,
}

/// Computes the new document from the present one; `None` leaves it as it is.
pub type Compute<'a> = dyn FnMut(Current<'_>) -> Result<Option<New>> + 'a;

/// One name of a store: a lock and a lease, a document or a journal.
pub trait Target: fmt::Debug + Send + Sync {
    /// The resolved name, as errors show it.
    fn name(&self) -> &Path;

    /// The target itself, for the store that made it.
    fn as_any(&self) -> &dyn Any;

    /// Whether there is a place for it already: a missing directory is created by the first hold.
    fn has_directory(&self) -> bool {
        true
    }

    /// Another target of the same store, whose resolved name this is.
    fn beside(&self, name: &Path) -> Result<Arc<dyn Target>>;

    /// The same target, whose document is any bytes: they are not parsed, and its value is null.
    fn as_bytes(&self) -> Result<Arc<dyn Target>> {
        Err(unsupported(self.name(), "keep bytes in"))
    }

    /// Takes the lock. `slots` is not for stores: a slot is a lock of its own.
    fn lock(&self, options: &LockOptions) -> Result<Box<dyn Held>>;

    /// Takes the exclusive lock if that neither waits nor syncs; `None` if it would.
    fn try_lock_fast(&self, options: &LockOptions) -> Result<Option<Box<dyn Held>>> {
        let _ = options;
        Ok(None)
    }

    /// Takes the lease, or renews the one that the token names.
    fn acquire(&self, options: &LeaseOptions) -> Result<Leased>;

    /// Extends a lease by its time to live, or a new one.
    fn renew(&self, token: &str, ttl: Option<Duration>) -> Result<Leased>;

    /// Ends a lease.
    fn release(&self, token: &str) -> Result<()>;

    /// Takes the lease from its holder, for a reason that is recorded first.
    fn take_over(&self, options: &LeaseOptions, reason: &str) -> Result<Leased>;

    /// The lease, running or expired.
    fn lease(&self) -> Result<Option<LeaseInfo>>;

    /// The state of the target.
    fn status(&self) -> Result<Status>;

    /// What was recorded about the target, oldest first.
    fn events(&self) -> Result<Vec<Value>>;

    /// The document as it is.
    fn read(&self) -> Result<Option<Snapshot>>;

    /// Changes the document.
    fn change(&self, options: &WriteOptions, compute: &mut Compute<'_>) -> Result<Written>;

    /// Appends lines to the journal as one batch. Each was checked: no newline, not blank.
    fn append(&self, lines: &[&[u8]], options: &AppendOptions) -> Result<Appended>;

    /// Changes the document of this target and appends to the journal of another one of the same store, both or
    /// neither as far as the store can.
    fn change_and_append(
        &self,
        journal: &dyn Target,
        lines: &[&[u8]],
        options: &AppendOptions,
        compute: &mut Compute<'_>,
    ) -> Result<(Written, Appended)>;

    /// The entries from number `from` on, at most `limit`. 0 begins with the oldest existing one.
    fn entries(&self, from: u64, limit: Option<u64>) -> Result<Box<dyn EntryReader>>;

    /// Numbers lines that other tools have appended, if the caller may. Only files have such lines.
    fn adopt(&self) -> Result<()> {
        Ok(())
    }

    /// Wakes when the document or the journal may have changed after now.
    fn watch(&self) -> Result<Box<dyn Watcher>>;

    /// Brings back the last good version of a damaged document.
    fn restore(&self, options: &WriteOptions) -> Result<Written> {
        let _ = options;
        Err(unsupported(self.name(), "restore"))
    }

    /// Earlier versions of the document that were kept, the newest first.
    fn earlier(&self) -> Result<Vec<Earlier>> {
        Err(unsupported(self.name(), "look for earlier versions of"))
    }

    /// Keeps so many earlier versions from now on.
    fn keep_versions(&self, count: u16, options: &WriteOptions) -> Result<()> {
        let _ = (count, options);
        Err(unsupported(self.name(), "keep versions of"))
    }

    /// How many earlier versions are kept.
    fn kept_versions(&self) -> Result<u16> {
        Err(unsupported(self.name(), "look for earlier versions of"))
    }

    /// Moves the entries so far to an archive.
    fn rotate(&self, options: &WriteOptions) -> Result<Rotated> {
        let _ = options;
        Err(unsupported(self.name(), "rotate"))
    }

    /// Drops the entries that `keep` does not accept.
    fn compact(
        &self,
        options: &WriteOptions,
        keep: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Compacted> {
        let _ = (options, keep);
        Err(unsupported(self.name(), "compact"))
    }

    /// Checks every byte of the journal that has a number.
    fn verify(&self) -> Result<Report> {
        Err(unsupported(self.name(), "verify"))
    }

    /// Repairs the journal; with `accept` the remaining damage is accepted as it is.
    fn repair(&self, options: &WriteOptions, accept: bool) -> Result<Report> {
        let _ = (options, accept);
        Err(unsupported(self.name(), "repair"))
    }
}

/// A lock that is held. Dropping it releases it.
pub trait Held: fmt::Debug + Send + Sync {
    /// The fence, for writes that prove the hold; 0 for a shared one. From now on the release waits for such writes.
    fn publish_fence(&self) -> Fence;

    /// The same number, not published: a write under it is refused until it is.
    fn unpublished_fence(&self) -> Fence;

    /// The holder before, if it died without a release.
    fn recovered_from(&self) -> Option<&Holder>;

    /// Whether it proves a hold of a process above, and locks nothing itself.
    fn is_nested(&self) -> bool;

    /// Checks that it is still held.
    fn verify(&self) -> Result<()>;

    /// Releases it; an error says that the lock was lost before.
    fn release(self: Box<Self>) -> Result<()>;

    /// Releases it through a reference: for guards that other threads may be using. They find it released.
    fn end(&self) -> Result<()>;

    /// The descriptors that carry it, for a child to inherit; none in a store where a death does
    /// not release the lock.
    fn descriptors(&self) -> Vec<RawHandle> {
        Vec::new()
    }

    /// Says when the hold is lost; `None` in a store where a hold lasts until it is released.
    fn loss(&self) -> Option<Arc<dyn Loss>> {
        None
    }

    /// Ends our part of a hold that children have inherited.
    fn leave_to_children(self: Box<Self>) -> Result<()> {
        self.release()
    }
}

/// Says when a hold is lost, also after the guard is gone.
pub trait Loss: fmt::Debug + Send + Sync {
    /// Waits at most this long; `true` if the hold was lost. A hold that was released is not lost, and ends the wait
    /// only when the time is over.
    fn wait(&self, time: Duration) -> bool;
}

/// Entries of a journal, oldest first.
pub trait EntryReader: fmt::Debug + Send {
    /// The next entry: its number, and its line, which is valid until the next call. An error that names a gap
    /// ([`Error::gap`]) is reported once, and the entries behind it follow. After any other error the caller makes
    /// another reader, from the number behind the last entry it got.
    fn next(&mut self) -> Result<Option<(u64, &[u8])>>;

    /// Lines that had no number yet. Only files have such lines.
    fn pending(&self) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
}

/// Wakes a caller that waits for a change.
pub trait Watcher: fmt::Debug + Send {
    /// Waits at most this long; `true` if something may have changed. A watcher that loses its connection says `true`
    /// and connects again by itself: the caller reads, and finds out what is wrong.
    fn wait(&mut self, time: Duration) -> Result<bool>;
}

/// Whether a line is nothing but white space and NULs. No entry of a journal is.
pub fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0))
}

/// The key that has this name in a collection with this suffix, if one has.
pub fn key_of(name: &str, suffix: &str) -> Option<String> {
    key::from_name(name.strip_suffix(suffix)?)
}

/// The name of a key in a collection with this suffix.
pub fn name_of(key: &str, suffix: &str) -> Result<String> {
    Ok(key::to_name(key)? + suffix)
}

/// The refusal of what a store cannot do.
pub fn unsupported(name: &Path, action: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, action, "this store keeps no plain files")
        .at(name)
        .hint("use it on a target that is a file")
}

/// A secret of 128 random bits, as 32 hexadecimal digits: for tokens, and for ids that never repeat.
pub fn new_token() -> Result<String> {
    random::token()
}

/// The time since the machine was started, its sleep included: for deadlines that a server counts, too.
pub fn boot_time() -> Duration {
    Duration::from_micros(sys::boot_time_us())
}

/// Microseconds of the wall clock, for people. It decides nothing.
pub fn wall_time_us() -> u64 {
    sys::wall_time_us()
}
