//! Opening sidecars: regular files only, never through a symlink, of a user that the table in
//! `owner` allows, no more open to others than the target (G13).
//!
//! A missing sidecar gets its name after its mode. If another process was faster, its file is the
//! sidecar. A crash in between leaves nothing ([`crate::fs::Fs::create_whole`]), or, where a file
//! cannot exist without a name, one that is closed to others.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Target;
use super::names::{FLOOR, PROBE};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Handle, Kind};

/// How often a caller that finds the sidecar directory missing makes it again.
const PREPARE_ATTEMPTS: u32 = 16;

impl Target {
    /// Opens a sidecar, made as open as the target is if it is missing.
    pub(crate) fn open_sidecar(&self, path: &Path) -> Result<Arc<dyn Handle>> {
        let mut attempts = PREPARE_ATTEMPTS;
        // A `--lock-file` may be in a directory of the caller, which we do not create.
        let is_ours = || path.parent() == Some(self.side());
        // It is opened while the directory is being prepared.
        let is_probe = || path.file_name() == Some(OsStr::new(PROBE));
        let unshared = Cell::new(false);
        let share = |made: &Arc<dyn Handle>| {
            let shared = self.give_rights(path, made.as_ref());
            shared.inspect_err(|_| unshared.set(true))
        };
        let handle = loop {
            let opened = match self.fs.open(path, Access::ReadWrite) {
                Err(err) if err.kind() == io::ErrorKind::NotFound => {
                    if is_ours() {
                        self.refuse_to_create(path)?;
                    }
                    self.fs.create_whole(path, 0o600, &share)
                }
                opened => opened,
            };
            match opened {
                Ok(handle) => break handle,
                Err(err) if unshared.get() => return Err(Error::io("set mode of", path, err)),
                // Another process was faster.
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                Err(err)
                    if err.kind() == io::ErrorKind::NotFound
                        && attempts > 0
                        && is_ours()
                        && !is_probe() =>
                {
                    // The directory was removed since we looked, and another thread may be about to make it
                    // anew: the second one finds it made.
                    attempts -= 1;
                    self.names.ready.store(false, Ordering::Relaxed);
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
        self.check_owner(path, &found).map_err(Self::failed("use sidecar", path))?;
        if path == self.hold_file() {
            self.follow_by_hold(&found);
        }
        Ok(handle)
    }

    /// Opens an existing file of this target. A sidecar of a user who may have planted it is
    /// refused (`Unsupported`). Where only the owner of the directory may write, none can be
    /// planted, and the owner is not checked.
    pub(crate) fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn Handle>> {
        let handle = self.fs.open(path, access)?;
        if self.is_open_to_others() && path.parent() == Some(self.side()) {
            self.check_owner(path, &handle.stat()?)?;
        }
        Ok(handle)
    }

    fn refused(&self, path: &Path, err: io::Error) -> Error {
        let is_ours = path.parent() == Some(self.side());
        if is_ours && self.fs.stat(self.side()).is_ok_and(|side| side.kind != Kind::Directory) {
            return self.side_is_no_directory();
        }
        match err.kind() {
            io::ErrorKind::NotFound => {
                Error::io("open sidecar", path, err).hint("create the directory first")
            }
            _ => self.cannot_open("open sidecar", path, err),
        }
    }

    /// Whether a sidecar is a lock, and nothing of the target's content.
    pub(super) fn is_lock(&self, path: &Path) -> bool {
        let locks = ["hold", "commit", "sync0", "sync1"];
        let theirs = self.lock_file.as_deref() == Some(path);
        theirs
            || locks.iter().any(|suffix| self.sidecar(suffix) == path)
            || self.is_per_directory(path)
    }

    /// Whether a sidecar is of the directory, and of no single target.
    pub(super) fn is_per_directory(&self, path: &Path) -> bool {
        let name = path.file_name();
        path.parent() == Some(self.side())
            && [FLOOR, PROBE].iter().any(|known| name == Some(OsStr::new(known)))
    }
}
