//! Replace: how a document or a journal becomes another file.
//!
//! The new content is written to a temporary file in the sidecar directory, which then takes the target's
//! place in one step. The caller holds the commit lock, so one fixed temporary name serves every
//! replacement of a kind: all of its changes of names are in one order, and a power loss leaves the
//! names as they were after one of them.
//!
//! Invariants
//! 1. A temporary file that did not take the place is removed, whatever failed.
//! 2. A version that the caller has not seen (another tool replaced the file a moment ago) is
//!    restored to its name, or stays under the temporary name. It is never removed.
//!
//! Crash, step by step:
//! 1. [`Temp::create`], written: a left-over, which the next change removes.
//! 2. [`Temp::sync`]: the same. The content reaches the disk before any later change of names.
//! 3. [`Temp::exchange`] (or [`Temp::place_new`], [`Temp::rename_over`]): before it the old version, after
//!    it the new one, and the old one under the temporary name. A power loss leaves one of both states;
//!    the new version is whole if it was synced.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::target::Target;
use crate::fs::{Access, Fs, Handle, Stat, if_found};

/// A temporary file, or what it was exchanged for; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Temp {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// Closed before the file takes its place: not every system replaces a file that is open.
    handle: Option<Arc<dyn Handle>>,
    /// The new file, as it was when it was complete.
    stat: Stat,
    /// It has another name now, or must stay.
    stays: bool,
}

/// What became of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    /// The new file is in place, the old one is under the temporary name.
    Done,
    /// Another file than the expected one was in place, and still is.
    Replaced,
    /// This file system cannot exchange names. Nothing was changed.
    Unsupported,
}

impl Temp {
    /// Creates the file; `AlreadyExists` is a left-over, which the caller has to judge. `fill` writes the
    /// content and sets mode and owner.
    pub(crate) fn create(
        target: &Target,
        path: PathBuf,
        fill: impl FnOnce(&dyn Handle) -> io::Result<()>,
    ) -> io::Result<Self> {
        let handle = target.fs.open(&path, Access::CreateNew(0o600))?;
        let filled = fill(handle.as_ref()).and_then(|()| handle.stat());
        if filled.is_err() {
            let _ = target.fs.remove(&path);
        }
        let (fs, stat) = (target.fs.clone(), filled?);
        Ok(Self { fs, path, handle: Some(handle), stat, stays: false })
    }

    /// The temporary name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The new file, until it takes its place.
    pub(crate) fn handle(&self) -> io::Result<Arc<dyn Handle>> {
        match &self.handle {
            Some(handle) => Ok(handle.clone()),
            None => self.fs.open(&self.path, Access::ReadWrite),
        }
    }

    /// The new file, as it was when it was filled.
    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Makes the content reach the disk before any later change of names.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handle()?.sync_in_order()
    }

    /// Gives the file a name that nothing has; `false` if something has it.
    pub(crate) fn place_new(&mut self, path: &Path) -> Result<bool> {
        self.handle = None;
        match self.fs.rename_new(&self.path, path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            // The reply of a restarted server may be lost although the file is in place.
            Err(err) if !self.is_at(path).unwrap_or(false) => return Err(failed(path, err)),
            _ => {}
        }
        self.stays = true; // A second name, where it got its first by a link, is a left-over.
        Ok(true)
    }

    /// Exchanges the new file with the one at `path`, if `expects` accepts that one. A file that
    /// arrives there at the last moment is restored.
    pub(crate) fn exchange(
        &mut self,
        path: &Path,
        expects: impl Fn(&Stat) -> bool,
    ) -> Result<Exchange> {
        self.handle = None;
        if !self.finds(path, &expects).map_err(|err| failed(path, err))? {
            return Ok(Exchange::Replaced);
        }
        match self.fs.exchange(&self.path, path) {
            Ok(()) => {}
            Err(err) if err.kind() == io::ErrorKind::Unsupported => {
                return Ok(Exchange::Unsupported);
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Exchange::Replaced),
            Err(err) => match self.is_at(path) {
                Ok(true) => {} // It was made, and only the answer was lost.
                Ok(false) => return Err(failed(path, err)),
                Err(_) => {
                    // Whatever is under the temporary name may be the only copy of the old version.
                    self.stays = true;
                    return Err(Error::io("publish", path, err));
                }
            },
        }
        match self.finds(&self.path, &expects) {
            Ok(true) => Ok(Exchange::Done),
            displaced => {
                self.give_back(path)?;
                displaced.map(|_| Exchange::Replaced).map_err(|err| failed(path, err))
            }
        }
    }

    /// Takes the exchange back. Meanwhile yet another file may come to `path`; the newest stays there.
    fn give_back(&mut self, path: &Path) -> Result<()> {
        let id_at = |at: &Path| self.fs.stat(at).ok().map(|found| found.id);
        let (mut in_place, mut displaced) = (Some(self.stat.id), id_at(&self.path));
        loop {
            if let Err(err) = self.fs.exchange(&self.path, path) {
                self.stays = true;
                let kept = self.path.display();
                return Err(Error::io("give back what was replaced at", path, err)
                    .committed(true)
                    .hint(format!("the version that it displaced is kept as {kept}")));
            }
            let found = id_at(&self.path);
            if found == in_place || found.is_none() {
                return Ok(());
            }
            (in_place, displaced) = (displaced, found);
        }
    }

    /// Where names cannot be exchanged: the new file replaces the old one, if `expects` accepts
    /// that; `false` otherwise.
    pub(crate) fn rename_over(
        &mut self,
        path: &Path,
        expects: impl Fn(&Stat) -> bool,
    ) -> Result<bool> {
        if !self.finds(path, &expects).map_err(|err| failed(path, err))? {
            return Ok(false);
        }
        self.fs.rename(&self.path, path).map_err(|err| failed(path, err))?;
        self.stays = true;
        Ok(true)
    }

    /// Gives what is under the temporary name another one.
    pub(crate) fn rename_to(&mut self, path: &Path) -> io::Result<()> {
        self.fs.rename(&self.path, path)?;
        self.stays = true;
        Ok(())
    }

    /// Leaves what is under the temporary name to the next change.
    pub(crate) fn leave(&mut self) {
        self.stays = true;
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(self.fs.stat(path)?.id == self.stat.id)
    }

    fn finds(&self, path: &Path, expects: &impl Fn(&Stat) -> bool) -> io::Result<bool> {
        Ok(if_found(self.fs.stat(path))?.is_some_and(|found| expects(&found)))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.stays {
            let _ = self.fs.remove(&self.path);
        }
    }
}

fn failed(path: &Path, err: io::Error) -> Error {
    Error::io("publish", path, err).committed(false)
}
