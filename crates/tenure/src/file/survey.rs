//! Who holds what below a directory: everything that can be seen, and the names of what cannot.
//!
//! # Invariants
//!
//! 1. A target that is closed to us hides none of the others.
//! 2. What could not be read is reported, never left out silently. What disappeared meanwhile is
//!    not reported.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::status::look;
use crate::file::target::Target;
use crate::fs::{Fs, Kind, is_side_dir};
use crate::results::{Survey, Unseen};
use crate::sys::Locks;

/// Looks at every target below a directory. Symlinks are not followed.
pub(crate) fn survey(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Survey> {
    let dir = fs.resolve(dir).map_err(Target::failed("resolve", dir))?;
    let locks = Locks::now();
    let mut survey = Survey::default();
    let mut todo = vec![dir];
    while let Some(dir) = todo.pop() {
        let Some(names) = survey.list(fs, &dir) else { continue };
        for name in &names {
            let path = dir.join(name);
            match fs.stat(&path).map(|found| found.kind) {
                Ok(Kind::Directory) if is_side_dir(name) => {
                    survey.look_beside(fs, &path, (&dir, &names), &locks);
                }
                Ok(Kind::Directory) => todo.push(path),
                Ok(_) => {}
                // One unreadable name says little about the others, unless the directory may not be
                // entered.
                Err(err) => {
                    survey.miss_directory(&dir, "look into", err);
                }
            }
        }
    }
    survey.targets.sort_by(|one, other| one.path.cmp(&other.path));
    survey.unseen.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(survey)
}

impl Survey {
    /// The names in a directory; `None` if it cannot be read.
    fn list(&mut self, fs: &Arc<dyn Fs>, dir: &Path) -> Option<Vec<OsString>> {
        match fs.list(dir) {
            Ok(names) => Some(names),
            Err(err) => {
                self.miss_directory(dir, "list", err);
                None
            }
        }
    }

    /// Reports a directory that is closed to us; `false` if something merely disappeared.
    fn miss_directory(&mut self, dir: &Path, action: &'static str, err: io::Error) -> bool {
        if err.kind() == io::ErrorKind::NotFound {
            return false;
        }
        if !self.unseen.iter().any(|unseen| unseen.path == dir) {
            let (path, error) = (dir.to_path_buf(), Error::io(action, dir, err));
            self.unseen.push(Unseen { path, error, is_directory: true });
        }
        true
    }

    /// Looks at the targets that have a record in `side`, among the `names` in `dir`.
    fn look_beside(
        &mut self,
        fs: &Arc<dyn Fs>,
        side: &Path,
        (dir, names): (&Path, &[OsString]),
        locks: &Locks,
    ) {
        let Some(records) = self.list(fs, side) else { return };
        for (name, recorded) in named(&records, names) {
            let path = dir.join(name);
            let target = match Target::resolve_in(fs, &path, side) {
                // A symlink beside the data leads elsewhere, and the file of one user is not another's.
                Ok(Some(target)) => target,
                Err(error) if recorded && error.kind() != ErrorKind::NotFound => {
                    self.unseen.push(Unseen { path, error, is_directory: false });
                    continue;
                }
                _ => continue,
            };
            if let Err(err) = fs.stat(&target.sidecar("commit")) {
                if self.miss_directory(side, "look into", err) {
                    return;
                }
                continue; // Most names have no record.
            }
            match look(&target, locks) {
                Ok(status) => self.targets.push(status),
                Err(error) => self.unseen.push(Unseen { path, error, is_directory: false }),
            }
        }
    }
}

/// The names of targets that may have a record among `records`. A name that cannot be used as a
/// stem is found by its checksum among the names beside it: whether those have a record is not
/// known.
fn named<'a>(records: &'a [OsString], names: &'a [OsString]) -> Vec<(&'a OsStr, bool)> {
    let stems: Vec<&str> = records
        .iter()
        .filter_map(|name| name.to_str().and_then(|name| name.strip_suffix(".commit")))
        .collect();
    let hashed = stems.iter().any(|stem| stem.starts_with('~'));
    let odd = names.iter().map(OsString::as_os_str).filter(|name| {
        hashed && name.to_str().is_none_or(|name| !stems.contains(&name)) && !is_side_dir(name)
    });
    let plain = stems.iter().filter(|stem| !stem.starts_with('~')).map(|stem| OsStr::new(*stem));
    plain.map(|name| (name, true)).chain(odd.map(|name| (name, false))).collect()
}
