//! What a change displaces, and which version is there to fall back to.
//!
//! # Invariants
//!
//! 1. Only a version that is known to be on the disk is fallen back to (`.good`).
//! 2. It is there under a name before a version that is not on the disk takes its place.

use std::io;
use std::path::{Path, PathBuf};

use super::content::Content;
use super::durable::sync_found;
use super::publish::is_published;
use super::restore;
use crate::commit::Commit;
use crate::error::Result;
use crate::fs::{Access, FileId, Handle};
use crate::options::{Durability, WriteOptions};
use crate::target::Target;

/// Where the displaced version goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Displaced {
    /// To `.good`, if it was synced.
    ToGood,
    /// To `.damaged`: it could not be parsed.
    ToDamaged,
}

/// Only a version that was itself synced counts as last-good. A change without a sync needs one to
/// fall back to, so it syncs a version that somebody else wrote, or that is from before a reboot.
pub(super) fn name_for(
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
    let ours_unsynced = known && published.boot == target.fs.boot_id();
    if options.durability == Durability::Durable || published.failed || ours_unsynced {
        return Ok(None);
    }
    // Written down first: if we die between the exchange and the renaming, the next change must know
    // what the left-over is.
    let synced = sync_found(commit, base, Handle::sync)?;
    Ok(synced.is_ok().then_some(good))
}

/// Syncs the content of what was just published, if it is still there. The record goes on naming what that has
/// displaced, and says from before the sync that what is in its place may have failed, as for any other
/// ([`sync_found`]).
pub(super) fn sync_in_place(commit: &mut Commit, ours: FileId) -> io::Result<()> {
    let file = commit.target.fs.open(commit.target.path(), Access::ReadWrite)?;
    if file.id()? != ours {
        return Err(io::Error::other("somebody replaced it meanwhile"));
    }
    commit.seen.record.published.failed = true;
    commit.write_record().map_err(io::Error::other)?;
    file.sync()
}

/// Where a file system cannot exchange, before a plain rename: a second name keeps the old version. A
/// crash before the rename leaves the document with two names, of which [`left_over::our_links`] knows the other. Where it
/// cannot link either, a copy keeps what is `precious`: the only one there is.
pub(super) fn second_name(
    target: &Target,
    temp: &Path,
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
                target.sync_sidecars()?;
            } else {
                target.fs.open(temp, Access::ReadWrite)?.sync()?;
            }
        }
    }
    Ok(())
}
