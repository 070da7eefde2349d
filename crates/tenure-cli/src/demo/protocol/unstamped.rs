//! codegraph's journal lock once more, as shipped, in a race without a single kill.
//!
//! The lock file is created first and stamped with the owner's number second. A waiter that looks in
//! between reads an empty file: `Number("")` is 0, process 0 is "dead", and the waiter steals the lock of
//! a process that is alive and about to enter. No crash is needed, only bad luck.

use std::io;
use std::path::Path;

use super::rename_nonce::{JournalLock, Unstamped};

/// The lock with the shipped reading of an empty file.
pub(super) fn as_shipped(directory: &Path, seed: u64) -> io::Result<JournalLock> {
    JournalLock::open(directory, seed, Unstamped::IsDead)
}
