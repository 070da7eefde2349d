//! Documents that cannot be parsed: set aside, never reset, restored on request.

use serde_json::json;

use super::change::{Written, cannot_restore};
use super::content::{Content, good};
use super::publish::{self, Displaced, Outcome, publish};
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::events;
use crate::options::{Durability, WriteOptions};
use crate::target::Target;

/// Damaged files up to this size are copied when they are found.
const ASIDE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Replaces a damaged document by its last good version; the damaged one moves to `.damaged`.
pub(super) fn restore(commit: &mut Commit, options: &WriteOptions) -> Result<Written> {
    let target = commit.target.clone();
    let base = Content::read(&target, target.path())?;
    if let Some(base) = base.as_ref().filter(|base| base.parse(&target).is_ok()) {
        let version = base.version(commit.seen.record.published);
        return Ok(Written { version, changed: false, replayed: false });
    }
    let Some(kept) = good(&target)? else { return Err(cannot_restore(&target)) };
    let name = target.sidecar("good");
    if kept.path != name {
        // Out of the way of our own temporary file. A crash before it leaves it there, after it here.
        // It may be a copy that nobody has synced, made by a restore that died.
        let synced = kept.content.handle.sync();
        let moved = synced.and_then(|()| target.fs.rename(&kept.path, &name));
        moved.map_err(Target::failed("keep last good version", &kept.path))?;
    }
    let kept = kept.content;
    let damaged_bytes = base.as_ref().map_or(0, |base| base.bytes.len());
    let outcome = publish(commit, base, &kept.bytes, Displaced::ToDamaged, options)?;
    if matches!(outcome, Outcome::Replaced) {
        let detail = "somebody replaced it during the restore";
        return Err(Error::new(ErrorKind::Busy, "restore", detail).at(target.path()));
    }
    let synced = options.durability == Durability::Durable;
    // An older version is back: what came after it is not done any more.
    commit.seen.record.operations = Default::default();
    publish::record(commit, kept.checksum, 0, Some(synced))?;
    // For people; the restored document is there without it.
    let _ = events::record(&target, "restored", &json!({ "damaged_bytes": damaged_bytes }));
    let version = kept.version(commit.seen.record.published);
    Ok(Written { version, changed: true, replayed: false })
}

/// Copies a damaged document to `.damaged`, so that it can be looked at after somebody mended it by
/// hand. Best effort: the document itself is still there.
pub(super) fn set_aside(target: &Target) {
    let Ok(Some(content)) = Content::read(target, target.path()) else { return };
    let path = target.sidecar("damaged");
    if content.bytes.is_empty() || content.bytes.len() > ASIDE_BYTES_MAX {
        return;
    }
    if let Ok(file) = target.open_sidecar(&path) {
        let written = file.write_all_at(&content.bytes, 0);
        let _ = written.and_then(|()| file.set_len(content.bytes.len() as u64));
    }
}
