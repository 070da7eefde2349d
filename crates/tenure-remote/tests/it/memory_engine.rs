//! An engine in memory: the store above it is tested without a server, and with faults that a server has rarely.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure::status::{HoldKind, Holder};
use tenure::store::Watcher;
use tenure::{Error, ErrorKind, Fence, Result, Value, Version};
use tenure_remote::engine::{
    Commit, Committed, Engine, Finding, Hold, Kind, LeaseState, Listed, Page, Read, Receipt,
    SessionId, Taken, Ticket, Watched, with_former,
};

/// Everything, what wakes those who wait for a change of it, and its faults.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    name: String,
    state: Mutex<State>,
    changed: Condvar,
    /// So many replies of commits get lost, and the commits are repeated.
    pub(crate) lose_replies: AtomicUsize,
    /// No renewal of a session reaches the server.
    pub(crate) no_renewals: AtomicBool,
    /// No look at a queue reaches the server.
    pub(crate) no_looks: AtomicBool,
    /// So many releases do not reach the server.
    pub(crate) lose_releases: AtomicUsize,
    /// Requests so far.
    requests: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    newest: u64,
    /// The newest fence when the server failed over last.
    failover: u64,
    sessions: HashMap<String, (Duration, Instant)>,
    records: BTreeMap<String, Record>,
    receipts: HashMap<String, Committed>,
}

#[derive(Debug, Default)]
struct Record {
    fence: Fence,
    hold: Option<Grant>,
    queue: VecDeque<Ticket>,
    document: Option<(Vec<u8>, Version)>,
    entries: Vec<(u64, Vec<u8>)>,
    last_entry: u64,
    gone: u64,
    operations: HashMap<String, Receipt>,
    events: Vec<Value>,
    changes: u64,
    changed_at: Option<Instant>,
}

#[derive(Debug)]
struct Grant {
    ticket: Ticket,
    recovered_from: Option<Holder>,
    /// Of a lease.
    expires: Instant,
}

impl Grant {
    fn left(&self) -> Option<Duration> {
        let left = self.expires.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }

    fn is_lock(&self) -> bool {
        self.ticket.kind == Kind::Lock
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    fn lives(&self, session: &SessionId) -> bool {
        self.sessions.get(&session.0).is_some_and(|(_, expires)| *expires > Instant::now())
    }

    /// Ends what is over, and passes a free hold on to the oldest ticket.
    fn settle(&mut self, name: &str) -> &mut Record {
        let mut record = self.records.remove(name).unwrap_or_default();
        record.queue.retain(|ticket| self.lives(&ticket.session));
        if !record.queue.is_empty() && !self.is_held(&record) {
            if let Some(ticket) = record.queue.pop_front() {
                self.grant(&mut record, ticket);
            }
        }
        self.records.entry(name.to_owned()).or_insert(record)
    }

    fn is_held(&self, record: &Record) -> bool {
        record.hold.as_ref().is_some_and(|grant| {
            if grant.is_lock() { self.lives(&grant.ticket.session) } else { grant.left().is_some() }
        })
    }

    fn grant(&mut self, record: &mut Record, mut ticket: Ticket) {
        let died = record.hold.take().filter(Grant::is_lock).map(|grant| grant.ticket.holder);
        record.fence = self.next();
        let (hold, ttl) = match ticket.kind {
            Kind::Lock => (HoldKind::Lock, Duration::ZERO),
            Kind::Lease { ttl, .. } => (HoldKind::Lease, ttl),
        };
        (ticket.holder.fence, ticket.holder.hold) = (record.fence, hold);
        let expires = Instant::now() + ttl;
        record.hold = Some(Grant { ticket, recovered_from: died, expires });
    }

    fn hold(&self, record: &Record) -> Hold {
        let lease = record.hold.as_ref().and_then(|grant| match grant.ticket.kind {
            Kind::Lock => None,
            Kind::Lease { ttl, token_sum } => {
                Some(LeaseState { ttl, expires_in: grant.left(), token_sum })
            }
        });
        Hold {
            holder: record.hold.as_ref().map(|grant| grant.ticket.holder.clone()),
            abandoned: record.hold.as_ref().is_some_and(Grant::is_lock) && !self.is_held(record),
            fence: record.fence,
            lease,
            waiters: record.queue.iter().map(|ticket| ticket.holder.clone()).collect(),
        }
    }

    fn check(&self, name: &str, fence: Fence) -> Option<Committed> {
        let none = Record::default();
        let record = self.records.get(name).unwrap_or(&none);
        if record.fence == fence && self.is_held(record) {
            return None;
        }
        let expired =
            record.fence == fence && record.hold.as_ref().is_some_and(|grant| !grant.is_lock());
        let holder = record.hold.as_ref().map(|grant| grant.ticket.holder.clone());
        Some(Committed::Refused { name: name.to_owned(), expired, newest: record.fence, holder })
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Committed {
        if let Some(done) = self.receipts.get(commit.id) {
            return done.clone();
        }
        for (name, fence) in &commit.proofs {
            if let Some(refused) = self.check(name, *fence) {
                return refused;
            }
        }
        let (document, journal) = (commit.document.as_ref(), commit.journal);
        let targets = [document.map(|put| put.name), journal.map(|(name, _)| name)];
        let mut done = Receipt::default();
        let mut is_known = false;
        for name in targets.into_iter().flatten() {
            let known = commit.operation.and_then(|id| self.settle(name).operations.get(id));
            if let Some(known) = known.cloned() {
                is_known = true;
                done.lines = done.lines.or(known.lines);
            }
        }
        if is_known {
            done.version = document.and_then(|put| {
                self.settle(put.name).document.as_ref().map(|(_, version)| version.clone())
            });
            return Committed::Replayed(done);
        }
        for name in &commit.free {
            self.settle(name);
            let record = &self.records[*name];
            if self.is_held(record) || !record.queue.is_empty() {
                let holder = record.hold.as_ref().map(|grant| grant.ticket.holder.clone());
                return Committed::Busy { name: (*name).to_owned(), holder };
            }
        }
        if let Some(put) = document {
            let found = self.settle(put.name).document.as_ref().map(|(_, version)| version.clone());
            if found.as_ref() != put.base {
                return Committed::Overtaken;
            }
        }
        if let Some(removal) = &commit.remove {
            let record = self.settle(removal.name);
            let is_there = record.document.is_some() || !record.entries.is_empty();
            if !is_there || removal.changes.is_some_and(|changes| changes != record.changes) {
                return Committed::Overtaken;
            }
            (record.document, record.entries) = (None, Vec::new());
            record.operations.clear();
            record.events.clear();
        }
        for name in &commit.free {
            self.settle(name).hold = None;
        }
        let number = self.next();
        if let Some(put) = document {
            let record = self.settle(put.name);
            if let Some(bytes) = put.bytes {
                record.document = Some((bytes.to_vec(), Version::new(format!("m{number:x}"))));
                (record.changes, record.changed_at) = (number, Some(Instant::now()));
            }
            done.version = record.document.as_ref().map(|(_, version)| version.clone());
        }
        if let Some((name, lines)) = journal {
            let record = self.settle(name);
            let first = record.last_entry + 1;
            for line in lines {
                record.last_entry += 1;
                record.entries.push((record.last_entry, line.to_vec()));
            }
            (record.changes, record.changed_at) = (number, Some(Instant::now()));
            done.lines = Some((first, record.last_entry));
        }
        if let Some(operation) = commit.operation {
            for name in targets.into_iter().flatten() {
                self.settle(name).operations.insert(operation.to_owned(), done.clone());
            }
        }
        self.receipts.insert(commit.id.to_owned(), Committed::Done(done.clone()));
        Committed::Done(done)
    }
}

fn unreachable(action: &'static str) -> Error {
    Error::new(ErrorKind::Io, action, "the server does not answer")
}

fn one_less(counter: &AtomicUsize) -> bool {
    let less = |left: usize| left.checked_sub(1);
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
}

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("memory://{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        Arc::new(Self { name, ..Self::default() })
    }

    fn request(&self) -> MutexGuard<'_, State> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every session, as a server does that lost them.
    pub(crate) fn end_sessions(&self) {
        self.request().sessions.clear();
        self.changed.notify_all();
    }

    /// Fails over to a server that knows all sessions, and not this hold.
    pub(crate) fn forget_hold(&self, name: &str) {
        let mut state = self.request();
        state.failover = state.next();
        state.settle(name).hold = None;
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn sessions(&self) -> usize {
        let state = self.request();
        state.sessions.values().filter(|(_, expires)| *expires > Instant::now()).count()
    }

    pub(crate) fn lose_entries(&self, name: &str, last: u64) {
        let mut state = self.request();
        let record = state.settle(name);
        record.entries.retain(|(seq, _)| *seq > last);
        record.gone = last;
    }

    /// Removes entries from the middle of a journal.
    pub(crate) fn remove_entries(&self, name: &str, numbers: std::ops::RangeInclusive<u64>) {
        self.request().settle(name).entries.retain(|(seq, _)| !numbers.contains(seq));
    }
}

/// The engine. Each handle of a store has one.
#[derive(Debug, Clone)]
pub(crate) struct MemoryEngine(pub(crate) Arc<Memory>);

impl Engine for MemoryEngine {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn ttl_min(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn bytes_max(&self) -> u64 {
        1 << 20
    }

    fn open_session(&self, ttl: Duration) -> Result<SessionId> {
        let mut state = self.0.request();
        let id = state.next().to_string();
        state.sessions.insert(id.clone(), (ttl, Instant::now() + ttl));
        Ok(SessionId(id))
    }

    fn renew_session(&self, session: &SessionId) -> Result<Option<Fence>> {
        if self.0.no_renewals.load(Ordering::SeqCst) {
            return Err(unreachable("renew a session"));
        }
        let mut state = self.0.request();
        let lives = state.lives(session);
        let failover = state.failover;
        if let Some((ttl, expires)) = state.sessions.get_mut(&session.0).filter(|_| lives) {
            *expires = Instant::now() + *ttl;
        }
        Ok(lives.then_some(failover))
    }

    fn close_session(&self, session: &SessionId) -> Result<()> {
        self.0.request().sessions.remove(&session.0);
        self.0.changed.notify_all();
        Ok(())
    }

    fn take(&self, name: &str, ticket: &Ticket) -> Result<Taken> {
        if self.0.no_looks.load(Ordering::SeqCst) {
            return Err(unreachable("lock"));
        }
        let mut state = self.0.request();
        if !ticket.session.0.is_empty() && !state.lives(&ticket.session) {
            return Err(Error::new(ErrorKind::LeaseLost, "lock", "the session is over"));
        }
        state.settle(name);
        let mut record = state.records.remove(name).unwrap_or_default();
        let is_mine = |record: &Record| {
            record.hold.as_ref().is_some_and(|grant| grant.ticket.id == ticket.id)
        };
        if !is_mine(&record) && !state.is_held(&record) && record.queue.is_empty() {
            state.grant(&mut record, ticket.clone());
        }
        let taken = match &record.hold {
            Some(grant) if is_mine(&record) => {
                let recovered_from = grant.recovered_from.clone();
                Taken::Held { fence: record.fence, recovered_from }
            }
            hold => {
                let is_waiting = record.queue.iter().any(|waiting| waiting.id == ticket.id);
                let holder = hold.as_ref().map(|grant| grant.ticket.holder.clone());
                let expires_in = match hold {
                    Some(grant) if grant.is_lock() => {
                        let session = state.sessions.get(&grant.ticket.session.0);
                        session
                            .map(|(_, expires)| expires.saturating_duration_since(Instant::now()))
                    }
                    hold => hold.as_ref().and_then(Grant::left),
                };
                if ticket.may_wait && !is_waiting {
                    record.queue.push_back(ticket.clone());
                }
                Taken::Busy { holder, expires_in }
            }
        };
        state.records.insert(name.to_owned(), record);
        Ok(taken)
    }

    fn take_over(&self, name: &str, ticket: &Ticket, event: &Value) -> Result<Taken> {
        let mut state = self.0.request();
        state.settle(name);
        let mut record = state.records.remove(name).unwrap_or_default();
        let former = record.hold.as_ref().map(|grant| grant.ticket.holder.clone());
        let is_lock = record.hold.as_ref().is_some_and(Grant::is_lock);
        let taken = if is_lock && state.is_held(&record) {
            Taken::Busy { holder: former, expires_in: None }
        } else {
            record.events.push(with_former(event, former.as_ref().filter(|_| !is_lock)));
            state.grant(&mut record, ticket.clone());
            Taken::Held { fence: record.fence, recovered_from: None }
        };
        state.records.insert(name.to_owned(), record);
        self.0.changed.notify_all();
        Ok(taken)
    }

    fn leave(&self, name: &str, ticket: &Ticket) -> Result<()> {
        let mut state = self.0.request();
        let record = state.settle(name);
        record.queue.retain(|waiting| waiting.id != ticket.id);
        if record.hold.as_ref().is_some_and(|grant| grant.ticket.id == ticket.id) {
            record.hold = None;
        }
        state.settle(name);
        self.0.changed.notify_all();
        Ok(())
    }

    fn release(&self, name: &str, ticket: &Ticket, fence: Fence) -> Result<bool> {
        if one_less(&self.0.lose_releases) {
            return Err(unreachable("release"));
        }
        let mut state = self.0.request();
        let lives = state.lives(&ticket.session);
        let record = state.settle(name);
        let is_mine = lives
            && record.fence == fence
            && record.hold.as_ref().is_some_and(|grant| grant.ticket.id == ticket.id);
        if is_mine {
            record.hold = None;
        }
        state.settle(name);
        self.0.changed.notify_all();
        Ok(is_mine)
    }

    fn renew_lease(
        &self,
        name: &str,
        sum: [u8; 16],
        longer: Option<Duration>,
    ) -> Result<Option<Hold>> {
        let mut state = self.0.request();
        let record = state.settle(name);
        let Some(grant) = &mut record.hold else { return Ok(None) };
        match &mut grant.ticket.kind {
            Kind::Lease { ttl, token_sum } if *token_sum == sum => {
                *ttl = longer.unwrap_or(*ttl);
                grant.expires = Instant::now() + *ttl;
            }
            _ => return Ok(None),
        }
        Ok(Some(state.hold(&state.records[name])))
    }

    fn end_lease(&self, name: &str, sum: [u8; 16]) -> Result<bool> {
        let mut state = self.0.request();
        let record = state.settle(name);
        let is_of = |grant: &Grant| match grant.ticket.kind {
            Kind::Lock => false,
            Kind::Lease { token_sum, .. } => token_sum == sum,
        };
        let ended = record.hold.as_ref().is_some_and(is_of);
        if ended {
            record.hold = None;
        }
        state.settle(name);
        self.0.changed.notify_all();
        Ok(ended)
    }

    fn hold(&self, name: &str) -> Result<Hold> {
        let mut state = self.0.request();
        state.settle(name);
        Ok(state.hold(&state.records[name]))
    }

    fn read(&self, name: &str, operation: Option<&str>) -> Result<Read> {
        let mut state = self.0.request();
        let record = state.settle(name);
        let is_done = operation.is_some_and(|id| record.operations.contains_key(id));
        Ok(Read { document: record.document.clone(), is_done })
    }

    fn commit(&self, commit: &Commit<'_>) -> Result<Committed> {
        let mut state = self.0.request();
        let mut committed = state.commit(commit);
        if one_less(&self.0.lose_replies) {
            committed = state.commit(commit);
        }
        self.0.changed.notify_all();
        Ok(committed)
    }

    fn entries(&self, name: &str, from: u64, limit: usize) -> Result<Page> {
        let mut state = self.0.request();
        let record = state.settle(name);
        let gap = (from > 0 && from <= record.gone).then_some((from, record.gone));
        let entries = record.entries.iter().filter(|(seq, _)| *seq >= from);
        Ok(Page { gap, entries: entries.take(limit).cloned().collect() })
    }

    fn list(&self, directory: &str) -> Result<Vec<Listed>> {
        let state = self.0.request();
        let in_it = state.records.iter().filter(|(name, _)| {
            name.rsplit_once('/').is_some_and(|(parent, _)| parent == directory)
        });
        let listed = |(name, record): (&String, &Record)| Listed {
            name: name.clone(),
            has_content: record.document.is_some() || !record.entries.is_empty(),
            changes: record.changes,
            age: record.changed_at.map(|at| at.elapsed()).unwrap_or_default(),
        };
        Ok(in_it.map(listed).collect())
    }

    fn survey(&self, prefix: &str) -> Result<Vec<(String, Hold)>> {
        let state = self.0.request();
        let below = state
            .records
            .iter()
            .filter(|(name, record)| name.starts_with(prefix) && record.fence > 0);
        Ok(below.map(|(name, record)| (name.clone(), state.hold(record))).collect())
    }

    fn events(&self, name: &str) -> Result<Vec<Value>> {
        Ok(self.0.request().settle(name).events.clone())
    }

    fn watch(&self, name: &str, what: Watched<'_>) -> Result<Box<dyn Watcher>> {
        let ticket = match what {
            Watched::Turn(ticket) => Some(ticket.id.clone()),
            Watched::Content => None,
        };
        let seen = self.0.request().settle(name).changes;
        Ok(Box::new(Watch { memory: self.0.clone(), name: name.to_owned(), ticket, seen }))
    }

    fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    fn init(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

#[derive(Debug)]
struct Watch {
    memory: Arc<Memory>,
    name: String,
    /// Whose turn is waited for; `None`: a change of the content.
    ticket: Option<String>,
    seen: u64,
}

impl Watcher for Watch {
    fn wait(&mut self, time: Duration) -> Result<bool> {
        let until = Instant::now() + time;
        let mut state = self.memory.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let record = state.settle(&self.name);
            let is_due = match &self.ticket {
                Some(id) => record.hold.as_ref().is_none_or(|grant| grant.ticket.id == *id),
                None => record.changes != self.seen,
            };
            self.seen = record.changes;
            let left = until.saturating_duration_since(Instant::now());
            if is_due || left.is_zero() {
                return Ok(is_due);
            }
            let woken = self.memory.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
