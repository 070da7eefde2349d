//! Publishing: a new version replaces the document, and the record names it.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | 1 [`settle`]: the record names the version in place, this boot, and the operation on its way | the old version |
//! | 2 the new version is written to the temporary file | the old version; the next call removes the left-over |
//! | 3 its content is synced, unless [`syncs`] says no | the same |
//! | 4 locks verified, names exchanged | the new version; `pending` says whose it is; the old one under the temporary name |
//! | 5 the old version becomes `.good`, if it was synced | the same, and the old one as `.good` |
//! | 6 [`record`]: the new version, after its operation id was remembered | everything but what step 7 removes |
//! | 7 an old version that was not synced is removed | |
//!
//! A power loss leaves the names as they were after one of the steps, since all of them pass through one
//! temporary name. A version that was synced is whole. One that was not may be cut; then the last synced
//! version is under the temporary name or `.good`.
//!
//! Invariant: while there is a temporary file of this boot, the record names the version that was in place
//! when it was made. So [`clear`] knows what a left-over is: a version that never took the place, or the
//! one that was displaced.

use std::io;
use std::path::PathBuf;

use super::read::{Content, hides_a_cut};
use super::versions;
use crate::checksum;
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::Commit;
use crate::file::record::{Pending, Published, Synced};
use crate::file::replace::{Exchange, Temp};
use crate::file::target::Target;
use crate::fs::{Kind, Stat};
use crate::sys;

/// How a version is published.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// Its content is synced first.
    pub(super) sync: bool,
    /// The version that it displaces may become `.good`.
    pub(super) keep: bool,
    /// The mode of a file that does not exist yet.
    pub(super) new_mode: u32,
}

/// A version that readers see and the record does not know yet.
pub(super) struct Publication {
    /// What it displaced; removed when this is dropped, after the record is written.
    _displaced: Temp,
    tag: u64,
    synced: Synced,
}

/// Distinguishes a file from another one with the same bytes, and from itself after a write. Never
/// 0.
fn tag_of(stat: &Stat) -> u64 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&stat.id.ino.to_le_bytes());
    bytes[8..].copy_from_slice(&stat.modified_ns.to_le_bytes());
    checksum::of(&bytes).max(1)
}

/// Whether this is what the record names: the very file, or none.
pub(super) fn is_published(found: Option<&Content>, published: Published) -> bool {
    found.map_or(published.tag == 0, |found| {
        found.checksum == published.checksum && tag_of(&found.stat) == published.tag
    })
}

/// The same, of what is in the document's place now, as far as is known without reading it.
pub(super) fn is_in_place(target: &Target, published: Published) -> bool {
    target.fs.stat(target.path()).is_ok_and(|found| tag_of(&found) == published.tag)
}

/// Whether the content of what is in place was synced before it was published.
pub(super) fn is_synced(commit: &Commit, found: &Content) -> bool {
    let published = commit.seen.record.published;
    published.synced == Synced::Yes && is_published(Some(found), published)
}

/// Step 1. A version that the record does not name, or names from another boot, is written down:
/// whether it was synced is unknown, unless the record said so. Its number stays.
pub(super) fn settle(
    commit: &mut Commit,
    found: Option<&Content>,
    pending: Option<Pending>,
) -> Result<()> {
    commit.detect_rollback();
    let boot = commit.target.fs.boot_id();
    let published = commit.seen.record.published;
    let is_known = is_published(found, published);
    if is_known && published.boot == boot && pending.is_none() {
        return Ok(());
    }
    if !is_known || published.boot != boot {
        clear(commit, found)?; // While the record still describes it.
        let published = &mut commit.seen.record.published;
        if !(is_known && published.synced == Synced::Yes) {
            published.synced = Synced::Unknown;
        }
        published.checksum = found.map_or([0; 16], |found| found.checksum);
        published.tag = found.map_or(0, |found| tag_of(&found.stat));
        published.boot = boot;
    }
    commit.seen.record.pending = pending.unwrap_or(commit.seen.record.pending);
    commit.write_record().map_err(|error| error.committed(false))
}

/// Removes what a change that died left under the temporary name. The last synced version becomes
/// `.good`, and an unread version of another tool is set aside.
pub(super) fn clear(commit: &Commit, document: Option<&Content>) -> Result<()> {
    let (target, published) = (&commit.target, commit.seen.record.published);
    let path = target.document_temp();
    let failed = |err| Error::io("remove left-over", &path, err);
    let found = match Content::read(target, &path) {
        Ok(None) => return Ok(()),
        Ok(found) => found,
        // A planted symlink or directory is no version (G13). What cannot be read may be one.
        Err(_) if target.fs.stat(&path).is_ok_and(|found| found.kind != Kind::File) => None,
        Err(error) => return Err(error),
    };
    // A left-over of another boot was never acknowledged, or the document is newer and on the disk.
    // If the record is lost, it may be either.
    let (this_boot, is_lost) = (published.boot == target.fs.boot_id(), published.generation == 0);
    let exchanged = (this_boot || is_lost) && !is_published(document, published);
    // A new file that got its name by a link has the temporary one, too.
    let is_document = found
        .as_ref()
        .zip(document)
        .is_some_and(|(found, document)| found.stat.id == document.stat.id);
    let displaced = found.filter(|found| exchanged && !is_document && !found.bytes.is_empty());
    let is_unread = |found: &Content| found.checksum != published.checksum;
    let is_last_synced =
        |found: &Content| published.synced == Synced::Yes && is_published(Some(found), published);
    let cleared = match &displaced {
        Some(found) if is_unread(found) => target.fs.rename_new(&path, &free_aside(target).1),
        Some(found) if is_last_synced(found) => target.fs.rename(&path, &target.sidecar("good")),
        _ => target.fs.remove(&path),
    };
    cleared.map_err(failed)
}

/// What was set aside, the oldest first, and the next name for that.
pub(super) fn free_aside(target: &Target) -> (Vec<PathBuf>, PathBuf) {
    let mut taken = Vec::new();
    loop {
        let path = target.sidecar(&format!("damaged.{}", taken.len() + 1));
        if target.fs.stat(&path).is_err() {
            return (taken, path);
        }
        taken.push(path);
    }
}

/// Whether a new version is synced although the caller did not ask for it: where it could be lost with
/// nothing to fall back to, or be taken for whole when it was cut.
fn syncs(commit: &Commit, base: Option<&Content>, bytes: &[u8]) -> bool {
    base.is_none_or(|base| hides_a_cut(&commit.target, &base.bytes))
        || hides_a_cut(&commit.target, bytes)
        || commit.seen.record.published.synced == Synced::Unknown
        || !commit.target.orders_names()
}

/// Steps 2 to 5; `None` if another tool has replaced the file since it was read. `base` is the version
/// that `bytes` was made from, and that [`settle`] has written down. An error says whether the new version
/// is visible (`committed`), where that is known.
pub(super) fn publish(
    commit: &Commit,
    base: Option<Content>,
    bytes: &[u8],
    way: Way,
) -> Result<Option<Publication>> {
    let (target, path) = (&commit.target, commit.target.path());
    // A sidecar directory that was moved away is not a missing file: the locks moved with it.
    let mut temp = write_temp(commit, base.as_ref(), bytes, way)
        .map_err(|error| commit.verify().err().unwrap_or(error).committed(false))?;
    let verify = || commit.verify().map_err(|error| error.committed(false));
    let sync = |temp: &Temp| {
        let synced = temp.sync();
        synced.map_err(|err| Error::io("sync new version of", path, err).committed(false))
    };
    let mut synced = way.sync || syncs(commit, base.as_ref(), bytes);
    if synced {
        sync(&temp)?;
    }
    let tag = tag_of(temp.stat());
    let Some(Content { handle, stat, .. }) = base else {
        commit.claim_locks(temp.stat()).map_err(|error| error.committed(false))?;
        verify()?;
        let placed = temp.place_new(path)?;
        if placed {
            target.follow(temp.stat()); // Its locks were made before it, and may be more open than it is.
        }
        return Ok(placed.then_some(Publication { _displaced: temp, tag, synced: Synced::Yes }));
    };
    drop(handle); // Not every system replaces a file that is open.
    // Mode and owner count as well: they were given to the new version.
    let of = |stat: &Stat| (stat.id, stat.size, stat.modified_ns, stat.mode, stat.uid, stat.gid);
    let is_base = |found: &Stat| of(found) == of(&stat);
    let good = target.sidecar("good");
    let keep = way.keep && commit.seen.record.published.synced == Synced::Yes;
    let history = commit.seen.record.history;
    if keep && history > 0 {
        versions::keep(target, history); // Before `.good` is overwritten; a crash here leaves a second name.
    }
    verify()?; // After everything that can take long.
    match temp.exchange(path, is_base)? {
        Exchange::Replaced => return Ok(None),
        Exchange::Done if keep => match temp.rename_to(&good) {
            // The new version is the one to fall back to.
            Err(_) if synced => {}
            Err(err) => {
                // The next change finds the last synced version under the temporary name.
                temp.leave();
                return Err(Error::io("keep last good version as", &good, err).committed(true));
            }
            Ok(()) => {}
        },
        Exchange::Done => {}
        Exchange::Unsupported => {
            if !synced {
                sync(&temp)?;
                synced = true;
            }
            if keep {
                // The new version is synced, so this copy is for a later restore only.
                let _ = target.fs.remove(&good);
                let _ = target.fs.link(path, &good);
            }
            verify()?;
            if !temp.rename_over(path, is_base)? {
                return Ok(None);
            }
        }
    }
    let synced = if synced { Synced::Yes } else { Synced::No };
    Ok(Some(Publication { _displaced: temp, tag, synced }))
}

/// Step 2, with the final mode and owner of the version.
fn write_temp(commit: &Commit, base: Option<&Content>, bytes: &[u8], way: Way) -> Result<Temp> {
    let target = &commit.target;
    let path = target.document_temp();
    let model = base.and_then(|base| base.handle.as_deref());
    let create = || {
        Temp::create(target, path.clone(), |file| {
            file.write_all_at(bytes, 0)?;
            match model {
                Some(model) => file.copy_attributes(model),
                None => file.set_mode(way.new_mode & 0o777),
            }
        })
    };
    let temp = match create() {
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            clear(commit, base)?;
            create()
        }
        made => made,
    };
    let temp = temp.map_err(Target::failed("write temporary file", &path))?;
    let (found, wanted) = (temp.stat().size, bytes.len() as u64);
    if found != wanted {
        let detail = format!("{found} bytes are there instead of {wanted}");
        return Err(Error::new(ErrorKind::Io, "write temporary file", detail).at(&path));
    }
    Ok(temp)
}

/// Step 6: the record of what is published now. Returns its number.
pub(super) fn record(
    commit: &mut Commit,
    checksum: [u8; 16],
    new: &Publication,
    remembered: bool,
) -> Result<u64> {
    let published = &mut commit.seen.record.published;
    *published = Published {
        generation: published.next_generation(sys::wall_time_us()),
        numbered: true,
        checksum,
        tag: new.tag,
        synced: new.synced,
        boot: commit.target.fs.boot_id(),
    };
    let generation = published.generation;
    if remembered {
        commit.seen.record.pending = Pending::default();
    }
    commit.write_record().map_err(|error| error.committed(true))?;
    Ok(generation)
}
