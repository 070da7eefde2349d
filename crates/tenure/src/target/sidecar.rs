//! Opening sidecars: regular files only, never through a symlink, as open to others as the target is
//! and not more (G13).
//!
//! One that is missing gets its name when it is as open as it shall be, unless somebody was faster: then theirs
//! is the sidecar. Whoever dies while making one leaves nothing ([`crate::fs::Fs::create_whole`]). Where a file
//! cannot be without a name, that leaves it closed to others.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle, Kind};

/// The file of the self-test.
pub(super) const PROBE: &str = "probe";
/// How often the directory of the sidecars is made anew for somebody who finds it gone.
const PREPARE_ATTEMPTS: u32 = 16;

impl Target {
    /// Opens a sidecar, made as open as the target is if it is missing.
    pub(crate) fn open_sidecar(&self, path: &Path) -> Result<Arc<dyn Handle>> {
        let mut attempts = PREPARE_ATTEMPTS;
        // A lock file of the caller's may be in a directory of its own, which is not ours to make.
        let is_ours = || path.parent() == Some(self.side());
        // It is opened while the directory is being prepared.
        let is_probe = || path.file_name() == Some(OsStr::new(PROBE));
        let unshared = Cell::new(false);
        let share = |made: &Arc<dyn Handle>| {
            let shared = self.share(made.as_ref(), self.is_lock(path));
            shared.inspect_err(|_| unshared.set(true))
        };
        let handle = loop {
            let opened = match self.fs.open(path, Access::ReadWrite) {
                Err(err) if err.kind() == io::ErrorKind::NotFound => {
                    self.fs.create_whole(path, 0o600, &share)
                }
                opened => opened,
            };
            match opened {
                Ok(handle) => break handle,
                Err(err) if unshared.get() => return Err(Error::io("set mode of", path, err)),
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {} // Somebody was faster.
                Err(err)
                    if err.kind() == io::ErrorKind::NotFound
                        && attempts > 0
                        && is_ours()
                        && !is_probe() =>
                {
                    // Somebody removed the directory since we looked, and another thread may be about to make
                    // it anew: whoever comes second finds it made.
                    attempts -= 1;
                    self.prepared.store(false, Ordering::Relaxed);
                    self.prepare()?;
                }
                Err(err) => return Err(self.refused(path, err)),
            }
        };
        let found = handle.stat().map_err(Self::failed("look at", path))?;
        if found.kind != Kind::File {
            let detail = "a sidecar must be a regular file";
            return Err(Error::new(ErrorKind::Invalid, "use sidecar", detail)
                .at(path)
                .hint("move it away; tenure never replaces it"));
        }
        Ok(handle)
    }

    fn refused(&self, path: &Path, err: io::Error) -> Error {
        if err.kind() == io::ErrorKind::PermissionDenied {
            return Error::io("open sidecar", path, err).hint(format!(
                "whoever may write {} needs read and write access here too",
                self.path().display()
            ));
        }
        if err.kind() == io::ErrorKind::NotFound {
            return Error::io("open sidecar", path, err).hint("create the directory first");
        }
        Error::io("open sidecar", path, err)
    }

    /// Whether a sidecar is a lock, and nothing of the target's content.
    fn is_lock(&self, path: &Path) -> bool {
        let locks = ["hold", "commit", "sync0", "sync1"];
        let theirs = self.lock_file.as_deref() == Some(path);
        theirs
            || locks.iter().any(|suffix| self.sidecar(suffix) == path)
            || ["floor", PROBE].iter().any(|name| path.file_name() == Some(OsStr::new(name)))
    }

    /// Gives a new sidecar the mode and group of the target, else of its directory (G13).
    fn share(&self, made: &dyn Handle, lock: bool) -> io::Result<()> {
        match self.fs.open(self.path(), Access::Read) {
            Ok(model) if model.stat().is_ok_and(|found| found.kind == Kind::File) => {
                made.copy_attributes(model.as_ref())?;
                // What it has now: where the group or the list could not be kept, that is less than the
                // model has. The owner of a read-only document may replace it, so he may lock it, too.
                let mode = made.stat()?.mode & 0o777;
                if mode & 0o600 == 0o600 { Ok(()) } else { made.set_mode(mode | 0o600) }
            }
            _ => {
                let mode = match self.fs.open(self.dir(), Access::Read) {
                    Ok(dir) => {
                        made.copy_attributes(dir.as_ref())?;
                        made.stat()?.mode
                    }
                    Err(_) => self.fs.stat(self.dir()).map_or(0o600, |found| found.mode),
                };
                // Who cannot make the target has no business with its locks: a lock that can be read
                // can be taken. And what has content is for its maker, until the target tells more.
                let (group, others) = (mode & 0o020 != 0, mode & 0o002 != 0);
                let lock = lock && made.stat()?.kind == Kind::File;
                made.set_mode(match (lock && group, lock && others) {
                    (false, false) => 0o600,
                    (true, false) => 0o660,
                    (false, true) => 0o606,
                    (true, true) => 0o666,
                })
            }
        }
    }
}
