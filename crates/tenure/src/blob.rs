//! Any file: bytes of any kind, with the versions, guards and history of a document.
//!
//! # Invariants
//!
//! 1. A reader sees the old content or the new one, never a part.
//! 2. A replacement is always synced: bytes of any kind do not show whether a power loss has cut them.
//! 3. Content is never judged: there is no damaged file here.
//!
//! Crash: as of a document.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::FileStore;
use crate::json::Value;
use crate::options::{Durability, Version, WriteOptions};
use crate::results::Written;
use crate::store::{Current, New, Store, Target};

/// A file with any content. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Blob {
    target: Arc<dyn Target>,
}

/// The content of a file at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// For `if_version`.
    pub version: Version,
}

impl Blob {
    /// The file, whether or not there is one yet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::on(&FileStore::local(), path)
    }

    /// The content with this name in a store. It is not a document there: one name is for one of both.
    pub fn on(store: &dyn Store, name: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { target: store.open(name.as_ref())?.as_bytes()? })
    }

    /// The resolved name.
    pub fn path(&self) -> &Path {
        self.target.name()
    }

    /// Reads it, or `None` if there is none. Takes no lock and creates nothing.
    pub fn read(&self) -> Result<Option<Content>> {
        let found = self.target.read()?;
        Ok(found.map(|found| Content { bytes: found.bytes, version: found.version }))
    }

    /// Replaces the whole content.
    pub fn put(&self, bytes: &[u8], options: &WriteOptions) -> Result<Written> {
        self.update(options, |_| Ok(Some(bytes.to_vec())))
    }

    /// Computes the new content from the present one. `None` leaves it as it is; so does an error, which is passed on.
    /// The function runs again if the content was changed meanwhile.
    pub fn update(
        &self,
        options: &WriteOptions,
        mut compute: impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>>,
    ) -> Result<Written> {
        let mut compute = |current: Current<'_>| {
            let old = current.map(|(bytes, _)| bytes);
            let new = compute(old)?.filter(|new| old != Some(new.as_slice()));
            Ok(new.map(|bytes| New { bytes, value: Value::Null }))
        };
        self.target.change(options, &mut compute)
    }

    /// Publishes the content from before the last change. What it replaces is kept in its place, so a second undo
    /// redoes.
    pub fn undo(&self, options: &WriteOptions) -> Result<Written> {
        let before = || {
            self.target.earlier()?.into_iter().next().ok_or_else(|| {
                let detail = "no earlier version was kept: only those that tenure has synced are";
                Error::new(ErrorKind::NotFound, "undo", detail).at(self.path())
            })
        };
        before()?; // Without a lock: a mistyped name leaves nothing behind.
        // What is replaced is kept only if it was synced. A call that changes nothing makes sure of that.
        let synced =
            WriteOptions { durability: Durability::Durable, operation: None, ..options.clone() };
        let now = self.update(&synced, |_| Ok(None))?.version;
        let if_version = options.if_version.as_ref().map(|_| now);
        let options = WriteOptions { if_version, ..options.clone() };
        self.update(&options, |_| Ok(Some(before()?.bytes)))
    }
}
