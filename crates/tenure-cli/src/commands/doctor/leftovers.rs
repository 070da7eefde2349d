//! What dead operations and repairs left beside the data, and locks of names that have no file.
//!
//! A temporary file belongs to a change of its target, which works under that target's lock. So under
//! the lock, taken without waiting, no process uses it. Two kinds are not removed that way:
//!
//! - of a document: it can be the last version that was synced, or one that was never read, and the next change
//!   of the document knows which;
//! - of a journal: it can be all of its entries, if a rotation died before it named them. A repair of the
//!   journal knows, and removes what is not needed.
//!
//! Copies that people may want are only reported.

use std::io;
use std::path::{Path, PathBuf};

use tenure::disk;
use tenure::fs::is_side_dir;
use tenure::status::{HoldState, Status};
use tenure::{Journal, Lock, LockOptions, Value, Wait, WriteOptions, json};

use crate::commands::finding::Finding;

/// Directories that are skipped: large, and never with targets of ours.
const SKIPPED: [&str; 2] = ["node_modules", ".git"];

/// The number in the name of a document's temporary file, which is always the same.
const OF_A_DOCUMENT: &str = "0000000000000000";

/// A file that has no present use.
#[derive(Debug)]
pub(super) struct Leftover {
    path: PathBuf,
    target: PathBuf,
    kind: Kind,
    /// How many there are: locks are counted by directory.
    count: usize,
    /// Why `--fix` leaves it alone; `None` if it may be removed.
    kept: Option<String>,
    removed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of a change that died.
    Temp,
    /// The same, of a document.
    Undecided,
    /// The same, of a journal.
    OfJournal,
    /// The bytes of a document that could not be parsed, or of a journal that are not what was written.
    DamagedCopy,
    /// The file that a compaction or a new header replaced.
    Replaced,
    /// An archive that could not get its name. Readers find it here.
    Archive,
    /// Locks that are provably unused, of names without a file.
    UnusedLocks,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Temp | Self::Undecided | Self::OfJournal => "temp",
            Self::DamagedCopy => "damaged",
            Self::Replaced => "replaced",
            Self::Archive => "archive",
            Self::UnusedLocks => "locks",
        }
    }

    /// The kind of a sidecar and the name of its target.
    fn of(name: &str) -> Option<(Self, &str)> {
        if let Some((target, hex)) = name.rsplit_once(".tmp.") {
            let is_temp = hex.len() == 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            let kind = if hex == OF_A_DOCUMENT { Self::Undecided } else { Self::Temp };
            return is_temp.then_some((kind, target));
        }
        // The newest has the plain name, those before it a number; an archive always has one.
        let numbered = name.rsplit_once('.').filter(|(_, number)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        let plain = numbered.map_or(name, |(name, _)| name);
        let (target, end) = plain.rsplit_once('.')?;
        let kind = match end {
            "damaged" => Self::DamagedCopy,
            "replaced" => Self::Replaced,
            "archive" if numbered.is_some() => Self::Archive,
            _ => return None,
        };
        Some((kind, target))
    }
}

impl Leftover {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "path": self.path.to_string_lossy(),
            "target": self.target.to_string_lossy(),
            "kind": self.kind.name(),
            "count": self.count,
            "removable": self.kept.is_none(),
            "why": self.kept,
            "removed": self.removed,
        })
    }

    pub(super) fn line(&self) -> String {
        let state = match (&self.kept, self.removed) {
            (_, true) => "removed",
            (None, false) => "can be removed with --fix",
            (Some(why), false) => why,
        };
        let path = self.path.display().to_string();
        let what = match self.kind {
            Kind::UnusedLocks => format!("{} unused, ", self.count),
            _ => String::new(),
        };
        format!("{:<12} {}: {what}{state}", self.kind.name(), path.escape_debug())
    }
}

/// Every file below `dir`, sidecars included, and the directories that could not be listed; symlinks
/// are not followed.
pub(super) fn walk(dir: &Path) -> (Vec<PathBuf>, Vec<Finding>) {
    let (mut files, mut unseen) = (Vec::new(), Vec::new());
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        let listed = std::fs::read_dir(&dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = listed.unwrap_or_else(|err| {
            // One that went away meanwhile is no finding.
            if err.kind() != io::ErrorKind::NotFound {
                unseen.push(Finding { path: dir, why: err.to_string() });
            }
            Vec::new()
        });
        for entry in entries {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                todo.push(entry.path());
            }
            files.push(entry.path());
        }
    }
    files.sort();
    (files, unseen)
}

pub(super) fn find(files: &[PathBuf], targets: &[Status]) -> Vec<Leftover> {
    let mut found = Vec::new();
    for path in files {
        let Some(side) = path.parent().filter(|side| side.file_name().is_some_and(is_side_dir))
        else {
            continue;
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((kind, target)) = name.and_then(Kind::of) else { continue };
        let Some(dir) = side.parent() else { continue };
        let is_journal = side.join(format!("{target}.log")).exists();
        let kind = if kind == Kind::Temp && is_journal { Kind::OfJournal } else { kind };
        let target = dir.join(target);
        let status = targets.iter().find(|status| status.path == target);
        let kept = match (kind, status.map(|status| status.state)) {
            (Kind::Temp | Kind::OfJournal, Some(HoldState::Free | HoldState::Abandoned)) => None,
            (Kind::Temp | Kind::OfJournal, Some(_)) => Some("kept: its target is held"),
            (Kind::Temp | Kind::OfJournal, None) => Some("kept: its target is not known"),
            (Kind::Undecided, _) => Some("kept: the next change of the document decides about it"),
            (Kind::Replaced, _) => Some("kept: the journal before its last compaction or header"),
            (Kind::Archive, _) => {
                Some("kept: an archive that could not get its name; readers use it")
            }
            (Kind::DamagedCopy | Kind::UnusedLocks, _) => {
                Some("kept: a person may want to look at it")
            }
        };
        let kept = kept.map(str::to_owned);
        found.push(Leftover { path: path.clone(), target, kind, count: 1, kept, removed: false });
    }
    found
}

/// The unused locks in each directory among `files`; with `fix` they are removed. What cannot be looked at
/// is in the report already.
pub(super) fn unused_locks(files: &[PathBuf], fix: bool) -> Vec<Leftover> {
    let sides = files.iter().filter(|path| path.file_name().is_some_and(is_side_dir));
    let mut dirs: Vec<_> = sides.filter_map(|side| side.parent()).collect();
    dirs.dedup();
    let found = |dir: &Path| {
        let count = tenure::file::sweep(dir, fix).map_or(0, |unused| unused.len());
        let (path, target) = (dir.to_path_buf(), dir.to_path_buf());
        let kind = Kind::UnusedLocks;
        (count > 0).then_some(Leftover { path, target, kind, count, kept: None, removed: fix })
    };
    dirs.into_iter().filter_map(found).collect()
}

/// Removes what may be removed, each under the lock of its target.
pub(super) fn remove(leftovers: &mut [Leftover]) {
    for leftover in leftovers.iter_mut().filter(|leftover| leftover.kept.is_none()) {
        match remove_one(leftover) {
            Ok(()) => leftover.removed = true,
            Err(why) => leftover.kept = Some(format!("kept: {why}")),
        }
    }
}

fn remove_one(leftover: &Leftover) -> Result<(), String> {
    if leftover.kind == Kind::OfJournal {
        let options = WriteOptions { wait: Wait::No, ..WriteOptions::default() };
        let repaired = Journal::open(&leftover.target).and_then(|journal| journal.repair(&options));
        repaired.map_err(|error| error.to_string())?;
        let used = leftover.path.exists();
        return if used { Err("the journal needs it".to_owned()) } else { Ok(()) };
    }
    let options =
        LockOptions { wait: Wait::No, label: "doctor --fix".into(), ..LockOptions::default() };
    let guard = Lock::open(&leftover.target)
        .and_then(|lock| lock.acquire(&options))
        .map_err(|error| error.to_string())?;
    disk().remove(&leftover.path).map_err(|err| err.to_string())?;
    guard.release().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_left_over() {
        assert_eq!(Kind::of("a.json.tmp.0123456789abcdef"), Some((Kind::Temp, "a.json")));
        assert_eq!(Kind::of("a.json.tmp.0000000000000000"), Some((Kind::Undecided, "a.json")));
        assert_eq!(Kind::of("a.json.damaged"), Some((Kind::DamagedCopy, "a.json")));
        assert_eq!(Kind::of("a.json.damaged.12"), Some((Kind::DamagedCopy, "a.json")));
        assert_eq!(Kind::of("a.jsonl.replaced.17"), Some((Kind::Replaced, "a.jsonl")));
        assert_eq!(Kind::of("a.jsonl.replaced.2"), Some((Kind::Replaced, "a.jsonl")));
        assert_eq!(Kind::of("a.jsonl.archive.7"), Some((Kind::Archive, "a.jsonl")));
        let others = [
            "a.hold",
            "a.commit",
            "a.tmp.xyz",
            "a.tmp.0123",
            "floor",
            "a.good",
            "a.log",
            "a.index",
        ];
        for name in others.iter().chain(&["a.index.3", "a.ops", "a.archive", "a.replaced."]) {
            assert_eq!(Kind::of(name), None, "{name}");
        }
    }
}
