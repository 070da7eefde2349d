//! Documents that cannot be parsed: set aside, never reset, restored on request or after a power loss.
//!
//! The bytes are copied to the first free `.damaged.N` and synced before the good version takes their
//! place. A crash in the copy leaves a torn copy beside the document, which is still in place.

use std::io;
use std::path::PathBuf;

use crate::json;

use super::publish::{self, Way};
use super::read::{self, Content};
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::Commit;
use crate::file::target::Target;
use crate::file::{events, operations};
use crate::fs::Access;
use crate::options::{Version, WriteOptions};
use crate::printable::to_create;

/// A damaged document up to this size is copied when a change finds it, so that its bytes are kept
/// after it was corrected by hand.
const MET_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many copies are made without a restore: a program that keeps breaking the document must not
/// fill the disk.
const MET_COPIES_MAX: usize = 8;

/// A mistyped name leaves no files: checked before a lock is taken.
pub(super) fn refuse_nothing(target: &Target) -> Result<()> {
    let gone = |err: io::Error| err.kind() == io::ErrorKind::NotFound;
    if target.fs.stat(target.path()).is_err_and(gone) && read::good(target)?.is_none() {
        return Err(no_good(target, None));
    }
    Ok(())
}

fn no_good(target: &Target, found: Option<&Content>) -> Error {
    let damaged = found.and_then(|found| found.parse(target).err());
    damaged.unwrap_or_else(|| {
        let detail = "there is no document, and no earlier version of it was kept";
        Error::new(ErrorKind::NotFound, "restore document", detail)
            .at(target.path())
            .hint(format!("check the name, or create it: {}", to_create(target.path())))
    })
}

/// Replaces `base`, which cannot be parsed or is gone, by the last good version. Returns the version.
pub(super) fn restore(
    commit: &mut Commit,
    base: Option<Content>,
    options: &WriteOptions,
) -> Result<Version> {
    let target = commit.target.clone();
    let was_cut = base.is_some() && read::was_cut(&target)?;
    if was_cut {
        // The record is of another boot and stays so: until the end, readers fall back as well.
        take_left_over(&target)?;
    } else {
        publish::settle(commit, base.as_ref(), None)?;
    }
    let Some((good, _)) = read::good(&target)? else { return Err(no_good(&target, base.as_ref())) };
    let damaged = base.as_ref().map_or(&[][..], |base| &base.bytes);
    let damaged_bytes = damaged.len();
    copy_aside(&target, damaged, usize::MAX).map_err(Target::failed("keep", target.path()))?;
    if !was_cut {
        // An older version comes back, and which operations it contains is unknown. After a power
        // loss only those count that were durable, and the last synced version contains them.
        operations::forget(&target)?;
    }
    let way = Way { sync: true, keep: false, new_mode: options.file.new_mode };
    let Some(new) = publish::publish(commit, base, &good.bytes, way)? else {
        let detail = "another program replaced it during the restore";
        return Err(Error::new(ErrorKind::Busy, "restore", detail).at(target.path()));
    };
    publish::record(commit, good.checksum, &new, true)?;
    drop(new);
    // An event for people; the restored document does not depend on it.
    let _ = events::record(&target, "restored", &json!({ "damaged_bytes": damaged_bytes }));
    Ok(good.version(commit.seen.record.published))
}

/// After a power loss: a whole version under the temporary name becomes `.good`, which is older. What is
/// the same as `.good` is the copy of a restore that died, and perhaps not synced.
fn take_left_over(target: &Target) -> Result<()> {
    let Some((found, _)) = read::left_over(target)? else { return Ok(()) };
    // A power loss may have taken nothing but the last newline of the copy.
    let is_copy = |good: &Content| good.bytes.trim_ascii_end() == found.bytes.trim_ascii_end();
    let (temp, good) = (target.document_temp(), target.sidecar("good"));
    let done = match read::good(target)? {
        Some((good, _)) if is_copy(&good) => target.fs.remove(&temp),
        _ => target.fs.rename(&temp, &good),
    };
    done.map_err(Target::failed("keep last good version", &temp))
}

/// Copies a damaged document that a change has found. Best effort: the document itself is still
/// there.
pub(super) fn met(target: &Target) {
    let Ok(Some(content)) = Content::read(target, target.path()) else { return };
    if content.bytes.len() <= MET_BYTES_MAX
        && copy_aside(target, &content.bytes, MET_COPIES_MAX).is_ok_and(|made| made)
    {
        let detail = json!({ "bytes": content.bytes.len() });
        let _ = events::record(target, "damage_copied", &detail);
    }
}

/// Copies bytes to the first free name, unless the newest copy is the same or there are `most` already.
/// Empty ones are not worth it. The copy is durable when this returns; true if a new one was made.
fn copy_aside(target: &Target, bytes: &[u8], most: usize) -> io::Result<bool> {
    if bytes.is_empty() {
        return Ok(false);
    }
    let mut made = false;
    let (copies, free) = publish::free_aside(target);
    let is_same = |path: &PathBuf| {
        Content::read(target, path).is_ok_and(|copy| copy.is_some_and(|copy| copy.bytes == bytes))
    };
    if let Some(newest) = copies.last().filter(|newest| is_same(newest)) {
        target.fs.open(newest, Access::ReadWrite)?.sync()?;
    } else if copies.len() < most {
        let copy = target.fs.open(&free, Access::CreateNew(0o600))?;
        let written = copy.write_all_at(bytes, 0).and_then(|()| copy.sync());
        if written.is_err() {
            let _ = target.fs.remove(&free);
        }
        written?;
        made = true;
    }
    target.sync_sidecars().map(|()| made)
}
