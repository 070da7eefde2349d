//! A directory for every test, and short names for common library calls.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure::options::Mode;
use tenure::outcome::{Leased, Written};
use tenure::{
    Document, Error, ErrorKind, Fence, Guard, Lease, LeaseOptions, Lock, LockGuard, LockOptions,
    Result, Value, Wait, WriteOptions, json,
};

/// Long enough to be sure that a waiter waits, short enough to be used often.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(80);
/// Nothing that works takes this long, even on a busy machine.
pub(crate) const FAR_TOO_LONG: Duration = Duration::from_secs(30);
/// A lease that lasts longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A fresh directory, removed at the end of the test.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tenure-it-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().canonicalize().unwrap().join(name);
        let _ = std::fs::remove_dir_all(&dir); // Of an earlier process with our number.
        std::fs::create_dir(&dir).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The target that most tests use.
    pub(crate) fn target(&self) -> PathBuf {
        self.path("state.json")
    }

    /// A sidecar of that target.
    pub(crate) fn sidecar(&self, suffix: &str) -> PathBuf {
        self.path(".tenure").join(format!("state.json.{suffix}"))
    }

    /// Returns when a file made now is younger than the record of that target. Birth times have
    /// ticks of a few milliseconds: a copy with the same number and birth would be the same file.
    pub(crate) fn let_the_record_age(&self) {
        let born = |path: &Path| std::fs::metadata(path).unwrap().created().ok();
        let Some(record) = born(&self.sidecar("commit")) else { return };
        let (started, probe) = (Instant::now(), self.path("younger"));
        loop {
            std::fs::write(&probe, "").unwrap();
            let younger = born(&probe).is_none_or(|born| born > record);
            std::fs::remove_file(&probe).unwrap();
            if younger {
                break;
            }
            assert!(started.elapsed() < FAR_TOO_LONG, "nothing is younger than the record");
        }
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(dir)).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The exclusive lock, with this wait.
pub(crate) fn lock_for(path: &Path, wait: Wait) -> Result<LockGuard> {
    Lock::open(path)?.acquire(&LockOptions { wait, ..LockOptions::default() })
}

/// The shared lock, with this wait.
pub(crate) fn share_for(path: &Path, wait: Wait) -> Result<LockGuard> {
    let options = LockOptions { mode: Mode::Shared, wait, ..LockOptions::default() };
    Lock::open(path)?.acquire(&options)
}

/// What an update says: nothing is awaited and nothing is synced.
pub(crate) fn at_once(fence: Option<Fence>) -> WriteOptions {
    let durability = tenure::options::Durability::NoSync;
    WriteOptions { wait: Wait::No, fence, durability, ..WriteOptions::default() }
}

/// An unproven or proven write that does not wait.
pub(crate) fn write(path: &Path, fence: Option<Fence>) -> Result<Written> {
    add_one(path, &at_once(fence))
}

/// A write that is guarded by holds of other targets.
pub(crate) fn guarded(path: &Path, guards: &[(&Path, Fence)]) -> Result<Written> {
    let guard = |&(target, fence): &(&Path, Fence)| Guard { target: target.into(), fence };
    let guards = guards.iter().map(guard).collect();
    add_one(path, &WriteOptions { guards, ..at_once(None) })
}

/// Adds one to the counter in a document.
pub(crate) fn add_one(path: &Path, options: &WriteOptions) -> Result<Written> {
    Document::open(path)?.update(options, |value| Ok(Some(json!({ "n": count_in(value) + 1 }))))
}

/// The counter in a document.
pub(crate) fn count(path: &Path) -> u64 {
    count_in(Document::open(path).unwrap().read().unwrap().as_ref().map(|found| &found.value))
}

fn count_in(value: Option<&Value>) -> u64 {
    value.and_then(|value| value["n"].as_u64()).unwrap_or(0)
}

pub(crate) fn terms(owner: &str, ttl: Duration, wait: Wait) -> LeaseOptions {
    LeaseOptions { owner: owner.into(), ttl, wait, ..LeaseOptions::default() }
}

/// A long lease on a free target.
pub(crate) fn lease(path: &Path, owner: &str) -> Leased {
    Lease::open(path).unwrap().acquire(&terms(owner, LONG, Wait::No)).unwrap()
}

/// The kind of the error, for comparisons.
pub(crate) fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error: Error| error.kind())
}

/// The seeds of a crash test. `TENURE_CRASH_DIVISOR` reduces them to a fraction, for runs over
/// thousands of mutants (docs/MUTANTS.md).
pub(crate) fn seeds(range: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let asked = std::env::var("TENURE_CRASH_DIVISOR").ok();
    let divisor: u64 = asked.and_then(|text| text.parse().ok()).unwrap_or(1);
    range.start..range.start + (range.end - range.start).div_ceil(divisor)
}

/// How many threads or descriptors this process has (`task` or `fd` of `/proc/self`).
pub(crate) fn own(what: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}

/// Asserts that it takes less than `limit` in one of ten tries: a busy machine is sometimes slow,
/// but a real wait would show every time.
#[track_caller]
pub(crate) fn is_soon(limit: Duration, mut attempt: impl FnMut(usize) -> Duration) {
    let mut took = Vec::new();
    while took.last().is_none_or(|last| *last >= limit) {
        assert!(took.len() < 10, "never in {limit:?}: {took:?}");
        took.push(attempt(took.len()));
    }
}
