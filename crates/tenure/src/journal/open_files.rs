//! What a journal keeps between calls: its open files, and the head as this process wrote it last.
//!
//! # Invariants
//!
//! 1. Nothing here is believed without a look. A log or a journal is used again only while its name
//!    stands for it, a log also only under the commit lock that it was opened under; a head only if its
//!    slot is the newest in the log.
//! 2. A forked child may use all of it: nobody locks these files, every read and write says where, and
//!    a journal is only appended to. What another thread was just using at the fork counts as not there.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::error::Result;
use crate::fs::{Access, Extent, FileId, Handle};
use crate::target::Target;

use super::head::Head;
use super::publish::fresh_temp;
use super::session::require_file;
use super::slots::Mark;

/// The files of one journal.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    log: Option<KeptLog>,
    journal: Option<(FileId, Arc<dyn Handle>)>,
    /// Room to read the slots of the log into.
    room: Vec<u8>,
}

#[derive(Debug)]
struct KeptLog {
    /// The commit lock that it was opened under.
    lock: FileId,
    file: Arc<dyn Handle>,
    head: Option<Written>,
}

/// The log, as it was kept.
#[derive(Debug)]
pub(super) struct OpenLog {
    pub(super) file: Arc<dyn Handle>,
    /// The head that this process wrote to it last.
    pub(super) head: Option<Written>,
    pub(super) room: Vec<u8>,
}

/// A head that this process wrote, and how it is recognised.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) head: Head,
    pub(super) mark: Mark,
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

    /// The log, and the head that goes with it, for one section. `lock` is the commit lock that is held,
    /// if it is known.
    pub(super) fn open_log(&self, target: &Target, lock: Option<FileId>) -> Result<OpenLog> {
        let path = target.sidecar("wal");
        let mut kept = self.kept();
        let room = kept.as_mut().map(|kept| std::mem::take(&mut kept.room)).unwrap_or_default();
        if let Some(log) = kept.as_mut().and_then(|kept| kept.log.as_mut()) {
            // By its name: what is synced for everybody is the file that has it now.
            let named = target.fs.extent(&path).ok().map(|found| found.id);
            if Some(log.lock) == lock && named.is_some() && log.file.id().ok() == named {
                return Ok(OpenLog { file: log.file.clone(), head: log.head.take(), room });
            }
        }
        let file = target.open_sidecar(&path)?;
        if let Some(kept) = &mut kept {
            kept.log = lock.map(|lock| KeptLog { lock, file: file.clone(), head: None });
        }
        Ok(OpenLog { file, head: None, room })
    }

    /// Keeps the room that slots were read into.
    pub(super) fn keep_room(&self, room: Vec<u8>) {
        if let Some(mut kept) = self.kept() {
            kept.room = room;
        }
    }

    /// Keeps a head that was just written to `file`.
    pub(super) fn keep(&self, file: &Arc<dyn Handle>, head: &Head, mark: Mark) {
        let mut kept = self.kept();
        let log = kept.as_mut().and_then(|kept| kept.log.as_mut());
        if let Some(log) = log.filter(|log| Arc::ptr_eq(&log.file, file)) {
            log.head = Some(Written { head: head.clone(), mark });
        }
    }

    /// The journal, created if it is missing.
    pub(super) fn open_journal(
        &self,
        target: &Target,
        new_mode: u32,
    ) -> Result<(Arc<dyn Handle>, Extent)> {
        let path = target.path();
        let mut kept = self.kept();
        let found = match target.fs.extent(path) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                create_journal(target, new_mode)?;
                target.fs.extent(path)
            }
            found => found,
        };
        let found = found.map_err(Target::failed("look at", path))?;
        require_file(target, found.kind)?;
        if let Some((id, handle)) = kept.as_ref().and_then(|kept| kept.journal.as_ref()) {
            if *id == found.id {
                return Ok((handle.clone(), found));
            }
        }
        let handle = target.fs.open(path, Access::Append).map_err(Target::failed("open", path))?;
        let found = handle.extent().map_err(Target::failed("look at", path))?;
        require_file(target, found.kind)?;
        if let Some(kept) = &mut kept {
            kept.journal = Some((found.id, handle.clone()));
        }
        Ok((handle, found))
    }
}

/// Never the number of a journal that a replacement has moved: who has lost its intent must not remove that.
const EMPTY_TEMP: u64 = 4;

/// Removes the file of somebody who died before it was the journal: others have made one since.
pub(super) fn clear_empty(target: &Target) {
    let _ = fresh_temp(target, EMPTY_TEMP);
}

/// A crash after this leaves an empty journal, which is what its absence means too.
fn create_journal(target: &Target, new_mode: u32) -> Result<()> {
    let path = target.path();
    place_journal(target, new_mode)?;
    // The log was made before there was a journal whose mode it could follow. A file with another name
    // is not of our making: somebody planted it, and its mode is not ours to change (G13).
    let log = target.open_sidecar(&target.sidecar("wal"))?;
    if log.extent().map_err(Target::failed("look at log of", path))?.links > 1 {
        return Ok(());
    }
    let mode = (new_mode & 0o666) | 0o600;
    log.set_mode(mode).map_err(Target::failed("set mode of log of", path))
}

/// Gives an empty file the name of the journal. It has its mode before, whatever the umask: a crash in
/// between leaves a temporary file, which the next one removes, and never a journal that is open to
/// others or closed to its owner (G13).
fn place_journal(target: &Target, new_mode: u32) -> Result<()> {
    let temp = fresh_temp(target, EMPTY_TEMP)?;
    let made = target.fs.open(&temp, Access::CreateNew(0o600));
    let made = made.map_err(Target::failed("create", &temp))?;
    made.set_mode(new_mode & 0o777).map_err(Target::failed("set mode of", &temp))?;
    drop(made);
    // Not over a file that others have made since we looked: theirs is the journal then. Neither name
    // is synced here: whoever needs the journal's durable syncs its directory.
    match target.fs.rename_new(&temp, target.path()) {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            // Nobody else's: we hold the commit lock. If it stays, the next one removes it.
            let _ = target.fs.remove(&temp);
            Ok(())
        }
        placed => placed.map_err(Target::failed("create", target.path())),
    }
}
