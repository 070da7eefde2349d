//! A collection: many documents or journals below one name, one per key, each with a lock of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::document::Document;
use crate::error::{Error, ErrorKind, Result};
use crate::file::FileStore;
use crate::fs::Fs;
use crate::journal::Journal;
use crate::json::Value;
use crate::lock::Lock;
use crate::options::{CollectionKind, FileOptions, LockOptions, Prune, WriteOptions};
use crate::results::{Pruned, Split};
use crate::store::{self, Store};

/// Documents or journals by key. Opening it touches nothing.
#[derive(Debug, Clone)]
pub struct Collection {
    store: Arc<dyn Store>,
    dir: PathBuf,
    kind: CollectionKind,
}

impl Collection {
    /// The collection in a directory, whether or not it is there yet.
    pub fn open(dir: impl AsRef<Path>, kind: CollectionKind) -> Result<Self> {
        Self::on(&(Arc::new(FileStore::local()) as Arc<dyn Store>), dir, kind)
    }

    /// The collection below this name in a store.
    pub fn on(
        store: &Arc<dyn Store>,
        name: impl AsRef<Path>,
        kind: CollectionKind,
    ) -> Result<Self> {
        let dir = store.open(name.as_ref())?.name().to_path_buf();
        Ok(Self { store: store.clone(), dir, kind })
    }

    /// The same, on another file system.
    #[doc(hidden)]
    pub fn open_on(fs: &Arc<dyn Fs>, dir: &Path, kind: CollectionKind) -> Result<Self> {
        Self::on(&(Arc::new(FileStore::on(fs)) as Arc<dyn Store>), dir, kind)
    }

    /// The resolved name of the collection.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The name of a key.
    pub fn path_of(&self, key: &str) -> Result<PathBuf> {
        let name = store::name_of(key, self.kind.suffix()).map_err(|error| error.at(&self.dir))?;
        Ok(self.dir.join(name))
    }

    /// The document of a key.
    pub fn document(&self, key: &str) -> Result<Document> {
        Document::on(self.store.as_ref(), self.path_of(key)?)
    }

    /// The journal of a key.
    pub fn journal(&self, key: &str) -> Result<Journal> {
        Journal::on(self.store.as_ref(), self.path_of(key)?)
    }

    /// The existing keys, in no order. Names that do not belong to a key are skipped.
    pub fn keys(&self) -> Result<Vec<String>> {
        self.store.keys(&self.dir, self.kind.suffix())
    }

    /// Removes what is due, each key under its own lock; a key that is held is skipped.
    pub fn prune(&self, prune: &Prune, options: &WriteOptions) -> Result<Pruned> {
        self.store.prune(&self.dir, self.kind.suffix(), prune, options)
    }

    /// Removes one key with everything that belongs to it, waiting for its holder. `false` if there
    /// was none.
    pub fn remove(&self, key: &str, options: &WriteOptions) -> Result<bool> {
        self.store.remove(&self.dir, self.kind.suffix(), key, options)
    }

    /// Writes every member of the JSON object in the file `index` as a document of its own into
    /// `dir`. The index is locked meanwhile and left unchanged; an interrupted split can be
    /// repeated.
    pub fn split(
        index: impl AsRef<Path>,
        dir: impl AsRef<Path>,
        options: &WriteOptions,
    ) -> Result<Split> {
        Self::split_on(&(Arc::new(FileStore::local()) as Arc<dyn Store>), index, dir, options)
    }

    /// The same in a store.
    pub fn split_on(
        store: &Arc<dyn Store>,
        index: impl AsRef<Path>,
        dir: impl AsRef<Path>,
        options: &WriteOptions,
    ) -> Result<Split> {
        let source = Document::on(store.as_ref(), index.as_ref())?;
        let collection = Self::on(store, dir, CollectionKind::Documents)?;
        let locked = LockOptions {
            wait: options.wait,
            cancel: options.cancel.clone(),
            fence: options.fence,
            label: options.label.clone(),
            thread: options.thread,
            file: options.file.clone(),
            ..LockOptions::default()
        };
        let _locked = Lock::on(store.as_ref(), index)?.acquire(&locked)?;
        let invalid = |kind, detail: &str| Error::new(kind, "split", detail).at(source.path());
        let members = match source.read()?.map(|snapshot| snapshot.value) {
            Some(Value::Object(members)) => members,
            Some(_) => return Err(invalid(ErrorKind::Invalid, "it is not a JSON object")),
            None => return Err(invalid(ErrorKind::NotFound, "there is no such file")),
        };
        // A key that has no file name must stop the split before anything is written.
        members.keys().try_for_each(|key| collection.path_of(key).map(drop))?;
        let mut split = Split::default();
        let file = FileOptions { lock_file: None, ..options.file.clone() }; // It is the index's, and we have it.
        let plain = WriteOptions {
            fence: None,
            if_version: None,
            operation: None,
            file,
            ..options.clone()
        };
        for (key, value) in members.iter() {
            let mut there = None;
            collection.document(key)?.update(&plain, |current| {
                there = current.map(|current| current == value);
                Ok(current.is_none().then(|| value.clone()))
            })?;
            match there {
                None => split.created.push(key.to_owned()),
                Some(true) => split.present.push(key.to_owned()),
                Some(false) => split.differing.push(key.to_owned()),
            }
        }
        Ok(split)
    }
}
