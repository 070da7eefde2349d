//! What the remote store needs from a server: small steps, each of them one transaction there.
//!
//! An engine keeps four things under a target's name: the *hold* (a lock or a lease) with its queue, a document, a
//! journal, and events. It knows nothing of merges, deadlines, cancel tokens or guards that are dropped: that is done
//! once, above this trait, for every engine.
//!
//! # Invariants
//!
//! 1. Each function is atomic at the server: it happens completely or not at all, whatever connection breaks.
//! 2. Each function is safe to repeat. A lost reply is resolved inside the engine, by the id of the ticket or the
//!    commit: the answer of a repeated call is that of the first one. An error leaves nothing half done; an error whose
//!    outcome could not be determined has `is_committed() == None`.
//! 3. Fences, versions and numbers of entries grow over the life of a name, also across a failover of the server, and
//!    stay below 2^53.
//! 4. Only the server's clock decides when a session or a lease is over.
//! 5. No function waits for another holder. [`Engine::watch`] is how a caller waits.
//! 6. A queue is served first come, first served: a hold that ends passes to the oldest ticket whose session lives.

use std::fmt;
use std::time::Duration;

use tenure::status::Holder;
use tenure::store::Watcher;
use tenure::{Fence, Result, Value, Version};

/// Names a session at the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(pub String);

/// A wish for the hold of a target. The same ticket is used until it is granted, left or released.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// Unique for every wish: 32 hexadecimal digits.
    pub id: String,
    /// The session of this process. A waiting ticket ends with it, and so does a lock. Empty for a lease that does not
    /// wait, which needs none.
    pub session: SessionId,
    /// What is wished for.
    pub kind: Kind,
    /// Who asks, for people. Its `fence`, `hold` and `since_us` are set by the engine when it is granted.
    pub holder: Holder,
    /// Whether to stay in the queue if it is not granted at once.
    pub may_wait: bool,
}

/// What a ticket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An exclusive lock, which lasts as long as its session.
    Lock,
    /// A lease, which outlives the session and ends when its time is over.
    Lease {
        /// How long it lasts without a renewal.
        ttl: Duration,
        /// The checksum of its token.
        token_sum: [u8; 16],
    },
}

/// The answer to a ticket.
#[derive(Debug, Clone)]
pub enum Taken {
    /// The target is held under this ticket.
    Held {
        /// The fence of the hold.
        fence: Fence,
        /// The holder before, if its session ended without a release.
        recovered_from: Option<Holder>,
    },
    /// Another has it. The ticket is in the queue now, if it may wait.
    Busy {
        /// Who has it, or who is first in the queue.
        holder: Option<Holder>,
        /// What is left of the lease in the way, or of the session of a lock's holder: the first in the queue looks
        /// again then. `None` if a watch wakes it in any case.
        expires_in: Option<Duration>,
    },
}

/// The hold of a target as it is now.
#[derive(Debug, Clone, Default)]
pub struct Hold {
    /// Who has it, running or expired.
    pub holder: Option<Holder>,
    /// The session of the holder ended without a release of the lock. The next caller gets it at once.
    pub abandoned: bool,
    /// The newest fence that was given out; 0 for none.
    pub fence: Fence,
    /// Its lease, if it is one.
    pub lease: Option<LeaseState>,
    /// The tickets that wait, in their order.
    pub waiters: Vec<Holder>,
}

/// A lease that was not ended, running or expired.
#[derive(Debug, Clone)]
pub struct LeaseState {
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// What is left of it; `None` once it has expired.
    pub expires_in: Option<Duration>,
    /// The checksum of its token.
    pub token_sum: [u8; 16],
}

/// A document as it is now, with what is known of an operation.
#[derive(Debug, Clone, Default)]
pub struct Read {
    /// Its bytes and its version; `None` if there is none.
    pub document: Option<(Vec<u8>, Version)>,
    /// Whether the operation that was asked for is done already.
    pub is_done: bool,
}

/// One change. Everything is checked and done in one transaction. With nothing to change it checks the proofs.
///
/// The order of the checks: proofs, then the operation (a known one is answered with `Replayed`), then that `free`
/// targets are free, then the version.
#[derive(Debug, Clone, Default)]
pub struct Commit<'a> {
    /// Unique for every change, and the same when it is repeated after a lost reply.
    pub id: &'a str,
    /// Targets that no caller may hold, nor wait for. An expired lease is ended by the commit.
    pub free: Vec<&'a str>,
    /// Holds that must be current: a lock whose session lives, or a lease that runs.
    pub proofs: Vec<(&'a str, Fence)>,
    /// The change of a document.
    pub document: Option<Put<'a>>,
    /// Lines to append to a journal, as one batch.
    pub journal: Option<(&'a str, &'a [&'a [u8]])>,
    /// Remove the document, the journal, the events and the operations of this target. Its fences go on growing.
    pub remove: Option<Removal<'a>>,
    /// The caller's id of the operation. It is kept with the document's and the journal's target.
    pub operation: Option<&'a str>,
}

/// The change of a document.
#[derive(Debug, Clone)]
pub struct Put<'a> {
    /// The target.
    pub name: &'a str,
    /// The version that it must have; `None`: there must be none.
    pub base: Option<&'a Version>,
    /// The new content; `None` leaves it as it is.
    pub bytes: Option<&'a [u8]>,
}

/// What is removed.
#[derive(Debug, Clone)]
pub struct Removal<'a> {
    /// The target.
    pub name: &'a str,
    /// Only if [`Listed::changes`] still is this number.
    pub changes: Option<u64>,
}

/// The answer to a commit.
#[derive(Debug, Clone)]
pub enum Committed {
    /// It is done.
    Done(Receipt),
    /// The operation was done before. Nothing was changed.
    Replayed(Receipt),
    /// The document does not have the version `base`, or the target to remove was changed or is not there.
    Overtaken,
    /// A target that has to be free is not.
    Busy {
        /// Which one.
        name: String,
        /// Who has it.
        holder: Option<Holder>,
    },
    /// A proof is not valid.
    Refused {
        /// Of which target.
        name: String,
        /// Whether the fence is that of a lease that has expired and was not acquired since.
        expired: bool,
        /// The newest fence.
        newest: Fence,
        /// Who has it now.
        holder: Option<Holder>,
    },
}

/// What a commit did.
#[derive(Debug, Clone, Default)]
pub struct Receipt {
    /// The version of the document now.
    pub version: Option<Version>,
    /// The numbers of the first and the last line that were appended.
    pub lines: Option<(u64, u64)>,
}

/// Some entries of a journal.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Numbers that were given out and cannot be read any more, before the first entry below: lost to a failover, or
    /// compacted away by the server. `None` if the entries follow `from` without a loss.
    pub gap: Option<(u64, u64)>,
    /// The entries in order. Fewer than asked for: there are no more.
    pub entries: Vec<(u64, Vec<u8>)>,
}

/// A name below a prefix.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The whole name.
    pub name: String,
    /// Whether it has a document or a journal.
    pub has_content: bool,
    /// A number that grows with each change of the document or the journal.
    pub changes: u64,
    /// How long ago the last change was, by the server's clock.
    pub age: Duration,
}

/// What to wait for.
#[derive(Debug, Clone, Copy)]
pub enum Watched<'a> {
    /// The turn of a ticket that is in the queue. Wakes its waiter only, not the whole queue.
    Turn(&'a Ticket),
    /// A change of the document or the journal.
    Content,
}

/// One line of a health report.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What was looked at: `server`, `schema`, `replication`, `quota`.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// Whether it endangers what tenure promises, and how.
    pub problem: Option<String>,
}

/// A server.
pub trait Engine: fmt::Debug + Send + Sync {
    /// How errors and people name the store: its URL without a password.
    fn name(&self) -> &str;

    /// The shortest time to live of a lease.
    fn ttl_min(&self) -> Duration;

    /// The longest document and the longest line.
    fn bytes_max(&self) -> u64;

    /// Opens a session that ends if it is not renewed for `ttl`.
    fn open_session(&self, ttl: Duration) -> Result<SessionId>;

    /// Renews a session; `None` if it has ended. Otherwise a number that grows with a failover of the server: a lock whose
    /// fence is smaller may have been lost in it, although its session was not.
    fn renew_session(&self, session: &SessionId) -> Result<Option<Fence>>;

    /// Ends a session, its locks and its waiting tickets.
    fn close_session(&self, session: &SessionId) -> Result<()>;

    /// Takes the hold, or joins the queue, or looks whether the turn has come. A session that has ended is
    /// `lease_lost`.
    fn take(&self, name: &str, ticket: &Ticket) -> Result<Taken>;

    /// Takes a lease from its holder and from the queue, and records the event [`with_former`] of that holder. A lock is
    /// never taken: `Busy`.
    fn take_over(&self, name: &str, ticket: &Ticket, event: &Value) -> Result<Taken>;

    /// Leaves the queue; ends the hold if it was granted meanwhile. Does nothing if the ticket is over.
    fn leave(&self, name: &str, ticket: &Ticket) -> Result<()>;

    /// Ends a lock; `false` if it was over already. Passes it on to the next ticket.
    fn release(&self, name: &str, ticket: &Ticket, fence: Fence) -> Result<bool>;

    /// Renews a lease, also an expired one that was not acquired since; `None` if the token is not that of the lease.
    fn renew_lease(
        &self,
        name: &str,
        token_sum: [u8; 16],
        ttl: Option<Duration>,
    ) -> Result<Option<Hold>>;

    /// Ends a lease; `false` if the token is not that of the lease.
    fn end_lease(&self, name: &str, token_sum: [u8; 16]) -> Result<bool>;

    /// The hold as it is.
    fn hold(&self, name: &str) -> Result<Hold>;

    /// The document as it is.
    fn read(&self, name: &str, operation: Option<&str>) -> Result<Read>;

    /// Makes a change.
    fn commit(&self, commit: &Commit<'_>) -> Result<Committed>;

    /// Entries from this number on, at most `limit`; 0 begins with the oldest.
    fn entries(&self, name: &str, from: u64, limit: usize) -> Result<Page>;

    /// The names directly in a directory: `directory/NAME`, without another slash.
    fn list(&self, directory: &str) -> Result<Vec<Listed>>;

    /// The hold of every name below a prefix that has ever been held and has not been removed.
    fn survey(&self, prefix: &str) -> Result<Vec<(String, Hold)>>;

    /// The events of a target, oldest first.
    fn events(&self, name: &str) -> Result<Vec<Value>>;

    /// Wakes when something may have changed after this call. It reconnects by itself.
    fn watch(&self, name: &str, what: Watched<'_>) -> Result<Box<dyn Watcher>>;

    /// What the first session found that endangers what tenure promises. Empty before it.
    fn notices(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// The health of the server.
    fn check(&self) -> Result<Vec<Finding>>;

    /// Creates or upgrades what the store keeps there. Where there is nothing to create, checks the connection.
    fn init(&self) -> Result<Vec<Finding>>;
}

/// The event of a take-over, with the holder that the lease was taken from. An engine calls it in the step that takes
/// it: only there the former holder is known.
pub fn with_former(event: &Value, former: Option<&Holder>) -> Value {
    let mut event = event.clone();
    if let Some(detail) = event["detail"].as_object_mut() {
        detail.insert("from", former.map(Holder::to_json));
    }
    event
}
