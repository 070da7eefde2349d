//! Locks that shipped: a lock file by name, a record in it, and a guess at who is alive.

mod gives_in;
mod mtime;
mod reclaim_guard;
mod reentrant;
mod rename_nonce;
mod spinning;
mod stale_takeover;
mod watchdog;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use self::gives_in::GivesIn;
pub use self::mtime::MtimeLock;
pub use self::reclaim_guard::GuardedLock;
pub use self::reentrant::ReentrantLock;
pub use self::rename_nonce::{JournalLock, Unstamped};
pub use self::spinning::SpinningLock;
pub use self::stale_takeover::SessionLock;
pub use self::watchdog::Watchdog;

use crate::state;

/// The lock file of the state in `directory`.
pub fn lock_file(directory: &Path) -> PathBuf {
    let mut path = state::path(directory).into_os_string();
    path.push(".lock");
    path.into()
}

/// How long ago the file was written, by its own time.
fn age(path: &Path) -> Option<Duration> {
    SystemTime::now().duration_since(path.metadata().ok()?.modified().ok()?).ok()
}
