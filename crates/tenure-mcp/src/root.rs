//! The root directory, which no path leaves.
//!
//! # Invariants
//!
//! 1. Every target is opened through [`Confined`], those of a queue and its tasks included. It lets the store resolve the
//!    name completely, symlinks included, and only then compares it with the root.
//! 2. Files of git and of tenure itself, and the settings that agents take their hooks and servers from, are no
//!    targets, by whatever name they are reached.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tenure::options::Prune;
use tenure::outcome::Pruned;
use tenure::queue::Queue;
use tenure::status::Survey;
use tenure::store::{Capabilities, Store, Target};
use tenure::{Document, Error, ErrorKind, Journal, Result, WriteOptions};
use tenure_agents::install;

/// A store, as far as it is below a directory.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) store: Arc<dyn Store>,
    path: PathBuf,
}

impl Root {
    pub(crate) fn new(store: Arc<dyn Store>, path: &Path) -> Result<Self> {
        let mut path = path.to_path_buf();
        if store.capabilities().files {
            path = std::fs::canonicalize(&path).map_err(|err| Error::io("resolve", &path, err))?;
        }
        let store = Arc::new(Confined { store, root: path.clone() });
        Ok(Self { store, path })
    }

    /// The root as the store resolves it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn document(&self, name: &str) -> Result<Document> {
        Document::on(self.store.as_ref(), self.join(name)?)
    }

    pub(crate) fn journal(&self, name: &str) -> Result<Journal> {
        Journal::on(self.store.as_ref(), self.join(name)?)
    }

    pub(crate) fn queue(&self, name: &str) -> Result<Queue> {
        Queue::on(&self.store, self.join(name)?)
    }

    /// The name below the root, for people.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.path).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Whether a name is one that callers may use.
    pub(crate) fn may_use(&self, name: &str) -> bool {
        self.join(name).and_then(|path| self.store.open(&path)).is_ok()
    }

    fn join(&self, name: &str) -> Result<PathBuf> {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(refused(name.as_ref(), "a path is a name without control characters"));
        }
        Ok(self.path.join(name))
    }
}

fn refused(name: &Path, why: &str) -> Error {
    let error = Error::new(ErrorKind::Invalid, "use", why).at(name);
    error.hint("name a path inside the project")
}

/// A store whose targets are all below a directory.
#[derive(Debug)]
struct Confined {
    store: Arc<dyn Store>,
    root: PathBuf,
}

impl Confined {
    /// Refuses a resolved name that is outside of the root, a file of git or of tenure, or settings of an agent.
    fn check(&self, given: &Path, resolved: &Path) -> Result<()> {
        let given = given.strip_prefix(&self.root).unwrap_or(given);
        let Ok(below) = resolved.strip_prefix(&self.root) else {
            return Err(refused(given, &format!("it is outside of {}", self.root.display())));
        };
        let is_private = |part: Component<'_>| {
            // Some file systems ignore the case of letters.
            let part = part.as_os_str().to_string_lossy().to_lowercase();
            [".git", ".tenure", ".tenure.d"].contains(&&*part) || part.starts_with(".tenure-")
        };
        if below.components().any(is_private) {
            return Err(refused(given, "files of git and of tenure itself cannot be used"));
        }
        if install::is_settings(below) {
            return Err(refused(given, "settings of agents cannot be used"));
        }
        Ok(())
    }

    fn check_collection(&self, collection: &Path) -> Result<()> {
        if collection == self.root {
            return Ok(()); // It may be the root of the store, which is no target.
        }
        self.open(collection).map(drop)
    }
}

impl Store for Confined {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn open(&self, name: &Path) -> Result<Arc<dyn Target>> {
        let target = self.store.open(name)?;
        self.check(name, target.name())?;
        Ok(target)
    }

    fn keys(&self, collection: &Path, suffix: &str) -> Result<Vec<String>> {
        self.check_collection(collection)?;
        self.store.keys(collection, suffix)
    }

    fn remove(
        &self,
        collection: &Path,
        suffix: &str,
        key: &str,
        options: &WriteOptions,
    ) -> Result<bool> {
        self.check_collection(collection)?;
        self.store.remove(collection, suffix, key, options)
    }

    fn prune(
        &self,
        collection: &Path,
        suffix: &str,
        prune: &Prune,
        options: &WriteOptions,
    ) -> Result<Pruned> {
        self.check_collection(collection)?;
        self.store.prune(collection, suffix, prune, options)
    }

    fn survey(&self, name: &Path) -> Result<Survey> {
        self.check_collection(name)?;
        self.store.survey(name)
    }
}
