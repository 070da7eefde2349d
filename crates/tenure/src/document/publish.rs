//! Making a new version of a document the document.
//!
//! Step by step, with what a crash (of the process, or of the power) after it leaves:
//!
//! 1. temp file created, written, given mode and owner: a left-over that the next change removes.
//! 2. temp file synced (durable mode), or at least in order: its content comes before every later change
//!    of names. The same.
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
use super::durable::{sync_found, syncs};
use super::{operations, restore};
use crate::checksum;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, FileId, Fs, Handle, Kind, Stat};
use crate::options::{Durability, WriteOptions};
use crate::record::{OPERATIONS, Published};
use crate::target::Target;

/// What became of an attempt to publish.
pub(super) enum Outcome {
    /// It is visible, with this tag. What it displaced is removed when that is dropped: under the locks,
    /// and after the record is written.
    Published(Temp, u32),
    /// Somebody replaced the file since it was read: start again from theirs.
    Replaced,
}

/// A temporary file that is removed unless it became something else.
pub(super) struct Temp {
    fs: Arc<dyn Fs>,
    path: PathBuf,
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

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.used {
            let _ = self.fs.remove(&self.path);
        }
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
    if syncs(commit, base.as_ref(), bytes, options) {
        let synced = handle.sync_in_order();
        synced.map_err(|err| Error::io("sync new version of", path, err).committed(false))?;
    }
    drop(handle);
    let tag = tag_of(&new);
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
                Ok(Outcome::Published(temp, tag))
            }
        };
    };
    let keep = keep_as(commit, &base, displaced, options)?;
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
            let keep = keep.as_deref();
            keep_second_name(target, &temp, keep, precious, options).map_err(failed)?;
            // Again, since that may have taken long.
            commit.verify()?;
            if !same_file(target, path, &stat).map_err(failed)? {
                return Ok(Outcome::Replaced);
            }
            target.fs.rename(&temp.path, path).map_err(failed)?;
            temp.used = true;
            return Ok(Outcome::Published(temp, tag));
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Outcome::Replaced),
        Err(err) => return Err(failed(err)),
    }
    if give_back(target, &mut temp, &stat, new.id)? {
        return Ok(Outcome::Replaced);
    }
    if let Some(keep) = keep {
        let moved = target.fs.rename(&temp.path, &keep).is_ok();
        // Failing here loses a spare copy, not the document; but of what cannot be parsed it is the only
        // copy there is, and stays where it is.
        temp.used = moved || displaced == Displaced::ToDamaged;
    }
    Ok(Outcome::Published(temp, tag))
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
fn write_temp(
    commit: &Commit,
    base: Option<&Content>,
    bytes: &[u8],
    operation: u64,
    options: &WriteOptions,
) -> Result<(Temp, Arc<dyn Handle>, Stat)> {
    let target = &commit.target;
    let path = target.document_temp();
    let create = || target.fs.open(&path, Access::CreateNew(0o600));
    let handle = match create() {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            clear_left_over(commit, base)?;
            create()
        }
        made => made,
    }
    .map_err(Target::failed("create temporary file", &path))?;
    let temp = Temp { fs: target.fs.clone(), path, used: false };
    let failed = |action| Target::failed(action, &temp.path);
    handle.write_all_at(bytes, 0).map_err(failed("write temporary file"))?;
    let done = commit.seen.record.operations_with(operation);
    if done != [0; OPERATIONS] {
        // Before the mode is set: nothing can be attached to a file that its owner may not write.
        operations::attach(handle.as_ref(), checksum::wide(bytes), &done);
    }
    match base {
        Some(base) => handle.copy_attributes(base.handle.as_ref()),
        None => handle.set_mode(options.new_mode & 0o777),
    }
    .map_err(failed("set mode of temporary file"))?;
    let new = handle.stat().map_err(failed("look at temporary file"))?;
    if new.size != bytes.len() as u64 {
        let detail = format!("{} bytes are there instead of {}", new.size, bytes.len());
        return Err(Error::new(ErrorKind::Io, "write temporary file", detail).at(&temp.path));
    }
    Ok((temp, handle, new))
}

/// A temporary file of a change that died; we hold the commit lock, so nobody uses it. If that change
/// had got as far as the exchange, it is the last synced version, and `.good` is older; or it is a
/// foreign version that nobody has read, if the change died before it gave that back. Whether that is a
/// document is not ours to judge.
pub(super) fn clear_left_over(commit: &Commit, base: Option<&Content>) -> Result<()> {
    let (target, published) = (&commit.target, commit.seen.record.published);
    let path = target.document_temp();
    let failed = |err| Error::io("remove left-over", &path, err);
    // What is not a file is not of a change of ours: a symlink that somebody planted (G13).
    let planted = || target.fs.stat(&path).is_ok_and(|found| found.kind != Kind::File);
    let found = match Content::read(target, &path) {
        // What could not be read is not known to be worth nothing.
        Err(error) if error.kind() == ErrorKind::Io && !planted() => return Err(error),
        found => found.ok().flatten(),
    };
    let is_known = |found: &Content| found.checksum == published.checksum;
    let exchanged = base.is_some_and(|base| !is_known(base));
    let is_document =
        |found: &Content| base.is_some_and(|document| document.stat.id == found.stat.id);
    let keep = match &found {
        Some(found) if is_document(found) => None,
        Some(found) if published.synced && is_known(found) => {
            // It may also be a copy that nobody has synced, made by a restore that died.
            found.handle.sync().map_err(failed)?;
            Some("good")
        }
        Some(found) if exchanged && !is_known(found) && !found.bytes.is_empty() => Some("damaged"),
        _ => None,
    };
    if let (Some("damaged"), Some(found)) = (keep, &found) {
        restore::make_room(target, Some(&found.bytes), restore::ANY)?;
    }
    drop(found);
    if let Some(suffix) = keep {
        target.fs.rename(&path, &target.sidecar(suffix)).map_err(failed)?;
    }
    // After a rename it is still there if both were names of one file already.
    match target.fs.remove(&path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed),
    }
}

/// Where a file system cannot exchange, before a plain rename: a second name keeps the old version. A
/// crash before the rename leaves the document with two names, of which [`our_links`] knows the other. Where it
/// cannot link either, a copy keeps what is `precious`: the only one there is.
fn keep_second_name(
    target: &Target,
    temp: &Temp,
    keep: Option<&Path>,
    precious: Option<&[u8]>,
    options: &WriteOptions,
) -> io::Result<()> {
    let spare = target.sidecar("spare");
    let _ = target.fs.remove(&spare); // Left over from a change that died.
    if let Some(keep) = keep {
        let linked = target.fs.link(target.path(), &spare).is_ok();
        if linked {
            target.fs.rename(&spare, keep)?;
            let _ = target.fs.remove(&spare); // Still there if both were names of one file already.
        } else if let Some(bytes) = precious {
            restore::copy_aside(target, keep, bytes)?;
        }
        if options.durability == Durability::NoSync {
            // The old version must be safe before the new one, which is not, takes its name.
            if linked {
                target.fs.sync_dir(target.side())?;
            } else {
                target.fs.open(&temp.path, Access::ReadWrite)?.sync()?;
            }
        }
    }
    Ok(())
}

/// How many of a document's names are ours. It has the temporary one too if its maker died where a new
/// file gets its name by a link.
pub(super) fn our_links(target: &Target, document: FileId) -> u64 {
    let names = ["spare", "good", "damaged"].map(|suffix| target.sidecar(suffix));
    let names = names.into_iter().chain([target.document_temp()]);
    let is_ours = |path: &PathBuf| target.fs.stat(path).is_ok_and(|found| found.id == document);
    names.filter(is_ours).count() as u64
}

/// Only a version that was itself synced counts as last-good. A change without a sync needs one to
/// fall back to, so it syncs a version that somebody else wrote, or that is from before a reboot.
fn keep_as(
    commit: &mut Commit,
    base: &Content,
    displaced: Displaced,
    options: &WriteOptions,
) -> Result<Option<PathBuf>> {
    let target = &commit.target;
    if displaced == Displaced::ToDamaged {
        return restore::name_damaged(target, base);
    }
    let good = target.sidecar("good");
    let published = commit.seen.record.published;
    let known = is_published(base, published);
    if known && published.synced {
        return Ok(Some(good));
    }
    let ours_unsynced = known && (published.failed || published.boot == target.fs.boot_id());
    if options.durability == Durability::Durable || ours_unsynced {
        return Ok(None);
    }
    // Written down first: if we die between the exchange and the renaming, the next change must know
    // what the left-over is.
    let synced = sync_found(commit, base, Handle::sync)?;
    Ok(synced.is_ok().then_some(good))
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
/// this boot or an earlier one, and died: then nobody knows.
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
    published.begin_in(boot);
    published.generation += 1;
    published.boot = synced.map_or_else(Default::default, |_| boot);
    (published.checksum, published.tag) = (content, tag);
    (published.synced, published.failed) = (synced.unwrap_or(false), false);
    let generation = published.generation;
    if operation != 0 {
        record.remember(operation);
    }
    record.pending = (0, [0; 16]);
    commit.write_record().map_err(|error| error.committed(true))?;
    Ok(generation)
}
