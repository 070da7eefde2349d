//! The names of versions before `.good`, of a document that keeps more than one.
//!
//! Before a change overwrites `.good`, that version gets a second name, `.history.K`; K grows. See `history`.

use std::io;
use std::path::PathBuf;

use crate::file::target::Target;

/// Gives `.good`, which is about to be overwritten, a second name, and forgets the oldest. Under the
/// commit lock.
pub(super) fn keep(target: &Target, count: u64) {
    let good = target.sidecar("good");
    let mut kept = kept(target);
    let id = |path: &PathBuf| target.fs.stat(path).map(|found| found.id).ok();
    let newest = kept.last().cloned();
    if newest.as_ref().is_some_and(|(_, path)| id(path) == id(&good)) {
        return; // A change that died has done it.
    }
    let next = newest.map_or(1, |(number, _)| number.saturating_add(1));
    let path = target.sidecar(&format!("history.{next}"));
    // A link first, since it leaves `.good` in its place. Where there are none, `.good` is gone for a moment:
    // the version that it falls back from is synced, or under the temporary name.
    let named = match target.fs.link(&good, &path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => target.fs.rename(&good, &path),
        named => named,
    };
    if named.is_ok() {
        kept.push((next, path));
    }
    forget_older(target, &kept, count);
}

/// The kept versions by number, the oldest first.
pub(super) fn kept(target: &Target) -> Vec<(u64, PathBuf)> {
    let begin = format!("{}.history.", target.stem());
    let names = target.fs.list(target.side()).unwrap_or_default();
    let number = |name: &std::ffi::OsString| name.to_str()?.strip_prefix(&begin)?.parse().ok();
    let mut kept: Vec<(u64, PathBuf)> = names
        .iter()
        .filter_map(|name| number(name).map(|number| (number, target.side().join(name))))
        .collect();
    kept.sort_unstable();
    kept
}

/// Unlinks all but the newest `count`. A crash in it leaves some more; the next change removes them.
pub(super) fn forget_older(target: &Target, kept: &[(u64, PathBuf)], count: u64) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    for (_, path) in &kept[..kept.len().saturating_sub(count)] {
        let _ = target.fs.remove(path);
    }
}
