//! Where targets are, for programs that let their users choose: on local files, or in a store that a URL names.
//!
//! # Invariants
//!
//! 1. On local files nothing here touches an engine.
//! 2. The URL may contain a password: it is shown nowhere, and only [`Place::url`] returns it.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tenure::file::FileStore;
use tenure::options::CollectionKind;
use tenure::store::{self, Store, Target};
use tenure::{Collection, Document, Journal, Lease, Lock, Result};

use crate::RemoteStore;

/// The local files, or a store.
#[derive(Clone, Default)]
pub struct Place {
    remote: Option<Remote>,
}

#[derive(Clone)]
struct Remote {
    store: RemoteStore,
    url: Arc<str>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.name()).finish()
    }
}

impl Place {
    /// The local files.
    pub const fn files() -> Self {
        Self { remote: None }
    }

    /// The store with this URL.
    pub fn open(url: &str) -> Result<Self> {
        let store = crate::open(url)?;
        Ok(Self { remote: Some(Remote { store, url: url.into() }) })
    }

    /// The store; `None` for the local files.
    pub fn remote(&self) -> Option<&RemoteStore> {
        self.remote.as_ref().map(|remote| &remote.store)
    }

    /// How people name the store; `None` for the local files.
    pub fn name(&self) -> Option<&str> {
        self.remote().map(RemoteStore::name)
    }

    /// The URL that it was opened with, password included; `None` for the local files.
    pub fn url(&self) -> Option<&str> {
        self.remote.as_ref().map(|remote| remote.url.as_ref())
    }

    /// How a target of this place (resolved) is named elsewhere ([`store::address`]).
    pub fn address<'a>(&self, name: &'a Path) -> Cow<'a, Path> {
        store::address(self.name(), name)
    }

    /// The store behind the seam.
    pub fn store(&self) -> Arc<dyn Store> {
        match self.remote() {
            Some(store) => Arc::new(store.clone()),
            None => Arc::new(FileStore::local()),
        }
    }

    /// The target with this name.
    pub fn target(&self, name: impl AsRef<Path>) -> Result<Arc<dyn Target>> {
        self.store().open(name.as_ref())
    }

    /// The lock of a target.
    pub fn lock(&self, name: impl AsRef<Path>) -> Result<Lock> {
        self.remote().map_or_else(|| Lock::open(&name), |store| Lock::on(store, &name))
    }

    /// The lease of a target.
    pub fn lease(&self, name: impl AsRef<Path>) -> Result<Lease> {
        self.remote().map_or_else(|| Lease::open(&name), |store| Lease::on(store, &name))
    }

    /// The document of a target.
    pub fn document(&self, name: impl AsRef<Path>) -> Result<Document> {
        self.remote().map_or_else(|| Document::open(&name), |store| Document::on(store, &name))
    }

    /// The journal of a target.
    pub fn journal(&self, name: impl AsRef<Path>) -> Result<Journal> {
        self.remote().map_or_else(|| Journal::open(&name), |store| Journal::on(store, &name))
    }

    /// The collection with this name.
    pub fn collection(&self, name: impl AsRef<Path>, kind: CollectionKind) -> Result<Collection> {
        Collection::on(&self.store(), name, kind)
    }
}
