//! What dead operations and repairs left in `.tenure/`.
//!
//! A temporary file belongs to a change of its target, which works under that target's lock. So under
//! the lock, taken without waiting, it is nobody's. Copies that people may want are only reported, and so
//! is the temporary file of a document: it can be the last version that was synced, or one that nobody has
//! read, and the next change of the document knows which.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tenure::fs::disk;
use tenure::{HoldState, Lock, LockOptions, Status, Wait};

use crate::commands::finding::Finding;

/// Directories that are never looked into: large, and never with targets of ours.
const SKIPPED: [&str; 2] = ["node_modules", ".git"];

/// The number in the name of a document's temporary file, which is always the same.
const OF_A_DOCUMENT: &str = "0000000000000000";

/// A file that is there and has no present use.
#[derive(Debug)]
pub(super) struct Leftover {
    path: PathBuf,
    target: PathBuf,
    kind: Kind,
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
    /// The bytes of a document that could not be parsed.
    DamagedCopy,
    /// Lines that a crash tore.
    TornLines,
    /// The file that a compaction replaced.
    Displaced,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Temp | Self::Undecided => "temp",
            Self::DamagedCopy => "damaged",
            Self::TornLines => "torn",
            Self::Displaced => "displaced",
        }
    }

    /// The kind of a sidecar and the name of its target.
    fn of(name: &str) -> Option<(Self, &str)> {
        if let Some((target, hex)) = name.rsplit_once(".tmp.") {
            let is_temp = hex.len() == 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
            let kind = if hex == OF_A_DOCUMENT { Self::Undecided } else { Self::Temp };
            return is_temp.then_some((kind, target));
        }
        // The newest has the plain name, those before it a number.
        let numbered = name.rsplit_once('.').filter(|(name, number)| {
            name.ends_with(".damaged") && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        let name = numbered.map_or(name, |(name, _)| name);
        let (target, end) = name.rsplit_once('.')?;
        let kind = match end {
            "damaged" => Self::DamagedCopy,
            "torn" => Self::TornLines,
            "displaced" => Self::Displaced,
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
        format!("{:<12} {}: {state}", self.kind.name(), path.escape_debug())
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
            // One that went away meanwhile is nobody's problem any more.
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
        let Some(side) =
            path.parent().filter(|side| side.file_name().is_some_and(|n| n == ".tenure"))
        else {
            continue;
        };
        let name = path.file_name().and_then(|name| name.to_str());
        let Some((kind, target)) = name.and_then(Kind::of) else { continue };
        let Some(dir) = side.parent() else { continue };
        let target = dir.join(target);
        let status = targets.iter().find(|status| status.path == target);
        let kept = match (kind, status.map(|status| status.state)) {
            (Kind::Temp, Some(HoldState::Free | HoldState::Abandoned)) => None,
            (Kind::Temp, Some(_)) => Some("kept: its target is held".to_owned()),
            (Kind::Temp, None) => Some("kept: its target is not known".to_owned()),
            (Kind::Undecided, _) => {
                Some("kept: the next change of the document decides about it".to_owned())
            }
            _ => Some("kept: somebody may want to look at it".to_owned()),
        };
        found.push(Leftover { path: path.clone(), target, kind, kept, removed: false });
    }
    found
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
        assert_eq!(Kind::of("a.jsonl.torn"), Some((Kind::TornLines, "a.jsonl")));
        for name in ["a.json.hold", "a.json.commit", "a.tmp.xyz", "a.tmp.0123", "floor", "a.good"] {
            assert_eq!(Kind::of(name), None, "{name}");
        }
    }
}
