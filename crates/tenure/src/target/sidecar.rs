//! Opening sidecars: regular files only, never through a symlink, as open to others as the target is
//! and not more (G13).
//!
//! # How one is made
//!
//! A lock, and a journal's log: under a temporary name. It gets its own when it is as open as it shall be, unless
//! somebody was faster: then theirs is the sidecar. Whoever dies before that has locked nobody out, and leaves a
//! file of a name that every maker uses. So only one makes any in a directory at a time, who has the directory
//! itself locked; what it finds under that name is of a dead one, and is removed. Where that cannot be (no locks
//! on directories, a maker that was stopped, names that cannot be moved), and the other sidecars: in its place.
//! Then the death of its maker leaves it closed to others.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle, Kind, Mode};
use crate::wait;

/// The file of the self-test.
pub(super) const PROBE: &str = "probe";
/// How often the directory of the sidecars is made anew for somebody who finds it gone.
const PREPARE_ATTEMPTS: u32 = 16;
/// The number of the temporary name of a sidecar that is being made. Those below are of documents and journals.
const NEW_TEMP: u64 = 5;
/// Making one takes some microseconds. Others who do are waited for that often, for so long.
const TURN_LOOKS: u32 = 20;
const TURN_PAUSE: Duration = Duration::from_millis(1);

const OPEN: &str = "open sidecar";
/// What failed while a sidecar was made.
type Failed = (&'static str, io::Error);

impl Target {
    /// Opens a sidecar, made as open as the target is if it is missing.
    pub(crate) fn open_sidecar(&self, path: &Path) -> Result<Arc<dyn Handle>> {
        let mut attempts = PREPARE_ATTEMPTS;
        // A lock file of the caller's may be in a directory of its own, which is not ours to make.
        let is_ours = path.parent() == Some(self.side());
        // It is opened while the directory is being prepared.
        let is_probe = path.file_name() == Some(OsStr::new(PROBE));
        let handle = loop {
            let err = match self.fs.open(path, Access::ReadWrite) {
                Ok(opened) => break opened,
                Err(err) => err,
            };
            let made = match err.kind() {
                io::ErrorKind::NotFound => self.make_sidecar(path),
                // Its maker died before it was ours to use.
                io::ErrorKind::PermissionDenied if is_ours && self.fs.open_up(path).is_ok() => {
                    let found = self.fs.open(path, Access::ReadWrite);
                    let found = found.map_err(|err| (OPEN, err));
                    found.and_then(|found| self.shared(found, path)).map(Some)
                }
                _ => Err((OPEN, err)),
            };
            match made {
                Ok(Some(made)) => break made,
                Ok(None) => {}
                Err((OPEN, err)) if err.kind() == io::ErrorKind::NotFound => {
                    if attempts == 0 || !is_ours || is_probe {
                        return Err(self.refused(path, err));
                    }
                    // Somebody removed the directory since we looked, and another thread may be about to make
                    // it anew: whoever comes second finds it made.
                    attempts -= 1;
                    self.prepared.store(false, Ordering::Relaxed);
                    self.prepare()?;
                }
                Err((OPEN, err)) => return Err(self.refused(path, err)),
                Err((action, err)) => return Err(Error::io(action, path, err)),
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

    /// Makes a sidecar that is missing; `None` if there is one now, by us or by somebody who was faster.
    fn make_sidecar(&self, path: &Path) -> std::result::Result<Option<Arc<dyn Handle>>, Failed> {
        if let Some(directory) = self.turn_to_make(path) {
            let temp = self.sidecar(&format!("tmp.{NEW_TEMP:016x}"));
            let made = match self.make_at(&temp, path) {
                Err((_, err)) if err.kind() == io::ErrorKind::AlreadyExists => {
                    let _ = self.fs.remove(&temp);
                    self.make_at(&temp, path)
                }
                made => made,
            };
            let named = made.is_ok().then(|| self.fs.rename_new(&temp, path));
            if !matches!(named, Some(Ok(()))) {
                let _ = self.fs.remove(&temp); // If it stays, the next maker removes it.
            }
            // Closing would do, but only once every copy of the descriptor is gone.
            let _ = directory.unlock();
            match named {
                Some(Ok(())) => return Ok(None),
                Some(Err(err)) if err.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                _ => {}
            }
        }
        match self.make_at(path, path) {
            Err((_, err)) if err.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            made => made.map(Some),
        }
    }

    /// The lock on the directory, of whoever makes a sidecar there; `None` if it is made in its place.
    fn turn_to_make(&self, path: &Path) -> Option<Arc<dyn Handle>> {
        let name = path.file_name().filter(|_| path.parent() == Some(self.side()))?;
        // What every call needs is made anew by the next one, which finds what a dead one left. The rest is made
        // under the commit lock.
        let is_needed = self.is_lock(path) || path == self.sidecar("wal");
        // Machines do not exclude each other.
        if self.allow_network || !is_needed || !self.owns(name) {
            return None;
        }
        // Where modes mean nothing, directories are not opened.
        let directory = self.fs.open(self.side(), Access::Read).ok()?;
        for _ in 0..TURN_LOOKS {
            if directory.try_lock(Mode::Exclusive).ok()? {
                return Some(directory);
            }
            wait::pause(TURN_PAUSE);
        }
        None
    }

    /// Makes the sidecar `path` under the name `at`: closed to others first, then as open as the target is.
    fn make_at(&self, at: &Path, path: &Path) -> std::result::Result<Arc<dyn Handle>, Failed> {
        let made = self.fs.open(at, Access::CreateNew(0o600));
        self.shared(made.map_err(|err| (OPEN, err))?, path)
    }

    fn shared(
        &self,
        made: Arc<dyn Handle>,
        path: &Path,
    ) -> std::result::Result<Arc<dyn Handle>, Failed> {
        let shared = self.share(made.as_ref(), self.is_lock(path));
        shared.map(|()| made).map_err(|err| ("set mode of", err))
    }

    fn refused(&self, path: &Path, err: io::Error) -> Error {
        if err.kind() == io::ErrorKind::PermissionDenied {
            return Error::io(OPEN, path, err).hint(format!(
                "whoever may write {} needs read and write access here too",
                self.path().display()
            ));
        }
        if err.kind() == io::ErrorKind::NotFound {
            return Error::io(OPEN, path, err).hint("create the directory first");
        }
        Error::io(OPEN, path, err)
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
