//! A collection: a directory with one document or journal per key, so that a hundred thousand
//! sessions never share one index file.
//!
//! # Invariants
//!
//! 1. A key's file name is its reversible encoding; it cannot leave the directory, hide, or collide
//!    with another key on any file system, case-insensitive ones included.
//! 2. Every key has its own locks. Nothing is shared between keys but the directory.
//! 3. A key is removed under its own hold and commit lock, and its lock files go last, while they are
//!    held, after the directory's fence floor was raised durably above every fence the key ever had.
//!    A caller that waited for them finds that the name is gone and starts over.

mod key;
mod prune;
mod split;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::prune::{Prune, Pruned};
pub use self::split::Split;
use crate::error::Result;
use crate::file::document::Document;
use crate::file::journal::Journal;
use crate::file::target::Target;
use crate::fs::{Fs, if_found};
use crate::sys::disk;

/// What the files of a collection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionKind {
    /// One JSON document per key, `KEY.json`.
    Documents,
    /// One journal per key, `KEY.jsonl`.
    Journals,
}

impl CollectionKind {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Documents => ".json",
            Self::Journals => ".jsonl",
        }
    }
}

/// A directory of documents or journals by key. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Collection {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    kind: CollectionKind,
}

impl Collection {
    /// The collection in a directory, whether or not it is there yet.
    pub fn open(dir: impl AsRef<Path>, kind: CollectionKind) -> Result<Self> {
        Self::open_on(&disk(), dir.as_ref(), kind)
    }

    /// The same, on another file system.
    pub fn open_on(fs: &Arc<dyn Fs>, dir: &Path, kind: CollectionKind) -> Result<Self> {
        let dir = Target::resolve(fs, dir)?.path().to_path_buf();
        Ok(Self { fs: fs.clone(), dir, kind })
    }

    /// The resolved directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The file of a key.
    pub fn path_of(&self, key: &str) -> Result<PathBuf> {
        let name = key::to_name(key).map_err(|error| error.at(&self.dir))?;
        Ok(self.dir.join(name + self.kind.suffix()))
    }

    /// The document of a key.
    pub fn document(&self, key: &str) -> Result<Document> {
        Document::open_on(&self.fs, &self.path_of(key)?)
    }

    /// The journal of a key.
    pub fn journal(&self, key: &str) -> Result<Journal> {
        Journal::open_on(&self.fs, &self.path_of(key)?)
    }

    /// The keys that have a file, in no order. Files that are no key's are passed over.
    pub fn keys(&self) -> Result<Vec<String>> {
        let names = if_found(self.fs.list(&self.dir));
        let names = names.map_err(Target::failed("list collection", &self.dir))?;
        let key = |name: &std::ffi::OsString| {
            key::from_name(name.to_str()?.strip_suffix(self.kind.suffix())?)
        };
        Ok(names.iter().flatten().filter_map(key).collect())
    }
}
