//! A document as people use it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::compute::{Current, New, by_text, by_value};
use super::content::{Snapshot, snapshot};
use super::memory::Memory;
use super::restore;
use super::watch::Watch;
use crate::commit::Commit;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, disk};
use crate::json::{self, PatchError, Rules};
use crate::options::{Version, WriteOptions};
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
                .map_err(|error| error.hint("nothing was changed; mend the patch or its rules"))
        })
    }

    /// Applies a JSON Patch (RFC 6902), whole or not at all. A failed `test` is a conflict.
    pub fn patch(&self, operations: &Value, options: &WriteOptions) -> Result<Written> {
        self.update(options, |current| {
            let Some(current) = current else {
                let detail = "there is no document to patch";
                return Err(Error::new(ErrorKind::NotFound, "patch", detail)
                    .at(self.path())
                    .hint("check the name, or create it with `doc set`"));
            };
            json::patch(current, operations).map(Some).map_err(|error| {
                match error {
                    PatchError::Invalid(why) => Error::new(ErrorKind::Invalid, "patch", why),
                    PatchError::TestFailed(why) => Error::new(ErrorKind::Conflict, "patch", why),
                }
                .at(self.path())
                .hint("nothing was changed; read the document again and mend the patch")
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
    /// kept aside. A document that is fine is left alone. Without a good version it is `damaged`, without
    /// a document `not_found`.
    pub fn restore(&self, options: &WriteOptions) -> Result<Written> {
        restore::refuse_nothing(&self.target)?;
        let mut commit = Commit::begin(&self.target, options)?;
        let restored = restore::restore(&mut commit, options);
        let written = restored.map_err(|error| match error.is_committed() {
            Some(true) => self.visible(options, error),
            _ => error,
        })?;
        self.finish(commit, options, written)
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}
