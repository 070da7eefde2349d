//! What a caller can ask for.
//!
//! The options of the everyday calls are at the crate root, too. Here are those that fewer programs need: [`Durability`],
//! the [`Mode`] of a lock and its [`MaxHold`], the [`CollectionKind`] and what to [`Prune`].
//! Those that only local files have are in [`file`](crate::file).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
pub use crate::fs::Mode;
use crate::wait::{Cancel, Wait};

/// The number of a hold. Fences of one target grow and are not consecutive.
pub type Fence = u64;

/// Whether a finished call survives a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When the call returns, the change survives power loss.
    #[default]
    Durable,
    /// The change survives any process crash, but a power loss may take it back.
    NoSync,
}

/// Proof of a hold on another target: one lease on a session can protect its document and journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The target that is held.
    pub target: PathBuf,
    /// The fence of that hold.
    pub fence: Fence,
}

/// The state of a document. Opaque: compare it, store it, and give it back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub(crate) String);

impl Version {
    /// As a store writes it: letters, digits and `-`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if text.is_empty() || text.len() > 128 || !text.chars().all(plain) {
            let detail = "a version is what an earlier call returned, unchanged";
            return Err(Error::new(ErrorKind::Invalid, "read version", detail));
        }
        Ok(Self(text.to_owned()))
    }
}

/// How a document or journal is written. The default is durable, unproven, and waits ten seconds.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// How long to wait for other holders.
    pub wait: Wait,
    /// Ends the wait early.
    pub cancel: Option<Cancel>,
    /// Proof of a hold on the target itself; the write then skips the wait for the hold.
    pub fence: Option<Fence>,
    /// Proof of holds on other targets, checked in the same critical section.
    pub guards: Vec<Guard>,
    /// The version the document must have.
    pub if_version: Option<Version>,
    /// Whether to return only when the change survives power loss.
    pub durability: Durability,
    /// Names the operation: a repetition is not applied again (at least for the 4,096 newest ids of
    /// a file). A durable call is remembered for good when it returns, one without a sync until the
    /// machine restarts.
    pub operation: Option<String>,
    /// What the write is for. A store shows it to waiting callers. On files they see it only if the command `tenure` makes
    /// the write.
    pub label: String,
    /// The thread that this is done for, if it is not the calling one: see [`LockOptions::thread`].
    ///
    /// [`LockOptions::thread`]: crate::LockOptions::thread
    pub thread: Option<ThreadId>,
    /// Options of the file store.
    pub file: FileOptions,
}

/// What only a store on files can do. Another store refuses anything but the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// The mode of a file that does not exist yet.
    pub new_mode: u32,
    /// Write a document that has several hard links, leaving the other names behind.
    pub break_link: bool,
    /// Work on a network file system although its locks cannot be trusted.
    pub allow_network: bool,
    /// Lock exactly this file as well, to exclude other tools that lock it.
    pub lock_file: Option<PathBuf>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { new_mode: 0o600, break_link: false, allow_network: false, lock_file: None }
    }
}

/// How a lock is taken. The default is exclusive and waits ten seconds.
#[derive(Debug, Clone, Default)]
pub struct LockOptions {
    /// Shared holders exclude exclusive ones; they draw no fence and cannot write.
    pub mode: Mode,
    /// At most this many holders at a time (1 to 64), with `mode` or without: each draws no fence and cannot write the
    /// target. A caller takes one of the first `slots` slots; those who wait are served in order. In a store without
    /// shared locks, slots do not exclude the lock of the target.
    pub slots: Option<u8>,
    /// How long to wait.
    pub wait: Wait,
    /// What it is for, shown to waiting callers.
    pub label: String,
    /// Who it is for. With `reentrant`, the same owner may take it again in this process.
    pub owner: String,
    /// The same `owner` may take the lock again while it holds it.
    pub reentrant: bool,
    /// Ends the wait early.
    pub cancel: Option<Cancel>,
    /// Proof of a hold that the caller runs under (a command below `tenure run`): nothing is
    /// locked.
    pub fence: Option<Fence>,
    /// Report, or end, a hold of ours that lasts too long.
    pub max_hold: Option<MaxHold>,
    /// The thread that will own the lock, if it is not the calling one. A call that would wait for
    /// a lock of its own thread fails with `deadlock`; an event loop, which waits on other threads,
    /// names the owning thread here.
    pub thread: Option<ThreadId>,
    /// Options of the file store.
    pub file: FileOptions,
}

/// What happens to a hold that lasts too long.
#[derive(Clone)]
pub struct MaxHold {
    /// How long is too long.
    pub after: Duration,
    /// Release the lock as well. Writes under its fence are refused from then on, and
    /// [`crate::LockGuard::verify`] and `release` say so.
    pub end: bool,
    /// Called once, on a thread of its own, with the target.
    pub report: Arc<dyn Fn(&Path) + Send + Sync>,
}

impl fmt::Debug for MaxHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxHold")
            .field("after", &self.after)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// How a lease is acquired.
#[derive(Debug, Clone, Default)]
pub struct LeaseOptions {
    /// Who it is for: a label, not a credential.
    pub owner: String,
    /// How long it lasts without a renewal.
    pub ttl: Duration,
    /// How long to wait for the present holder.
    pub wait: Wait,
    /// Ends the wait early.
    pub cancel: Option<Cancel>,
    /// The token of an earlier acquire: renews that lease and keeps its fence, if it still can.
    pub token: Option<String>,
    /// What it is for.
    pub label: String,
    /// Options of the file store.
    pub file: FileOptions,
}

/// How a batch is appended. The default is durable and takes any lines.
#[derive(Debug, Clone, Default)]
pub struct AppendOptions {
    /// Waiting, proof, durability, operation id.
    pub write: WriteOptions,
    /// Refuse lines that are not JSON.
    pub json: bool,
    /// Make this the first line of the file, in the same step. It is not an entry. If it differs
    /// from the present header, the file is rewritten. With a header the batch may be empty.
    pub header: Option<Vec<u8>>,
}

/// What a collection has for each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionKind {
    /// One JSON document per key, `KEY.json`.
    Documents,
    /// One journal per key, `KEY.jsonl`.
    Journals,
}

impl CollectionKind {
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Documents => ".json",
            Self::Journals => ".jsonl",
        }
    }
}

/// What to remove. The default removes nothing but left-overs.
#[derive(Debug, Clone, Default)]
pub struct Prune {
    /// Remove keys whose file was last changed longer ago than this.
    pub max_age: Option<Duration>,
    /// Keep at most this many, the most recently changed ones.
    pub max_count: Option<usize>,
    /// Never remove these.
    pub keep: Vec<String>,
    /// Only report what would be removed.
    pub dry_run: bool,
}
