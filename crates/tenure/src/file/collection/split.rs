//! Turning one big index file into a collection, once.

use std::path::Path;

use super::{Collection, CollectionKind};
use crate::error::{Error, ErrorKind, Result};
use crate::file::commit::Commit;
use crate::file::document::Document;
use crate::file::target::Target;
use crate::fs::Access;
use crate::json::Value;
use crate::options::{Durability, WriteOptions};
use crate::sys::disk;

/// What a split did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Keys that were written.
    pub created: Vec<String>,
    /// Keys that were there with the same content already.
    pub present: Vec<String>,
    /// Keys that were there with other content; they were left as they are.
    pub differing: Vec<String>,
}

impl Collection {
    /// Writes every member of the JSON object in `index` as a document of its own into `dir`. The
    /// index is locked meanwhile and left as it is; a split that was cut off can be repeated.
    pub fn split(
        index: impl AsRef<Path>,
        dir: impl AsRef<Path>,
        options: &WriteOptions,
    ) -> Result<Split> {
        let fs = disk();
        let source = Document::open_on(&fs, index.as_ref())?;
        let target = Target::resolve(&fs, index.as_ref())?;
        let collection = Self::open_on(&fs, dir.as_ref(), CollectionKind::Documents)?;
        let _locked = Commit::begin(&target, options)?;
        let invalid = |kind, detail: &str| Error::new(kind, "split", detail).at(source.path());
        let snapshot = source.read()?;
        let members = match snapshot.map(|snapshot| snapshot.value) {
            Some(Value::Object(members)) => members,
            Some(_) => return Err(invalid(ErrorKind::Invalid, "it is not a JSON object")),
            None => return Err(invalid(ErrorKind::NotFound, "there is no such file")),
        };
        // A key that has no file name must stop the split before anything is written.
        members.keys().try_for_each(|key| collection.path_of(key).map(drop))?;
        let mut split = Split::default();
        // Unsynced first, then one sync per file and one for the directory: most syncs find their
        // work done by the first.
        let unsynced = WriteOptions {
            durability: Durability::NoSync,
            fence: None,
            if_version: None,
            operation: None,
            lock_file: None, // It is the index's, and we have it.
            ..options.clone()
        };
        for (key, value) in members.iter() {
            let document = collection.document(key)?;
            let mut there = None;
            document.update(&unsynced, |current| {
                there = current.map(|current| current == value);
                Ok(current.is_none().then(|| value.clone()))
            })?;
            match there {
                None => split.created.push(key.to_owned()),
                Some(true) => split.present.push(key.to_owned()),
                Some(false) => split.differing.push(key.to_owned()),
            }
        }
        if options.durability == Durability::Durable {
            for key in split.created.iter().chain(&split.present) {
                let path = collection.path_of(key)?;
                let synced = fs.open(&path, Access::Read).and_then(|file| file.sync());
                synced.map_err(|err| Error::io("sync", &path, err).committed(true))?;
            }
            let dir = collection.path();
            fs.sync_dir(dir).map_err(|err| Error::io("sync", dir, err).committed(true))?;
        }
        Ok(split)
    }
}
