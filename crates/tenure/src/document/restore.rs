//! Documents that cannot be parsed: set aside, never reset, restored on request.
//!
//! `.damaged` is the newest of what was set aside. Before another takes its name it gets a number
//! (`.damaged.1`, `.damaged.2`, ...): a restore overwrites nothing that was set aside.

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::change::{Document, Written};
use super::content::{Content, good};
use super::keep::Displaced;
use super::operations;
use super::publish::{self, Outcome, publish};
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::events;
use crate::fs::Access;
use crate::options::WriteOptions;
use crate::record::OPERATIONS;
use crate::target::Target;

/// Damaged files up to this size are copied when they are found.
const ASIDE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The numbers of what was set aside.
pub(super) const ANY: RangeInclusive<u32> = 1..=u32::MAX;
/// The same for copies that nobody asked for: a program that breaks the document again and again must
/// not fill the disk with them.
const FEW: RangeInclusive<u32> = 1..=8;

/// A mistyped name leaves nothing behind: looked at before a lock is taken.
pub(super) fn refuse_nothing(target: &Target) -> Result<()> {
    let gone = |err: io::Error| err.kind() == io::ErrorKind::NotFound;
    if target.fs.stat(target.path()).is_err_and(gone) && good(target)?.is_none() {
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
            .hint("check the name, or create it with `doc set`")
    })
}

/// Replaces a damaged document by its last good version; the damaged one moves to `.damaged`.
pub(super) fn restore(commit: &mut Commit, options: &WriteOptions) -> Result<Written> {
    let target = commit.target.clone();
    commit.look_for_put_back(); // Before anything is taken from it.
    let base = Content::read(&target, target.path())?;
    if let Some(base) = base.as_ref().filter(|base| base.parse(&target).is_ok()) {
        operations::reconcile(commit, Some(base), false);
        Document::settle_pending(commit, Some(base), 0)?; // It may be published anew, by no operation.
        let published = commit.seen.record.published;
        let version = base.version(published);
        commit.found_other = !publish::is_published(base, published);
        return Ok(Written { version, changed: false, replayed: false });
    }
    let Some(found) = good(&target)? else { return Err(no_good(&target, base.as_ref())) };
    let (name, mut kept) = (target.sidecar("good"), found.content);
    if found.path != name {
        // Out of the way of our own temporary file. A crash before it leaves it there, after it here.
        // It may be a copy of the good one, made by a restore that died or could not sync it: that one stays. A power
        // loss may have kept from the copy what is attached to it, and its last newline.
        let done = operations::attached(&kept);
        let same = |good: &Content| {
            good.bytes.trim_ascii_end() == kept.bytes.trim_ascii_end()
                && (done.is_empty() || operations::attached(good) == done)
        };
        let moved = match Content::read(&target, &name).ok().flatten().filter(same) {
            Some(good) => {
                kept = good;
                target.fs.remove(&found.path)
            }
            // Nobody knows whether a sync of it failed: another one would prove nothing.
            None => {
                copy_to_good(&target, &kept, &name).and_then(|()| target.fs.remove(&found.path))
            }
        };
        moved.map_err(Target::failed("keep last good version", &found.path))?;
    }
    let damaged_bytes = base.as_ref().map_or(0, |base| base.bytes.len());
    // An older version is back: what came after it is not done any more.
    commit.seen.record.operations = Default::default();
    for done in operations::attached(&kept) {
        commit.seen.record.remember(done);
    }
    let outcome = publish(commit, base, &kept.bytes, Displaced::ToDamaged, 0, options)?;
    let Outcome::Published(published) = outcome else {
        let detail = "somebody replaced it during the restore";
        return Err(Error::new(ErrorKind::Busy, "restore", detail).at(target.path()));
    };
    publish::record(commit, (kept.checksum, published.tag), 0, Some(published.synced))?;
    drop(published.displaced);
    // For people; the restored document is there without it.
    let _ = events::record(&target, "restored", &json!({ "damaged_bytes": damaged_bytes }));
    let version = kept.version(commit.seen.record.published);
    Ok(Written { version, changed: true, replayed: false })
}

/// Puts a copy that is synced in the place of `.good`. A crash before the rename leaves `.spare`, which the next one
/// removes; after it, what was copied, which is then known as the same.
fn copy_to_good(target: &Target, kept: &Content, good: &Path) -> io::Result<()> {
    let spare = target.sidecar("spare");
    let _ = target.fs.remove(&spare);
    let copied = write_copy(target, kept, &spare).and_then(|()| target.fs.rename(&spare, good));
    remove_half(target, &spare, copied.is_ok());
    copied?;
    // Or a power loss could keep the removal of what was copied, and forget this.
    target.sync_sidecars()
}

/// A new file like `kept`, synced with what is attached to it.
fn write_copy(target: &Target, kept: &Content, path: &Path) -> io::Result<()> {
    let file = target.fs.open(path, Access::CreateNew(0o600))?;
    let mut done = [0; OPERATIONS];
    let attached = operations::attached(kept);
    done.iter_mut().rev().zip(attached.iter().rev()).for_each(|(place, id)| *place = *id);
    operations::attach(file.as_ref(), kept.checksum, &done);
    file.write_all_at(&kept.bytes, 0)?;
    file.copy_attributes(kept.handle.as_ref())?;
    file.sync_all()
}

/// Copies a damaged document to `.damaged`, so that it can be looked at after somebody mended it by
/// hand. Best effort: the document itself is still there.
pub(super) fn set_aside(target: &Target) {
    let Ok(Some(content)) = Content::read(target, target.path()) else { return };
    if content.bytes.is_empty() || content.bytes.len() > ASIDE_BYTES_MAX {
        return;
    }
    // What is there may be a second name of the document itself; it is never written over.
    if !matches!(make_room(target, Some(&content.bytes), FEW), Ok(Room::Free)) {
        return;
    }
    let path = target.sidecar("damaged");
    if let Ok(file) = target.open_sidecar(&path) {
        let written = file.write_all_at(&content.bytes, 0);
        let written = written.and_then(|()| file.set_len(content.bytes.len() as u64));
        remove_half(target, &path, written.is_ok());
    }
}

/// Gives the damaged document a second name, before its first goes to another file: whoever dies after
/// this leaves its bytes there. Where that cannot be, tells what it shall be called afterwards; then who
/// dies on the way leaves them in the temporary file, where the next change finds them.
pub(super) fn name_damaged(target: &Target, base: &Content) -> Result<Option<PathBuf>> {
    let path = target.sidecar("damaged");
    let room = make_room(target, Some(&base.bytes), ANY)?;
    if matches!(room, Room::Same) {
        // A copy that nobody has synced, or whose sync has failed: the document itself takes its name. Who dies in
        // between leaves the document where it is.
        target.fs.remove(&path).map_err(Target::failed("remove copy", &path))?;
    }
    if matches!(room, Room::Taken) || target.fs.link(target.path(), &path).is_err() {
        return Ok(Some(path));
    }
    // Or a power loss could keep the loss of the first name and forget the second.
    target.sync_sidecars().map_err(Target::failed("sync directory", target.side()))?;
    Ok(None)
}

/// The same by a copy, made before the document goes. Room was made for it.
pub(super) fn copy_aside(target: &Target, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = target.fs.open(path, Access::CreateNew(0o600))?;
    let written = file.write_all_at(bytes, 0);
    remove_half(target, path, written.is_ok());
    written?;
    file.sync()?;
    target.sync_sidecars()
}

/// Under the commit lock, a copy of our own that could not be written whole. The document is still there, and
/// half of it would get a number each time somebody tries again (G10).
fn remove_half(target: &Target, path: &Path, is_whole: bool) {
    if !is_whole {
        let _ = target.fs.remove(path);
    }
}

fn is_document(target: &Target, path: &Path) -> bool {
    let id = |path| target.fs.stat(path).map(|found| found.id);
    matches!((id(path), id(target.path())), (Ok(one), Ok(other)) if one == other)
}

/// What is at `.damaged`.
#[derive(Debug)]
pub(super) enum Room {
    Free,
    /// The newcomer itself, to the byte.
    Same,
    /// Something else, and all numbers are taken.
    Taken,
}

/// Gives what is at `.damaged` a number, under the commit lock, before something else takes that name.
pub(super) fn make_room(
    target: &Target,
    newcomer: Option<&[u8]>,
    numbers: RangeInclusive<u32>,
) -> Result<Room> {
    let path = target.sidecar("damaged");
    let is_same = |bytes| {
        Content::read(target, &path).is_ok_and(|old| old.is_some_and(|old| old.bytes == bytes))
    };
    if newcomer.is_some_and(is_same) {
        return Ok(Room::Same);
    }
    if is_document(target, &path) {
        // A restore that died gave it this second name. The document is there by its first.
        let removed = target.fs.remove(&path);
        return removed.map(|()| Room::Free).map_err(Target::failed("remove left-over", &path));
    }
    for number in numbers {
        match target.fs.rename_new(&path, &target.sidecar(&format!("damaged.{number}"))) {
            Ok(()) => return Ok(Room::Free),
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Room::Free),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            Err(err) => return Err(Error::io("keep", &path, err)),
        }
    }
    Ok(Room::Taken)
}
