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
/// for one.
pub fn slots(target: &dyn Target) -> Result<Vec<Status>> {
    let look =
        |name: &Path| Ok(Some(target.beside(name)?.status()?).filter(|found| found.fence > 0));
    let queue = look(&slots::queue_of(target.name()))?;
    // The lowest free one is taken, so none was ever taken above one that was not.
    let all =
        (0..slots::SLOTS_MAX).map(|slot| look(&slots::name_of(target.name(), slot)).transpose());
    let mut found: Vec<Status> = all.map_while(|slot| slot).collect::<Result<_>>()?;
    found.extend(queue);
    Ok(found)
}

/// The recorded events of a file, oldest first: take-overs, recoveries, adopted and damaged data.
pub fn events(path: impl AsRef<Path>) -> Result<Vec<Value>> {
    FileStore::local().open(path.as_ref())?.events()
}

/// The state of every target below a directory, and what could not be read. Symlinks are not followed.
pub fn below(dir: impl AsRef<Path>) -> Result<Survey> {
    FileStore::local().survey(dir.as_ref())
}
