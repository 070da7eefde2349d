//! A document as people use it, and what follows a change: durability and the word on it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::compute::{Current, New, by_text, by_value};
use super::content::{Content, Snapshot, damaged, snapshot};
use super::memory::Memory;
use super::restore;
use super::watch::Watch;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Access, Fs, disk};
use crate::group;
use crate::json::{self, PatchError, Rules};
use crate::options::{Durability, Version, WriteOptions};
use crate::seen::Seen;
use crate::target::Target;
use crate::wait::Deadline;

/// A JSON document in a file. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Document {
    pub(super) target: Target,
    pub(super) memory: Memory,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The version that is there now.
    pub version: Version,
    /// False if the content was that already; then nothing was rewritten.
    pub changed: bool,
    /// The operation id was known: it had been done before.
    pub replayed: bool,
}

impl Document {
    /// The document at a path, whether or not there is a file yet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&disk(), path.as_ref())
    }

    /// The same, on another file system.
    pub fn open_on(fs: &Arc<dyn Fs>, path: &Path) -> Result<Self> {
        Ok(Self { target: Target::resolve(fs, path)?, memory: Memory::default() })
    }

    /// The resolved path.
    pub fn path(&self) -> &Path {
        self.target.path()
    }

    /// Reads the document, or `None` if there is none. Takes no lock and creates nothing.
    pub fn read(&self) -> Result<Option<Snapshot>> {
        snapshot(&self.target)
    }

    /// The version of the document, or `None` if there is none.
    pub fn version(&self) -> Result<Option<Version>> {
        Ok(self.read()?.map(|snapshot| snapshot.version))
    }

    /// Changes that come after now, one snapshot each; quick ones may be passed over.
    pub fn watch(&self) -> Result<Watch> {
        Watch::new(self.clone())
    }

    /// Replaces the whole document.
    pub fn set(&self, value: &Value, options: &WriteOptions) -> Result<Written> {
        self.update(options, |_| Ok(Some(value.clone())))
    }

    /// Computes a new document from the one on the disk, under the lock. `None` leaves it as it is;
    /// so does an error, which is passed on. The function runs again if somebody who does not use
    /// tenure replaced the file meanwhile.
    pub fn update(
        &self,
        options: &WriteOptions,
        compute: impl FnMut(Option<&Value>) -> Result<Option<Value>>,
    ) -> Result<Written> {
        self.change(options, by_value(self.path(), compute))
    }

    /// Like [`Self::update`], from text to text, for a caller with a layout of its own: it is stored
    /// as given, to the byte, if it is JSON.
    pub fn update_text(
        &self,
        options: &WriteOptions,
        compute: impl FnMut(Option<&str>) -> Result<Option<String>>,
    ) -> Result<Written> {
        self.change(options, by_text(self.path(), compute))
    }

    fn change(
        &self,
        options: &WriteOptions,
        mut compute: impl FnMut(Current<'_>) -> Result<Option<New>>,
    ) -> Result<Written> {
        let deadline = Deadline::after(options.wait);
        loop {
            let remaining = WriteOptions { wait: deadline.as_wait(), ..options.clone() };
            let commit = Commit::begin(&self.target, &remaining)?;
            if let Some(attempt) = self.attempt(commit, &remaining, &mut compute)? {
                let done = self.finish(attempt.commit, &remaining, attempt.written);
                if let Some((bytes, value)) = attempt.now {
                    self.memory.keep(bytes, value);
                }
                return done;
            }
            if deadline.may_wait() && deadline.has_passed() {
                let detail = "somebody who does not use tenure keeps replacing it";
                return Err(Error::new(ErrorKind::Busy, "update", detail).at(self.path()));
            }
        }
    }

    /// Merges a patch into the document (RFC 7396), with declared rules for single fields. A missing
    /// document is an empty object.
    pub fn merge(&self, patch: &Value, rules: &Rules, options: &WriteOptions) -> Result<Written> {
        let empty = Value::Object(serde_json::Map::new());
        self.update(options, |current| {
            json::merge(current.unwrap_or(&empty), patch, rules)
                .map(Some)
                .map_err(|why| Error::new(ErrorKind::Invalid, "merge into", why).at(self.path()))
        })
    }

    /// Applies a JSON Patch (RFC 6902), whole or not at all. A failed `test` is a conflict.
    pub fn patch(&self, operations: &Value, options: &WriteOptions) -> Result<Written> {
        self.update(options, |current| {
            let Some(current) = current else {
                let detail = "there is no document to patch";
                return Err(Error::new(ErrorKind::NotFound, "patch", detail).at(self.path()));
            };
            json::patch(current, operations).map(Some).map_err(|error| {
                match error {
                    PatchError::Invalid(why) => Error::new(ErrorKind::Invalid, "patch", why),
                    PatchError::TestFailed(why) => Error::new(ErrorKind::Conflict, "patch", why),
                }
                .at(self.path())
            })
        })
    }

    /// Replaces the document if it still has this version; `conflict` otherwise.
    pub fn compare_and_set(
        &self,
        version: &Version,
        value: &Value,
        options: &WriteOptions,
    ) -> Result<Written> {
        let if_version = Some(version.clone());
        self.set(value, &WriteOptions { if_version, ..options.clone() })
    }

    /// Brings back the last good version of a document that cannot be parsed. The damaged bytes are
    /// kept aside. A document that is fine is left alone.
    pub fn restore(&self, options: &WriteOptions) -> Result<Written> {
        let mut commit = Commit::begin(&self.target, options)?;
        let restored = restore::restore(&mut commit, options);
        let written = restored.map_err(|error| match error.is_committed() {
            Some(true) => self.visible(options, error),
            _ => error,
        })?;
        self.finish(commit, options, written)
    }

    /// Leaves the critical section; a durable call returns when its version is durable.
    pub(crate) fn finish(
        &self,
        commit: Commit,
        options: &WriteOptions,
        done: Written,
    ) -> Result<Written> {
        if options.durability == Durability::Durable {
            let durable = self.make_durable(commit);
            durable.map_err(|err| if done.changed { self.visible(options, err) } else { err })?;
        }
        Ok(done)
    }

    fn make_durable(&self, mut commit: Commit) -> Result<()> {
        let target = &self.target;
        if !commit.seen.record.published.synced {
            // Unchanged, but published without a sync (or by somebody else): sync what is there.
            let Some(content) = Content::read(target, target.path())? else { return Ok(()) };
            // The shared sync knows only of our own changes.
            let synced = content.handle.sync().and_then(|()| target.fs.sync_dir(target.dir()));
            synced.map_err(|err| group::not_durable(target).caused_by(err))?;
            if commit.seen.record.published.checksum == content.checksum {
                commit.seen.record.published.synced = true;
                commit.write_record()?;
            }
            return Ok(());
        }
        let generation = commit.seen.record.published.generation;
        drop(commit);
        group::sync(target, generation, self).map(drop)
    }

    /// An error that came after readers could see the change: whether the change survives a power loss
    /// is not known then, and a durable call must say that (G8).
    pub(super) fn visible(&self, options: &WriteOptions, error: Error) -> Error {
        match options.durability {
            Durability::Durable if error.kind() != ErrorKind::NotDurable => {
                group::not_durable(&self.target).caused_by(error.into())
            }
            _ => error.committed(true),
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

impl group::Shared for Document {
    fn newest(&self) -> Result<u64> {
        let path = self.target.sidecar("commit");
        let file = self.target.fs.open(&path, Access::Read);
        let file = file.map_err(Target::failed("open record", &path))?;
        Ok(Seen::read(&self.target, file.as_ref())?.record.published.generation)
    }

    fn sync(&self, _doubt: bool) -> std::io::Result<()> {
        // Names cannot be written again; a file system that failed to sync them fails from then on.
        self.target.fs.sync_dir(self.target.dir())
    }
}

/// The error for bytes that are no document; kept here for the restore.
pub(super) fn cannot_restore(target: &Target) -> Error {
    damaged(target, "cannot be parsed")
}
