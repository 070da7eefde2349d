//! Who holds what, for people. Takes no lock, creates nothing and decides nothing.

use std::path::Path;

use crate::error::Result;
use crate::file::FileStore;
use crate::json::Value;
use crate::outcome::{Status, Survey};
use crate::store::Store;

/// The state of the file `path`.
pub fn status(path: impl AsRef<Path>) -> Result<Status> {
    FileStore::local().open(path.as_ref())?.status()
}

/// The recorded events of a file, oldest first: take-overs, recoveries, adopted and damaged data.
pub fn recorded_events(path: impl AsRef<Path>) -> Result<Vec<Value>> {
    FileStore::local().open(path.as_ref())?.events()
}

/// Looks at every target below a directory. Symlinks are not followed.
pub fn survey(dir: impl AsRef<Path>) -> Result<Survey> {
    FileStore::local().survey(dir.as_ref())
}

/// The state of every target below a directory, in the order of their paths. A target that cannot
/// be read is an error; directories that cannot be read are left out. [`survey`] reports both.
pub fn status_below(dir: impl AsRef<Path>) -> Result<Vec<Status>> {
    let Survey { targets, unseen } = survey(dir)?;
    match unseen.into_iter().find(|unseen| !unseen.is_directory) {
        Some(unseen) => Err(unseen.error),
        None => Ok(targets),
    }
}
