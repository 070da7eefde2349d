//! The engine: all that is kept, behind one mutex.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use tenure::outcome::{Appended, Written};
use tenure::status::{HoldKind, HoldState, Holder, Status};
use tenure::{Error, ErrorKind, Fence, Result, Value, Version, store};

/// Everything, and what wakes those who wait for a change of it.
#[derive(Debug, Default)]
pub(super) struct Engine {
    state: Mutex<State>,
    pub(super) changed: Condvar,
    /// So many replies of commits get lost.
    pub(super) lose_replies: AtomicUsize,
}

impl Engine {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the reply of this commit gets lost.
    pub(super) fn loses_reply(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.lose_replies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) records: BTreeMap<PathBuf, Record>,
    /// Fences, versions, changes, tickets and commits are numbered by one counter.
    newest: u64,
    /// What became of each commit.
    pub(super) receipts: HashMap<u64, Receipt>,
}

/// What a commit did.
#[derive(Debug, Clone, Default)]
pub(super) struct Receipt {
    pub(super) written: Option<Written>,
    pub(super) appended: Option<Appended>,
}

impl State {
    pub(super) fn next(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    pub(super) fn record(&mut self, name: &Path) -> &mut Record {
        self.records.entry(name.to_path_buf()).or_default()
    }

    /// The keys of a collection and what is kept of each.
    pub(super) fn keys<'a>(
        &'a self,
        collection: &'a Path,
        suffix: &'a str,
    ) -> impl Iterator<Item = (String, &'a Record)> {
        self.records.iter().filter_map(move |(path, record)| {
            let name = path.file_name()?.to_str()?;
            let is_there = record.document.is_some() || record.journal.is_some();
            let key = store::key_of(name, suffix)?;
            (is_there && path.parent() == Some(collection)).then_some((key, record))
        })
    }
}

/// What is kept of one target.
#[derive(Debug)]
pub(super) struct Record {
    /// The newest fence; 0 for none.
    pub(super) fence: Fence,
    pub(super) hold: Hold,
    /// Who waits for the hold, first come first.
    pub(super) queue: VecDeque<u64>,
    pub(super) document: Option<Kept>,
    pub(super) journal: Option<Lines>,
    pub(super) operations: HashMap<String, Done>,
    pub(super) events: Vec<Value>,
    /// The number of the last change of the document or the journal.
    pub(super) changes: u64,
    pub(super) changed_at: Instant,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            fence: 0,
            hold: Hold::Free,
            queue: VecDeque::new(),
            document: None,
            journal: None,
            operations: HashMap::new(),
            events: Vec::new(),
            changes: 0,
            changed_at: Instant::now(),
        }
    }
}

/// A document.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) value: Value,
    pub(super) version: Version,
}

/// A journal.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    pub(super) entries: Vec<(u64, Vec<u8>)>,
    /// The newest number.
    pub(super) newest: u64,
    /// Entries up to this one cannot be read.
    pub(super) gone: u64,
}

/// What an operation with an id did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Who has a target.
#[derive(Debug)]
pub(super) enum Hold {
    Free,
    Locked {
        holder: Holder,
        thread: ThreadId,
        /// Others may know the fence.
        published: bool,
        /// The same owner may take it again, and has it so many times.
        reentrant: bool,
        count: usize,
    },
    Leased {
        holder: Holder,
        token: String,
        ttl: Duration,
        expires: Instant,
    },
}

impl Record {
    /// What is left of a lease that runs.
    pub(super) fn lease_left(&self) -> Option<Duration> {
        let Hold::Leased { expires, .. } = &self.hold else { return None };
        Some(expires.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Who is in the way of a caller that wants the target for itself.
    pub(super) fn holder(&self) -> Option<&Holder> {
        match &self.hold {
            Hold::Free => None,
            Hold::Locked { holder, .. } => Some(holder),
            Hold::Leased { holder, .. } => self.lease_left().map(|_| holder),
        }
    }

    /// Whether this fence is the hold that may write now.
    pub(super) fn check_fence(&self, name: &Path, fence: Fence) -> Result<()> {
        let refuse = |kind, why: &str| Err(Error::new(kind, "write", why).at(name));
        if fence != self.fence {
            return refuse(ErrorKind::Fenced, "its fence is not the newest");
        }
        match &self.hold {
            Hold::Locked { published: true, .. } => Ok(()),
            Hold::Leased { .. } if self.lease_left().is_some() => Ok(()),
            Hold::Leased { .. } => refuse(ErrorKind::LeaseLost, "the lease has expired"),
            _ => refuse(ErrorKind::Fenced, "the hold with its fence has ended"),
        }
    }

    /// Notes a change of the document or the journal.
    pub(super) fn change(&mut self, number: u64) {
        (self.changes, self.changed_at) = (number, Instant::now());
    }

    pub(super) fn status(&self, name: &Path) -> Status {
        let (state, ttl) = match &self.hold {
            Hold::Free => (HoldState::Free, None),
            Hold::Locked { .. } => (HoldState::Lock, None),
            Hold::Leased { ttl, .. } if self.lease_left().is_some() => {
                (HoldState::Lease, Some(*ttl))
            }
            Hold::Leased { ttl, .. } => (HoldState::Expired, Some(*ttl)),
        };
        let holder = match &self.hold {
            Hold::Free => None,
            Hold::Locked { holder, .. } | Hold::Leased { holder, .. } => Some(holder.clone()),
        };
        Status {
            path: name.to_path_buf(),
            sidecars: PathBuf::new(),
            state,
            holder,
            fence: self.fence,
            expires_in: self.lease_left(),
            ttl,
            processes: Vec::new(),
            waiters: Vec::new(),
            compromised: false,
        }
    }
}

/// This process as the holder of something.
pub(super) fn this_process(label: &str, owner: &str, fence: Fence, hold: HoldKind) -> Holder {
    let mut holder = Holder::this_process(label, owner);
    (holder.fence, holder.hold) = (fence, hold);
    holder
}
