//! Tenure behind a gate: a file that a worker creates to enter and removes to leave. If a worker
//! dies inside, or forgets to remove it, the file stays for good. One thing has such a gate, the
//! others are tenure's. Nothing is damaged by it, so there is one finding: a standstill of that
//! thing.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Answer, Change, Grant, Hold, Subject, Tenure};
use crate::torture::finding::Thing;
use crate::torture::jobs;

/// One in this many is forgotten, so that a test need not wait for a kill at the right moment.
const FORGOTTEN: u64 = 20;
const TURN: Duration = Duration::from_millis(1);

static PASSED: AtomicU64 = AtomicU64::new(0);

/// Tenure, except for one thing.
#[derive(Debug)]
pub(in super::super) struct Leaky(pub(super) Thing);

impl Leaky {
    /// Does `work` on `path`, inside the gate if that is the thing.
    fn inside<T>(&self, path: &Path, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let thing = thing_of(path);
        if thing != self.0 {
            return work();
        }
        let target = if thing == Thing::Collection { path.parent().unwrap_or(path) } else { path };
        let gate = target.with_extension("gate");
        while let Err(error) = OpenOptions::new().write(true).create_new(true).open(&gate) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error.into());
            }
            std::thread::park_timeout(TURN);
        }
        let answer = work();
        if PASSED.fetch_add(1, Ordering::Relaxed) % FORGOTTEN != FORGOTTEN - 1 {
            fs::remove_file(&gate)?;
        }
        answer
    }
}

/// The thing that this path belongs to.
fn thing_of(path: &Path) -> Thing {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("lock") => Thing::Lock,
        Some(jobs::LEASE) => Thing::Lease,
        Some(jobs::DOCUMENT) => Thing::Document,
        Some(jobs::JOURNAL) => Thing::Journal,
        _ => Thing::Collection,
    }
}

impl Subject for Leaky {
    fn lock(&self, path: &Path, shared: bool) -> Answer<Hold> {
        self.inside(path, || Tenure::lock(path, shared))
    }

    fn acquire(&self, path: &Path, ttl: Duration) -> Answer<Grant> {
        self.inside(path, || Tenure::acquire(path, ttl))
    }

    fn take_over(&self, path: &Path, ttl: Duration) -> Answer<Grant> {
        self.inside(path, || Tenure::take_over(path, ttl))
    }

    fn update(&self, path: &Path, durable: bool, change: Change<'_>) -> Answer<()> {
        self.inside(path, || Tenure::update(path, durable, change))
    }

    fn append(
        &self,
        path: &Path,
        lines: &[String],
        durable: bool,
        fence: Option<u64>,
    ) -> Answer<Option<u64>> {
        self.inside(path, || Tenure::append(path, lines, durable, fence))
    }
}
