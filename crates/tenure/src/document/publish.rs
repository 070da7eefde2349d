//! Making a new version of a document the document.
//!
//! Step by step, with what a crash (of the process, or of the power) after it leaves:
//!
//! 1. temp file created, written, given mode and owner: a left-over that the next change removes.
//! 2. temp file synced (durable mode): the same.
//! 3. locks verified, then exchanged with the document: the new version is visible. Old or new after
//!    a power loss, each complete in durable mode; in the other mode the new one may be empty, and
//!    the displaced one, synced earlier, is under the temp's name or under `.good`.
//! 4. displaced version renamed to `.good` if it was synced, else removed.
//! 5. record written: the version. Until then the new content counts as a foreign edit of the old.
//! 6. locks released; the directory synced together with everybody else who waits (durable mode).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::Content;
use crate::checksum;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Fs, Handle, Stat};
use crate::options::{Durability, WriteOptions};
use crate::target::Target;

/// What became of an attempt to publish.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is visible.
    Published,
    /// Somebody replaced the file since it was read: start again from theirs.
    Replaced,
}

/// A temporary file that is removed unless it became something else.
struct Temp {
    fs: Arc<dyn Fs>,
    path: PathBuf,
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = self.fs.remove(&self.path);
    }
}

/// Where the displaced version goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Displaced {
    /// To `.good`, if it was synced.
    ToGood,
    /// To `.damaged`: it could not be parsed.
    ToDamaged,
}

/// Steps 1 to 4. `base` is the content that `bytes` was made from.
pub(super) fn publish(
    commit: &Commit,
    base: Option<&Content>,
    bytes: &[u8],
    displaced: Displaced,
    options: &WriteOptions,
) -> Result<Outcome> {
    let target = &commit.target;
    let path = target.path();
    // A sidecar directory that was moved away is not a missing file: the locks went with it.
    let (temp, handle) = write_temp(commit, base, bytes, options)
        .map_err(|error| commit.verify().err().unwrap_or(error))?;
    if options.durability == Durability::Durable {
        let synced = handle.sync();
        synced.map_err(|err| Error::io("sync new version of", path, err).committed(false))?;
    }
    commit.verify()?;
    let failed = |err| Error::io("publish", path, err).committed(false);
    let Some(base) = base else {
        return match target.fs.rename_new(&temp.path, path) {
            Ok(()) => Ok(Outcome::Published),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(Outcome::Replaced),
            Err(err) => Err(failed(err)),
        };
    };
    if !same_file(target, path, &base.stat) {
        return Ok(Outcome::Replaced);
    }
    match target.fs.exchange(&temp.path, path) {
        Ok(()) => {}
        Err(err) if err.kind() == io::ErrorKind::Unsupported => {
            return publish_by_rename(commit, base, &temp, displaced).map_err(failed);
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Outcome::Replaced),
        Err(err) => return Err(failed(err)),
    }
    if !same_file(target, &temp.path, &base.stat) {
        // The exchange displaced a version that nobody has read: give it back and start again.
        target.fs.exchange(&temp.path, path).map_err(failed)?;
        return Ok(Outcome::Replaced);
    }
    if let Some(keep) = keep_as(commit, base, displaced) {
        // Failing here loses a spare copy, not the document.
        let _ = target.fs.rename(&temp.path, &keep);
    }
    Ok(Outcome::Published)
}

/// Creates the temporary file with all of `bytes`, and the mode and owner it shall have.
fn write_temp(
    commit: &Commit,
    base: Option<&Content>,
    bytes: &[u8],
    options: &WriteOptions,
) -> Result<(Temp, Arc<dyn Handle>)> {
    let target = &commit.target;
    let path = target.temp_of(commit.seen.record.seq);
    let create = || target.fs.open(&path, Access::CreateNew(0o600));
    let handle = match create() {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            // Left over from a change that died; we hold the commit lock, so nobody uses it.
            target.fs.remove(&path).map_err(Target::failed("remove left-over", &path))?;
            create()
        }
        made => made,
    }
    .map_err(Target::failed("create temporary file", &path))?;
    let temp = Temp { fs: target.fs.clone(), path };
    let failed = |action| Target::failed(action, &temp.path);
    handle.write_all_at(bytes, 0).map_err(failed("write temporary file"))?;
    match base {
        Some(base) => handle.copy_attributes(base.handle.as_ref()),
        None => handle.set_mode(options.new_mode & 0o777),
    }
    .map_err(failed("set mode of temporary file"))?;
    let size = handle.stat().map_err(failed("look at temporary file"))?.size;
    if size != bytes.len() as u64 {
        let detail = format!("{size} bytes are there instead of {}", bytes.len());
        return Err(Error::new(ErrorKind::Io, "write temporary file", detail).at(&temp.path));
    }
    Ok((temp, handle))
}

/// Where a file system cannot exchange: a second name keeps the old version, then a plain rename.
fn publish_by_rename(
    commit: &Commit,
    base: &Content,
    temp: &Temp,
    displaced: Displaced,
) -> io::Result<Outcome> {
    let target = &commit.target;
    if let Some(keep) = keep_as(commit, base, displaced) {
        let spare = temp.path.with_extension("spare");
        let _ = target.fs.remove(&spare);
        if target.fs.link(target.path(), &spare).is_ok() {
            target.fs.rename(&spare, &keep)?;
        }
    }
    target.fs.rename(&temp.path, target.path())?;
    Ok(Outcome::Published)
}

/// Only a version that was itself synced counts as last-good.
fn keep_as(commit: &Commit, base: &Content, displaced: Displaced) -> Option<PathBuf> {
    let published = commit.seen.record.published;
    match displaced {
        Displaced::ToDamaged => Some(commit.target.sidecar("damaged")),
        Displaced::ToGood if published.synced && published.checksum == base.checksum => {
            Some(commit.target.sidecar("good"))
        }
        Displaced::ToGood => None,
    }
}

fn same_file(target: &Target, path: &Path, known: &Stat) -> bool {
    target.fs.stat(path).is_ok_and(|now| {
        (now.id, now.size, now.modified_ns) == (known.id, known.size, known.modified_ns)
    })
}

/// Step 5: the record of what is published now.
pub(super) fn record(
    commit: &mut Commit,
    bytes: &[u8],
    operation: u64,
    synced: bool,
) -> Result<u64> {
    let record = &mut commit.seen.record;
    let published = &mut record.published;
    published.generation = match published.generation {
        // A new record starts at the clock, so that versions of a lost one do not come again.
        0 => crate::sys::wall_time_us(),
        generation => generation + 1,
    };
    published.checksum = checksum::wide(bytes);
    published.synced = synced;
    let generation = published.generation;
    if operation != 0 {
        record.remember(operation);
    }
    record.pending = (0, [0; 16]);
    commit.write_record().map_err(|error| error.committed(true))?;
    Ok(generation)
}

/// After a reboot nobody uses the temporary files of before. The last-good version may be one of
/// them only while the document itself cannot be read, and then this is not called.
pub(super) fn sweep(target: &Target) {
    for name in target.fs.list(target.side()).unwrap_or_default() {
        if target.is_temp(&name) {
            let _ = target.fs.remove(&target.side().join(name));
        }
    }
}
