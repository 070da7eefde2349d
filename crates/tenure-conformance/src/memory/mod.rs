//! A store in the memory of one process: for tests of what stands above a store, and to have a second one.
//!
//! It is written as a client of an engine would be, and shares no code with the file store. [`engine`] is the engine:
//! one mutex, one condition variable, and transactions. [`target`] is the client: it reads, computes, and commits if
//! nothing changed meanwhile. [`holds`] is waiting, locks and leases.
//!
//! # Invariants
//!
//! 1. Everything that a commit depends on is checked inside the commit: holds, fences, guards, and the version that the
//!    change was computed from.
//! 2. A function of the caller never runs while the mutex is locked.
//! 3. Every commit has an id. A client that did not get the reply asks for what became of that id.

mod engine;
mod holds;
mod target;

use std::any::Any;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure::options::Prune;
use tenure::outcome::Pruned;
use tenure::status::Survey;
use tenure::store::{self, Capabilities, Store};
use tenure::{Result, WriteOptions};

use self::engine::Engine;
use self::target::MemoryTarget;

/// The longest document and the longest line, as on a remote store.
const BYTES_MAX: u64 = 1 << 20;
/// The shortest lease.
const TTL_MIN: Duration = Duration::from_millis(20);

/// A mistake that a store must not make: a control of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Checks holds, fences, guards and versions first, and commits later without a look.
    CheckThenWrite,
    /// Draws fences from a counter of its own, which every handle begins anew.
    FenceFromMemory,
    /// A commit whose reply was lost is done again.
    RetryWithoutId,
}

/// A store in memory. Clones are one handle; [`Self::another`] is another one to the same data.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    client: Arc<Client>,
}

/// One handle, as one process would have it.
#[derive(Debug)]
struct Client {
    engine: Arc<Engine>,
    wrong: Option<Wrong>,
    /// Only a wrong store draws fences from it.
    fences: AtomicU64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::with(Arc::default(), None)
    }

    /// An empty store that makes a mistake.
    pub fn wrong(wrong: Wrong) -> Self {
        Self::with(Arc::default(), Some(wrong))
    }

    fn with(engine: Arc<Engine>, wrong: Option<Wrong>) -> Self {
        let fences = AtomicU64::new(0);
        Self { client: Arc::new(Client { engine, wrong, fences }) }
    }

    /// Another handle to the same data.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::with(self.client.engine.clone(), self.client.wrong)
    }

    /// The reply to the next commit of any handle gets lost.
    pub fn lose_reply(&self) {
        self.client.engine.lose_replies.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the entries of a journal up to this number unreadable.
    pub fn lose_entries(&self, name: &Path, last: u64) {
        let mut state = self.client.engine.lock();
        if let Some(journal) = state.record(&resolved(name)).journal.as_mut() {
            journal.entries.retain(|(seq, _)| *seq > last);
            journal.gone = journal.gone.max(last);
        }
    }

    fn target(&self, name: &Path) -> MemoryTarget {
        MemoryTarget { client: self.client.clone(), name: resolved(name) }
    }
}

/// The name without `.` and `..`: two spellings are one target.
fn resolved(name: &Path) -> PathBuf {
    let mut path = PathBuf::from("/");
    for part in name.components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => drop(path.pop()),
            _ => {}
        }
    }
    path
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::common(TTL_MIN, BYTES_MAX)
    }

    fn open(&self, name: &Path) -> Result<Arc<dyn store::Target>> {
        Ok(Arc::new(self.target(name)))
    }

    fn keys(&self, collection: &Path, suffix: &str) -> Result<Vec<String>> {
        let state = self.client.engine.lock();
        Ok(state.keys(collection, suffix).map(|(key, _)| key).collect())
    }

    fn remove(
        &self,
        collection: &Path,
        suffix: &str,
        key: &str,
        options: &WriteOptions,
    ) -> Result<bool> {
        let name = store::name_of(key, suffix).map_err(|error| error.at(collection))?;
        self.target(&collection.join(name)).remove(options, None)
    }

    fn prune(
        &self,
        collection: &Path,
        suffix: &str,
        prune: &Prune,
        options: &WriteOptions,
    ) -> Result<Pruned> {
        let mut known: Vec<_> = {
            let state = self.client.engine.lock();
            let found = state.keys(collection, suffix);
            found.map(|(key, record)| (record.changes, record.changed_at, key)).collect()
        };
        known.sort_by(|one, other| other.cmp(one));
        let mut pruned = Pruned { remaining: known.len(), ..Pruned::default() };
        let mut at_once = options.clone();
        at_once.wait = tenure::Wait::No;
        for (rank, (changes, changed_at, key)) in known.into_iter().enumerate() {
            let too_old = prune.max_age.is_some_and(|age| changed_at.elapsed() > age);
            let too_many = prune.max_count.is_some_and(|count| rank >= count);
            if !(too_old || too_many) || prune.keep.contains(&key) {
                continue;
            }
            let target = self.target(&collection.join(store::name_of(&key, suffix)?));
            let removed = prune.dry_run
                || match target.remove(&at_once, Some(changes)) {
                    Err(error) if error.kind() == tenure::ErrorKind::Busy => false,
                    removed => removed?,
                };
            if removed {
                pruned.remaining -= 1;
                pruned.removed.push(key);
            } else {
                pruned.skipped.push(key);
            }
        }
        Ok(pruned)
    }

    fn survey(&self, name: &Path) -> Result<Survey> {
        let state = self.client.engine.lock();
        let below = resolved(name);
        let found = state.records.iter().filter(|(path, _)| path.starts_with(&below));
        let targets = found.map(|(path, record)| record.status(path)).collect();
        Ok(Survey { targets, ..Survey::default() })
    }
}

/// Whether both targets are of one engine.
fn same_engine<'a>(one: &MemoryTarget, other: &'a dyn Any) -> Option<&'a MemoryTarget> {
    let other = other.downcast_ref::<MemoryTarget>()?;
    Arc::ptr_eq(&one.client.engine, &other.client.engine).then_some(other)
}
