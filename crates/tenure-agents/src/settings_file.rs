//! Settings in a file: read, changed and replaced under the lock, with a copy of what was there.
//!
//! # Invariants
//!
//! 1. Of two installers that run at once, both changes are in the file: each reads and replaces it under the
//!    lock of the target. If a program without the lock changes the file meanwhile, the change is computed anew.
//! 2. The file is replaced as a whole, and keeps its mode. A symlink stays, its target is replaced.
//! 3. What was there before a change is in `FILE.tenure-backup`, with the mode of the file, unless the change says
//!    that an older copy is the one to keep.
//!
//! A crash leaves the old file or the new one, and perhaps a copy of what the file still is.

use std::io;
use std::path::{Path, PathBuf};

use tenure::blob::Blob;
use tenure::file::FileOptions;
use tenure::{Error, ErrorKind, Lock, LockGuard, LockOptions, Result, Wait, WriteOptions};

/// What a copy of an earlier text has behind the name of the file.
const BACKUP: &str = ".tenure-backup";
/// How often a change is computed before it is given up, since another program keeps changing the file.
const TRIES: u32 = 10;

/// What a change of a settings file did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The file, after symlinks were followed.
    pub file: PathBuf,
    /// The text before; `None` if there was no file.
    pub old: Option<String>,
    /// The new text; `None` if nothing had to be changed.
    pub new: Option<String>,
    /// Where the text before the change is.
    pub backup: Option<PathBuf>,
}

/// What a change is computed from.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The text of the file; empty if there is none.
    pub text: &'a str,
    /// The copy that an earlier change has kept.
    pub backup: Option<&'a str>,
}

/// A change of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The new text; empty removes the file.
    pub text: String,
    /// What becomes of the copy.
    pub backup: Backup,
}

/// What becomes of the copy of an earlier text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backup {
    /// The present text is copied.
    Take,
    /// An older copy stays, if there is one.
    Keep,
    /// The copy is removed: it is the file again.
    Remove,
}

impl Plan {
    /// A change that keeps a copy of the present text.
    pub fn with_copy(text: String) -> Self {
        Self { text, backup: Backup::Take }
    }
}

/// Changes the file as `compute` says; `None` leaves it as it is. With `dry_run` nothing is written.
pub fn change(
    file: &Path,
    wait: Wait,
    dry_run: bool,
    compute: impl Fn(Found<'_>) -> Result<Option<Plan>>,
) -> Result<Outcome> {
    let lock = Lock::open(file)?;
    let earlier = |lock: &Lock| read(&beside(lock.path(), BACKUP)).ok().flatten();
    let (_, planned) = plan(lock.path(), earlier(&lock).as_deref(), &compute)?;
    if dry_run || planned.new.is_none() {
        return Ok(planned);
    }
    if let Some(dir) = file.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(|err| Error::io("create", dir, err))?;
    }
    let lock = Lock::open(file)?; // Its directory may have been missing.
    let label = "change settings".to_owned();
    let held = lock.acquire(&LockOptions { wait, label, ..LockOptions::default() })?;
    let backup = beside(lock.path(), BACKUP);
    let (has_backup, earlier) = (backup.exists(), earlier(&lock));
    let mut tries = TRIES;
    let (kept, mut outcome) = loop {
        let (kept, outcome) = plan(lock.path(), earlier.as_deref(), &compute)?;
        let Some(new) = &outcome.new else {
            held.release()?;
            return Ok(outcome);
        };
        if kept == Backup::Take || (kept == Backup::Keep && !has_backup) {
            copy(outcome.old.as_deref(), lock.path(), &backup)?;
        }
        let old = outcome.old.as_deref();
        let done = if new.is_empty() {
            remove(lock.path(), old, &held)
        } else {
            put(lock.path(), new, lock.path(), Some(held.publish_fence()), |found| {
                unchanged(lock.path(), old, found)
            })
        };
        match done {
            Err(error) if error.kind() == ErrorKind::Conflict && tries > 1 => tries -= 1,
            done => {
                done?;
                break (kept, outcome);
            }
        }
    };
    if kept == Backup::Remove {
        // A crash before this leaves a copy of what the file is.
        let _ = std::fs::remove_file(&backup);
    }
    outcome.backup = Some(backup).filter(|path| path.exists());
    held.release()?;
    Ok(outcome)
}

/// Makes the copy of the text before a change. Without one there is no copy, not even of an earlier file.
fn copy(old: Option<&str>, file: &Path, backup: &Path) -> Result<()> {
    // An earlier copy may have another mode. A crash here loses nothing: the file is as it was.
    match std::fs::remove_file(backup) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("replace", backup, err));
        }
        _ => {}
    }
    old.map_or(Ok(()), |old| put(backup, old, file, None, |_| Ok(())))
}

/// Removes the file if it still has this text.
fn remove(file: &Path, old: Option<&str>, held: &LockGuard) -> Result<()> {
    held.verify()?;
    unchanged(file, old, Blob::open(file)?.read()?.as_ref().map(|found| found.bytes.as_slice()))?;
    // A removal has no condition: what a program without the lock writes in this moment is lost. A crash after it
    // leaves the copy.
    std::fs::remove_file(file).map_err(|err| Error::io("remove", file, err))
}

/// Refuses a file that another program has changed.
fn unchanged(file: &Path, old: Option<&str>, found: Option<&[u8]>) -> Result<()> {
    if found == old.map(str::as_bytes) {
        return Ok(());
    }
    let detail = "another program keeps changing it";
    let error = Error::new(ErrorKind::Conflict, "change settings", detail).at(file);
    Err(error.hint("end that program, and try again"))
}

/// Gives `target` this text, if `check` accepts what is there. If it is new, it gets the mode of `model`, or else what
/// its directory allows.
fn put(
    target: &Path,
    text: &str,
    model: &Path,
    fence: Option<tenure::Fence>,
    check: impl Fn(Option<&[u8]>) -> Result<()>,
) -> Result<()> {
    let mode = |path: Option<&Path>| {
        path.and_then(|path| std::fs::metadata(path).ok()).map(|found| mode_of(&found))
    };
    let new_mode = mode(Some(model)).or_else(|| mode(target.parent())).unwrap_or(0o600) & 0o666;
    let file = FileOptions { new_mode, ..FileOptions::default() };
    let options = WriteOptions { fence, file, ..WriteOptions::default() };
    let new = |found: Option<&[u8]>| check(found).map(|()| Some(text.as_bytes().to_vec()));
    Blob::open(target)?.update(&options, new).map(drop)
}

#[cfg(unix)]
fn mode_of(found: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&found.permissions())
}

#[cfg(not(unix))]
fn mode_of(_found: &std::fs::Metadata) -> u32 {
    0o644
}

/// What becomes of the copy, and of the file.
fn plan(
    file: &Path,
    backup: Option<&str>,
    compute: impl Fn(Found<'_>) -> Result<Option<Plan>>,
) -> Result<(Backup, Outcome)> {
    let old = read(file)?;
    let found = Found { text: old.as_deref().unwrap_or_default(), backup };
    let plan = compute(found).map_err(|error| error.at(file))?;
    let kept = plan.as_ref().map_or(Backup::Keep, |plan| plan.backup);
    let new = plan.map(|plan| plan.text);
    Ok((kept, Outcome { file: file.to_path_buf(), old, new, backup: None }))
}

fn read(file: &Path) -> Result<Option<String>> {
    // A pipe would be waited for.
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        let detail = "it is not a regular file";
        return Err(Error::new(ErrorKind::Invalid, "change settings", detail).at(file));
    }
    let Some(found) = Blob::open(file)?.read()? else { return Ok(None) };
    String::from_utf8(found.bytes).map(Some).map_err(|_| {
        let detail = "they are not UTF-8";
        Error::new(ErrorKind::Invalid, "change settings", detail).at(file)
    })
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use tenure::{Value, json};

    use super::*;
    use crate::settings::{Change, changed};

    fn run(file: &Path, patch: &Value, what: Change) -> Result<Outcome> {
        change(file, Wait::default(), false, |found| {
            Ok(changed(found.text, patch, what)?.map(Plan::with_copy))
        })
    }

    #[test]
    fn a_change_keeps_a_copy_and_the_mode() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sub/settings.json");
        let outcome = run(&file, &json!({ "a": 1 }), Change::Merge).unwrap();
        assert!(outcome.old.is_none() && outcome.backup.is_none());
        let before = std::fs::read_to_string(&file).unwrap();
        let outcome = run(&file, &json!({ "b": 2 }), Change::Merge).unwrap();
        assert_eq!(std::fs::read_to_string(outcome.backup.unwrap()).unwrap(), before);
        assert_eq!(run(&file, &json!({ "b": 2 }), Change::Merge).unwrap().new, None);
        run(&file, &json!({ "b": 2 }), Change::Remove).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_the_copy_gets_the_mode_that_the_file_has_now() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("dotfiles.json"), dir.path().join("settings.json"));
        File::create(&file).unwrap().write_all(b"{}").unwrap();
        std::os::unix::fs::symlink("dotfiles.json", &link).unwrap();
        for (n, mode) in [(1, 0o644), (2, 0o600), (3, 0o640)] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            let outcome = run(&link, &json!({ "n": n }), Change::Merge).unwrap();
            for changed in [file.clone(), outcome.backup.unwrap()] {
                let found = std::fs::metadata(&changed).unwrap().permissions().mode();
                assert_eq!(found & 0o777, mode, "{}", changed.display());
            }
        }
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn settings_that_are_no_json_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("settings.json");
        for bytes in [b"nonsense".as_slice(), b"\xff\xfe", b"{\"a\": 1"] {
            File::create(&file).unwrap().write_all(bytes).unwrap();
            assert_eq!(
                run(&file, &json!({ "b": 2 }), Change::Merge).unwrap_err().kind(),
                ErrorKind::Invalid
            );
            assert_eq!(std::fs::read(&file).unwrap(), bytes);
        }
        assert!(!beside(&file, BACKUP).exists());
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let outcome = run(dir.path(), &json!({ "b": 2 }), Change::Merge);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Invalid);
    }

    /// A program that does not know our lock, and writes while the change is computed.
    #[test]
    fn what_a_program_without_the_lock_writes_is_not_lost() {
        let theirs = |file: &Path, n: u32| {
            File::create(file)
                .unwrap()
                .write_all(format!("{{\"theirs\":{n}}}").as_bytes())
                .unwrap();
        };
        let dir = tempfile::tempdir().unwrap();
        for (name, writes, text) in [("a", 3, ""), ("b", 3, "{\"ours\":1}"), ("c", 1000, "")] {
            let file = dir.path().join(name);
            theirs(&file, 0);
            let calls = std::cell::Cell::new(0);
            let outcome = change(&file, Wait::default(), false, |found| {
                calls.set(calls.get() + 1);
                if calls.get() <= writes {
                    theirs(&file, calls.get());
                }
                Ok(Some(Plan::with_copy(if text.is_empty() {
                    String::new()
                } else {
                    found.text.replace("theirs", "ours")
                })))
            });
            let now = std::fs::read_to_string(&file).ok();
            match name {
                // The removal and the change see what was written last.
                "a" => assert_eq!((now, calls.get()), (None, 4)),
                "b" => assert_eq!(now.as_deref(), Some("{\"ours\":3}")),
                // It gives up, and leaves the other one's text.
                _ => {
                    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Conflict);
                    assert_eq!(now, Some(format!("{{\"theirs\":{}}}", calls.get())));
                    continue;
                }
            }
            let backup = std::fs::read_to_string(outcome.unwrap().backup.unwrap()).unwrap();
            assert_eq!(backup, "{\"theirs\":3}");
        }
    }

    #[test]
    fn a_dry_run_touches_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sub/settings.json");
        let outcome = change(&file, Wait::No, true, |_| Ok(Some(Plan::with_copy("{}".to_owned()))));
        let outcome = outcome.unwrap();
        assert!(outcome.new.is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
