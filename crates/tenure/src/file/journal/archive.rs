//! Archives: files that a rotation moved away from the journal's name, each with its index.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::file::target::Target;
use crate::fs::{Access, Handle};

use super::format::Previous;
use super::index::Index;

/// An archive that is there.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn Handle>,
    pub(super) index: Index,
    /// How many records its index has.
    pub(super) records: u64,
}

impl Archive {
    /// Archive `number` of `target`; `None` if there is no such file (0 is none), or no index of it.
    pub(super) fn open(target: &Target, number: u64) -> Result<Option<Self>> {
        if number == 0 {
            return Ok(None);
        }
        let path = archive_path(target, number);
        let file = match open_if_there(target, &path)? {
            None => open_if_there(target, &aside_path(target, number))?,
            found => found,
        };
        let index = Index::open(target, &index_path(target, number), Access::Read)?;
        let (Some(file), Some(index)) = (file, index) else { return Ok(None) };
        let records = index.capacity().map_err(Target::failed("read index of", &path))?;
        Ok(Some(Self { path, file, index, records }))
    }

    /// The number of the archive before archive `number`, which this is; 0 if there is none. Each is older than the
    /// next, so that a planted circle ends.
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

/// Where it is if it could not get that name: beside the other sidecars.
pub(super) fn aside_path(target: &Target, number: u64) -> PathBuf {
    target.sidecar(&format!("archive.{number}"))
}

/// Where its index is.
pub(super) fn index_path(target: &Target, number: u64) -> PathBuf {
    target.sidecar(&format!("index.{number}"))
}

/// Where the file can be that the journal replaced.
pub(super) fn previous_paths(target: &Target, previous: Previous) -> Vec<PathBuf> {
    if previous.is_archive {
        vec![archive_path(target, previous.archive), aside_path(target, previous.archive)]
    } else {
        vec![target.sidecar("replaced")]
    }
}

/// A file that may be missing.
pub(super) fn open_if_there(target: &Target, path: &Path) -> Result<Option<Arc<dyn Handle>>> {
    match target.open(path, Access::Read) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(Target::failed("open", path)),
    }
}
