//! What a journal keeps open between calls.
//!
//! # Invariants
//!
//! 1. Nothing here is used without a check. A file is used again only while its name refers to it,
//!    a log also only under the commit lock that it was opened under.
//! 2. A forked child may use all of it: these files are never locked, every read and write names its
//!    offset, and a journal is only appended to under the commit lock.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::error::{Error, Result};
use crate::file::target::Target;
use crate::fs::{Access, Extent, FileId, Handle, if_found};

use super::log::{Found, Log, path_of};

/// The files of one journal.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The log, and the commit lock that it was opened under.
    log: Option<(FileId, Log)>,
    journal: Option<(FileId, Arc<dyn Handle>)>,
    /// The file that the journal replaced, by its inode.
    previous: Option<(u64, Arc<dyn Handle>)>,
}

impl OpenFiles {
    /// `None` only if another thread uses it, or did when this process was forked.
    fn kept(&self) -> Option<MutexGuard<'_, Kept>> {
        match self.kept.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The log under its name, for a section that holds the commit lock `lock`.
    pub(super) fn log(&self, target: &Target, lock: Option<FileId>) -> Result<Found> {
        if let Some((_, log)) =
            self.kept().and_then(|mut kept| kept.log.take()).filter(|kept| Some(kept.0) == lock)
        {
            let named = target.fs.extent(&path_of(target)).ok().map(|found| found.id);
            if named.is_some() && log.file.id().ok() == named {
                self.keep_log(lock, &log);
                return Ok(Found::Log(log));
            }
        }
        let found = Log::open(target, Access::ReadWrite)?;
        if let Found::Log(log) = &found {
            self.keep_log(lock, log);
        }
        Ok(found)
    }

    pub(super) fn keep_log(&self, lock: Option<FileId>, log: &Log) {
        if let Some(mut kept) = self.kept() {
            kept.log = lock.map(|lock| (lock, log.clone()));
        }
    }

    /// The journal under its name, opened to append.
    pub(super) fn journal(
        &self,
        target: &Target,
        found: Extent,
    ) -> Result<(Arc<dyn Handle>, Extent)> {
        let mut kept = self.kept();
        if let Some((_, file)) =
            kept.as_ref().and_then(|kept| kept.journal.as_ref()).filter(|kept| kept.0 == found.id)
        {
            return Ok((file.clone(), found));
        }
        let path = target.path();
        let file = target.fs.open(path, Access::Append).map_err(Target::failed("open", path))?;
        let found = file.extent().map_err(Target::failed("look at", path))?;
        if let Some(kept) = &mut kept {
            kept.journal = Some((found.id, file.clone()));
        }
        Ok((file, found))
    }

    /// The file with this inode at one of `paths`, opened to read.
    pub(super) fn previous(
        &self,
        target: &Target,
        ino: u64,
        paths: &[PathBuf],
    ) -> Result<Option<Arc<dyn Handle>>> {
        let mut kept = self.kept();
        if let Some((_, file)) =
            kept.as_ref().and_then(|kept| kept.previous.as_ref()).filter(|kept| kept.0 == ino)
        {
            return Ok(Some(file.clone()));
        }
        let file = open_by_inode(target, ino, paths)?;
        if let (Some(kept), Some(file)) = (&mut kept, &file) {
            kept.previous = Some((ino, file.clone()));
        }
        Ok(file)
    }
}

/// The first file at one of `paths` that has this inode.
pub(super) fn open_by_inode(
    target: &Target,
    ino: u64,
    paths: &[impl AsRef<Path>],
) -> Result<Option<Arc<dyn Handle>>> {
    for path in paths {
        let path = path.as_ref();
        let opened = target.open(path, Access::Read).and_then(|file| Ok((file.id()?.ino, file)));
        match opened {
            Ok((found, file)) if found == ino => return Ok(Some(file)),
            Ok(_) => {}
            // Another tool's file or link has the name; whether it can be opened does not matter.
            Err(_) if !has_inode(target, path, ino)? => {}
            Err(err) => return Err(Error::io("open", path, err)),
        }
    }
    Ok(None)
}

/// Whether the file at `path` has this inode. A missing name has none. If the metadata cannot be
/// read, that is an error.
pub(super) fn has_inode(target: &Target, path: &Path, ino: u64) -> Result<bool> {
    let found = if_found(target.fs.extent(path)).map_err(Target::failed("look at", path))?;
    Ok(found.is_some_and(|found| found.id.ino == ino))
}
