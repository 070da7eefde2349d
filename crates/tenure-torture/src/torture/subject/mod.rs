//! The code under torture: tenure, or, to test the judges, code without protection, protocols that
//! shipped, locks and a journal with one mistake each, and things that hang for ever.

mod guard;
mod leaky;
mod naive;
mod panicking;
mod reused;
mod rotated;
mod shipped;
mod through_tenure;
mod unlocked;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

pub(super) use self::guard::Guard;
use self::leaky::Leaky;
use self::naive::Naive;
use self::panicking::Panicking;
use self::reused::Reused;
use self::rotated::Rotated;
use self::shipped::Shipped;
use self::through_tenure::Tenure;
use self::unlocked::Unlocked;
use super::finding::{Fault, Thing};
use tenure_cli::ControlArg;

/// Which code does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    Tenure,
    Naive,
    Shipped,
    Reused,
    Unlocked,
    Rotated,
    /// Tenure, and a panic in the final check, or in a worker.
    Panicking(bool),
    /// This thing hangs in the end.
    Leaky(Thing),
}

impl From<ControlArg> for Author {
    fn from(control: ControlArg) -> Self {
        match control {
            ControlArg::Naive => Self::Naive,
            ControlArg::Shipped => Self::Shipped,
            ControlArg::Reused => Self::Reused,
            ControlArg::Unlocked => Self::Unlocked,
            ControlArg::Rotated => Self::Rotated,
        }
    }
}

impl Author {
    const ALL: [Self; 13] = [
        Self::Tenure,
        Self::Naive,
        Self::Shipped,
        Self::Reused,
        Self::Unlocked,
        Self::Rotated,
        Self::Panicking(false),
        Self::Panicking(true),
        Self::Leaky(Thing::Lock),
        Self::Leaky(Thing::Lease),
        Self::Leaky(Thing::Document),
        Self::Leaky(Thing::Journal),
        Self::Leaky(Thing::Collection),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tenure => "tenure",
            Self::Naive => "naive",
            Self::Shipped => "shipped",
            Self::Reused => "reused",
            Self::Unlocked => "unlocked",
            Self::Rotated => "rotated",
            Self::Panicking(false) => "panicking-worker",
            Self::Panicking(true) => "panicking-judge",
            Self::Leaky(thing) => thing.name(),
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|author| author.name() == name)
    }

    /// The code.
    pub(super) fn subject(self) -> &'static dyn Subject {
        match self {
            Self::Tenure => &Tenure,
            Self::Naive => &Naive,
            Self::Shipped => &Shipped,
            Self::Reused => &Reused,
            Self::Unlocked => &Unlocked,
            Self::Rotated => &Rotated,
            Self::Panicking(false) => &Panicking(false),
            Self::Panicking(true) => &Panicking(true),
            Self::Leaky(Thing::Lease) => &Leaky(Thing::Lease),
            Self::Leaky(Thing::Document) => &Leaky(Thing::Document),
            Self::Leaky(Thing::Journal) => &Leaky(Thing::Journal),
            Self::Leaky(Thing::Collection) => &Leaky(Thing::Collection),
            Self::Leaky(_) => &Leaky(Thing::Lock),
        }
    }
}

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// The lease is over. That happens to a worker that is paused for too long.
    Lost,
    /// It found a file damaged.
    Damaged(String),
    /// Something else that must not happen here.
    Failed(String),
}

impl Refused {
    /// The fault that it is a finding of. No worker loses a lease in the final check.
    pub(super) fn fault(&self) -> Fault {
        match self {
            Self::Damaged(_) => Fault::Corrupt,
            Self::Lost | Self::Failed(_) => Fault::Failed,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("the lease is over"),
            Self::Damaged(detail) | Self::Failed(detail) => f.write_str(detail),
        }
    }
}

/// The answer of an operation.
pub(super) type Answer<T> = Result<T, Refused>;

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Hold {
    /// `None` for code that has no fences.
    pub(super) fence: Option<u64>,
    pub(super) guard: Guard,
}

/// A lease that was granted.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) token: String,
    pub(super) fence: u64,
    /// How long it lasts, from the call on.
    pub(super) ttl: Duration,
}

/// A document as it was read.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) value: Value,
    pub(super) version: String,
}

/// How a document is changed.
pub(super) type Change<'a> = &'a mut dyn FnMut(Option<&Value>) -> Value;

/// Everything that a worker does. Every call waits for as long as it takes. The default is tenure.
pub(super) trait Subject: Sync {
    fn lock(&self, path: &Path, shared: bool) -> Answer<Hold> {
        Tenure::lock(path, shared)
    }

    fn acquire(&self, path: &Path, ttl: Duration) -> Answer<Grant> {
        Tenure::acquire(path, ttl)
    }

    /// Takes the lease from its holder.
    fn take_over(&self, path: &Path, ttl: Duration) -> Answer<Grant> {
        Tenure::take_over(path, ttl)
    }

    fn renew(&self, path: &Path, grant: &Grant, ttl: Duration) -> Answer<()> {
        Tenure::renew(path, grant, ttl)
    }

    fn release(&self, path: &Path, grant: &Grant) -> Answer<()> {
        Tenure::release(path, grant)
    }

    fn update(&self, path: &Path, durable: bool, change: Change<'_>) -> Answer<()> {
        Tenure::update(path, durable, change)
    }

    fn read(&self, path: &Path) -> Answer<Option<Read>> {
        Tenure::read(path)
    }

    /// `false` if the version has changed.
    fn compare_and_set(&self, path: &Path, version: &str, value: &Value) -> Answer<bool> {
        Tenure::compare_and_set(path, version, value)
    }

    /// Appends whole lines, under `fence` if there is one; returns the number of the first, if the
    /// code promises one.
    fn append(
        &self,
        path: &Path,
        lines: &[String],
        durable: bool,
        fence: Option<u64>,
    ) -> Answer<Option<u64>> {
        Tenure::append(path, lines, durable, fence)
    }

    /// The entries from number `from` on.
    fn entries(&self, path: &Path, from: u64) -> Answer<Vec<(u64, Vec<u8>)>> {
        Tenure::entries(path, from)
    }

    /// Moves the entries so far into a file of their own.
    fn rotate(&self, path: &Path) -> Answer<()> {
        Tenure::rotate(path)
    }

    /// Rewrites the file with all its entries.
    fn compact(&self, path: &Path) -> Answer<()> {
        Tenure::compact(path)
    }

    /// Removes a document from a collection.
    fn remove(&self, dir: &Path, key: &str) -> Answer<()> {
        Tenure::remove(dir, key)
    }

    /// Removes what dead operations left in a collection.
    fn prune(&self, dir: &Path) -> Answer<()> {
        Tenure::prune(dir)
    }
}

/// The file of a key; keys here need no escaping.
pub(super) fn path_of(dir: &Path, key: &str) -> std::path::PathBuf {
    dir.join(format!("{key}.json"))
}
