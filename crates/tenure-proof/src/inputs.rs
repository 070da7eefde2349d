//! Malformed input: one function per kind of bytes that tenure reads.
//!
//! Each takes any bytes, passes them to the public API on a simulated disk, and panics if a promise
//! is broken. The fuzz targets (`fuzz/`) call them, and ring 8 calls them with every file of
//! `corpus/`.
//!
//! Most of what tenure reads has a checksum, and random bytes never match one. So an input can ask
//! for valid checksums (`plant`, `sums`). Each function decides by tenure's behaviour whether the
//! bytes were accepted ([`Fate`]): a corpus of which nothing is accepted tests nothing.

mod journal;
mod json;
mod names;
mod plant;
mod record;
mod sidecars;
mod sums;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure::fs::Fs;
use tenure::options::Durability;
use tenure::{ErrorKind, LeaseOptions, Lock, LockOptions, Wait, WriteOptions};
use tenure_testkit::SimFs;

pub use self::journal::journal;
pub use self::json::{document, merge, patch};
pub use self::names::names;
pub use self::plant::{EDITS, IN_PLACE, OURS, RESEAL};
pub use self::record::record;
pub use self::sidecars::{events, floor, hold, sync};
pub use self::sums::{Layout, reseal, structures};

/// The fate of an input. Tenure's behaviour decides, not what the input asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was not tried.
    Skipped,
    /// Nothing shows that tenure used it.
    Refused,
    /// Tenure used it.
    Believed,
}

impl Fate {
    fn seen(believed: bool) -> Self {
        if believed { Self::Believed } else { Self::Refused }
    }
}

/// A function that takes any bytes, panics if a promise is broken, and returns their fate.
pub type Check = fn(&[u8]) -> Fate;

/// The functions by the name of their fuzz target and their directory in `corpus/`.
pub const ALL: &[(&str, Check)] = &[
    ("record", record),
    ("journal", journal),
    ("sync", sync),
    ("floor", floor),
    ("events", events),
    ("hold", hold),
    ("document", document),
    ("merge", merge),
    ("patch", patch),
    ("names", names),
];

const DOCUMENT: &str = "/d/state.json";

fn disk() -> (SimFs, Arc<dyn Fs>) {
    let sim = SimFs::new(1);
    sim.add_dir("/d");
    let fs = sim.shared();
    (sim, fs)
}

/// Writes that neither wait nor sync: only the bytes are tested.
fn quickly() -> WriteOptions {
    WriteOptions { wait: Wait::No, durability: Durability::NoSync, ..WriteOptions::default() }
}

fn durably() -> WriteOptions {
    WriteOptions { durability: Durability::Durable, ..quickly() }
}

fn an_hour() -> LeaseOptions {
    LeaseOptions { ttl: Duration::from_secs(3600), wait: Wait::No, ..LeaseOptions::default() }
}

/// The next fence of `path`, or why there is none.
fn fence_of(fs: &Arc<dyn Fs>, path: &str) -> Result<u64, ErrorKind> {
    let options = LockOptions { wait: Wait::No, ..LockOptions::default() };
    let lock = Lock::open_on(fs, Path::new(path)).expect("a path");
    let fence = lock.acquire(&options).and_then(|guard| {
        let fence = guard.publish_fence();
        guard.release().map(|()| fence)
    });
    fence.map_err(|error| error.kind())
}
