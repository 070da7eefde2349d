//! The store: names, collections, and what is held below a name.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure::options::Prune;
use tenure::outcome::Pruned;
use tenure::status::Survey;
use tenure::store::{self, Capabilities, Store, Target};
use tenure::{ErrorKind, Result, Wait, WriteOptions};

use crate::client::{Client, about};
use crate::engine::{Engine, Finding, Listed};
use crate::name::resolved;
use crate::target::{RemoteTarget, status_of};

/// A store on a server. Clones are one handle: they share the session and the locks of this process.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    client: Arc<Client>,
}

impl RemoteStore {
    /// The store of an engine, with the time to live of its sessions: a lock whose process died is free after it. Nothing
    /// is sent to the server yet.
    pub fn with_ttl(engine: Arc<dyn Engine>, ttl: Duration) -> Self {
        Self { client: Arc::new(Client::new(engine, ttl)) }
    }

    /// Its URL, without a password.
    pub fn name(&self) -> &str {
        self.client.engine.name()
    }

    /// What the first session of this handle found that endangers what tenure promises. Asks the server nothing.
    pub fn notices(&self) -> Vec<Finding> {
        self.client.engine.notices()
    }

    /// The health of the server.
    pub fn check(&self) -> Result<Vec<Finding>> {
        self.client.engine.check()
    }

    /// Creates or upgrades what the store keeps at the server.
    pub fn init(&self) -> Result<Vec<Finding>> {
        self.client.engine.init()
    }

    pub(crate) fn downgrade(&self) -> WeakStore {
        WeakStore { client: Arc::downgrade(&self.client) }
    }

    fn target(&self, name: &Path) -> Result<RemoteTarget> {
        let name = store::name_in(Some(self.name()), name)?;
        Ok(RemoteTarget::new(self.client.clone(), resolved(name)?))
    }

    /// The keys of a collection, each with what is known of it.
    fn listed(&self, collection: &Path, suffix: &str) -> Result<Vec<(String, Listed)>> {
        let directory = resolved(collection)?;
        let listed = self.client.engine.list(&directory);
        let listed = listed.map_err(|error| about(error, &directory))?;
        let key = |listed: Listed| {
            let (_, name) = listed.name.rsplit_once('/')?;
            let key = store::key_of(name, suffix)?;
            listed.has_content.then_some((key, listed))
        };
        Ok(listed.into_iter().filter_map(key).collect())
    }
}

/// A handle that may be gone.
#[derive(Debug)]
pub(crate) struct WeakStore {
    client: Weak<Client>,
}

impl WeakStore {
    pub(crate) fn upgrade(&self) -> Option<RemoteStore> {
        self.client.upgrade().map(|client| RemoteStore { client })
    }
}

impl Store for RemoteStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::common(self.client.engine.ttl_min(), self.client.engine.bytes_max())
    }

    fn open(&self, name: &Path) -> Result<Arc<dyn Target>> {
        Ok(Arc::new(self.target(name)?))
    }

    fn keys(&self, collection: &Path, suffix: &str) -> Result<Vec<String>> {
        Ok(self.listed(collection, suffix)?.into_iter().map(|(key, _)| key).collect())
    }

    fn remove(
        &self,
        collection: &Path,
        suffix: &str,
        key: &str,
        options: &WriteOptions,
    ) -> Result<bool> {
        let name = store::name_of(key, suffix).map_err(|error| error.at(collection))?;
        self.target(&collection.join(name))?.remove(options, None)
    }

    fn prune(
        &self,
        collection: &Path,
        suffix: &str,
        prune: &Prune,
        options: &WriteOptions,
    ) -> Result<Pruned> {
        let mut known = self.listed(collection, suffix)?;
        // The newest first. The number of changes decides between those of one moment.
        let newest_first = |listed: &Listed| (listed.age, Reverse(listed.changes));
        known.sort_by_key(|(_, listed)| newest_first(listed));
        let mut pruned = Pruned { remaining: known.len(), ..Pruned::default() };
        let at_once = WriteOptions { wait: Wait::No, ..options.clone() };
        for (rank, (key, listed)) in known.into_iter().enumerate() {
            let is_old = prune.max_age.is_some_and(|age| listed.age > age);
            let is_surplus = prune.max_count.is_some_and(|count| rank >= count);
            if !(is_old || is_surplus) || prune.keep.contains(&key) {
                continue;
            }
            let target = RemoteTarget::new(self.client.clone(), listed.name);
            let is_removed = prune.dry_run
                || match target.remove(&at_once, Some(listed.changes)) {
                    Err(error) if error.kind() == ErrorKind::Busy => false,
                    removed => removed?,
                };
            if is_removed {
                pruned.remaining -= 1;
                pruned.removed.push(key);
            } else {
                pruned.skipped.push(key);
            }
        }
        Ok(pruned)
    }

    fn survey(&self, name: &Path) -> Result<Survey> {
        let below = resolved(store::name_in(Some(self.name()), name)?)?;
        let found = self.client.engine.survey(&below).map_err(|error| about(error, &below))?;
        let is_below = |(name, _): &(String, _)| Path::new(name).starts_with(&below);
        let found = found.into_iter().filter(is_below);
        let mut targets: Vec<_> = found.map(|(name, hold)| status_of(&name, hold)).collect();
        targets.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Survey { targets, ..Survey::default() })
    }
}
