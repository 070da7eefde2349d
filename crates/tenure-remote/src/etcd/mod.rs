//! The engine on etcd: `client` speaks with the cluster, `txn` is one transaction, `keys` names what is kept,
//! `record` is what stands in it. Above them `world` (cluster and epoch), `lease` (etcd's leases), `hold` and
//! `turn` (locks, leases of users, their queue), `commit`, `journal`, `survey`, `watch` and `check`.
//!
//! # Invariants
//!
//! 1. A fence is the revision of the transaction that granted the hold, above an epoch: `epoch * 2^40 + revision`. The
//!    revision grows with every transaction of the cluster, whichever ticket is granted: from the queue, by a take-over,
//!    or after a release. It survives the loss of members, since a majority knows it. So fences grow by construction. The
//!    key `f` is written by grants only, and so its mod revision is the newest fence.
//! 2. A hold is current if `f` still has its revision and `l` is there: two compares, in the transaction of the write.
//!    `l` goes with the etcd lease of the session (a lock) or of the lease (a lease), so no clock but the server's is
//!    asked. etcd restarts the time of a lease when its leader changes: a hold may end late, never early,
//!    but for a defect of old versions that `check` names.
//! 3. The queue is the keys `q` in the order of their create revisions. A ticket is granted the hold by a transaction
//!    that compares: nothing has it, and no ticket is older. Each waits for the one before it only: a lock keeps its
//!    place in the queue until it is released, so that its end is one deleted key that one waiter watches.
//! 4. A document's version is the revision that wrote it, with the epoch.
//! 5. A request whose reply was lost is sent again as it was. A transaction that compares the revisions it was made from
//!    can happen once only. The two that do not, a first grant and a commit, compare that a key `r/ID` is absent; a
//!    caller that got an answer after a lost one creates that key before it goes on. So no request that is still
//!    under way in a slow member can take effect later.
//! 6. A snapshot that was restored gives out revisions again. It has another cluster id: the first client that sees it
//!    raises the epoch, and so every fence, version and number from before is smaller than every one after it, and is
//!    refused. See `world` for what cannot be seen.

mod check;
mod client;
mod commit;
mod hold;
mod http;
mod journal;
mod keys;
mod lease;
mod record;
mod survey;
mod tls;
mod turn;
mod txn;
mod watch;
mod world;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::store::{ProcessLocal, Watcher};
use tenure::{Error, ErrorKind, Fence, Result, Value};

use self::client::{Client, Failure};
use self::journal::Heads;
use self::keys::Layout;
use self::txn::{Done, Txn, int};
use self::world::World;
use crate::engine::{
    Commit, Committed, Engine, Finding, Hold, Listed, Page, Read, SessionId, Taken, Ticket, Watched,
};
use crate::url::Url;

/// The longest document and the longest line: etcd takes 1.5 MiB in one request, of everything together.
const BYTES_MAX: u64 = 1 << 20;
/// What one transaction may write: the server's limit, less what the names of fields take.
const REQUEST_MAX: usize = (3 << 19) - (16 << 10);
/// How many operations a transaction may have.
const OPERATIONS_MAX: usize = 128;

/// A store on etcd.
#[derive(Debug)]
pub struct EtcdEngine {
    client: Arc<Client>,
    layout: Layout,
    here: ProcessLocal<Here>,
}

/// What this process knows. A forked child begins with nothing: what its parent has may be locked for ever.
#[derive(Debug, Default)]
struct Here {
    world: Mutex<Option<World>>,
    /// The newest revision that was seen.
    newest: AtomicU64,
    /// The places of waiting tickets in their queues: the create revisions of their keys.
    places: Mutex<HashMap<String, u64>>,
    /// Attempts of tickets whose call failed, and which may still take effect.
    doubtful: Mutex<HashMap<String, Vec<String>>>,
    /// How far journals are, as far as this process knows.
    heads: Heads,
    /// Commits whose receipts are needed no more.
    settled: Mutex<Vec<String>>,
    /// Commits that ended with an error after a request was sent.
    unclear: Mutex<HashSet<String>>,
}

/// The answer to a transaction.
struct Answered {
    done: Done,
    /// An attempt before this one may still be done.
    lost: bool,
}

impl EtcdEngine {
    /// A store at this URL. The first request connects.
    pub fn connect(url: &Url) -> Result<Self> {
        Ok(Self {
            client: Arc::new(Client::new(url)?),
            layout: Layout::new(&url.path),
            here: ProcessLocal::new(),
        })
    }

    fn here(&self) -> &Here {
        self.here.here()
    }

    /// How many requests were sent so far.
    pub fn requests(&self) -> usize {
        self.client.requests()
    }

    /// Does a transaction.
    fn transact(&self, step: &'static str, txn: &Txn) -> Result<Answered> {
        self.try_transact(step, txn).map_err(|failure| failure.error(step))
    }

    fn try_transact(&self, step: &'static str, txn: &Txn) -> Result<Answered, Failure> {
        let (bytes, operations) = txn.size();
        if bytes > REQUEST_MAX || operations > OPERATIONS_MAX {
            return Err(Failure::Error(too_large(step, bytes, operations)));
        }
        let before = self.here().newest.load(Ordering::SeqCst);
        let answer = self.client.ask(step, "/v3/kv/txn", &txn.to_json())?;
        let cluster = int(&answer.body["header"]["cluster_id"]);
        let done = Done::read(answer.body);
        self.check_cluster(step, cluster, before, done.revision).map_err(Failure::Error)?;
        self.here().newest.fetch_max(done.revision, Ordering::SeqCst);
        Ok(Answered { done, lost: answer.lost })
    }
}

fn too_large(step: &'static str, bytes: usize, operations: usize) -> Error {
    let detail = format!(
        "{bytes} bytes in {operations} operations are more than etcd takes at once ({REQUEST_MAX} \
         bytes, {OPERATIONS_MAX} operations)"
    );
    Error::new(ErrorKind::Invalid, step, detail)
        .hint("write less at once: a smaller document, or the lines in several batches")
        .committed(false)
}

impl Engine for EtcdEngine {
    fn name(&self) -> &str {
        &self.client.name
    }

    fn ttl_min(&self) -> Duration {
        lease::TTL_MIN
    }

    fn bytes_max(&self) -> u64 {
        BYTES_MAX
    }

    fn open_session(&self, ttl: Duration) -> Result<SessionId> {
        Ok(SessionId(self.grant("open a session", ttl)?.to_string()))
    }

    fn renew_session(&self, session: &SessionId) -> Result<Option<Fence>> {
        if !self.keep_alive("renew the session", lease::number(session)?)? {
            return Ok(None);
        }
        Ok(Some(self.world()?.first_number()))
    }

    fn close_session(&self, session: &SessionId) -> Result<()> {
        self.revoke("close the session", lease::number(session)?)
    }

    fn take(&self, name: &str, ticket: &Ticket) -> Result<Taken> {
        self.take_turn(name, ticket)
    }

    fn take_over(&self, name: &str, ticket: &Ticket, event: &Value) -> Result<Taken> {
        self.take_lease_over(name, ticket, event)
    }

    fn leave(&self, name: &str, ticket: &Ticket) -> Result<()> {
        self.leave_queue(name, ticket)
    }

    fn release(&self, name: &str, ticket: &Ticket, fence: Fence) -> Result<bool> {
        self.release_lock(name, ticket, fence)
    }

    fn renew_lease(
        &self,
        name: &str,
        token_sum: [u8; 16],
        ttl: Option<Duration>,
    ) -> Result<Option<Hold>> {
        self.extend_lease(name, token_sum, ttl)
    }

    fn end_lease(&self, name: &str, token_sum: [u8; 16]) -> Result<bool> {
        self.close_lease(name, token_sum)
    }

    fn hold(&self, name: &str) -> Result<Hold> {
        self.look_at_hold(name)
    }

    fn read(&self, name: &str, operation: Option<&str>) -> Result<Read> {
        self.read_document(name, operation)
    }

    fn commit(&self, commit: &Commit<'_>) -> Result<Committed> {
        self.commit_change(commit)
    }

    fn entries(&self, name: &str, from: u64, limit: usize) -> Result<Page> {
        self.read_entries(name, from, limit)
    }

    fn list(&self, directory: &str) -> Result<Vec<Listed>> {
        self.list_directory(directory)
    }

    fn survey(&self, prefix: &str) -> Result<Vec<(String, Hold)>> {
        self.survey_holds(prefix)
    }

    fn events(&self, name: &str) -> Result<Vec<Value>> {
        self.read_events(name)
    }

    fn watch(&self, name: &str, what: Watched<'_>) -> Result<Box<dyn Watcher>> {
        self.open_watch(name, what)
    }

    fn check(&self) -> Result<Vec<Finding>> {
        self.check_health()
    }

    fn init(&self) -> Result<Vec<Finding>> {
        self.settled_world()?;
        self.check_health()
    }
}
