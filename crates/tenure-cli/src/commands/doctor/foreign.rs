//! Lock and state files of other systems, recognised and explained. Never touched: only their owner
//! knows whether they mean something.

use std::path::{Path, PathBuf};

use tenure::fs::is_side_dir;
use tenure::{Value, json};

/// A lock or temporary file that is not ours.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    system: &'static str,
    pub(super) explanation: String,
}

impl Found {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "path": self.path.to_string_lossy(),
            "system": self.system,
            "explanation": self.explanation,
        })
    }
}

/// What is known among `files`.
pub(super) fn find(files: &[PathBuf]) -> Vec<Found> {
    files
        .iter()
        .filter(|path| !path.components().any(|part| is_side_dir(part.as_os_str())))
        .filter_map(|path| {
            let (system, explanation) = recognise(path)?;
            Some(Found { path: path.clone(), system, explanation })
        })
        .collect()
}

fn recognise(path: &Path) -> Option<(&'static str, String)> {
    let name = path.file_name()?.to_str()?;
    if path.is_dir() {
        let lock = name.strip_suffix(".lock")?;
        let text = format!(
            "a directory as a lock (proper-lockfile) of `{lock}`; stale by age, so a paused holder loses it"
        );
        return Some(("proper-lockfile", text));
    }
    if name == "changes.journal.lock" {
        let pid = first_lines(path).first().and_then(|line| line.parse::<u32>().ok());
        return Some(("codegraph", format!("its lock, {}", owner(pid))));
    }
    if name.starts_with("changes.journal.lock.") && is_tmp(name) {
        return Some(("codegraph", "an unfinished steal of its lock".to_owned()));
    }
    if name.ends_with(".jsonl.lock") {
        let record = read(path).and_then(|bytes| json::parse(&bytes).ok());
        let pid = record.and_then(|record| record["pid"].as_u64());
        let pid = pid.and_then(|pid| u32::try_from(pid).ok());
        return Some(("openclaw", format!("a session write lock, {}", owner(pid))));
    }
    if name.starts_with("state-") && name.contains(".json.tmp.") {
        return Some(("ecc", "a GateGuard state that was never renamed into place".to_owned()));
    }
    let in_gateguard = path.components().any(|part| part.as_os_str() == ".gateguard");
    if in_gateguard && (name.contains(".claim.") || name.ends_with(".recovery")) {
        return Some(("ecc", "a claim on or a recovery of a GateGuard lock".to_owned()));
    }
    if name.ends_with(".json.tmp") {
        let text = "a save that was never renamed into place; two writers share this name";
        return Some(("cli-anything", text.to_owned()));
    }
    None
}

fn is_tmp(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "tmp")
}

fn owner(pid: Option<u32>) -> String {
    match pid {
        None => "with no owner in it; other tools take it for stale".to_owned(),
        Some(pid) => match is_running(pid) {
            Some(true) => format!("of pid {pid}, which runs (or another process got its number)"),
            Some(false) => {
                format!("of pid {pid}, which does not run here; its system will steal it")
            }
            None => format!("of pid {pid}"),
        },
    }
}

fn is_running(pid: u32) -> Option<bool> {
    let processes = Path::new("/proc/self");
    processes.exists().then(|| Path::new("/proc").join(pid.to_string()).exists())
}

fn first_lines(path: &Path) -> Vec<String> {
    let text = read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text.unwrap_or_default().lines().take(2).map(str::to_owned).collect()
}

/// Lock files are small; anything else is not read.
fn read(path: &Path) -> Option<Vec<u8>> {
    const BYTES_MAX: u64 = 64 * 1024;
    let found = std::fs::symlink_metadata(path).ok()?;
    (found.is_file() && found.len() <= BYTES_MAX).then(|| std::fs::read(path).ok())?
}
