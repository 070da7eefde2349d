//! Making a new version of a document the document.
//!
//! Step by step, with what a crash (of the process, or of the power) after it leaves:
//!
//! 1. temp file created, written, given mode and owner: a left-over that the next change removes.
//! 2. what is displaced synced, if it is to be fallen back to and nobody has; then the temp file (durable mode, or
//!    nothing to fall back to), or at least in order: its content comes before every later change of names. The same.
//!    A bare number gets the temp's name only now: before, it is `.spare`, and an empty temp has everybody remove both.
//! 3. locks verified, after the last sync, then exchanged with the document: the new version is visible. Old or new after
//!    a power loss, each complete in durable mode; in the other mode the new one may be empty, and
//!    the displaced one, synced earlier, is under the temp's name or under `.good`.
//! 4. displaced version renamed to `.good` if it was synced.
//! 5. record written: the version. Until then the new content counts as a foreign edit of the old, and
//!    readers look again; so the way from 3 to here is short.
//! 6. displaced version removed, if it is still under the temp's name.
//! 7. locks released; the directory synced together with everybody else who waits (durable mode).
//!
//! All changes use one temporary name, so the steps on names happen in one order: what a power loss
//! leaves is the state after one of them, and what is under the temporary name is newer than `.good`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::Content;
use super::durable::{is_number, syncs};
use super::keep::{self, Displaced};
use super::{left_over, operations, restore};
use crate::checksum;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, FileId, Fs, Handle, Stat};
use crate::group;
use crate::options::WriteOptions;
use crate::record::{OPERATIONS, Published};
use crate::target::Target;

/// What became of an attempt to publish.
pub(super) enum Outcome {
    /// It is visible.
    Published(Publication),
    /// Somebody replaced the file since it was read: start again from theirs.
    Replaced,
}

/// A version that readers see and the record does not know yet.
pub(super) struct Publication {
    /// What it displaced is removed when this is dropped: under the locks, and after the record is written.
    pub(super) displaced: Temp,
    pub(super) tag: u32,
    /// Its content is on the disk, or is there before its name.
    pub(super) synced: bool,
}

/// A temporary file that is removed unless it became something else.
pub(super) struct Temp {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// Where a number is until it is synced: see [`write_temp`].
    number: Option<PathBuf>,
    used: bool,
}

/// Tells a file from another one with the same bytes, and from itself after it was written to.
pub(super) fn tag_of(stat: &Stat) -> u32 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&stat.id.ino.to_le_bytes());
    bytes[8..].copy_from_slice(&stat.modified_ns.to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "half of a checksum")]
    let tag = checksum::of(&bytes) as u32;
    tag.max(1)
}

/// Whether a file is what the record says was published, and not only the same bytes. Records of before
/// have no tag.
pub(super) fn is_published(found: &Content, published: Published) -> bool {
    let tag = published.tag;
    found.checksum == published.checksum && (tag == 0 || tag == tag_of(&found.stat))
}

impl Temp {
    /// A number gets the temporary name.
    fn take_its_name(&mut self) -> io::Result<()> {
        let Some(number) = &self.number else { return Ok(()) };
        self.fs.rename(number, &self.path)?;
        self.number = None;
        Ok(())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        for path in self.number.iter().chain([&self.path]).filter(|_| !self.used) {
            let _ = self.fs.remove(path);
        }
    }
}

/// Steps 1 to 4. `base` is the content that `bytes` was made from; its handle is closed before the
/// file is replaced, because not every system replaces a file that is open. `operation` made them, or 0.
pub(super) fn publish(
    commit: &mut Commit,
    base: Option<Content>,
    bytes: &[u8],
    displaced: Displaced,
    operation: u64,
    options: &WriteOptions,
) -> Result<Outcome> {
    let target = commit.target.clone();
    let (target, path) = (&target, target.path());
    // A sidecar directory that was moved away is not a missing file: the locks went with it.
    let (mut temp, handle, new) = write_temp(commit, base.as_ref(), bytes, operation, options)
        .map_err(|error| commit.verify().err().unwrap_or(error))?;
    // First: if the old version could not be synced, the new one must be.
    let keep =
        base.as_ref().map(|base| keep::name_for(commit, base, displaced, options)).transpose()?;
    let synced = syncs(commit, base.as_ref(), bytes, options);
    if synced {
        let done = handle.sync_in_order();
        done.map_err(|err| Error::io("sync new version of", path, err).committed(false))?;
    }
    drop(handle);
    temp.take_its_name()
        .map_err(|err| Error::io("name temporary file of", path, err).committed(false))?;
    let published =
        |displaced| Outcome::Published(Publication { displaced, tag: tag_of(&new), synced });
    let failed = |err| Error::io("publish", path, err).committed(false);
    let Some(base) = base else {
        commit.verify()?;
        // Of a document that is gone, and of a change that died.
        let _ = target.fs.remove(&target.sidecar("spare"));
        return match target.fs.rename_new(&temp.path, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(Outcome::Replaced),
            // It may have its name, and the temporary one too: a left-over, as of somebody who died.
            Err(err) if target.fs.stat(path).map_or(true, |found| found.id != new.id) => {
                Err(failed(err))
            }
            _ => {
                temp.used = true;
                Ok(published(temp))
            }
        };
    };
    let Content { handle, stat, bytes: old, .. } = base;
    drop(handle);
    let precious = (displaced == Displaced::ToDamaged).then_some(old.as_slice());
    // After everything that can take long: syncs.
    commit.verify()?;
    if !same_file(target, path, &stat).map_err(failed)? {
        return Ok(Outcome::Replaced);
    }
    match target.fs.exchange(&temp.path, path) {
        Ok(()) => {}
        Err(err) if err.kind() == io::ErrorKind::Unsupported => {
            let keep = keep.flatten();
            keep::second_name(target, &temp.path, keep.as_deref(), precious, options)
                .map_err(failed)?;
            // Again, since that may have taken long.
            commit.verify()?;
            if !same_file(target, path, &stat).map_err(failed)? {
                return Ok(Outcome::Replaced);
            }
            target.fs.rename(&temp.path, path).map_err(failed)?;
            temp.used = true;
            return Ok(published(temp));
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Outcome::Replaced),
        Err(err) => return Err(failed(err)),
    }
    if give_back(target, &mut temp, &stat, new.id)? {
        return Ok(Outcome::Replaced);
    }
    if let Some(keep) = keep.flatten() {
        let moved = target.fs.rename(&temp.path, &keep);
        // Failing here loses a spare copy, not the document; but of what cannot be parsed it is the only
        // copy there is, and stays where it is.
        temp.used = moved.is_ok() || displaced == Displaced::ToDamaged;
        if let (Err(err), false, false) = (moved, temp.used, synced) {
            // It is all that a power loss would leave. The new version must be that instead; if it cannot, the
            // record goes on naming the old one, and the next change keeps it.
            if keep::sync_in_place(commit, new.id).is_err() {
                temp.used = true;
                return Err(Error::io("keep last good version as", &keep, err).committed(true));
            }
            let tag = tag_of(&new);
            return Ok(Outcome::Published(Publication { displaced: temp, tag, synced: true }));
        }
    }
    Ok(published(temp))
}

/// Looks at what the exchange displaced. A version that nobody has read goes back, and the change
/// starts again: `true`. Another one may come while we do that; the newest stays, whatever happens.
fn give_back(target: &Target, temp: &mut Temp, base: &Stat, ours: FileId) -> Result<bool> {
    let looked = same_file(target, &temp.path, base);
    if let Ok(true) = looked {
        return Ok(false);
    }
    let mut displaced = target.fs.stat(&temp.path).ok().map(|found| found.id);
    let mut placed = Some(ours);
    loop {
        if let Err(err) = target.fs.exchange(&temp.path, target.path()) {
            // Ours stays visible. What it displaced was read by nobody: it must not be removed.
            temp.used = true;
            let aside = target.sidecar("damaged");
            let room = restore::make_room(target, None, restore::ANY);
            let moved = room.is_ok() && target.fs.rename(&temp.path, &aside).is_ok();
            let aside = if moved { &aside } else { &temp.path };
            return Err(Error::io("give back what was replaced at", target.path(), err)
                .committed(true)
                .hint(format!("the version that it displaced is kept as {}", aside.display())));
        }
        // Now `displaced` is in place again, and what was in its place is here.
        let found = target.fs.stat(&temp.path).ok().map(|found| found.id);
        if found == placed || found.is_none() {
            let undone = |err| Error::io("publish", target.path(), err).committed(false);
            return looked.map(|_| true).map_err(undone);
        }
        (placed, displaced) = (displaced, found);
    }
}

/// Creates the temporary file with all of `bytes`, what is attached to it, and the mode and owner it shall have.
///
/// What lies under the temporary name after a power loss counts if it can be parsed, and a number can be parsed also
/// if it was cut. So a number gets that name when it is synced, from an empty file: whoever finds that one after our
/// death removes the number as well.
fn write_temp(
    commit: &Commit,
    base: Option<&Content>,
    bytes: &[u8],
    operation: u64,
    options: &WriteOptions,
) -> Result<(Temp, Arc<dyn Handle>, Stat)> {
    let target = &commit.target;
    let path = target.document_temp();
    let create = |path: &Path| target.fs.open(path, Access::CreateNew(0o600));
    let made = match create(&path) {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            left_over::clear(commit, base)?;
            create(&path)
        }
        made => made,
    };
    let mut handle = made.map_err(Target::failed("create temporary file", &path))?;
    let mut temp = Temp { fs: target.fs.clone(), path, number: None, used: false };
    if is_number(bytes) {
        let path = temp.number.insert(target.sidecar("spare"));
        let _ = target.fs.remove(path); // Left over from a change that died.
        handle = create(path).map_err(Target::failed("create temporary file", path))?;
    }
    let path = temp.number.as_ref().unwrap_or(&temp.path);
    let failed = |action| Target::failed(action, path);
    let done = commit.seen.record.operations_with(operation);
    if done != [0; OPERATIONS] {
        // Before the mode is set: nothing can be attached to a file that its owner may not write. And before the
        // content: what a crash leaves whole can be restored, and has to say what it contains (race 51).
        operations::attach(handle.as_ref(), checksum::wide(bytes), &done);
    }
    handle.write_all_at(bytes, 0).map_err(failed("write temporary file"))?;
    match base {
        Some(base) => handle.copy_attributes(base.handle.as_ref()),
        None => handle.set_mode(options.new_mode & 0o777),
    }
    .map_err(failed("set mode of temporary file"))?;
    let new = handle.stat().map_err(failed("look at temporary file"))?;
    if new.size != bytes.len() as u64 {
        let detail = format!("{} bytes are there instead of {}", new.size, bytes.len());
        return Err(Error::new(ErrorKind::Io, "write temporary file", detail).at(path));
    }
    Ok((temp, handle, new))
}

/// Whether the document is still what it was: the file that was read, or none.
pub(super) fn is_still(target: &Target, base: Option<&Stat>) -> bool {
    let gone = |err: io::Error| err.kind() == io::ErrorKind::NotFound;
    match base {
        Some(base) => same_file(target, target.path(), base).unwrap_or(false),
        None => target.fs.stat(target.path()).is_err_and(gone),
    }
}

/// Whether a file is still what somebody looked at. Its mode and owner count as well: they were given to
/// the version that takes its place.
fn same_file(target: &Target, path: &Path, known: &Stat) -> io::Result<bool> {
    let of =
        |stat: &Stat| ((stat.id, stat.size, stat.modified_ns), (stat.mode, stat.uid, stat.gid));
    match target.fs.stat(path) {
        Ok(now) => Ok(of(&now) == of(known)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(err) => Err(err),
    }
}

/// Step 5: the record of what is published now. `synced` is `None` if somebody else published it, in
/// this boot or an earlier one, and died: then nobody knows. Without an operation it keeps its version.
pub(super) fn record(
    commit: &mut Commit,
    (content, tag): ([u8; 16], u32),
    operation: u64,
    synced: Option<bool>,
) -> Result<u64> {
    let boot = commit.target.fs.boot_id();
    commit.look_for_put_back();
    let record = &mut commit.seen.record;
    let published = &mut record.published;
    if synced.is_some() || operation != 0 {
        if published.boot != boot {
            let reach = group::reach(&commit.target).map_err(|error| error.committed(true))?;
            published.begin_above(reach);
        }
        published.generation += 1;
    }
    // An operation is written down only after the record was brought in line with the document.
    published.settled = published.is_of(boot) || operation != 0;
    published.boot = synced.map_or_else(Default::default, |_| boot);
    // Whoever touches a file, or writes a part of it, does not write all of its pages: what failed is not mended by that.
    let failed = synced.is_none() && published.failed;
    (published.checksum, published.tag) = (content, tag);
    (published.synced, published.failed) = (synced.unwrap_or(false), failed);
    let generation = published.generation;
    if operation != 0 {
        record.remember(operation);
    }
    record.pending = (0, [0; 16]);
    commit.write_record().map_err(|error| error.committed(true))?;
    Ok(generation)
}
