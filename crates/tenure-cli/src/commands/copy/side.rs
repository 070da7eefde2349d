//! FROM and TO of a copy: a path, or a target of a store.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tenure::options::CollectionKind;
use tenure::store::key_of;
use tenure::{Collection, Document, Journal, Lock};
use tenure_remote::Place;

use super::Item;
use crate::args::ContentArg;
use crate::failure::{Failure, Result};
use crate::place::{self, here};

const KINDS: [CollectionKind; 2] = [CollectionKind::Documents, CollectionKind::Journals];

/// One end of a copy.
#[derive(Debug)]
pub(super) struct Side {
    place: Place,
    name: PathBuf,
    /// A directory, or a name that ends with a slash.
    pub(super) is_collection: bool,
}

impl Side {
    /// Reads `PATH`, `URL#NAME` or `#NAME`. A URL is not quoted in errors: it may contain a password.
    pub(super) fn read(given: &OsStr) -> Result<Self> {
        let text = given.to_str().unwrap_or_default();
        let (place, name) = if let Some(name) = text.strip_prefix('#') {
            place::require_store("copy")?;
            (here().clone(), PathBuf::from(name))
        } else if text.contains("://") {
            let (url, name) = text.split_once('#').ok_or_else(|| {
                Failure::usage("copy", "a store is named, but no target in it")
                    .hint("write URL#NAME, or URL#NAME/ for a collection")
            })?;
            (Place::open(url)?, PathBuf::from(name))
        } else {
            (Place::files(), PathBuf::from(given))
        };
        let is_directory = place.name().is_none() && name.is_dir();
        let ends_with_slash = name.as_os_str().as_encoded_bytes().ends_with(b"/");
        let is_root = name.as_os_str().is_empty();
        Ok(Self { place, name, is_collection: is_directory || ends_with_slash || is_root })
    }

    /// Into a collection, a single target goes under its own name.
    pub(super) fn enter(&mut self, from: &Self) -> Result<()> {
        if self.is_collection {
            let file = from.name.file_name().ok_or_else(|| {
                Failure::usage("copy", "FROM has no name").hint("name a target, or a collection/")
            })?;
            self.name.push(file);
            self.is_collection = false;
        }
        Ok(())
    }

    /// How people find it.
    pub(super) fn shown(&self) -> PathBuf {
        match self.place.target(&self.name) {
            Ok(target) => self.place.address(target.name()).into_owned(),
            Err(_) => self.name.clone(),
        }
    }

    /// A single target, whose kind its name says, or the caller.
    pub(super) fn single(&self, content: Option<ContentArg>) -> Result<Item> {
        let kind = match (content, self.name.extension().and_then(OsStr::to_str)) {
            (Some(content), _) => content.into(),
            (None, Some("json")) => CollectionKind::Documents,
            (None, Some("jsonl")) => CollectionKind::Journals,
            (None, _) if self.place.name().is_none() && !self.name.exists() => {
                return Err(super::missing(&self.name));
            }
            (None, _) => {
                return Err(Failure::usage("copy", "its name does not show what it is")
                    .at(&self.shown())
                    .hint(
                        "write a slash behind the name of a collection; for a single target use \
                         --content document or --content journal",
                    ));
            }
        };
        Ok(Item { kind, key: None })
    }

    /// All members of the collection, in the order of their keys.
    pub(super) fn members(&self) -> Result<Vec<Item>> {
        if self.place.name().is_none() && !self.name.is_dir() {
            return Err(super::missing(&self.name));
        }
        let mut items = Vec::new();
        for kind in KINDS {
            let mut keys = self.collection(kind)?.keys()?;
            keys.sort();
            items.extend(keys.into_iter().map(|key| Item { kind, key: Some(key) }));
        }
        if items.is_empty() && self.place.name().is_some() {
            return Err(super::missing(&self.shown())); // A store has no empty collections.
        }
        Ok(items)
    }

    /// What is in a directory and is no member of a collection.
    pub(super) fn skipped(&self) -> Option<String> {
        if self.place.name().is_some() || !self.is_collection {
            return None;
        }
        let is_member = |name: &OsStr| {
            name.to_str().is_some_and(|name| {
                name.starts_with(".tenure")
                    || key_of(name, ".json").is_some()
                    || key_of(name, ".jsonl").is_some()
            })
        };
        let entries = std::fs::read_dir(&self.name).ok()?.flatten();
        let names: Vec<_> =
            entries.map(|entry| entry.file_name()).filter(|name| !is_member(name)).collect();
        let first = names.first()?.to_string_lossy();
        Some(format!(
            "{} names in `{}` are not keys of a collection and are not copied, `{}` among them; copy each by its name",
            names.len(),
            self.name.display().to_string().escape_debug(),
            first.escape_debug()
        ))
    }

    fn collection(&self, kind: CollectionKind) -> Result<Collection> {
        Ok(self.place.collection(&self.name, kind)?)
    }

    pub(super) fn document(&self, item: &Item) -> Result<Document> {
        Ok(match &item.key {
            Some(key) => self.collection(item.kind)?.document(key)?,
            None => self.place.document(&self.name)?,
        })
    }

    pub(super) fn journal(&self, item: &Item) -> Result<Journal> {
        Ok(match &item.key {
            Some(key) => self.collection(item.kind)?.journal(key)?,
            None => self.place.journal(&self.name)?,
        })
    }

    pub(super) fn lock(&self, item: &Item) -> Result<Lock> {
        let name: PathBuf = match &item.key {
            Some(key) => self.collection(item.kind)?.path_of(key)?,
            None => Path::new(&self.name).to_path_buf(),
        };
        Ok(self.place.lock(&name)?)
    }
}
