//! What a change that died left: its temporary file, and second names of the document.
//!
//! # Invariants
//!
//! 1. The last synced version, and a foreign version that nobody has read, are never removed. What else lies under the
//!    temporary name was never visible.
//! 2. What it is can be told only while the record is as that change found it: it is cleared before the record is
//!    written for another version.

use std::io;
use std::path::PathBuf;

use super::content::Content;
use super::{publish, restore};
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileId, Kind};
use crate::target::Target;

/// A temporary file of a change that died; we hold the commit lock, so nobody uses it. If that change
/// had got as far as the exchange, it is the last synced version, and `.good` is older; or it is a
/// foreign version that nobody has read, if the change died before it gave that back. Whether that is a
/// document is not ours to judge.
pub(super) fn clear(commit: &Commit, base: Option<&Content>) -> Result<()> {
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
    // The same bytes in another file may be a version that was published anew.
    let exchanged = base.is_some_and(|base| !publish::is_published(base, published));
    let is_document =
        |found: &Content| base.is_some_and(|document| document.stat.id == found.stat.id);
    let keep = match &found {
        Some(found) if is_document(found) => None,
        // The very file: of the same bytes in another one nobody knows whether a sync has failed.
        Some(found) if published.synced && publish::is_published(found, published) => {
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
    // Second names and copies of what is elsewhere, and numbers on their way. First: while there is one, there is the
    // temporary file, so who dies in between leaves that to the next one.
    let _ = target.fs.remove(&target.sidecar("spare"));
    // After a rename it is still there if both were names of one file already.
    match target.fs.remove(&path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(failed),
    }
}

/// How many of a document's names are ours. It has the temporary one too if its maker died where a new
/// file gets its name by a link.
pub(super) fn our_links(target: &Target, document: FileId) -> u64 {
    let names = ["spare", "good", "damaged"].map(|suffix| target.sidecar(suffix));
    let names = names.into_iter().chain([target.document_temp()]);
    let is_ours = |path: &PathBuf| target.fs.stat(path).is_ok_and(|found| found.id == document);
    names.filter(is_ours).count() as u64
}
