//! Archives: files that a rotation moved away from the journal's name, each with its index.
//!
//! # Invariants
//!
//! 1. An archive's index stays in the sidecar directory when the archive is moved away, so a reader still knows which
//!    entries are missing, and finds the older archives.
//! 2. An index that cannot be read is damage, and never silently hides the archives before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::target::Target;
use crate::fs::{Access, Handle, if_found};
use crate::printable::command;

use super::format::Previous;
use super::index::Index;

/// An archive that has an index.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) path: PathBuf,
    /// `None` if it was moved away.
    pub(super) file: Option<Arc<dyn Handle>>,
    pub(super) index: Index,
    /// How many records its index has.
    pub(super) records: u64,
}

impl Archive {
    /// Archive `number` of `target`; `None` if it has no index (0 is no archive).
    pub(super) fn open(target: &Target, number: u64) -> Result<Option<Self>> {
        if number == 0 {
            return Ok(None);
        }
        let path = archive_path(target, number);
        let kept = index_path(target, number);
        let Some(index) = Index::open(target, &kept, Access::Read)? else {
            let found = if_found(target.fs.extent(&kept));
            let found = found.map_err(Target::failed("look at", &kept))?;
            return found.map_or(Ok(None), |_| Err(title_damaged(&path, target)));
        };
        // Where it is aside, the file that has its name is another tool's.
        let file = match open_if_there(target, &aside_path(target, number))? {
            None => open_if_there(target, &path)?,
            found => found,
        };
        let records = index.capacity().map_err(Target::failed("read index of", &path))?;
        Ok(Some(Self { path, file, index, records }))
    }

    /// The number of the archive before this one, which is `number`; 0 if there is none. Numbers
    /// must decrease, so that a planted cycle ends.
    pub(super) fn before(&self, number: u64) -> u64 {
        let previous = self.index.title.previous.archive;
        if previous < number { previous } else { 0 }
    }
}

/// Where archive `number` is.
pub(super) fn archive_path(target: &Target, number: u64) -> PathBuf {
    let mut name = target.path().as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Its place if it could not get that name: beside the other sidecars.
pub(super) fn aside_path(target: &Target, number: u64) -> PathBuf {
    target.sidecar(&format!("archive.{number}"))
}

/// The place of the file that a compaction or a new header replaced. No two files have one inode
/// number, so the name is free.
pub(super) fn replaced_path(target: &Target, ino: u64) -> PathBuf {
    target.sidecar(&format!("replaced.{ino}"))
}

/// Where its index is.
pub(super) fn index_path(target: &Target, number: u64) -> PathBuf {
    target.sidecar(&format!("index.{number}"))
}

/// The possible places of the file that the journal replaced.
pub(super) fn previous_paths(target: &Target, previous: Previous) -> Vec<PathBuf> {
    if previous.is_archive {
        vec![archive_path(target, previous.archive), aside_path(target, previous.archive)]
    } else {
        vec![replaced_path(target, previous.ino)]
    }
}

fn title_damaged(path: &Path, target: &Target) -> Error {
    let detail = "the title of its index is damaged";
    let repair = command("journal repair --accept", target.path());
    let hint = format!("check the disk; {repair} gives up the numbers of this archive");
    Error::new(ErrorKind::Damaged, "read", detail).at(path).hint(hint)
}

/// A file that may be missing.
pub(super) fn open_if_there(target: &Target, path: &Path) -> Result<Option<Arc<dyn Handle>>> {
    if_found(target.open(path, Access::Read)).map_err(Target::failed("open", path))
}
