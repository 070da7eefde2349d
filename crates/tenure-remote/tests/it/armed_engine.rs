//! An engine behind a proxy that loses the reply of exactly the request that a test means, and one that does not renew
//! its session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure::store::Watcher;
use tenure::{Error, ErrorKind, Fence, Result, Value};
use tenure_conformance::{MemoryStore, Subject};
use tenure_engines::Proxy;
use tenure_remote::RemoteStore;
use tenure_remote::engine::{
    Commit, Committed, Engine, Finding, Hold, Listed, Page, Read, SessionId, Taken, Ticket, Watched,
};
use tenure_remote::url::Url;

/// The way to a server, and its faults.
#[derive(Debug)]
struct Way {
    proxy: Proxy,
    /// The reply to the next commit gets lost.
    loses_reply: AtomicBool,
}

/// The engine of one handle.
#[derive(Debug)]
struct Armed<E> {
    engine: E,
    way: Option<Arc<Way>>,
    is_paused: Arc<AtomicBool>,
}

/// A store on a server whose session is not renewed any more once `is_paused` is set: a process that was stopped.
pub(crate) fn pausable<E: Engine + 'static>(
    url: &str,
    connect: impl Fn(&Url) -> Result<E>,
    is_paused: &Arc<AtomicBool>,
) -> RemoteStore {
    let url = Url::parse(url).expect("a URL");
    let engine = connect(&url).expect("a connection");
    let (way, is_paused) = (None, is_paused.clone());
    RemoteStore::with_ttl(Arc::new(Armed { engine, way, is_paused }), url.ttl)
}

/// A store on a server with this address, through a proxy whose address goes into its URL.
pub(crate) fn subject_on<E: Engine + 'static>(
    server: &str,
    url: impl FnOnce(&str) -> String,
    connect: impl Fn(&Url) -> Result<E>,
) -> Subject {
    let way = Arc::new(Way { proxy: Proxy::start(server), loses_reply: AtomicBool::new(false) });
    let url = Url::parse(&url(&way.proxy.address())).expect("a URL");
    let handle = || {
        let engine = connect(&url).expect("a connection");
        let armed = Armed { engine, way: Some(way.clone()), is_paused: Arc::default() };
        Arc::new(RemoteStore::with_ttl(Arc::new(armed), url.ttl))
    };
    let store = handle();
    store.init().expect("the server answers");
    let mut subject = Subject::new(store, handle(), "/shared");
    let lossy = way.clone();
    subject.lose_reply = Some(Box::new(move || lossy.loses_reply.store(true, Ordering::SeqCst)));
    subject.break_connections = Some(Box::new(move || way.proxy.cut_all()));
    subject
}

/// What is tested if the server is missing: that was reported, and the test command goes on without it.
pub(crate) fn stand_in() -> Subject {
    let store = MemoryStore::new();
    Subject::new(Arc::new(store.another()), Arc::new(store), "/shared")
}

impl<E: Engine> Engine for Armed<E> {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn ttl_min(&self) -> Duration {
        self.engine.ttl_min()
    }

    fn bytes_max(&self) -> u64 {
        self.engine.bytes_max()
    }

    fn open_session(&self, ttl: Duration) -> Result<SessionId> {
        self.engine.open_session(ttl)
    }

    fn renew_session(&self, session: &SessionId) -> Result<Option<Fence>> {
        if self.is_paused.load(Ordering::SeqCst) {
            let detail = "the process is paused";
            return Err(Error::new(ErrorKind::Io, "renew a session", detail));
        }
        self.engine.renew_session(session)
    }

    fn close_session(&self, session: &SessionId) -> Result<()> {
        self.engine.close_session(session)
    }

    fn take(&self, name: &str, ticket: &Ticket) -> Result<Taken> {
        self.engine.take(name, ticket)
    }

    fn take_over(&self, name: &str, ticket: &Ticket, event: &Value) -> Result<Taken> {
        self.engine.take_over(name, ticket, event)
    }

    fn leave(&self, name: &str, ticket: &Ticket) -> Result<()> {
        self.engine.leave(name, ticket)
    }

    fn release(&self, name: &str, ticket: &Ticket, fence: Fence) -> Result<bool> {
        self.engine.release(name, ticket, fence)
    }

    fn renew_lease(
        &self,
        name: &str,
        token_sum: [u8; 16],
        ttl: Option<Duration>,
    ) -> Result<Option<Hold>> {
        self.engine.renew_lease(name, token_sum, ttl)
    }

    fn end_lease(&self, name: &str, token_sum: [u8; 16]) -> Result<bool> {
        self.engine.end_lease(name, token_sum)
    }

    fn hold(&self, name: &str) -> Result<Hold> {
        self.engine.hold(name)
    }

    fn read(&self, name: &str, operation: Option<&str>) -> Result<Read> {
        self.engine.read(name, operation)
    }

    fn commit(&self, commit: &Commit<'_>) -> Result<Committed> {
        if let Some(way) =
            self.way.as_ref().filter(|way| way.loses_reply.swap(false, Ordering::SeqCst))
        {
            way.proxy.lose_reply();
        }
        self.engine.commit(commit)
    }

    fn entries(&self, name: &str, from: u64, limit: usize) -> Result<Page> {
        self.engine.entries(name, from, limit)
    }

    fn list(&self, directory: &str) -> Result<Vec<Listed>> {
        self.engine.list(directory)
    }

    fn survey(&self, prefix: &str) -> Result<Vec<(String, Hold)>> {
        self.engine.survey(prefix)
    }

    fn events(&self, name: &str) -> Result<Vec<Value>> {
        self.engine.events(name)
    }

    fn watch(&self, name: &str, what: Watched<'_>) -> Result<Box<dyn Watcher>> {
        self.engine.watch(name, what)
    }

    fn check(&self) -> Result<Vec<Finding>> {
        self.engine.check()
    }

    fn init(&self) -> Result<Vec<Finding>> {
        self.engine.init()
    }
}
