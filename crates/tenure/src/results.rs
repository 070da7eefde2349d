//! The data that calls return, whichever store they went to. Users find them in [`outcome`](crate::outcome) and
//! [`status`](crate::status).

use std::path::PathBuf;
use std::time::Duration;

use crate::checksum;
use crate::error::Error;
use crate::holder::Holder;
use crate::json;
use crate::json::Value;
use crate::options::{Fence, Version};

/// A document as it was at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// What it says.
    pub value: Value,
    /// The very bytes of the file.
    pub bytes: Vec<u8>,
    /// For [`WriteOptions::if_version`](crate::WriteOptions::if_version).
    pub version: Version,
    /// A power loss cut the file; this is its last synced version.
    pub repaired: bool,
}

/// A version of a document that a change has replaced.
#[derive(Debug, Clone)]
pub struct Earlier {
    /// What it said.
    pub value: Value,
    /// The very bytes.
    pub bytes: Vec<u8>,
    /// When it was written, microseconds of the wall clock.
    pub written_us: u64,
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The current version.
    pub version: Version,
    /// False if the document already had this content.
    pub changed: bool,
    /// The operation id was known: the operation had been done before.
    pub replayed: bool,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// The number of the batch's first entry.
    pub first: u64,
    /// The number of its last entry; one less than the first if there is none.
    pub last: u64,
    /// Lines of other tools that this call found and numbered.
    pub adopted: u64,
    /// An unterminated line of another tool was closed with a newline.
    pub closed_tail: bool,
    /// Batches that a crash had left unfinished and this call finished.
    pub rolled_forward: u64,
    /// The operation was done before; these are its entries.
    pub replayed: bool,
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number: grows over the life of the journal, rotated files included.
    pub seq: u64,
    /// Its bytes, without the newline.
    pub line: Vec<u8>,
}

/// A lease that the caller holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// Names the lease to `renew` and `release`. Keep it secret.
    pub token: String,
    /// Proves the lease to writes.
    pub fence: Fence,
    /// Who it is for.
    pub owner: String,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// What is left of it now.
    pub expires_in: Duration,
}

/// What every caller may know about a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseInfo {
    /// Who has it.
    pub holder: Holder,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// What is left; `None` once it has expired.
    pub expires_in: Option<Duration>,
    /// The checksum of its token, which itself is not stored.
    pub token_sum: [u8; 16],
}

impl LeaseInfo {
    /// The checksum by which a token is recognised.
    pub fn sum_of(token: &str) -> [u8; 16] {
        checksum::wide(token.as_bytes())
    }

    /// Whether this token is that of the lease.
    pub fn is_of(&self, token: &str) -> bool {
        self.token_sum == Self::sum_of(token)
    }
}

/// The current state of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// It is free.
    Free,
    /// An exclusive lock, or a write in progress.
    Lock,
    /// Readers.
    Shared,
    /// A running lease.
    Lease,
    /// A lease that has expired and was neither ended nor acquired since.
    Expired,
    /// Its last holder died holding it; the next caller gets it at once.
    Abandoned,
}

impl HoldState {
    /// The name in JSON output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Lock => "lock",
            Self::Shared => "shared",
            Self::Lease => "lease",
            Self::Expired => "expired",
            Self::Abandoned => "abandoned",
        }
    }

    /// Whether other callers have to wait for it.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Lock | Self::Shared | Self::Lease)
    }
}

/// A process that has a lock file open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line, empty if it cannot be read.
    pub command: String,
}

/// What can be seen of one target.
#[derive(Debug, Clone)]
pub struct Status {
    /// The resolved path.
    pub path: PathBuf,
    /// The directory that its lock is in.
    pub sidecars: PathBuf,
    /// Its current state.
    pub state: HoldState,
    /// The holder, or the last one if it did not end its hold.
    pub holder: Option<Holder>,
    /// The newest fence that was given out; 0 for none.
    pub fence: Fence,
    /// What is left of a lease that runs.
    pub expires_in: Option<Duration>,
    /// The time to live of a lease.
    pub ttl: Option<Duration>,
    /// Processes that keep the lock: the holder, and children that inherited it.
    pub processes: Vec<Process>,
    /// Processes that wait for it.
    pub waiters: Vec<Process>,
    /// A process holds a lock file that no longer has its name: another process may hold the target
    /// too.
    pub compromised: bool,
}

impl Status {
    /// The fields for JSON output.
    pub fn to_json(&self) -> Value {
        let processes = |list: &[Process]| -> Value {
            list.iter().map(|p| json!({ "pid": p.pid, "command": p.command })).collect()
        };
        json!({
            "target": self.path.to_string_lossy(),
            "sidecars": self.sidecars.to_string_lossy(),
            "kind": self.state.name(),
            "holder": self.holder.as_ref().map(Holder::to_json),
            "fence": self.fence,
            "expires_in_ms": self.expires_in.map(milliseconds),
            "ttl_ms": self.ttl.map(milliseconds),
            "processes": processes(&self.processes),
            "waiters": processes(&self.waiters),
            "compromised": self.compromised,
        })
    }
}

impl Holder {
    /// The fields for JSON output.
    pub fn to_json(&self) -> Value {
        json!({
            "pid": self.pid, "host": self.host, "command": self.command, "label": self.label,
            "owner": self.owner, "fence": self.fence, "since_us": self.since_us,
            "kind": self.hold.name(), "pid_namespace": self.pid_namespace, "start": self.start,
        })
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The state of every target below a directory, as far as it can be seen.
#[derive(Debug, Default)]
pub struct Survey {
    /// The targets, in the order of their paths.
    pub targets: Vec<Status>,
    /// What could not be read, in the order of the paths.
    pub unseen: Vec<Unseen>,
}

/// A target or a directory that could not be read.
#[derive(Debug)]
pub struct Unseen {
    /// Which one.
    pub path: PathBuf,
    /// Why.
    pub error: Error,
    /// Whether it is a directory, so that the number of its targets is unknown.
    pub is_directory: bool,
}

/// A range of a file whose content has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The journal, or one of its archives.
    pub file: PathBuf,
    /// First byte.
    pub start: u64,
    /// The offset after the last byte.
    pub end: u64,
    /// What is wrong.
    pub why: String,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Entries in the file now.
    pub entries: u64,
    /// How many of them other tools wrote.
    pub foreign_entries: u64,
    /// Ranges that have a checksum.
    pub segments: u64,
    /// The file's length.
    pub bytes: u64,
    /// The number that the next entry gets; 0 if tenure has not written to it yet.
    pub next: u64,
    /// Damaged ranges, in the archives too.
    pub damaged: Vec<Damage>,
    /// Entries that had numbers and are lost: the first and the last of each gap.
    pub lost: Vec<(u64, u64)>,
    /// Numbers that were reserved when the machine restarted; entries without a sync may have had them.
    pub skipped: Vec<(u64, u64)>,
    /// Archives that were checked.
    pub archives: u64,
    /// The file ends with an unterminated line of another tool.
    pub torn_tail: bool,
    /// Lines of other tools that have no number yet; the next write adopts them.
    pub unadopted: u64,
    /// NULs in the file: lost to a power loss before they were synced.
    pub nul_bytes: u64,
    /// Logged batches that are not in the file yet; the next write finishes them.
    pub pending: u64,
    /// Batches that a repair has finished.
    pub rolled_forward: u64,
    /// The sidecars do not belong to this file (restored, replaced); the next write adopts it.
    pub unbound: bool,
    /// Ranges that a repair has set aside.
    pub set_aside: Vec<Damage>,
    /// The file with their bytes, one range after the other.
    pub quarantine: Option<PathBuf>,
}

impl Report {
    /// Nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty()
    }
}

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// The archive with the entries so far; `None` if there were none, and nothing was done.
    pub archive: Option<PathBuf>,
    /// The number that the next entry gets.
    pub next: u64,
}

/// What a compaction did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Entries that stayed, with their numbers.
    pub kept: u64,
    /// Entries that were removed.
    pub dropped: u64,
    /// The file's length before.
    pub bytes_before: u64,
    /// The file's length now.
    pub bytes_after: u64,
    /// The old file. It is kept until the next replacement, and for good if another tool appends to
    /// it.
    pub replaced: Option<PathBuf>,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Keys that were removed (or would be).
    pub removed: Vec<String>,
    /// Keys that were due but are held, leased, or have just changed.
    pub skipped: Vec<String>,
    /// How many keys remain.
    pub remaining: usize,
}

/// What a split did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Keys that were written.
    pub created: Vec<String>,
    /// Keys that already had the same content.
    pub present: Vec<String>,
    /// Keys that had other content; they were left unchanged.
    pub differing: Vec<String>,
}
