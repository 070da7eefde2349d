//! What is tested: a store, and what its engine can be made to do.

use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::options::CollectionKind;
use tenure::store::{Capabilities, Store};
use tenure::{Collection, Document, Journal, Lease, Lock, Result};

/// Makes the entries of a journal up to this number unreadable, as a retention of the engine or a lost archive does.
pub type LoseEntries = Box<dyn Fn(&Path, u64) -> Result<()> + Send + Sync>;
/// Lets the reply to the next commit get lost: it is done, and the store does not learn it.
pub type LoseReply = Box<dyn Fn() + Send + Sync>;

/// Breaks every connection of the store to its engine.
pub type BreakConnections = Box<dyn Fn() + Send + Sync>;

/// A store under test. Each test gets one of its own, which is empty.
pub struct Subject {
    /// A handle to the store.
    pub store: Arc<dyn Store>,
    /// Another handle to the same store, as another process would open it.
    pub second: Arc<dyn Store>,
    /// The names of the test are below this one.
    pub root: PathBuf,
    /// Callers that wait for a lock get it in the order in which they came.
    pub serves_in_order: bool,
    /// How entries are lost; `None` if the store never loses any.
    pub lose_entries: Option<LoseEntries>,
    /// How a reply is lost; `None` if the store gets none from an engine.
    pub lose_reply: Option<LoseReply>,
    /// How connections break; `None` if the store has none.
    pub break_connections: Option<BreakConnections>,
    /// Lives as long as the test: a directory, a server.
    pub keeps: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("store", &self.store)
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Subject {
    /// Two handles to one store. It serves in order, and loses nothing.
    pub fn new(store: Arc<dyn Store>, second: Arc<dyn Store>, root: impl Into<PathBuf>) -> Self {
        Self {
            store,
            second,
            root: root.into(),
            serves_in_order: true,
            lose_entries: None,
            lose_reply: None,
            break_connections: None,
            keeps: None,
        }
    }

    pub(crate) fn name(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The first handle for even numbers, the second for odd ones.
    pub(crate) fn handle(&self, number: usize) -> &Arc<dyn Store> {
        if number % 2 == 0 { &self.store } else { &self.second }
    }

    pub(crate) fn can(&self) -> Capabilities {
        self.store.capabilities()
    }

    /// The shortest lease that a test can wait for.
    pub(crate) fn short(&self) -> Duration {
        self.can().ttl_min.max(Duration::from_millis(150))
    }

    pub(crate) fn lock(&self, handle: usize, name: &str) -> Result<Lock> {
        Lock::on(self.handle(handle).as_ref(), self.name(name))
    }

    pub(crate) fn lease(&self, handle: usize, name: &str) -> Result<Lease> {
        Lease::on(self.handle(handle).as_ref(), self.name(name))
    }

    pub(crate) fn document(&self, handle: usize, name: &str) -> Result<Document> {
        Document::on(self.handle(handle).as_ref(), self.name(name))
    }

    pub(crate) fn journal(&self, handle: usize, name: &str) -> Result<Journal> {
        Journal::on(self.handle(handle).as_ref(), self.name(name))
    }

    pub(crate) fn collection(&self, handle: usize, kind: CollectionKind) -> Result<Collection> {
        Collection::on(self.handle(handle), self.name("keys"), kind)
    }
}
