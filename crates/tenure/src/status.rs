//! Who holds what: for tools that show it to people. Takes no lock, creates nothing and decides nothing.

use std::path::Path;

use crate::error::Result;
use crate::file::FileStore;
use crate::json::Value;
use crate::slots;
use crate::store::{Store, Target};

pub use crate::holder::{HoldKind, Holder};
pub use crate::results::{HoldState, Process, Status, Survey, Unseen};

/// The state of the file `path`.
pub fn of(path: impl AsRef<Path>) -> Result<Status> {
    FileStore::local().open(path.as_ref())?.status()
}

/// The state of the slots of a target that were ever taken, and of the queue for them: who has a slot, and who waits
/// for one. All of them are looked at: the files of a free slot may have been removed below one that is held.
pub fn slots(target: &dyn Target) -> Result<Vec<Status>> {
    let names = (0..slots::SLOTS_MAX).map(|slot| slots::name_of(target.name(), slot));
    let names = names.chain([slots::queue_of(target.name())]);
    let found = names.map(|name| target.beside(&name)?.status());
    found.filter(|found| !matches!(found, Ok(never_taken) if never_taken.fence == 0)).collect()
}

/// The recorded events of a file, oldest first: take-overs, recoveries, adopted and damaged data.
pub fn events(path: impl AsRef<Path>) -> Result<Vec<Value>> {
    FileStore::local().open(path.as_ref())?.events()
}

/// The state of every target below a directory, and what could not be read. Symlinks are not followed.
pub fn below(dir: impl AsRef<Path>) -> Result<Survey> {
    FileStore::local().survey(dir.as_ref())
}
